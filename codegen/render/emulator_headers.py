"""Headers of ROCm's C libraries for plain HIP programs on the emulated device, from the API table."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, TypeVar

from codegen.render.clang_format import format_hip
from codegen.render.environment import render
from codegen.spec.c_types import opaque_structs
from codegen.spec.hip_api import CURRENT_RELEASE, names_used

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codegen.spec.hip_api import EnumValue, HipApi, HipFunction, HipStruct, Library, TypeName

E = TypeVar("E", "HipStruct", "TypeName")

FOLDER = "emulator/include"
TEMPLATE = "emulator/api.h.j2"

_WRITTEN_BY_HAND = frozenset({"dim3"})
"""Types that the emulator's own headers define with C++ members."""


@dataclass(frozen=True, slots=True)
class Constant:
    """An enumerator or a macro."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ConstantGroup:
    """An enumeration, or macros for one purpose."""

    name: str
    constants: tuple[Constant, ...]


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct as C declares it."""

    name: str
    size: int
    align: int | None
    """In bytes, where the members do not decide."""
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApiHeader:
    """What the header of one library is rendered from."""

    release: str
    library: str
    includes: tuple[str, ...]
    handles: tuple[str, ...]
    """Structs that only the library knows."""
    enums: tuple[ConstantGroup, ...]
    types: tuple[str, ...]
    """Declarations after `typedef`."""
    structs: tuple[Struct, ...]
    constants: tuple[ConstantGroup, ...]
    functions: tuple[str, ...]
    """Declarations."""


def emulator_headers(api: HipApi, root: Path) -> dict[str, str]:
    """Text by path, relative to the repository `root`, of every header. Raises as `render` and `format_hip`."""
    texts = {}
    for library in api.libraries:
        header = _header(api, library)
        texts[f"{FOLDER}/{library.header}"] = render(TEMPLATE, {"api": header}, root=root / "templates")
    return format_hip(texts)


def declaration(c: str, name: str) -> str:
    """A declaration of `name` with the type `c`: `char name[16]`, `void (*name)(int)`."""
    if "(*)" in c:
        return c.replace("(*)", f"(*{name})", 1)
    if c.endswith("]"):
        element, _, length = c.partition("[")
        return f"{element} {name}[{length}"
    return f"{c} {name}"


def _header(api: HipApi, library: Library) -> ApiHeader:
    release = CURRENT_RELEASE
    types = api.declared_by(library, api.types, release)
    enums = api.declared_by(library, api.enums, release)
    structs = api.declared_by(library, api.structs, release)
    groups = [group for group in api.constants if group.library == library.name]
    return ApiHeader(
        release=release,
        library=library.name,
        includes=_includes(api, library),
        handles=tuple(sorted(set().union(*(opaque_structs(t.c) for t in types)))),
        enums=tuple(ConstantGroup(enum.name, _constants(enum.values, "{}")) for enum in enums),
        types=tuple(declaration(t.c, t.name) for t in _dependencies_first(api, types)),
        structs=tuple(_struct(struct) for struct in _dependencies_first(api, structs)),
        constants=tuple(ConstantGroup(g.about, _constants(g.values, f"(({g.c}){{}})")) for g in groups),
        functions=tuple(_function(api, function) for function in api.functions_of(library, release)),
    )


def _includes(api: HipApi, library: Library) -> tuple[str, ...]:
    """Standard headers, those of other libraries whose types are used, and what is written by hand."""
    own_entries = (entry for entries in api.sections.values() for entry in entries if api.library_of(entry) == library)
    used = frozenset[str]().union(*(names_used(api, entry) for entry in own_entries if entry.holds_in(CURRENT_RELEASE)))
    owners = (
        api.library_of(entry)
        for section in ("enums", "structs", "types")
        for entry in api.sections[section]
        if entry.name in used
    )
    others = sorted({owner.header for owner in owners if owner is not None and owner != library})
    own = ["hip/emulator/vector_types.h"] if library.name == "amdhip64" else []
    return ("#include <stddef.h>", "#include <stdint.h>", "", *(f"#include <{header}>" for header in (*own, *others)))


def _constants(values: Mapping[str, EnumValue], expression: str) -> tuple[Constant, ...]:
    there = ((name, value.value) for name, value in values.items() if value.holds_in(CURRENT_RELEASE))
    return tuple(Constant(name, expression.format(value)) for name, value in there)


def _dependencies_first(api: HipApi, entries: Sequence[E]) -> list[E]:
    by_name = {entry.name: entry for entry in entries if entry.name not in _WRITTEN_BY_HAND}
    used = {name: names_used(api, entry) & by_name.keys() for name, entry in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(used).static_order()]


def _struct(struct: HipStruct) -> Struct:
    members = tuple(declaration(field.c, field.name) for field in struct.fields)
    if struct.bits:
        members = tuple(f"unsigned int {name} : 1" for name in struct.bits)
    if struct.align:
        members = (f"unsigned char bytes[{struct.size}]",)
    return Struct(struct.name, struct.size, struct.align, members)


def _function(api: HipApi, function: HipFunction) -> str:
    params = ", ".join(declaration(c, name) for name, c in function.params.items())
    return f"{api.returns(function)} {function.name}({params})"
