"""AMD's pseudocode of instructions, as its documents have it, evaluated: a reference for what they do.

It is read from tinygrad's package. A value has bits, how many there are, and whether they are an unsigned or signed
number or a float; what is not said of rounding is to the nearest, once for each operation.
"""

from __future__ import annotations

import importlib
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from codegen.amdgpu.instruction_set import DOCUMENTS, SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FLOATS: dict[int, tuple[Any, Any]] = {
    16: (np.float16, np.uint16),
    32: (np.float32, np.uint32),
    64: (np.float64, np.uint64),
}
"""By bits: the type, and that of its bits."""


class NotEvaluated(Exception):
    """The pseudocode says something that is not known here."""


@dataclass(frozen=True, slots=True)
class Value:
    """So many bits, and what they are: `u`, `i`, `f`."""

    bits: int
    width: int
    kind: str
    plain: bool = False
    """Whether it is a number without a type, which takes that of the other operand."""

    @property
    def number(self) -> Any:
        """An integer, or a float of numpy."""
        if self.kind == "f":
            float_type, bits_type = FLOATS[self.width]
            return bits_type(self.bits).view(float_type)
        if self.kind == "i" and self.bits >> (self.width - 1) & 1:
            return self.bits - (1 << self.width)
        return self.bits

    def seen_as(self, kind: str, width: int) -> Value:
        """The same bits as something else."""
        return Value(self.bits & ((1 << width) - 1), width, kind)


def integer(number: int, width: int, kind: str = "u", *, plain: bool = False) -> Value:
    """A number of so many bits, the rest of which is lost."""
    return Value(number & ((1 << width) - 1), width, kind, plain)


def floating(number: Any, width: int) -> Value:
    """The nearest float of so many bits."""
    float_type, bits_type = FLOATS[width]
    with np.errstate(all="ignore"):
        return Value(int(float_type(number).view(bits_type)), width, "f")


def truth(value: bool) -> Value:  # noqa: FBT001 - it is the value
    """A bit."""
    return Value(int(value), 1, "u")


@cache
def pseudocode(instruction_set: str) -> dict[str, str]:
    """The text of each instruction, by its name without the encoding's."""
    document = DOCUMENTS.get(instruction_set, instruction_set)
    module = importlib.import_module(f"{SOURCE}.{document}.str_pcode")
    return {stem(key.name): text for key, text in module.PCODE.items()}


def stem(name: str) -> str:
    """A name without that of its encoding."""
    return name.removesuffix("_E32").removesuffix("_E64")


TOKEN = re.compile(
    r"""\s*(?:(?P<sized>\d+'(?:[UIFB]\b|0x[0-9a-fA-F]+|-?[\d.]+U?))|(?P<number>0x[0-9a-fA-F]+[UL]*|\d+\.\d*F?|\d+[UL]*)
    |(?P<name>[A-Za-z_]\w*)|(?P<operator><>|<=|>=|==|!=|&&|\|\||<<|>>|\*\*|\+=|[-+*/&|^~!<>=?:.,;(){}\[\]]))""",
    re.VERBOSE,
)


def tokens(text: str) -> list[str]:
    """The tokens of a statement."""
    found, place = [], 0
    text = text.strip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise NotEvaluated(text[place:])
        found.append(match.group().strip())
        place = match.end()
    return found


PRECEDENCE = {
    operator: level
    for level, operators in enumerate(
        [
            ["||"],
            ["&&"],
            ["|"],
            ["^"],
            ["&"],
            ["==", "!=", "<>"],
            ["<", ">", "<=", ">="],
            ["<<", ">>"],
            ["+", "-"],
            ["*", "/"],
            ["**"],
        ]
    )
    for operator in operators
}


