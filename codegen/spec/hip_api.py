"""`specs/hip_api.yaml`: the C functions of ROCm's libraries that a ROCm backend calls, and the types they need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from codegen.errors import Location, Problem, SpecInvalid
from codegen.spec import cache as spec_cache
from codegen.spec.c_types import rust_return, rust_type, type_names
from codegen.spec.document import ListNode, MappingNode, read_document
from codegen.spec.model import Model
from codegen.spec.validation import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codegen.spec.document import Document, Node

HIP_API = "specs/hip_api.yaml"
CURRENT_RELEASE = "7.2"
"""The newest ROCm release that the table describes, and the one that the emulator stands in for."""

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@cache  # every entry is asked about the same few releases
def release_order(release: str) -> tuple[int, ...]:
    """Sorts ROCm releases: `5.7` before `6.4` before `10.0`."""
    return tuple(int(part) for part in release.split("."))


def _release(value: str) -> str:
    if not re.fullmatch(r"[0-9]+\.[0-9]+", value):
        raise ValueError(f"'{value}' is not a ROCm release such as 6.4")
    return value


def _c_type(value: str) -> str:
    rust_type(value)
    return value


def _returned_type(value: str) -> str:
    rust_return(value)
    return value


def _identifiers(value: dict[str, Any]) -> dict[str, Any]:
    for name in value:
        if not _IDENTIFIER.fullmatch(name):
            raise ValueError(f"'{name}' is not a name in C")
    return value


def _parameter_names(value: dict[str, Any]) -> dict[str, Any]:
    for name in value:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            raise ValueError(f"'{name}' is not the name of a parameter in Rust (lower case, digits, '_')")
    return value


def _as_value(value: Any) -> Any:
    return {"value": value} if isinstance(value, int) else value


RocmRelease = Annotated[str, AfterValidator(_release)]
CType = Annotated[str, AfterValidator(_c_type)]
Name = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]


class RocmRange(Model):
    """ROCm releases for which an entry holds; both ends inclusive, both optional."""

    since: RocmRelease | None = None
    until: RocmRelease | None = None

    def holds_in(self, release: str) -> bool:
        """Whether the entry describes this release."""
        at = release_order(release)
        return (self.since is None or release_order(self.since) <= at) and (
            self.until is None or at <= release_order(self.until)
        )

    def overlaps(self, other: RocmRange) -> bool:
        """Whether a release exists for which both hold."""
        return all(
            later.since is None or earlier.until is None or release_order(later.since) <= release_order(earlier.until)
            for later, earlier in ((self, other), (other, self))
        )


class Library(Model):
    """A shared library."""

    name: Name
    """As given to the linker: `amdhip64`."""
    prefix: Name
    """What its names begin with; the longest prefix that fits decides."""
    header: str
    """The header that declares its functions."""
    status: Name
    """What its functions return unless they say otherwise."""
    absent: Name | None = None
    """The value of `status` that stands for a library which is not there."""
    files: tuple[str, ...] = ()
    """File names under which a program finds it when it runs, newest release first."""
    feature: str | None = None
    """The Cargo feature, besides `rocm`, with which Candle uses it."""
    inside: dict[RocmRelease, Name] = Field(default_factory=dict)
    """Releases in which another library holds its functions, and that library."""
    unchecked: dict[RocmRelease, Annotated[str, Field(min_length=10)]] = Field(default_factory=dict)
    """Releases whose headers and library nobody here could read, with the reason."""


class HipFunction(RocmRange):
    """A function of one of the libraries, in one of its forms."""

    name: Name
    phases: tuple[int, ...]
    """Phases whose code calls it; none if only plain HIP programs do."""
    params: Annotated[dict[str, CType], AfterValidator(_parameter_names)]
    """C type by name, in order."""
    returns: Annotated[str, AfterValidator(_returned_type)] | None = None
    """C type; by default the library's status."""


class EnumValue(RocmRange):
    """The value of an enumerator or a macro."""

    value: int


Values = Annotated[dict[str, Annotated[EnumValue, BeforeValidator(_as_value)]], AfterValidator(_identifiers)]


class HipEnum(RocmRange):
    """An enumeration, represented as `unsigned int`."""

    name: Name
    values: Values


class Constants(Model):
    """Macros for one purpose."""

    about: Annotated[str, Field(min_length=5)]
    library: Name
    c: CType
    values: Values


class HipField(Model):
    """A member of a struct."""

    name: Name
    c: CType
    offset: Annotated[int, Field(ge=0)]
    """In bytes."""


class HipStruct(RocmRange):
    """A struct that functions take or fill, described by one of `fields`, `bits` and `align`."""

    name: Name
    library: Name | None = None
    """For a name without the library's prefix."""
    size: Annotated[int, Field(ge=1)]
    """In bytes."""
    fields: tuple[HipField, ...] = ()
    bits: tuple[Name, ...] = ()
    """Names of single bits, from the lowest of an `unsigned int` upwards."""
    align: int | None = None
    """In bytes, for a struct whose members are private."""

    @model_validator(mode="after")
    def _described_once(self) -> HipStruct:
        if sum(map(bool, (self.fields, self.bits, self.align))) != 1:
            raise ValueError("a struct is described by one of fields, bits and align")
        return self


class TypeName(RocmRange):
    """A `typedef`."""

    name: Name
    library: Name | None = None
    """For a name without the library's prefix."""
    c: CType


Entry: TypeAlias = HipFunction | HipEnum | HipStruct | TypeName
E = TypeVar("E", HipFunction, HipEnum, HipStruct, TypeName)
"""What has a name and a range."""


