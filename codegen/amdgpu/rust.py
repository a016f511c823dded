"""The tables of an instruction set as Rust source, of the types in amdgpu/isa/src/table.rs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.amdgpu.instruction_set import Field, Format, InstructionSet, Opcode, Operand


def rendered(found: InstructionSet) -> str:
    """A file with one static, `SET`."""
    formats = "".join(_format(each) for each in found.formats)
    return f'pub static SET: InstructionSet = InstructionSet {{ name: "{found.name}", formats: &[\n{formats}] }};\n'


def _format(found: Format) -> str:
    behind = ", ".join(f"{name}: {_optional(found.behind.get(name))}" for name in ("literal", "dpp16", "dpp8", "sdwa"))
    opcodes = "".join(f"        {_opcode(each)},\n" for each in found.opcodes)
    return (
        f'    Format {{ name: "{found.name}", bytes: {found.bits // 8}, mask: {found.mask:#x}, '
        f"value: {found.value:#x}, fields: {_fields(found.fields)}, {behind}, opcodes: &[\n{opcodes}    ] }},\n"
    )


def _optional(fields: Iterable[Field] | None) -> str:
    return "None" if fields is None else f"Some({_fields(fields)})"


def _fields(fields: Iterable[Field]) -> str:
    texts = (f'Field {{ name: "{f.name}", high: {f.high}, low: {f.low}, kind: Kind::{f.kind} }}' for f in fields)
    return f"&[{', '.join(texts)}]"


def _opcode(found: Opcode) -> str:
    operands = ", ".join(map(_operand, found.operands))
    return (
        f'Opcode {{ number: {found.number}, name: "{found.name}", operands: &[{operands}], '
        f"has_literal: {str(found.has_literal).lower()} }}"
    )


def _operand(found: Operand) -> str:
    return (
        f'Operand {{ field: "{found.field}", bits: {found.bits}, format: "{found.format}", '
        f"is_scalar: {str(found.is_scalar).lower()} }}"
    )