class Evaluator:
    """Runs the text of an instruction on variables: `S0`, `D0`, `SCC` and the like, and `laneId`."""

    def __init__(self, text: str, variables: dict[str, Any]) -> None:
        self.variables = variables
        lines = [line.split("//")[0].strip().rstrip(";").strip() for line in text.splitlines()]
        self._lines = self._joined([line for line in lines if line])

    @staticmethod
    def _joined(lines: list[str]) -> list[str]:
        joined: list[str] = []
        for line in lines:
            if joined and joined[-1].count("(") > joined[-1].count(")"):
                joined[-1] += " " + line
            else:
                joined.append(line)
        return joined

    def run(self) -> None:
        """Executes it. Raises NotEvaluated."""
        end = self._block(0, run=True)
        if end != len(self._lines):
            raise NotEvaluated(self._lines[end])

    def _block(self, place: int, *, run: bool) -> int:
        """Executes lines up to one that ends a block; returns its place."""
        while place < len(self._lines):
            line = self._lines[place]
            word = line.split(maxsplit=1)[0]
            if word in {"else", "elsif", "endif", "endfor"}:
                return place
            if word == "if":
                place = self._choice(place, run=run)
            elif word == "for":
                place = self._loop(place, run=run)
            else:
                if run:
                    if line == "break":
                        raise _Break
                    self._statement(line)
                place += 1
        return place

    def _choice(self, place: int, *, run: bool) -> int:
        taken = False
        while True:
            line = self._lines[place]
            if line.startswith(("if ", "elsif ")):
                condition = line.split(maxsplit=1)[1].removesuffix("then")
                chosen = run and not taken and bool(self.value(condition).bits)
            elif line == "else":
                chosen = run and not taken
            else:
                return place + 1
            taken = taken or chosen
            place = self._block(place + 1, run=chosen)

    def _loop(self, place: int, *, run: bool) -> int:
        match = re.fullmatch(r"for (\w+) in (.+?) : (.+?) do", self._lines[place])
        if match is None:
            raise NotEvaluated(self._lines[place])
        end = self._block(place + 1, run=False)
        if run:
            name, first, last = match.groups()
            for number in range(self.value(first).number, self.value(last).number + 1):
                self.variables[name] = integer(number, 32, "i")
                try:
                    self._block(place + 1, run=True)
                except _Break:
                    break
        return end + 1

    def _statement(self, line: str) -> None:
        if line.startswith("declare "):
            if match := re.fullmatch(r"declare (\w+) : (\d+)'[A-Z]\[(\d+)\]", line):
                name, width, count = match.groups()
                self.variables.setdefault(name, [integer(0, int(width))] * int(count))
            return
        if "= lambda(" in line:
            return  # a function, which `call` has
        found = _Parser(tokens(line), self.variables)
        target = found.target()
        operator = found.take()
        value = found.expression()
        if found.rest or operator not in {"=", "+="}:
            raise NotEvaluated(line)
        if operator == "+=":
            value = binary("+", target.read(), value)
        target.write(value)

    def value(self, text: str) -> Value:
        """An expression's."""
        parser = _Parser(tokens(text), self.variables)
        found = parser.expression()
        if parser.rest:
            raise NotEvaluated(text)
        return found


class _Break(Exception):
    pass


@dataclass
class _Target:
    read: Callable[[], Value]
    write: Callable[[Value], None]


