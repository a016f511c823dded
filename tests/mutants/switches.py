"""All mutants of a file compiled at once, each behind a switch.

Compiling one mutant takes minutes where a run of the tests that reach it takes seconds, so the file gets

    (if crate::mutated(17) { a <= b } else { a < b })

for `a < b`, and a run names its mutant in the environment. The other mutants of a run are never in force, so the text
in the first branch is the original's, however many switches the operands have in the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING

from codegen.syntax.source import Source, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tree_sitter import Node

    from mutants.mutant import Mutant

CONSTANT = frozenset({"const_item", "static_item", "array_type", "const_block", "enum_variant", "const_parameter"})
"""What is computed by the compiler, where no environment can be asked."""
OPERATIONS = {
    "BinaryOperator": ("binary_expression", "compound_assignment_expr"),
    "UnaryOperator": ("unary_expression",),
}


class NoSwitch(Exception):
    """The mutant cannot stand behind a switch; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a file that become something else; `write` gets them with the switches inside them made."""

    start: int
    end: int
    mutant: Mutant
    write: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Switched:
    """A file with switches, and which bytes of it each mutant's own text took."""

    text: bytes
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the mutant's number: from the beginning of its switch to the end of what it stands for."""
    own: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the mutant's number: the text that is in force when it is switched on."""

    def blamed(self, start: int, end: int) -> frozenset[int]:
        """Whose text an error in these bytes is about: those whose own text it is, or else the innermost around it."""
        own = {number for number, (first, last) in self.own.items() if first <= start and end <= last}
        if own:
            return frozenset(own)
        around = [(last - first, number) for number, (first, last) in self.spans.items() if first <= start < last]
        smallest = min(around, default=(0, 0))[0]
        return frozenset(number for size, number in around if size == smallest)

    def arms(self, start: int, end: int) -> frozenset[int]:
        """The mutants that drop an arm without a condition of its own, in these bytes."""
        return frozenset(
            number
            for number, (first, last) in self.own.items()
            if start <= first and last <= end and self.text[first - 4 : first] == b" if "
        )


def place_of(source: Source, mutant: Mutant, function: str) -> Place:
    """Where the mutant's switch goes, and how it is written; `function` is the path of `mutated`.

    Raises NoSwitch where the compiler needs the value, or the mutant is of a kind that has no switch.
    """
    start, end = offset(source.text, *mutant.start), offset(source.text, *mutant.end)
    chain = source.chain(start, end if mutant.genre == "FnValue" else start + 1)
    _refuse_constants(chain)
    asked = f"{function}({mutant.number})"
    if mutant.genre in OPERATIONS:
        node = _last(chain, *OPERATIONS[mutant.genre])
        if mutant.genre == "BinaryOperator":
            other = f"{source.slice(node.start_byte, start)}{mutant.replacement}{source.slice(end, node.end_byte)}"
        else:
            other = source.slice(end, node.end_byte)
        return Place(node.start_byte, node.end_byte, mutant, lambda text: _choice(mutant, asked, other, text))
    if mutant.genre == "FnValue":
        if "impl " in mutant.returns:
            raise NoSwitch("it returns a type without a name, of which there can be one only")
        body = _last(chain, "function_item").child_by_field_name("body")
        assert body is not None
        at, first = body.start_byte + 1, f" if {asked} {{ return {_marked(mutant, mutant.replacement)}; }} "
        return Place(at, at, mutant, lambda text: f"{first}{text}")
    arm = _last(chain, "match_arm")
    pattern = arm.child_by_field_name("pattern")
    assert pattern is not None
    guard = pattern.child_by_field_name("condition")
    if mutant.genre == "MatchArm" and guard is None:
        return Place(
            pattern.end_byte, pattern.end_byte, mutant, lambda text: f" if {_marked(mutant, f'!{asked}')}{text}"
        )
    if guard is not None and mutant.genre in ("MatchArm", "MatchArmGuard"):
        joined = f"{asked} ||" if mutant.replacement == "true" else f"!{asked} &&"
        return Place(guard.start_byte, guard.end_byte, mutant, lambda text: f"({_marked(mutant, joined)} ({text}))")
    raise NoSwitch(f"a mutant of the kind {mutant.genre}")


def switched(source: Source, places: Iterable[Place]) -> Switched:
    """The file with all these switches in it."""
    text = _written(source, sorted(places, key=lambda place: (place.start, -place.end)), 0, len(source.text))
    return _without_marks(text)


def plainly(text: bytes, mutant: Mutant) -> bytes:
    """The file with the mutant in its place, and no switch."""
    start, end = offset(text, *mutant.start), offset(text, *mutant.end)
    return text[:start] + mutant.replacement.encode() + text[end:]


def offset(text: bytes, line: int, column: int) -> int:
    """The byte of a line and column that count from 1, columns in characters."""
    lines = text.split(b"\n")
    before = list(accumulate((len(one) + 1 for one in lines[: line - 1]), initial=0))[-1]
    return before + len(lines[line - 1].decode()[: column - 1].encode())


def _refuse_constants(chain: Iterable[Node]) -> None:
    for node in chain:
        if node.type in CONSTANT:
            raise NoSwitch("the compiler computes it")
        if node.type == "token_tree":
            raise NoSwitch("it is an argument of a macro")
        if node.type == "function_item" and any(
            child.type == "function_modifiers" and "const" in text_of(child).split() for child in node.children
        ):
            raise NoSwitch("a const function")


def _last(chain: list[Node], *types: str) -> Node:
    for node in reversed(chain):
        if node.type in types:
            if any(child.type in ("let_condition", "let_chain") for child in node.children):
                break
            return node
    raise NoSwitch(f"no {types[0]} around it")


def _choice(mutant: Mutant, asked: str, other: str, text: str) -> str:
    return f"(if {asked} {{ {_marked(mutant, other)} }} else {{ {text} }})"


def _written(source: Source, places: list[Place], start: int, end: int) -> str:
    """The bytes `start..end` with the places in them, outermost first, written."""
    pieces, at, index = [], start, 0
    while index < len(places):
        place = places[index]
        same = [each for each in places[index:] if (each.start, each.end) == (place.start, place.end)]
        inner = [
            each for each in places[index:] if each not in same and each.end <= place.end and each.start < place.end
        ]
        text = _written(source, inner, place.start, place.end)
        for each in same:
            text = _mark(each.mutant, "W", each.write(text))
        pieces += [source.slice(at, place.start), text]
        at, index = place.end, index + len(same) + len(inner)
    return "".join([*pieces, source.slice(at, end)])


def _mark(mutant: Mutant, kind: str, text: str) -> str:
    return f"\x01{kind}{mutant.number}<\x02{text}\x01{kind}{mutant.number}>\x02"


def _marked(mutant: Mutant, text: str) -> str:
    return _mark(mutant, "M", text)


def _without_marks(text: str) -> Switched:
    """Takes the marks out and remembers where they were."""
    out = bytearray()
    begun: dict[str, int] = {}
    found: dict[str, dict[int, tuple[int, int]]] = {"W": {}, "M": {}}
    for piece in text.split("\x01"):
        mark, separator, rest = piece.partition("\x02")
        if not separator:
            out += piece.encode()
            continue
        name = mark[:-1]
        if mark.endswith("<"):
            begun[name] = len(out)
        else:
            found[name[0]][int(name[1:])] = (begun[name], len(out))
        out += rest.encode()
    return Switched(bytes(out), found["W"], found["M"])
