"""An AMD instruction set: formats, their fields, and the opcodes of each.

tinygrad's package has them, read from AMD's machine-readable ISA documents (https://gpuopen.com/machine-readable-isa).
They are read when the tables are made; nothing of them is kept here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTRUCTION_SETS = ("rdna3", "rdna4", "cdna2", "cdna3")
"""Of gfx11, gfx12, gfx90a and gfx942."""
DOCUMENTS = {"cdna2": "cdna", "cdna3": "cdna"}
"""tinygrad's names where they are others: it has one for all of CDNA."""
OTHERWISE: dict[str, dict[tuple[str, int], tuple[str, str] | None]] = {
    "cdna2": {
        ("VOP3P", 0x3E): None,
        ("VOP3P", 0x3F): None,
        ("VOP2", 0x16): ("V_MAC_F32_E32", "V_FMAC_F32_E32"),
        ("VOP2", 0x17): ("V_MADMK_F32_E32", "V_FMAMK_F32_E32"),
        ("VOP2", 0x18): ("V_MADAK_F32_E32", "V_FMAAK_F32_E32"),
        ("VOP3", 0x116): ("V_MAC_F32_E64", "V_FMAC_F32_E64"),
        ("VOP3", 0x1C1): ("V_MAD_F32", "V_FMA_F32_E64"),
        ("VOP3P_MFMA", 0x4D): ("V_MFMA_F32_16X16X16F16", "V_MFMA_F32_16X16X16_F16"),
        ("VOP3P_MFMA", 0x55): ("V_MFMA_I32_16X16X16I8", "V_MFMA_F32_16X16X4_F32"),
        ("VOP3P_MFMA", 0x67): ("V_MFMA_F32_16X16X16BF16_1K", "V_MFMA_F32_16X16X16_BF16"),
    },
    "cdna3": {
        ("VOP3P", 0x3E): None,
        ("VOP3P", 0x3F): None,
        ("VOP3P_MFMA", 0x3E): ("V_MFMA_F32_16X16X8_XF32", "V_MFMA_F32_16X16X16_F16"),
        ("VOP3P_MFMA", 0x3F): ("V_MFMA_F32_32X32X4_XF32", "V_MFMA_F32_32X32X8_F16"),
    },
}
"""Opcodes of which the document says something else, or nothing: format and number, the name, and one whose operands
have as many bits; None for one that is not there."""
SOURCE = "tinygrad.runtime.autogen.amd"


class Kind(StrEnum):
    """How the bits of a field name what they stand for."""

    BITS = "Bits"
    """A number."""
    OPCODE = "Opcode"
    SOURCE = "Source"
    """9 bits: any register, inline constant, or what stands behind the instruction."""
    SCALAR_SOURCE = "ScalarSource"
    """8 bits: likewise, without vector registers."""
    VECTOR = "Vector"
    """8 bits: a vector register."""
    SCALAR = "Scalar"
    """7 bits: a scalar register."""
    SCALAR_PAIR = "ScalarPair"
    """6 bits: a scalar register of even number."""
    SCALAR_QUAD = "ScalarQuad"
    """5 bits: a scalar register whose number is a multiple of four."""
    SECOND_VECTOR = "SecondVector"
    """7 bits: a vector register whose lowest bit is the other one than that of the first destination."""


KINDS = {
    "BitField": Kind.BITS,
    "EnumBitField": Kind.OPCODE,
    "SrcField": Kind.SOURCE,
    "SSrcField": Kind.SCALAR_SOURCE,
    "VGPRField": Kind.VECTOR,
    "SGPRField": Kind.SCALAR,
    "SBaseField": Kind.SCALAR_PAIR,
    "SRsrcField": Kind.SCALAR_QUAD,
    "VDSTYField": Kind.SECOND_VECTOR,
}
"""By tinygrad's names."""


@dataclass(frozen=True, slots=True)
class Field:
    """Bits of an instruction, the first of its first word being bit 0."""

    name: str
    high: int
    low: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Operand:
    """A field that names registers or a constant."""

    field: str
    bits: int
    """Of the value."""
    format: str
    """What the value is: `F32`, `PK2_F16`, `M64` for a lane mask (of 32 bits in waves of 32), `ANY`."""
    is_scalar: bool
    """Whether only scalar registers can have it."""


@dataclass(frozen=True, slots=True)
class Opcode:
    """An instruction of a format."""

    number: int
    name: str
    """In capitals; of the forms of one operation in several formats, each has its own (`_E32`)."""
    operands: tuple[Operand, ...]
    has_literal: bool
    """Whether a literal stands behind it whatever its operands are."""


@dataclass(frozen=True, slots=True)
class Format:
    """An encoding and its instructions."""

    name: str
    bits: int
    """32, 64 or 96, without what may stand behind it."""
    mask: int
    value: int
    """What the masked bits are."""
    fields: tuple[Field, ...]
    behind: dict[str, tuple[Field, ...]]
    """The fields of what may stand behind it: `literal`, `dpp16`, `dpp8`, `sdwa`."""
    opcodes: tuple[Opcode, ...]


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """What one family of cards executes."""

    name: str
    formats: tuple[Format, ...]