class _Parser:
    def __init__(self, found: list[str], variables: dict[str, Any]) -> None:
        self.rest = found
        self._variables = variables

    def take(self) -> str:
        if not self.rest:
            raise NotEvaluated("the end")
        token, self.rest = self.rest[0], self.rest[1:]
        return token

    def _next_is(self, *options: str) -> bool:
        return bool(self.rest) and self.rest[0] in options

    def _expect(self, token: str) -> None:
        if (found := self.take()) != token:
            raise NotEvaluated(f"{found} for {token}")

    def _listed(self, part: Callable[[], T], end: str) -> list[T]:
        """Parts with commas between them, up to what ends them."""
        parts = [part()]
        while self._next_is(","):
            self.take()
            parts.append(part())
        self._expect(end)
        return parts

    def target(self) -> _Target:
        if self._next_is("{"):
            return self._targets()
        name = self.take()
        low, width, kind = 0, None, "u"
        while self._next_is(".", "["):
            if self.take() == ".":
                kind, width = _type(self.take())
                continue
            first = self.expression().number
            if self._next_is(":"):
                self.take()
                last = self.expression().number
                low, width = (last, first - last + 1) if first >= last else (first, last - first + 1)
            elif isinstance(self._variables.get(name), list):
                return self._element(name, first)
            else:
                low, width = first, 1
            self._expect("]")

        def read() -> Value:
            return Value(self._variables[name].bits >> low, 64, "u").seen_as(kind, width or 64)

        def write(value: Value) -> None:
            old = self._variables.get(name)
            if width is None and old is not None and name in {"D0", "D1", "VCC", "EXEC", "SCC"}:
                self._variables[name] = integer(value.bits, 64)
            elif width is None:
                self._variables[name] = value
            else:
                mask = ((1 << width) - 1) << low
                kept = (old.bits if old is not None else 0) & ~mask
                known = max(64, low + width) if old is None or name[0] in "DVE" else max(old.width, low + width)
                bits = kept | (value.bits << low & mask)
                declared = Value(bits, known, "u") if low or name[0] in "DVE" else Value(bits, width, kind)
                self._variables[name] = declared

        return _Target(read, write)

    def _element(self, name: str, place: int) -> _Target:
        self._expect("]")
        every = self._variables[name]

        def write(value: Value) -> None:
            self._variables[name] = [value if at == place else old for at, old in enumerate(every)]

        return _Target(lambda: every[place], write)

    def _targets(self) -> _Target:
        self._expect("{")
        parts = self._listed(self._sized_target, "}")

        def write(value: Value) -> None:
            bits = value.bits
            for target, width in reversed(parts):
                target.write(integer(bits, width))
                bits >>= width

        return _Target(lambda: integer(0, 1), write)

    def _sized_target(self) -> tuple[_Target, int]:
        _, width = _type(self.rest[2])
        return self.target(), width

    def expression(self) -> Value:
        condition: Value = self._level(0)
        if not self._next_is("?"):
            return condition
        self.take()
        yes = self.expression()
        self._expect(":")
        no = self.expression()
        return yes if condition.bits else no

    def _level(self, lowest: int) -> Any:
        left = self._unary()
        while self.rest and PRECEDENCE.get(self.rest[0], -1) >= lowest:
            operator = self.take()
            left = binary(operator, left, self._level(PRECEDENCE[operator] + 1))
        return left

    def _unary(self) -> Any:
        if self._next_is("-", "+", "!", "~"):
            operator = self.take()
            value = self._unary()
            if operator == "-" and value.kind == "f":
                return Value(value.bits ^ 1 << (value.width - 1), value.width, "f")
            if operator == "-":
                return integer(-value.number, value.width, "i", plain=value.plain)
            if operator == "!":
                return truth(not value.bits)
            return integer(~value.bits, value.width, value.kind) if operator == "~" else value
        return self._members(self._primary())

    def _members(self, value: Any) -> Any:
        while self._next_is(".", "["):
            if self.take() == ".":
                kind, width = _type(self.take())
                value = value.seen_as(kind, width)
                continue
            first = self.expression().number
            if self._next_is(":"):
                self.take()
                last = self.expression().number
                if first >= last:
                    value = integer(value.bits >> last, first - last + 1)
                else:
                    turned = f"{value.bits >> first & (1 << last - first + 1) - 1:0{last - first + 1}b}"[::-1]
                    value = integer(int(turned, 2), last - first + 1)
            elif isinstance(value, list):
                value = value[first]
            else:
                value = integer(value.bits >> first, 1)
            self._expect("]")
        return value

    def _primary(self) -> Any:
        token = self.take()
        if token == "(":
            value = self.expression()
            self._expect(")")
            return value
        if token == "{":
            parts = self._listed(self.expression, "}")
            bits = 0
            for part in parts:
                bits = bits << part.width | part.bits
            return Value(bits, sum(part.width for part in parts), "u")
        if "'" in token:
            return self._sized(*token.split("'"))
        if token[0].isdigit():
            return _literal(token)
        if self._next_is("("):
            return self._call(token)
        if token in {"INF", "NAN"}:
            return self._infinity(token)
        if token not in self._variables:
            raise NotEvaluated(token)
        return self._variables[token]

    def _infinity(self, token: str) -> Value:
        width = 64
        if len(self.rest) > 1 and self.rest[0] == "." and self.rest[1] in {"f16", "f32", "f64"}:
            self.take()
            width = int(self.take()[1:])
        return floating(math.inf if token == "INF" else math.nan, width)

    def _sized(self, width: str, what: str) -> Value:
        if what in {"U", "I", "F", "B"}:
            self._expect("(")
            value = self.expression()
            self._expect(")")
            return cast(value, int(width), what)
        if "." in what:
            return floating(float(what), int(width))
        return integer(int(what.removesuffix("U"), 0), int(width))

    def _call(self, name: str) -> Value:
        self._expect("(")
        return call(name, self._listed(self.expression, ")"))


def _type(name: str) -> tuple[str, int]:
    match = re.fullmatch(r"([uifb])(\d+)", name)
    if match is None:
        raise NotEvaluated(f".{name}")
    return match[1].replace("b", "u"), int(match[2])


def _literal(token: str) -> Value:
    if "." in token:
        return floating(float(token.removesuffix("F")), 32 if token.endswith("F") else 64)
    digits = token.rstrip("UL")
    ending = token[len(digits) :]
    width = 64 if "LL" in ending or int(digits, 0) >> 32 else 32
    return integer(int(digits, 0), width, "u" if "U" in ending else "i", plain=not ending)