class HipApi(Model):
    """The whole table."""

    libraries: Annotated[tuple[Library, ...], Field(min_length=1)]
    functions: tuple[HipFunction, ...]
    enums: tuple[HipEnum, ...] = ()
    constants: tuple[Constants, ...] = ()
    structs: tuple[HipStruct, ...] = ()
    types: tuple[TypeName, ...] = ()

    @property
    def sections(self) -> Mapping[str, Sequence[Entry]]:
        """The entries by the key that they stand under."""
        return {"functions": self.functions, "enums": self.enums, "structs": self.structs, "types": self.types}

    @cached_property
    def leads_to(self) -> Mapping[str, frozenset[str]]:
        """The types that each name of the newest ROCm release needs: of functions, types and values."""
        found: dict[str, frozenset[str]] = {}
        for entries in self.sections.values():
            found |= {entry.name: names_used(self, entry) for entry in entries if entry.holds_in(CURRENT_RELEASE)}
        found |= {value: frozenset({enum.name}) for enum in self.enums for value in enum.values}
        return found | {value: type_names(group.c) for group in self.constants for value in group.values}

    @cached_property
    def owners(self) -> Mapping[str, Library | None]:
        """`library_of` every entry, by the entry's name."""
        return {entry.name: self.library_of(entry) for entries in self.sections.values() for entry in entries}

    def library_of(self, entry: Entry) -> Library | None:
        """The library whose header declares an entry; None if its name has no library's prefix."""
        if isinstance(entry, (HipStruct, TypeName)) and entry.library is not None:
            return next((library for library in self.libraries if library.name == entry.library), None)
        return self.library_named(entry.name)

    def library_named(self, name: str) -> Library | None:
        """The library whose prefix a name has."""
        found = [library for library in self.libraries if name.startswith(library.prefix)]
        return max(found, key=lambda library: len(library.prefix), default=None)

    def returns(self, function: HipFunction) -> str | None:
        """The C type of what a function returns; None for one that belongs to no library."""
        library = self.library_of(function)
        return function.returns or (library.status if library else None)

    def functions_of(self, library: Library, release: str) -> tuple[HipFunction, ...]:
        """The functions that a library has in a release."""
        return self.declared_by(library, self.functions, release)

    def declared_by(self, library: Library, entries: Iterable[E], release: str) -> tuple[E, ...]:
        """Those of `entries` that a library's header declares in a release."""
        return tuple(entry for entry in entries if self.owners[entry.name] is library and entry.holds_in(release))


@dataclass(frozen=True, slots=True)
class HipApiFile:
    """The table and the places of its entries in the file."""

    api: HipApi
    document: Document

    def place(self, *path: str | int) -> Location:
        """Where an entry stands: `("functions", 3)`, `("enums", 0, "values", "hipSuccess")`."""
        node: Node = self.document.mapping
        mark = node.mark
        for step in path:
            if isinstance(node, MappingNode) and isinstance(step, str):
                entry = node.entry(step)
                if entry is None:
                    break
                node, mark = entry.value, entry.mark
            elif isinstance(node, ListNode) and isinstance(step, int):
                node = node.items[step]
                mark = node.mark
        return Location.in_text(self.document.file, self.document.text, mark.line, mark.column)


def parse_hip_api(content: bytes, *, file: str = HIP_API) -> HipApiFile:
    """The table in `content`. Raises SpecInvalid with every finding and its position."""
    document = read_document(file, content)
    api, problems = validate(document, HipApi)
    findings = (*document.problems, *problems)
    if not findings and api is not None:
        table = HipApiFile(api, document)
        findings = tuple(_inconsistencies(table))
        if not findings:
            return table
    raise SpecInvalid(findings, remedy="The top of specs/hip_api.yaml explains the keys.")


def load_hip_api(content: bytes, *, cache: Path) -> HipApi:
    """The table in `content`, from the `cache` folder if it has been read before. Raises SpecInvalid."""
    key = spec_cache.fingerprint([(HIP_API, content)], ())
    api = spec_cache.recall_hip_api(cache, key)
    if api is None:
        api = parse_hip_api(content).api
        spec_cache.remember_hip_api(cache, key, api)
    return api


def _inconsistencies(table: HipApiFile) -> Iterator[Problem]:
    """What no single entry shows."""
    api = table.api
    known = {entry.name for section in ("enums", "structs", "types") for entry in api.sections[section]}
    statuses = {(enum.name, value) for enum in api.enums for value in enum.values}
    for index, library in enumerate(api.libraries):
        if library.absent is not None and (library.status, library.absent) not in statuses:
            place = table.place("libraries", index, "absent")
            yield Problem(f"{library.absent} is no value of {library.status}", place)
    for section, entries in api.sections.items():
        for index, entry in enumerate(entries):
            here = partial(table.place, section, index)
            before = entries[index - 1] if index else None
            if before and before.name > entry.name:
                yield Problem(f"{section} stand in alphabetical order: {entry.name} after {before.name}", here())
            if before and before.name == entry.name and before.overlaps(entry):
                yield Problem(f"{entry.name} is listed twice for the same release", here())
            if api.library_of(entry) is None:
                prefixes = ", ".join(library.prefix for library in api.libraries)
                yield Problem(f"{entry.name} begins with no library's prefix ({prefixes})", here())
            for name in sorted(names_used(api, entry) - known):
                yield Problem(f"{entry.name} uses the type {name}, which the table does not define", here())


def names_used(api: HipApi, entry: Entry) -> frozenset[str]:
    """Names of the types that an entry mentions."""
    match entry:
        case HipFunction(params=params):
            used = [*params.values(), *filter(None, [api.returns(entry)])]
        case HipStruct(fields=fields):
            used = [field.c for field in fields]
        case TypeName(c=c):
            used = [c]
        case _:
            used = []
    return frozenset[str]().union(*(type_names(c) for c in used))
