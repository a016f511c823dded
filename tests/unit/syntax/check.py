"""The verbs of the syntax tests: `check_sites`, `check_noop`, `check_transformed`, `check_refused`.

Snippets are Rust written for the purpose, dedented, and end in one newline.
"""

from __future__ import annotations

import difflib
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from codegen.syntax import verbs
from codegen.syntax.sites import find_sites, walk
from codegen.syntax.source import Source
from codegen.syntax.verbs import CannotMirror, Style, TextEdit, apply_edits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.syntax.site import Site

CALL = "stand_in()"
"""What a stand-in arm calls in these tests."""


def parsed(text: str | bytes) -> Source:
    """The snippet as a source file."""
    return Source.parse("snippet.rs", text if isinstance(text, bytes) else textwrap.dedent(text).encode())


def check_sites(text: str, *expected: str) -> tuple[Site, ...]:
    """The snippet has exactly these sites, as `kind`, `kind name` or `kind name @item`, and every token is claimed."""
    source = parsed(text)
    found = find_sites(source)
    described = []
    for site, wanted in zip(found, (*expected, *("" for _ in found)), strict=False):
        parts = [site.kind]
        parts += [site.name] if len(wanted.split(" @")[0].split()) > 1 else []
        parts += [f"@{site.item}"] if "@" in wanted else []
        described.append(" ".join(parts))
    assert described == list(expected)
    check_claims(source)
    return found


def check_claims(source: Source) -> None:
    """Every CUDA token outside comments is claimed exactly once, and lies in a site or an attribute of one."""
    found = walk(source)
    assert all(first[1] <= second[0] for first, second in zip(found.claims, found.claims[1:], strict=False))
    tokens = source.mentions("cuda", 0, len(source.text))
    for at in tokens:
        assert sum(start <= at < end for start, end in found.claims) == 1, source.line_text(at)
    for start, end in found.claims:
        assert any(start <= at < end for at in tokens)
        assert any(site.start < end <= site.end or _holds(source, site, start, end) for site in found.sites), (
            source.line_text(start)
        )


def _holds(source: Source, site: Site, start: int, end: int) -> bool:
    """True if a claim begins in the attributes in front of the site."""
    return start <= site.start < end and b"#[" in source.text[start - 40 if start > 40 else 0 : site.start]


def check_noop(snippet: str, *, verb: str | None = None, **options: Any) -> None:
    """The snippet has no backend site; with a verb, it has one at which the verb changes nothing."""
    source = parsed(snippet)
    if verb is None:
        assert find_sites(source) == ()
        return
    assert made(source, verb, **options) == []


def check_transformed(before: str | bytes, after: str | bytes, *, verb: str, **options: Any) -> None:
    """The verb turns `before` into exactly `after`, touches no other byte, and adds no ERROR node.

    Options: see `made`.
    """
    source = parsed(before)
    edits = made(source, verb, **options)
    text = apply_edits(source.text, edits)
    expected = after if isinstance(after, bytes) else textwrap.dedent(after).encode()
    assert text.encode() == expected, "\n".join(
        difflib.unified_diff(expected.decode().splitlines(), text.splitlines(), "expected", "made", lineterm="")
    )
    check_insertions(source, edits)


def check_insertions(source: Source, edits: list[TextEdit]) -> None:
    """The edits insert only, do not overlap, and leave text that parses as well as before."""
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    assert all(edit.start == edit.end and edit.text for edit in ordered)
    after = apply_edits(source.text, edits).encode()
    position, left = 0, bytearray()
    kept = 0
    for edit in ordered:
        left += after[position : position + edit.start - kept]
        position += edit.start - kept + len(edit.text.encode())
        kept = edit.start
    assert bytes(left + after[position:]) == source.text
    assert len(Source.parse(source.path, after).error_ranges()) <= len(source.error_ranges())


def check_refused(snippet: str, message: str, *, verb: str, **options: Any) -> None:
    """The verb refuses the site, and the message says why."""
    with pytest.raises(CannotMirror) as caught:
        made(parsed(snippet), verb, **options)
    assert message in str(caught.value)


def made(
    source: Source,
    verb: str,
    *,
    kind: str | None = None,
    at: str | None = None,
    cfg: bool = False,
    protected: tuple[str, ...] = (),
    replace: Mapping[str, str] | None = None,
    text: str = "",
) -> list[TextEdit]:
    """What a verb makes of every outermost site of the source, of one kind or the one that begins with `at` if given.

    `text` is the template's text for `override`, and the text that uses the imported names for `use`.
    """
    style = Style(cfg=cfg, protected=frozenset(protected), replace=replace or {})
    chosen = [
        site
        for site in find_sites(source)
        if (kind is None or site.kind == kind)
        and (at is None or source.text[site.start :].startswith(at.encode()))
        and (site.within is None or at is not None)
    ]
    assert chosen, "the snippet has no such site"
    return [edit for site in chosen for edit in _edits(source, site, verb, style, text)]


def _edits(source: Source, site: Site, verb: str, style: Style, text: str) -> list[TextEdit]:
    match verb:
        case "mirror" if site.kind in ("match", "match-str"):
            return verbs.mirror_match(source, site, style)
        case "mirror":
            return verbs.mirror_item(source, site, style)
        case "foreign":
            return verbs.foreign_match(source, source.node_at(site.start, site.end, "match_expression"), style)
        case "swap":
            return verbs.swap_function(source, site, style)
        case "or-in":
            return verbs.or_in_condition(source, site, style)
        case "chain":
            return verbs.chain_condition(source, site, style)
        case "stand-in":
            return verbs.stand_in_match(source, site, style, CALL)
        case "override":
            return verbs.insert_override(source, site, textwrap.dedent(text), style)
        case "use":
            return verbs.extend_use(source, site, text, style)
    raise AssertionError(f"no verb {verb}")