def cast(value: Value, width: int, what: str) -> Value:
    """A value as another type; a number without one as that float's bits."""
    if what == "F" and value.kind == "f" and np.isnan(value.number):
        return _none_of(value, width)
    if what == "F":
        return floating(value.number, width) if value.kind == "f" else Value(value.bits, width, "f")
    if what == "B":
        return integer(value.bits, width)
    return integer(int(value.number), width, what.lower())


def binary(operator: str, left: Value, right: Value) -> Value:
    """The result of an operator."""
    if operator in {"&&", "||"}:
        return truth(bool(left.bits and right.bits) if operator == "&&" else bool(left.bits or right.bits))
    if operator in {"<<", ">>"}:
        shifted = left.number << right.number if operator == "<<" else left.number >> right.number
        return integer(shifted, left.width, left.kind)
    a, b = left.number, right.number
    if operator in COMPARISONS:
        return truth(bool(COMPARISONS[operator](a, b)))
    width = max(left.width, right.width)
    if left.plain != right.plain:
        width = (right if left.plain else left).width
    if "f" in {left.kind, right.kind}:
        with np.errstate(all="ignore"):
            operation = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "**": np.power}[operator]
            return floating(operation(FLOATS[width][0](a), FLOATS[width][0](b)), width)
    both_signed = all(each.kind == "i" or each.plain for each in (left, right))
    return integer(ARITHMETIC[operator](a, b), width, "i" if both_signed else "u", plain=left.plain and right.plain)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<>": lambda a, b: a < b or a > b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "**": lambda a, b: a**b,
}


def fused(numbers: list[Any], width: int) -> Value:
    """The product of the first two of three and the third, rounded once."""
    parts = [float(each) for each in numbers]
    if not all(map(math.isfinite, parts)):
        with np.errstate(all="ignore"):
            return floating(np.float64(parts[0]) * np.float64(parts[1]) + np.float64(parts[2]), width)
    exact = Fraction(parts[0]) * Fraction(parts[1]) + Fraction(parts[2])
    if exact == 0:
        with np.errstate(all="ignore"):
            # Of nothing but zeros the sign is as in any order; of a sum that cancels, it is positive.
            product = np.float64(math.copysign(0.0, parts[0]) * math.copysign(1.0, parts[1]))
            return floating(
                product + np.float64(0.0 if parts[2] else parts[2]) if not parts[0] * parts[1] else 0.0, width
            )
    return nearest(exact, width)


def nearest(exact: Fraction, width: int) -> Value:
    """The float next to a number; of two, the even one."""
    fraction_bits = FRACTION[width]
    lowest, largest = {16: (-14, 16), 32: (-126, 128), 64: (-1022, 1024)}[width]
    sign = 1 << (width - 1) if exact < 0 else 0
    size = abs(exact)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), lowest)
    while exponent > lowest and size < Fraction(2) ** exponent:
        exponent -= 1
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    steps = round(size / Fraction(2) ** (exponent - fraction_bits))  # Python rounds halves to even
    bits = ((exponent - lowest) << fraction_bits) + steps
    infinity = (largest - lowest + 1) << fraction_bits
    return Value(sign | min(bits, infinity), width, "f")


def _converted(name: str, value: Value) -> Value | None:
    match = re.fullmatch(r"([uif])(\d+)_to_([uif])(\d+)", name)
    if match is None:
        return None
    kind, width = match[3], int(match[4])
    number = value.seen_as(match[1], int(match[2])).number
    if kind == "f":
        if match[1] == "f" and not math.isfinite(float(number)):
            return floating(number, width)
        if match[1] == "f" and number == 0:
            return floating(number, width)
        return (
            nearest(Fraction(float(number)) if match[1] == "f" else Fraction(number), width)
            if number
            else floating(0, width)
        )
    if match[1] == "f":
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind == "i" else (0, (1 << width) - 1)
        number = 0 if math.isnan(number) else int(min(max(float(number), float(low)), float(high)))
        number = min(max(number, low), high)
    return integer(int(number), width, kind)


FRACTION = {16: 10, 32: 23, 64: 52}
"""Bits behind the point of a float."""


def _is_quiet(value: Value) -> bool:
    return bool(np.isnan(value.number)) and bool(value.bits >> (FRACTION[value.width] - 1) & 1)


def _none_of(value: Value, width: int) -> Value:
    """A float that is no number, as quiet as one of another width."""
    exponent = (1 << width - 1) - (1 << FRACTION[width])
    return Value(exponent | (1 << FRACTION[width] - 1 if _is_quiet(value) else 1), width, "f")


