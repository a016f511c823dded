"""Edited text: what an edit leaves alone stays, and a region says of every other line why it is there."""

from __future__ import annotations

import shutil
from difflib import SequenceMatcher

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from codegen.patch.attributed_text import EditedText, edited, formatted, rewritten, whole
from codegen.patch.changes import Edit, Origin, Region
from codegen.render.rustfmt import format_rust

ONE = Origin("core.one", "specs/phases/1-core.yaml:1", 1)
TWO = Origin("core.two", "specs/phases/1-core.yaml:2", 1)


def edit(start: int, end: int, text: str, origin: Origin = ONE) -> Edit:
    return Edit("a.rs", start, end, text, origin)


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def outside(result: EditedText) -> list[str]:
    """The lines that no region claims."""
    claimed = {line for region in result.regions for line in range(region.first, region.last + 1)}
    return [line for number, line in enumerate(lines_of(result.text), 1) if number not in claimed]


def check_covered(before: str, result: EditedText) -> None:
    """Lines outside of all regions are pristine lines in their order, and no region lies outside of the file."""
    count = max(1, len(lines_of(result.text)))
    for region in result.regions:
        assert 1 <= region.first <= region.last <= count, (region, result.text)
    pristine = iter(lines_of(before))
    for line in outside(result):
        assert line in pristine, f"{line!r} is in no region, and not a line of the pristine file"


def spans(result: EditedText) -> list[tuple[int, int, str]]:
    return [(region.first, region.last, region.origin.rule) for region in result.regions]


# --- edited ------------------------------------------------------------------------------------------------------

BEFORE = "fn a() {}\nfn b() {}\n"


@pytest.mark.parametrize(
    ("made", "after", "region"),
    [
        (edit(9, 9, "\nfn c() {}"), "fn a() {}\nfn c() {}\nfn b() {}\n", (2, 2)),
        (edit(9, 9, "\n\nfn c() {}"), "fn a() {}\n\nfn c() {}\nfn b() {}\n", (2, 3)),
        (edit(10, 10, "fn c() {}\n"), "fn a() {}\nfn c() {}\nfn b() {}\n", (2, 2)),
        (edit(8, 8, " c() "), "fn a() { c() }\nfn b() {}\n", (1, 1)),
        (edit(8, 8, "\n    c();\n"), "fn a() {\n    c();\n}\nfn b() {}\n", (1, 3)),
        (edit(0, 9, "fn c() {}"), "fn c() {}\nfn b() {}\n", (1, 1)),
        (edit(0, 10, ""), "fn b() {}\n", (1, 1)),
        (edit(10, 20, ""), "fn a() {}\n", (1, 1)),
        (edit(20, 20, "fn c() {}\n"), "fn a() {}\nfn b() {}\nfn c() {}\n", (3, 3)),
        (edit(0, 0, "//! Doc.\n"), "//! Doc.\nfn a() {}\nfn b() {}\n", (1, 1)),
    ],
)
def test_the_region_is_what_the_edit_made(made: Edit, after: str, region: tuple[int, int]) -> None:
    result = edited(BEFORE.encode(), [made])

    assert (result.text, spans(result)) == (after, [(*region, "core.one")])
    check_covered(BEFORE, result)


def test_several_edits() -> None:
    result = edited(BEFORE.encode(), [edit(3, 4, "x"), edit(9, 9, "\nfn c() {}\nfn d() {}", TWO), edit(13, 14, "y")])

    assert result.text == "fn x() {}\nfn c() {}\nfn d() {}\nfn y() {}\n"
    assert spans(result) == [(1, 1, "core.one"), (2, 3, "core.two"), (4, 4, "core.one")]


def test_only_a_newline_ends_a_line() -> None:
    """A form feed or a line separator inside of a string counts for `str.splitlines`, not for anybody's editor."""
    before = 'const A: &str = "\x0c\u2028\x85";\nfn a() {}\n'

    result = edited(before.encode(), [edit(len(before.encode()), len(before.encode()), "fn b() {}\n")])
    assert spans(result) == [(3, 3, "core.one")]
    assert spans(formatted(result, result.text.replace("fn b() {}", "fn b() {\n}"))) == [(3, 4, "core.one")]
    assert whole(before, ONE).regions == (Region(1, 2, ONE),)


TEXTS = st.text(st.sampled_from("ab \nü"), max_size=40)


@st.composite
def edits_of(draw: st.DrawFn, text: str) -> list[Edit]:
    """Sorted edits on character borders, at different places, that do not overlap; half of them are insertions."""
    borders = [len(text[:index].encode()) for index in range(len(text) + 1)]
    cuts = sorted(draw(st.lists(st.sampled_from(borders), max_size=6, unique=True)))
    made = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        stop = draw(st.sampled_from([start, end]))
        made.append(edit(start, stop, draw(st.text(st.sampled_from("cd\n"), max_size=8))))
    return made


@given(st.data())
def test_law_every_changed_line_lies_in_a_region(data: st.DataObject) -> None:
    before = data.draw(TEXTS)
    edits = data.draw(edits_of(before))

    result = edited(before.encode(), edits)

    check_covered(before, result)
    assert len(result.regions) == len(edits)


