"""What is C, in Rust: types, constants and functions of ROCm's libraries, from the API table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.render.function_head import function_head
from codegen.spec.c_types import opaque_structs, rust_return, rust_type
from codegen.spec.hip_api import CURRENT_RELEASE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from codegen.spec.hip_api import EnumValue, HipApi, HipFunction, HipStruct, Library

_KEYWORDS = frozenset({"fn", "in", "mod", "move", "mut", "pub", "ref", "type", "use", "where"})


@dataclass(frozen=True, slots=True)
class ForeignFunction:
    """A C function as Rust declares it."""

    name: str
    params: Mapping[str, str]
    """Rust type by name, in order."""
    returns: str | None
    """Rust type; None for `void`."""

    @classmethod
    def of(cls, api: HipApi, function: HipFunction) -> ForeignFunction:
        """The function of the table in Rust."""
        params = {name: rust_type(c) for name, c in function.params.items()}
        return cls(function.name, params, rust_return(api.returns(function) or "void"))

    def head(self, *named: str) -> str:
        """The head of a Rust definition, in which all parameters but those `named` are anonymous."""
        params = [f"{name if name in named else '_'}: {rust}" for name, rust in self.params.items()]
        return function_head(f'unsafe extern "C" fn {self.name}', params, returns=self.returns)

    @property
    def declaration(self) -> str:
        """`fn name(parameters) -> result;`, for a place four columns in."""
        params = [f"{name}: {rust}" for name, rust in self.params.items()]
        return function_head(f"fn {self.name}", params, returns=self.returns, indent=4).removesuffix(" {") + ";"

    @property
    def type_names(self) -> frozenset[str]:
        """Names of the Rust types in the signature, primitive ones excluded."""
        names = {name for text in self.types for name in re.findall(r"\w+", text)}
        return frozenset(name for name in names if name.startswith(("hip", "c_")))

    @property
    def types(self) -> tuple[str, ...]:
        """The Rust types of the result and the parameters."""
        return (self.returns or "", *self.params.values())


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
class CLibrary:
    """What a library declares, all of it or some."""

    release: str
    name: str
    """As given to the linker: `amdhip64`."""
    header: str
    status: str
    """The type whose constants have names that the library can tell."""
    handles: tuple[str, ...]
    """Structs that only the library knows."""
    aliases: tuple[Alias, ...]
    enums: tuple[ConstantGroup, ...]
    constants: tuple[ConstantGroup, ...]
    structs: tuple[Struct, ...]
    functions: tuple[ForeignFunction, ...]

    @classmethod
    def of(cls, api: HipApi, library: Library, *, names: Collection[str] | None = None) -> CLibrary:
        """The library in the form of the newest ROCm release; with `names`, only what they are and what that needs."""
        release = CURRENT_RELEASE
        needed = None if names is None else reached(api, names)
        types = [t for t in api.declared_by(library, api.types, release) if needed is None or t.name in needed]
        enums = [e for e in api.declared_by(library, api.enums, release) if needed is None or e.name in needed]
        structs = [s for s in api.declared_by(library, api.structs, release) if needed is None or s.name in needed]
        functions = [f for f in api.functions_of(library, release) if names is None or f.name in names]
        macros = (
            ConstantGroup(group.about, rust_type(group.c), _constants(group.values, names, _expression(api, group.c)))
            for group in api.constants
            if group.library == library.name
        )
        return cls(
            release=release,
            name=library.name,
            header=library.header,
            status=library.status,
            handles=tuple(sorted(set().union(*(opaque_structs(t.c) for t in types)))),
            aliases=tuple(Alias(t.name, rust_type(t.c)) for t in types),
            enums=tuple(
                ConstantGroup(f"Values of `{enum.name}`.", enum.name, _constants(enum.values, names, "{}"))
                for enum in enums
            ),
            constants=tuple(group for group in macros if group.constants),
            structs=tuple(_struct(struct) for struct in structs),
            functions=tuple(ForeignFunction.of(api, function) for function in functions),
        )

    @property
    def module(self) -> str:
        """Rust's name of the library's module."""
        return self.name.lower()

    @property
    def status_names(self) -> tuple[Constant, ...]:
        """The enumerators of `status`, the first of each value."""
        group = next(group for group in self.enums if group.rust == self.status)
        by_value = {constant.value: constant for constant in reversed(group.constants)}
        return tuple(constant for constant in group.constants if by_value[constant.value] is constant)

    def foreign_names(self, api: HipApi) -> Iterator[tuple[str, Library | None]]:
        """What the declarations need in scope: names of `std::ffi` with None, and of other libraries with these."""
        for name in {word for text in self._types() for word in re.findall(r"[A-Za-z_]\w*", text)}:
            other = api.owners.get(name)
            if name.startswith("c_"):
                yield name, None
            elif other is not None and other.name != self.name:
                yield name, other

    def _types(self) -> Iterator[str]:
        """Every Rust type that the declarations spell."""
        yield from (alias.rust for alias in self.aliases)
        yield from (group.rust for group in self.constants)
        yield from (field.rust for struct in self.structs for field in struct.fields)
        yield from (text for function in self.functions for text in function.types)
        if self.enums or any(struct.bits for struct in self.structs):
            yield "c_uint"


def reached(api: HipApi, names: Iterable[str]) -> frozenset[str]:
    """`names` and those of all types that they lead to in the newest ROCm release."""
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        found |= waiting
        waiting = set().union(*(api.leads_to.get(name, frozenset()) for name in waiting)) - found
    return frozenset(found)


def _constants(values: Mapping[str, EnumValue], names: Collection[str] | None, expression: str) -> tuple[Constant, ...]:
    there = ((name, value.value) for name, value in values.items() if value.holds_in(CURRENT_RELEASE))
    return tuple(Constant(name, expression.format(value)) for name, value in there if names is None or name in names)


def _expression(api: HipApi, c: str) -> str:
    """How a number becomes a value of the C type."""
    aliased = {t.name: t.c for t in api.types}
    return "std::ptr::without_provenance_mut({})" if aliased.get(c, c).endswith("*") else "{}"


def _struct(struct: HipStruct) -> Struct:
    fields = tuple(Field(_identifier(f.name), rust_type(f.c), f.offset) for f in struct.fields)
    bits = tuple(Constant(name, f"{1 << number:#x}") for number, name in enumerate(struct.bits))
    return Struct(struct.name, struct.size, struct.align, fields, bits)


def _identifier(name: str) -> str:
    return f"r#{name}" if name in _KEYWORDS else name