def _exponent(value: Value) -> int:
    fraction_bits = FRACTION[value.width]
    return value.bits >> fraction_bits & ((1 << (value.width - 1 - fraction_bits)) - 1)


def _picked(data: Value, selected: int) -> Value:
    """A byte of eight, or the sign of every other, or none, or all ones."""
    if selected >= 12:
        return integer(0xFF if selected > 12 else 0, 8)
    if selected >= 8:
        return integer(0xFF * (data.bits >> (16 * (selected - 8) + 15) & 1), 8)
    return integer(data.bits >> 8 * selected, 8)


def _scaled(value: Value, exponent: int) -> Value:
    """A float times a power of two, rounded once."""
    if not np.isfinite(value.number) or value.number == 0:
        return value
    return nearest(Fraction(float(value.number)) * Fraction(2) ** max(-5000, min(exponent, 5000)), value.width)


def _sine(turns: Any, quarters: int = 0) -> float:
    """The sine of a number of turns, and of quarters more."""
    if not np.isfinite(turns):
        return math.nan
    exact = Fraction(float(turns)) + Fraction(quarters, 4)
    if exact % Fraction(1, 2) == 0:
        return float(turns) if turns == 0 and not quarters else 0.0
    return math.sin(2 * math.pi * float(exact - round(exact)))


def _larger(a: Value, b: Value, *, smallest: bool) -> Value:
    """The larger of two floats, +0 being larger than -0; the other one if one is none."""
    if np.isnan(a.number):
        return b
    if np.isnan(b.number):
        return a
    order = (float(a.number), -(a.bits >> (a.width - 1))) > (float(b.number), -(b.bits >> (b.width - 1)))
    return a if order != smallest else b


def call(name: str, given: list[Value]) -> Value:
    """A function of the pseudocode."""
    first = given[0]
    if (converted := _converted(name, first)) is not None:
        return converted
    if match := re.fullmatch(r"v_(max|min)3?(?:_num)?_([uif])(\d+)", name):
        kind, width = match[2], int(match[3])
        seen = [each.seen_as(kind, width) for each in given]
        if kind == "f":
            smallest = match[1] == "min"
            return reduce(lambda a, b: _larger(a, b, smallest=smallest), seen)
        return (max if match[1] == "max" else min)(seen, key=lambda each: each.number)
    width = first.width
    simple: dict[str, Callable[[], Value]] = {
        "signext": lambda: integer(first.number, 64, "i"),
        "signext_from_bit": lambda: _extended(first, given[1].number),
        "abs": lambda: Value(first.bits & ~(1 << (width - 1)), width, "f"),
        "sign": lambda: truth(bool(first.bits >> (width - 1))),
        "exponent": lambda: integer(_exponent(first), 32, "i"),
        "mantissa": lambda: floating(np.copysign(math.frexp(first.number)[0], first.number), width),
        "isNAN": lambda: truth(bool(np.isnan(first.number))),
        "isSignalNAN": lambda: truth(bool(np.isnan(first.number)) and not _is_quiet(first)),
        "isQuietNAN": lambda: truth(_is_quiet(first)),
        "cvtToQuietNAN": lambda: first,
        "trunc": lambda: floating(np.trunc(first.number), width),
        "rndne": lambda: floating(np.rint(first.number), width),
        "floor": lambda: floating(np.floor(first.number), width),
        "fract": lambda: floating(first.number - np.floor(first.number), width),
        "isEven": lambda: truth(bool(np.isfinite(first.number)) and int(first.number) % 2 == 0),
        "BYTE_PERMUTE": lambda: _picked(first, given[1].bits),
        "ldexp": lambda: _scaled(first, given[1].number),
        "sqrt": lambda: floating(np.sqrt(first.number) if first.number >= 0 else math.nan, width),
        "sin_of_turns": lambda: floating(_sine(first.number), width),
        "cos_of_turns": lambda: floating(_sine(first.number, 1), width),
        "log2": lambda: floating(np.log2(np.float64(first.number)), width),
        "pow": lambda: floating(np.power(np.float64(first.number), np.float64(given[1].number)), width),
        "fma": lambda: fused([each.number for each in given], width),
    }
    if name not in simple:
        raise NotEvaluated(f"{name}()")
    with np.errstate(all="ignore"):
        return simple[name]()


def _extended(value: Value, bits: int) -> Value:
    """The number of so many bits, with the sign above them; of none, 0."""
    low = value.bits & ((1 << bits) - 1)
    return integer(low - (1 << bits) if bits and low >> (bits - 1) else low, value.width, "i")