@given(st.data())
def test_law_bytes_outside_of_the_edits_stay(data: st.DataObject) -> None:
    before = data.draw(TEXTS)
    edits = data.draw(edits_of(before))

    after = edited(before.encode(), edits).text.encode()

    for index, made in reversed(list(enumerate(edits))):
        shift = sum(len(each.text.encode()) - (each.end - each.start) for each in edits[:index])
        start = made.start + shift
        assert after[start : start + len(made.text.encode())] == made.text.encode()
        after = after[:start] + before.encode()[made.start : made.end] + after[start + len(made.text.encode()) :]
    assert after == before.encode()


# --- formatted ---------------------------------------------------------------------------------------------------


def test_rustfmt_has_its_way_with_our_lines_only() -> None:
    before = "fn a( ) {}\nfn gap() {}\nfn b() {}\nfn gap() {}\nfn c( ) {}\n"
    ours = edited(before.encode(), [edit(before.index("fn b"), before.index("fn b"), "fn  new( ) {  }\n")])
    wished = "fn a() {}\nfn gap() {}\nfn new() {\n}\nfn b() {}\nfn gap() {}\nfn c() {}\n"

    result = formatted(ours, wished)

    assert result.text == "fn a( ) {}\nfn gap() {}\nfn new() {\n}\nfn b() {}\nfn gap() {}\nfn c( ) {}\n"
    assert spans(result) == [(3, 4, "core.one")]
    check_covered(before, result)


def test_a_hunk_that_reaches_over_our_lines_grows_the_region() -> None:
    before = "enum A {\n    Cpu,\n    Cuda { id: u8 },\n}\n"
    at = before.index("}\n", 30)
    ours = edited(before.encode(), [edit(at, at, "    #[gate]\n    Rocm { id: u8 },\n")])
    wished = (
        "enum A {\n    Cpu,\n    Cuda {\n        id: u8,\n    },\n    #[gate]\n    Rocm {\n        id: u8,\n    },\n}\n"
    )

    result = formatted(ours, wished)

    assert result.text == wished
    assert spans(result) == [(3, 9, "core.one")]
    check_covered(before, result)


def test_a_line_that_rustfmt_moves_is_neither_lost_nor_doubled() -> None:
    """Imports are sorted: the pristine line goes behind ours, over a line in between that stays."""
    before = "use a::{X};\nuse a::Y;\nfn f() {}\n"
    ours = EditedText("use a::{X};\nuse a::Y;\nuse a::Ours;\nfn f() {}\n", (Region(3, 3, ONE),))
    wished = "use a::Y;\nuse a::Ours;\nuse a::{X};\nfn f() {}\n"

    result = formatted(ours, wished)

    assert sorted(lines_of(result.text)) == sorted(lines_of(wished))
    check_covered(before, result)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_are_those_of_the_file(ending: str) -> None:
    """Edits that mirror have the file's endings, templates and rustfmt have their own."""
    before = f"fn  a() {{}}{ending}fn b() {{}}{ending}"
    at = before.rindex(ending)
    ours = edited(before.encode(), [edit(at, at, f"\nfn  c() {{{ending}}}")])
    assert ours.text == f"fn  a() {{}}{ending}fn b() {{}}{ending}fn  c() {{{ending}}}{ending}"
    assert spans(ours) == [(3, 4, "core.one")]

    for wished in ("fn a() {}\nfn b() {}\nfn c() {}\n", "fn a() {}\r\nfn b() {}\r\nfn c() {}\r\n"):
        result = formatted(ours, wished)
        assert result.text == f"fn  a() {{}}{ending}fn b() {{}}{ending}fn c() {{}}{ending}"
        assert spans(result) == [(3, 3, "core.one")]


def test_nothing_to_wish() -> None:
    ours = edited(BEFORE.encode(), [edit(9, 9, "\nfn c() {}")])

    assert formatted(ours, ours.text) is ours


LINES = st.lists(st.sampled_from(["a;", "a ;", "b;", "b  ;", "{", "}", "c(d);", "c( d );"]), min_size=1, max_size=12)


@given(LINES, st.data())
def test_law_formatting_keeps_what_it_does_not_touch(lines: list[str], data: st.DataObject) -> None:
    """Whatever is wished, every line outside of the regions is one that was there, in its order."""
    before = "".join(f"{line}\n" for line in lines)
    ours = edited(before.encode(), data.draw(edits_of(before)))
    wished = "".join(f"{line}\n" for line in data.draw(LINES))

    result = formatted(ours, wished)

    check_covered(ours.text, EditedText(result.text, result.regions))
    if not ours.regions:
        assert result.text == ours.text


@given(st.lists(st.sampled_from(["use a;", "use b::{c};", "mod d ;", "e(f) ;"]), min_size=1, max_size=9), st.data())
def test_law_no_word_gets_lost(lines: list[str], data: st.DataObject) -> None:
    """A formatter that only moves lines and blanks moves them as a whole, or not at all."""
    before = "".join(f"{line}\n" for line in lines)
    at = len(before[: data.draw(st.integers(0, len(before)))].rpartition("\n")[0])
    ours = edited(before.encode(), [edit(at, at, "\nours ;")])
    shuffled = data.draw(st.permutations(ours.text.splitlines()))

    result = formatted(ours, "".join(f"{line.replace(' ;', ';')}\n" for line in shuffled))

    assert sorted("".join(result.text.split())) == sorted("".join(ours.text.split()))


