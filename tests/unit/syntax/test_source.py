"""A parsed file: places, nodes, attributes, errors."""

from __future__ import annotations

import pytest
from check import parsed
from some import some

from codegen.errors import ExitCode, InputOutputError
from codegen.syntax.edit import TextEdit, apply_edits
from codegen.syntax.matches import captures
from codegen.syntax.source import (
    Source,
    attributes_of,
    cfg_predicate,
    is_doc_comment,
    next_item,
    owner_of,
    text_of,
    unit_start,
)

GAP = "struct Holder<'a>(Arc<dyn 'a + Fn(&T) -> T>);\n"
"""Valid Rust that the grammar cannot parse."""


def test_lines_count_from_one_and_columns_count_characters() -> None:
    source = parsed("let a;\nlet größe = µ;\n")
    at = source.text.index(b"=")
    assert (source.line_of(at), source.column_of(at)) == (2, 11)
    assert source.line_text(at) == "let größe = µ;"
    assert (source.line_of(0), source.column_of(0)) == (1, 1)


def test_the_last_line_needs_no_newline() -> None:
    source = parsed("fn f() {}")
    assert source.line_text(3) == "fn f() {}"


def test_a_chain_leads_from_the_file_to_the_token() -> None:
    source = parsed("fn f() { g(1); }\n")
    at = source.text.index(b"g")
    types = [node.type for node in source.chain(at, at + 1)]
    assert types == ["source_file", "function_item", "block", "expression_statement", "call_expression", "identifier"]


def test_a_node_is_found_again_by_its_range_and_type() -> None:
    source = parsed("fn f() {}\n")
    assert text_of(source.node_at(0, 9, "function_item")) == "fn f() {}"
    with pytest.raises(LookupError, match=r"snippet\.rs: no match_expression at bytes 0\.\.9"):
        source.node_at(0, 9, "match_expression")


def test_text_that_is_not_utf8_is_a_clear_error() -> None:
    with pytest.raises(InputOutputError) as caught:
        Source.parse("candle-core/src/lib.rs", b"fn f() {}\n// \xff cuda\n")
    assert str(caught.value) == (
        "input/output error: candle-core/src/lib.rs:2:1: the file is not UTF-8 text\n  = help: restore the file"
    )
    assert caught.value.exit_code is ExitCode.IO


def test_a_byte_order_mark_does_no_harm() -> None:
    source = Source.parse("x.rs", b"\xef\xbb\xbffn cuda() {}\n")
    assert source.mentions("cuda", 0, len(source.text)) == [6]


def test_what_the_grammar_cannot_parse_is_an_error_range() -> None:
    source = parsed(f"fn f() {{}}\n{GAP}fn g() {{}}\n")
    ranges = source.error_ranges()
    assert ranges
    first, last = source.text.index(b"struct"), source.text.index(b"fn g")
    assert all(first <= start <= end <= last for start, end in ranges)
    assert parsed("fn f() {}\n").error_ranges() == ()


def test_a_missing_token_is_an_error_range_too() -> None:
    assert parsed("fn f() { g( }\n").error_ranges()


def test_names_in_comments_are_no_mentions() -> None:
    source = parsed(
        """
        //! CUDA
        /// Cuda
        fn f(/* cuda */) {
            // cuda
            let cuda = "CUDA"; /** cuda */
            vec![1 /* cuda */, Cuda]
        }
        """
    )
    found = source.mentions("cuda", 0, len(source.text))
    assert [source.text[at : at + 4] for at in found] == [b"cuda", b"CUDA", b"Cuda"]
    assert source.mentions("cuda", 0, found[1]) == found[:1]


def test_attributes_of_items() -> None:
    source = parsed(
        """
        // plain
        #[a]
        /// documentation
        // plain, in between
        #[cfg(b)]
        fn f() {}
        """
    )
    item = captures("(function_item) @f", "f", source.root)[0]
    assert [text_of(each).strip() for each in attributes_of(item)] == ["#[a]", "/// documentation", "#[cfg(b)]"]
    assert cfg_predicate(item) == "b"
    assert source.text[unit_start(item) :].startswith(b"#[a]")


def test_an_item_without_attributes_begins_where_it_begins() -> None:
    source = parsed("// plain\nfn f() {}\n")
    item = captures("(function_item) @f", "f", source.root)[0]
    assert unit_start(item) == item.start_byte
    assert cfg_predicate(item) == ""


def test_a_comment_behind_the_item_before_is_not_this_items() -> None:
    source = parsed("use a; // trailing\nfn f() {}\n")
    item = captures("(function_item) @f", "f", source.root)[0]
    assert attributes_of(item) == []


