"""Which templates the specs use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError
from codegen.spec.loader import template_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codegen.spec.model import Specs


def unused_templates(specs: Specs, templates: Path, *, also: Iterable[str] = ()) -> tuple[str, ...]:
    """Files below `templates` that no rule or file names, sorted.

    A template that a used one includes, imports or extends is used; so are those in `also`, which the caller knows to
    be used by something else than a phase spec. Markdown files are documentation, not templates.
    """
    names = template_names(templates)
    used = set(referenced_templates(specs)) | set(also)
    waiting = sorted(used)
    while waiting:
        name = waiting.pop()
        for inner in quoted_names(templates, name) - used:
            used.add(inner)
            waiting.append(inner)
    return tuple(name for name in names if name not in used and not name.endswith(".md"))


def referenced_templates(specs: Specs) -> tuple[str, ...]:
    """The templates that rules and files name, sorted, each once."""
    rules = (rule.template for phase in specs.phases for rule in phase.rules)
    files = (file.template for phase in specs.phases for file in phase.files)
    return tuple(sorted({name for name in (*rules, *files) if name is not None}))


_INCLUSION = re.compile(r"""\b(?:include|import|from|extends)\s+["']([^"'\n]+)["']""")


def quoted_names(templates: Path, name: str) -> set[str]:
    """The templates that `name` draws in, found without knowing the delimiters of Jinja statements."""
    path = templates / name
    if not path.is_file():
        return set()
    try:
        return set(_INCLUSION.findall(path.read_text(encoding="utf-8", errors="replace")))
    except OSError as error:
        raise InputOutputError(
            f"cannot read templates/{name}: {error.strerror}", remedy="check its permissions"
        ) from error