@pytest.mark.skipif(shutil.which("rustfmt") is None, reason="rustfmt is not installed")
def test_real_rustfmt_on_both_sides() -> None:
    before = "use crate::{Cpu, Cuda};\n\nfn  theirs( ) {}\n\nfn other() {}\n"
    ours = edited(
        before.encode(), [edit(23, 23, "\nuse crate::Rocm;"), edit(len(before), len(before), "fn  new( ){}\n")]
    )

    (wished,) = format_rust({"a.rs": ours.text}).values()
    result = formatted(ours, wished)

    assert result.text == (
        "use crate::Rocm;\nuse crate::{Cpu, Cuda};\n\nfn  theirs( ) {}\n\nfn other() {}\nfn new() {}\n"
    )
    check_covered(before, result)


# --- rewritten ---------------------------------------------------------------------------------------------------


def test_a_rewritten_file_keeps_the_regions_it_had() -> None:
    before = EditedText("[dependencies]\nours = 1\n\n[features]\n", (Region(2, 2, ONE),))

    result = rewritten(before, "# head\n[dependencies]\nours = 1\n\n[features]\nnew = []\n", TWO)

    assert sorted(spans(result)) == [(1, 1, "core.two"), (3, 3, "core.one"), (6, 6, "core.two")]


def test_lines_added_right_behind_a_region_are_not_its_own() -> None:
    before = EditedText("a\nours\nb\n", (Region(2, 2, ONE),))

    assert spans(rewritten(before, "a\nours\nnew\nb\n", TWO)) == [(2, 2, "core.one"), (3, 3, "core.two")]
    assert spans(rewritten(before, "a\nnew\nours\nb\n", TWO)) == [(3, 3, "core.one"), (2, 2, "core.two")]


@given(LINES, LINES)
def test_law_a_rewrite_claims_the_lines_that_differ(before: list[str], after: list[str]) -> None:
    assume(before != after)
    old, new = ("".join(f"{line}\n" for line in lines) for lines in (before, after))

    result = rewritten(EditedText(old, ()), new, ONE)

    check_covered(old, result)
    opcodes = SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
    changed = {line + 1 for tag, _, _, c, d in opcodes if tag in ("insert", "replace") for line in range(c, d)}
    claimed = {line for region in result.regions for line in range(region.first, region.last + 1)}
    assert changed <= claimed


def test_a_new_file_is_one_region() -> None:
    assert whole("a\nb\n", ONE) == EditedText("a\nb\n", (Region(1, 2, ONE),))
    assert whole("", ONE).regions == (Region(1, 1, ONE),)


# --- what mutations of the code survived ---------------------------------------------------------------------------


def test_on_an_empty_line_one_newline_only_sets_an_edit_apart() -> None:
    """The one in front of the text ends the empty line; the one behind it makes the next empty line, and is its own."""
    result = edited(b"fn a() {}\n\nfn b() {}\n", [edit(10, 10, "\nfn c() {}\n")])

    assert result.text == "fn a() {}\n\nfn c() {}\n\nfn b() {}\n"
    assert spans(result) == [(3, 4, "core.one")]


@pytest.mark.parametrize(
    ("made", "after", "region"),
    [
        (edit(4, 4, "x\n"), "a;\nbx\n;\n", (2, 3)),  # in the midst of a line: its rest is changed too
        (edit(3, 3, "x\n"), "a;\nx\nb;\n", (2, 2)),
        (edit(3, 4, "x\n"), "a;\nx\n;\n", (2, 3)),
    ],
)
def test_a_newline_behind_an_edit_sets_it_apart_at_the_end_of_a_line_only(
    made: Edit, after: str, region: tuple[int, int]
) -> None:
    result = edited(b"a;\nb;\n", [made])

    assert (result.text, spans(result)) == (after, [(*region, "core.one")])


@pytest.mark.parametrize(
    ("old", "wished", "after"),
    [
        (
            "x;\na;\na2;\nx;\nb;\nb2;\nours ;\nc;\n",
            "a;\na2;\nb;\nb2;\nx;\nours;\nc;\n",
            "x;\na;\na2;\nb;\nb2;\nx;\nours;\nc;\n",
        ),
        ("c;\nours ;\nb;\nx;\na;\nx;\n", "c;\nours;\nx;\nb;\na;\n", "c;\nours;\nx;\nb;\na;\nx;\n"),
    ],
    ids=["before", "behind"],
)
def test_of_two_lines_that_could_have_moved_the_nearer_one_did(old: str, wished: str, after: str) -> None:
    ours = EditedText(old, (Region(lines_of(old).index("ours ;") + 1, lines_of(old).index("ours ;") + 1, ONE),))

    assert formatted(ours, wished).text == after