def test_arms_and_fields_hold_their_attributes() -> None:
    source = parsed("fn f() { match x { #[cfg(a)] 1 => S { #[cfg(b)] c: 1, #[cfg(d)] e }, _ => y } }\n")
    owners = [owner_of(each) for each in captures("(attribute_item) @a", "a", source.root)]
    assert [owner.type for owner in owners if owner is not None] == [
        "match_arm",
        "field_initializer",
        "shorthand_field_initializer",
    ]
    assert [cfg_predicate(owner) for owner in owners if owner is not None] == ["a", "b", "d"]


def test_an_attribute_belongs_to_the_next_item() -> None:
    source = parsed("#[a]\n// plain\n#[b]\nfn f() {}\n")
    for attribute in some(captures("(attribute_item) @a", "a", source.root)):
        owner = owner_of(attribute)
        assert owner is not None
        assert owner.type == "function_item"


def test_several_predicates_are_joined_and_spread_ones_put_on_a_line() -> None:
    source = parsed('#[cfg(a)]\n#[cfg(all(\n    b,\n    feature = "c",\n))]\n#[test]\nfn f() {}\n')
    item = captures("(function_item) @f", "f", source.root)[0]
    assert cfg_predicate(item) == 'a, all( b, feature = "c", )'


def test_documentation_is_told_from_comments() -> None:
    source = parsed("/// a\n/** b */\n// c\n/* d */\n//! e\nfn f() {}\n")
    comments = [node for node in source.root.children if "comment" in node.type]
    assert [is_doc_comment(node) for node in comments] == [True, True, False, False, False]


def test_the_next_item_is_neither_comment_nor_attribute() -> None:
    source = parsed("fn f() {}\n// c\n#[a]\nfn g() {}\n")
    first = captures("(function_item) @f", "f", source.root)[0]
    following = next_item(first)
    assert following is not None
    assert text_of(following) == "fn g() {}"
    assert next_item(following) is None


# --- parsing again after edits -----------------------------------------------------------------------------------

BEFORE = (
    'fn f(d: &D) {\n    match d {\n        D::Cpu => g("größe"),\n        D::Cuda(c) => h(c),\n    }\n}\n\nfn i() {}\n'
)


def nodes(source: Source) -> list[object]:
    """Every node of a file, with all that it knows of its place."""
    found: list[object] = []
    stack = [source.root]
    while stack:
        node = stack.pop()
        found.append((node.type, node.start_byte, node.end_byte, node.start_point, node.end_point, node.is_missing))
        stack.extend(node.children)
    return found


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [TextEdit(0, 0, "use a::B;\n")],
        [TextEdit(len(BEFORE.encode()), len(BEFORE.encode()), "fn j() {}")],
        [TextEdit(0, len(BEFORE.encode()), "")],
        [TextEdit(3, 4, "größer"), TextEdit(4, 4, "_"), TextEdit(4, 4, "2")],
        [TextEdit(0, 0, "//! A\n"), TextEdit(20, 21, "\n\n"), TextEdit(BEFORE.encode().index(b"fn i"), 96, "mod k;\n")],
        [TextEdit(12, 12, "{ "), TextEdit(13, 14, "")],
    ],
)
def test_a_file_parsed_again_is_as_if_parsed_anew(edits: list[TextEdit]) -> None:
    before = parsed(BEFORE)
    text = apply_edits(before.text, edits).encode()

    after = before.reparsed(text, [(edit.start, edit.end, len(edit.text.encode())) for edit in edits])

    assert after.text == text
    assert nodes(after) == nodes(parsed(text.decode()))
    assert nodes(before) == nodes(parsed(BEFORE)), "the file that was there stays as it is"


def test_a_change_is_seen_where_it_is_behind_others_that_move_it() -> None:
    before = parsed(BEFORE * 20)
    body, end = before.text.index(b"    match"), len(before.text)
    edits = [
        TextEdit(0, 0, "// Long.\n" * 40),
        TextEdit(body, before.text.index(b"}\n\nfn i"), ""),
        TextEdit(end - 4, end - 1, ";"),
    ]
    text = apply_edits(before.text, edits).encode()
    assert text.endswith(b"fn i();\n")

    after = before.reparsed(text, [(edit.start, edit.end, len(edit.text.encode())) for edit in edits])

    assert nodes(after) == nodes(parsed(text.decode()))


def test_an_error_that_an_edit_makes_is_found() -> None:
    before = parsed(BEFORE)
    at = before.text.index(b"fn i")

    after = before.reparsed(before.text[:at] + b"fn a( {}\n" + before.text[at:], [(at, at, 9)])

    assert before.error_ranges() == ()
    assert after.error_ranges() == parsed(after.text.decode()).error_ranges() != ()


def test_changes_that_do_not_make_the_text_are_a_bug() -> None:
    with pytest.raises(AssertionError, match="the changes make the text"):
        parsed(BEFORE).reparsed(b"fn f() {}", [(0, 0, 1)])
