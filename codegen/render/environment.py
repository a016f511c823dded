"""The Jinja environment: one set of delimiters that collides with neither Rust nor C++.

Blocks are `{% ... %}`, expressions `«...»`, comments `«# ... #»`. Undefined names are errors, and every template error
is reported as file:line. jinja2 is imported when the first template is rendered.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import own_folder
from codegen.errors import Location, Problem, TemplateInvalid
from codegen.paths import default_cache, templates_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from jinja2 import BytecodeCache, Environment, nodes
    from jinja2.bccache import Bucket


def render(template: str, context: object, *, root: Path | None = None) -> str:
    """The text that `template` (a path below `root`, such as `rust/build.rs.j2`) makes of `context`.

    `context` is a dataclass, whose fields are the template's variables, or a mapping of them. Raises TemplateInvalid
    for a template that is missing, does not parse, or uses a name that its context does not have.
    """
    import jinja2

    root = root or templates_dir()
    variables = _variables(context)
    try:
        return _environment(root).get_template(template).render(variables)
    except jinja2.TemplateSyntaxError as error:
        raise _invalid(root, error.name or template, error.lineno, error.message or "syntax error") from error
    except jinja2.TemplateNotFound as error:
        raise _missing(root, template, str(error.name or template)) from error
    except jinja2.UndefinedError as error:
        name, line = _innermost(error.__traceback__, root) or (template, 1)
        raise _invalid(root, name, line, error.message or "undefined name") from error


def undeclared(template: str, *, root: Path | None = None) -> frozenset[str]:
    """Names that a template expects its context to have."""
    from jinja2 import meta

    tree = parsed(template, root=root or templates_dir())
    return frozenset(meta.find_undeclared_variables(tree))


@cache
def _syntax(root: Path, template: str, text: str) -> nodes.Template:
    return _environment(root).parse(text, template)


def parsed(template: str, *, root: Path) -> nodes.Template:
    """A template's syntax. Raises TemplateInvalid if it is missing, is no text in UTF-8, or does not parse."""
    import jinja2

    try:
        return _syntax(root, template, (root / template).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise _missing(root, template, template) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = Problem("not UTF-8 text", Location(f"templates/{template}", line))
        raise TemplateInvalid(problem, remedy="Save it as UTF-8.") from error
    except jinja2.TemplateSyntaxError as error:
        raise _invalid(root, template, error.lineno, error.message or "syntax error") from error


@cache
def _environment(root: Path) -> Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(root),
        block_start_string="{%",
        block_end_string="%}",
        variable_start_string="«",
        variable_end_string="»",
        comment_start_string="«#",
        comment_end_string="#»",
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        auto_reload=True,
        bytecode_cache=_compiled_templates() if root == templates_dir() else None,
    )


def _compiled_templates() -> BytecodeCache:
    """Compiled templates in the cache folder; jinja2 looks whether the template is still the same.

    They are run as they are, so nothing is taken from a folder that others may write in. One that cannot be read or
    written to costs time only.
    """
    import jinja2

    folder = default_cache() / "templates"

    class CompiledTemplates(jinja2.BytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                bucket.bytecode_from_string(own_folder.read(folder, f"{bucket.key}.cache"))

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                own_folder.write(folder, f"{bucket.key}.cache", bucket.bytecode_to_string())

    return CompiledTemplates()


def _variables(context: object) -> Mapping[str, Any]:
    if dataclasses.is_dataclass(context) and not isinstance(context, type):
        return {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    if isinstance(context, dict):
        return context
    raise TypeError(f"a template's context is a dataclass or a dict, not {type(context).__name__}")


def _innermost(traceback: TracebackType | None, root: Path) -> tuple[str, int] | None:
    """Template and line of the deepest frame that lies in a template (jinja2 rewrites tracebacks to say so)."""
    found: tuple[str, int] | None = None
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_relative_to(root):
            found = (file.relative_to(root).as_posix(), traceback.tb_lineno)
        traceback = traceback.tb_next
    return found


def _invalid(root: Path, template: str, line: int, message: str) -> TemplateInvalid:
    return TemplateInvalid(
        problem_at(root, template, line, message),
        remedy="Correct the template, or give its context model the field it asks for (codegen/render).",
    )


def problem_at(root: Path, template: str, line: int, message: str) -> Problem:
    """A finding in a template below `root`; lines count from 1."""
    text = (root / template).read_text(encoding="utf-8")
    return Problem(message, Location.in_text(f"templates/{template}", text, line))


def _missing(root: Path, template: str, missing: str) -> TemplateInvalid:
    used = "" if missing == template else f" (used by templates/{template})"
    folder = (root / missing).parent
    others = ", ".join(sorted(p.name for p in folder.glob("*.j2"))) if folder.is_dir() else "no such folder"
    return TemplateInvalid(
        f"there is no template templates/{missing}{used}",
        remedy=f"That folder has: {others or 'no templates'}.",
    )
