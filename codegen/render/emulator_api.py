"""The crate `emulator/api`: types, constants and signatures of ROCm's C libraries, from the API table.

One Rust module a library, in the form that the newest ROCm release of the table gives them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.render.environment import render
from codegen.render.hip_api import ForeignFunction
from codegen.render.imports import use_declarations
from codegen.render.rustfmt import format_rust
from codegen.spec.c_types import opaque_structs, rust_type
from codegen.spec.hip_api import CURRENT_RELEASE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codegen.spec.hip_api import EnumValue, HipApi, HipStruct, Library

FOLDER = "emulator/api/src"
TEMPLATE = "emulator/api.rs.j2"
RUSTFMT = "emulator/rustfmt.toml"

_KEYWORDS = frozenset({"fn", "in", "mod", "move", "mut", "pub", "ref", "type", "use", "where"})


@dataclass(frozen=True, slots=True)
class Alias:
    """A Rust type alias."""

    name: str
    rust: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A Rust constant."""

    name: str
    value: str
    """An expression of the type that the constant's group has."""


@dataclass(frozen=True, slots=True)
class ConstantGroup:
    """Constants of one type: the enumerators of an enumeration, or macros for one purpose."""

    about: str
    rust: str
    """Their type."""
    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct."""

    name: str
    rust: str
    offset: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct; its only member is `bits` if it is made of single bits, and private if C hides what is inside."""

    name: str
    size: int
    align: int | None
    """In bytes, where the members do not decide."""
    fields: tuple[Field, ...]
    bits: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class ApiModule:
    """What the module of one library is rendered from."""

    release: str
    library: str
    module: str
    """Rust's name of the module."""
    status: str
    """The type whose constants have names that the library can tell."""
    handles: tuple[str, ...]
    """Structs that only the library knows."""
    aliases: tuple[Alias, ...]
    enums: tuple[ConstantGroup, ...]
    constants: tuple[ConstantGroup, ...]
    structs: tuple[Struct, ...]
    functions: tuple[ForeignFunction, ...]
    uses: tuple[str, ...]

    @property
    def status_names(self) -> tuple[Constant, ...]:
        """The enumerators of `status`, the first of each value."""
        group = next(group for group in self.enums if group.rust == self.status)
        by_value = {constant.value: constant for constant in reversed(group.constants)}
        return tuple(constant for constant in group.constants if by_value[constant.value] is constant)


def emulator_api(api: HipApi, root: Path) -> dict[str, str]:
    """Text by path, relative to the repository `root`, of every module. Raises as `render` and `format_rust`."""
    texts = {}
    for library in api.libraries:
        module = _module(api, library)
        texts[f"{FOLDER}/{module.module}.rs"] = render(TEMPLATE, {"api": module}, root=root / "templates")
    return format_rust(texts, edition="2024", config=root / RUSTFMT)


def _module(api: HipApi, library: Library) -> ApiModule:
    release = CURRENT_RELEASE
    types = api.declared_by(library, api.types, release)
    aliases = tuple(Alias(t.name, rust_type(t.c)) for t in types)
    enums = tuple(
        ConstantGroup(f"Values of `{enum.name}`.", enum.name, _constants(enum.values, "{}"))
        for enum in api.declared_by(library, api.enums, release)
    )
    constants = tuple(
        ConstantGroup(
            group.about,
            rust,
            _constants(group.values, "std::ptr::without_provenance_mut({})" if _is_pointer(api, group.c) else "{}"),
        )
        for group in api.constants
        if group.library == library.name
        for rust in [rust_type(group.c)]
    )
    structs = tuple(_struct(struct) for struct in api.declared_by(library, api.structs, release))
    functions = tuple(ForeignFunction.of(api, function) for function in api.functions_of(library, release))
    used = [alias.rust for alias in aliases] + [group.rust for group in constants]
    used += [field.rust for struct in structs for field in struct.fields]
    used += [text for f in functions for text in (f.returns or "", *f.params.values())]
    if enums or any(struct.bits for struct in structs):
        used.append("c_uint")
    standard = ["std::ffi::CStr"]
    if any(struct.fields for struct in structs):
        standard.append("std::mem::offset_of")
    return ApiModule(
        release=release,
        library=library.name,
        module=library.name.lower(),
        status=library.status,
        handles=tuple(sorted(set().union(*(opaque_structs(t.c) for t in types)))),
        aliases=aliases,
        enums=enums,
        constants=constants,
        structs=structs,
        functions=functions,
        uses=use_declarations({*_paths(api, library, used), *standard}),
    )


def _constants(values: Mapping[str, EnumValue], expression: str) -> tuple[Constant, ...]:
    there = ((name, value.value) for name, value in values.items() if value.holds_in(CURRENT_RELEASE))
    return tuple(Constant(name, expression.format(value)) for name, value in there)


def _is_pointer(api: HipApi, c: str) -> bool:
    aliased = {t.name: t.c for t in api.types}
    return aliased.get(c, c).endswith("*")


def _struct(struct: HipStruct) -> Struct:
    fields = tuple(Field(_identifier(f.name), rust_type(f.c), f.offset) for f in struct.fields)
    bits = tuple(Constant(name, f"{1 << number:#x}") for number, name in enumerate(struct.bits))
    return Struct(struct.name, struct.size, struct.align, fields, bits)


def _identifier(name: str) -> str:
    return f"r#{name}" if name in _KEYWORDS else name


def _paths(api: HipApi, library: Library, texts: Iterable[str]) -> Iterator[str]:
    """Paths of the names in Rust types that the library's own module does not define."""
    owner = {
        entry.name: api.library_of(entry)
        for section in ("enums", "structs", "types")
        for entry in api.sections[section]
    }
    for name in {word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text)}:
        other = owner.get(name)
        if name.startswith("c_"):
            yield f"std::ffi::{name}"
        elif other is not None and other != library:
            yield f"crate::{other.name.lower()}::{name}"