VARIANTS = {"_LIT": "literal", "_DPP16": "dpp16", "_DPP8": "dpp8", "_SDWA": "sdwa", "_SDWA_SDST": "sdwa"}
"""What stands behind instructions of tinygrad's classes, by the ends of their names."""
_DUAL_WITH_LITERAL = ("V_DUAL_FMAAK", "V_DUAL_FMAMK")
"""Halves of two in one that always have a literal."""
TOO_LONG = "VOP3PX2"
"""128 bits: gfx950 only."""


def load(name: str) -> InstructionSet:
    """One of `INSTRUCTION_SETS`."""
    document = DOCUMENTS.get(name, name)
    module = importlib.import_module(f"{SOURCE}.{document}.ins")
    operands = importlib.import_module(f"{SOURCE}.{document}.operands").OPERANDS
    classes = {found.__name__: found for found in _classes(module)}
    base = {title: each for title, each in classes.items() if _variant(title) is None and title != TOO_LONG}
    formats = [_corrected(_format(title, each, classes, operands), name) for title, each in base.items()]
    return InstructionSet(name, tuple(sorted(formats, key=lambda each: each.name)))


def _corrected(found: Format, name: str) -> Format:
    """With what `OTHERWISE` says."""
    opcodes = {each.number: each for each in found.opcodes}
    alike = {each.name: each for each in found.opcodes}
    for (title, number), right in OTHERWISE.get(name, {}).items():
        if title != found.name:
            continue
        if right is None:
            del opcodes[number]
        else:
            opcodes[number] = replace(alike[right[1]], number=number, name=right[0])
    return replace(found, opcodes=tuple(opcodes[number] for number in sorted(opcodes)))


def _classes(module: Any) -> Iterator[Any]:
    for title in dir(module):
        found = getattr(module, title)
        if isinstance(found, type) and hasattr(found, "_fields") and found.__module__ == module.__name__:
            yield found


def _variant(title: str) -> str | None:
    ends = [end for end in VARIANTS if title.endswith(end)]
    return max(ends, key=len) if ends else None


def _format(title: str, found: Any, classes: dict[str, Any], operands: dict[Any, Any]) -> Format:
    fixed = [field for _, field in found._fields if type(field).__name__ == "FixedBitField"]
    bits = max(field.hi for _, field in found._fields) // 32 * 32 + 32
    behind: dict[str, tuple[Field, ...]] = {}
    for end, what in VARIANTS.items():
        variant = classes.get(f"{title}{end}")
        if variant is not None and what not in behind:
            behind[what] = tuple(field for field in _fields(variant) if field.low >= bits)
    return Format(
        title,
        bits,
        sum(field.mask << field.lo for field in fixed),
        sum(field.default << field.lo for field in fixed),
        tuple(_fields(found)),
        behind,
        tuple(_opcodes(found, _more_opcodes(title, classes), operands)),
    )


def _fields(found: Any) -> Iterator[Field]:
    for name, field in found._fields:
        kind = KINDS.get(type(field).__name__)
        if kind is not None:
            yield Field(name, field.hi, field.lo, kind)


def _more_opcodes(title: str, classes: dict[str, Any]) -> frozenset[Any]:
    """The opcodes that only the class with a literal lists, but for those of a class with a scalar destination."""
    with_literal, with_scalar = classes.get(f"{title}_LIT"), classes.get(f"{title}_SDST")
    if with_literal is None:
        return frozenset()
    return _allowed(with_literal) - _allowed(classes[title]) - (_allowed(with_scalar) if with_scalar else frozenset())


def _opcodes(found: Any, more: frozenset[Any], operands: dict[Any, Any]) -> Iterator[Opcode]:
    fields = {field.name for field in _fields(found)}
    for opcode in sorted(_allowed(found) | more, key=lambda each: int(each.value)):
        known = operands.get(opcode, {})
        # Where the first source can be of other lanes, the document names it as it does there.
        known = {field if field in fields else field.removeprefix("v"): what for field, what in known.items()}
        named = tuple(_operand(field, *what) for field, what in known.items() if field in fields)
        # Opcodes of VOP3 that only its class with a literal lists do without one, too.
        always = (opcode in more and found.__name__ != "VOP3") or opcode.name.startswith(_DUAL_WITH_LITERAL)
        yield Opcode(int(opcode.value), str(opcode.name), named, always)


def _operand(field: str, value: Any, bits: int, where: Any) -> Operand:
    format_name = value.name.removeprefix("FMT_").removeprefix("NUM_")
    return Operand(field, bits, format_name, where.name.removeprefix("OPR_").startswith("S"))


def _allowed(found: Any) -> frozenset[Any]:
    """The opcodes of a class; those of both halves where it has two."""
    fields = [field for _, field in found._fields if type(field).__name__ == "EnumBitField"]
    return frozenset(opcode for field in fields[:1] for opcode in field.allowed or field._enum)  # noqa: SLF001 - it has no other name
