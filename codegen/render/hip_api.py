"""What is C in the generated backend: the names that its Rust files use, and where each of them comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from codegen.errors import Location, Problem, SpecInvalid, TemplateInvalid
from codegen.render.c_library import CLibrary, ForeignFunction
from codegen.render.imports import use_declarations
from codegen.spec.hip_api import CURRENT_RELEASE
from codegen.spec.kinds import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codegen.spec.hip_api import HipApi, Library

BINDINGS = "rocm_rs::hip::bindings"
BOUND_BY_ROCM_RS = "amdhip64"
"""The library whose declarations rocm-rs makes public; those of the others are its own secret."""

_USE = re.compile(r"\bapi::(?:(?P<name>[A-Za-z_]\w*)|\{(?P<names>[^{}]*)\})")


@dataclass(frozen=True, slots=True)
class HipCalls:
    """What the stand-ins of a build without ROCm are rendered from."""

    functions: tuple[ForeignFunction, ...]
    libraries: tuple[Library, ...]
    """All that the build script looks for."""

    @classmethod
    def of(cls, api: HipApi) -> HipCalls:
        """The functions of the HIP runtime that any phase calls, in the form of the current ROCm release."""
        hip = next(library for library in api.libraries if library.name == BOUND_BY_ROCM_RS)
        called = (function for function in api.functions_of(hip, CURRENT_RELEASE) if function.phases)
        return cls(tuple(ForeignFunction.of(api, function) for function in called), api.libraries)

    @property
    def uses(self) -> tuple[str, ...]:
        """`use` declarations for the types of all signatures, the bindings' module and `CStr`."""
        names = {name for function in self.functions for name in function.type_names}
        paths = {f"std::ffi::{n}" if n.startswith("c_") else f"{BINDINGS}::{n}" for n in names}
        return use_declarations(paths | {f"{BINDINGS}::self", "std::ffi::CStr"})


@dataclass(frozen=True, slots=True)
class BoundLibrary:
    """What the backend uses of a library."""

    c: CLibrary
    absent: str
    """The status that stands for a library which is not there."""
    files: str
    """File names under which a program on Linux finds it, newest release first, as Rust lists them."""
    windows_files: str
    feature: str | None
    """The Cargo feature that it needs besides `rocm`."""
    uses: tuple[str, ...]
    """`use` declarations for our own declarations."""
    reexports: tuple[str, ...]
    """`pub use` declarations instead of our own declarations, where rocm-rs has them."""

    @property
    def statuses(self) -> tuple[ForeignFunction, ...]:
        """The functions that answer with a status."""
        return tuple(function for function in self.c.functions if function.returns == self.c.status)

    @property
    def texts(self) -> tuple[ForeignFunction, ...]:
        """The functions that explain a status."""
        return tuple(f for f in self.c.functions if f not in self.statuses and not f.name.endswith("Name"))

    @property
    def names(self) -> tuple[ForeignFunction, ...]:
        """The functions that name a status."""
        return tuple(f for f in self.c.functions if f not in self.statuses and f.name.endswith("Name"))


def used_names(texts: Iterable[str]) -> frozenset[str]:
    """The names that Rust texts take from `api`: those in `api::NAME` and in `use super::api::{NAME, NAME}`."""
    return frozenset[str]().union(*map(_names_in, texts))


@cache  # the same texts are asked about once for each file that declares something
def _names_in(text: str) -> frozenset[str]:
    found: set[str] = set()
    for match in _USE.finditer(text):
        found |= {match["name"]} if match["name"] else set(re.findall(r"\w+", match["names"]))
    return frozenset(found - {"self"})


def refuse_unknown_names(api: HipApi, files: Mapping[str, str]) -> None:
    """Raise `TemplateInvalid` if one of the files, by path, uses a C name that the table does not have."""
    known = {entry.name for entries in api.sections.values() for entry in entries}
    known |= {name for enum in api.enums for name in enum.values}
    known |= {name for group in api.constants for name in group.values}
    problems = []
    for path, text in files.items():
        for name in sorted(used_names([text]) - known):
            found = re.search(rf"\b{name}\b", text)
            line = text.count("\n", 0, found.start() if found else 0) + 1
            problems.append(Problem(f"specs/hip_api.yaml has no {name}", Location.in_text(path, text, line)))
    if problems:
        raise TemplateInvalid(problems, remedy="Correct the template, or add the name to specs/hip_api.yaml.")


def bound_libraries(
    api: HipApi, wanted: Sequence[str], names: frozenset[str], runtime: Runtime
) -> tuple[BoundLibrary, ...]:
    """What the backend uses of the libraries `wanted`, in that order, when it uses these C names.

    Raises `SpecInvalid` for a library that the table does not have.
    """
    by_name = {library.name: library for library in api.libraries}
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise SpecInvalid(
            f"a file declares {unknown[0]}, which is no library of specs/hip_api.yaml",
            remedy=f"choose among {', '.join(by_name)} in specs/phases",
        )
    return tuple(_bound(api, by_name[name], names, runtime) for name in wanted)


def _bound(api: HipApi, library: Library, names: frozenset[str], runtime: Runtime) -> BoundLibrary:
    assert library.absent is not None, f"{library.name} has no status for a library that is missing"
    ours = runtime is Runtime.DYNAMIC or library.name != BOUND_BY_ROCM_RS
    declared = CLibrary.of(api, library, names=names | {library.absent} if ours else names)
    return BoundLibrary(
        c=declared,
        absent=library.absent,
        files=_listed(file for file in library.files if not file.endswith(".dll")),
        windows_files=_listed(file for file in library.files if file.endswith(".dll")),
        feature=library.feature,
        uses=_uses(api, declared) if ours else (),
        reexports=() if ours else _reexports(api, library, names),
    )


def _listed(files: Iterable[str]) -> str:
    return ", ".join(f'"{file}"' for file in files)


def _uses(api: HipApi, declared: CLibrary) -> tuple[str, ...]:
    foreign = declared.foreign_names(api)
    paths = {f"super::{name}" if owner is not None else f"std::ffi::{name}" for name, owner in foreign}
    return use_declarations({*paths, "super::functions::functions"})


def _reexports(api: HipApi, library: Library, names: frozenset[str]) -> tuple[str, ...]:
    """Names that are used, and types that other libraries' functions take; bindgen prefixes enumerators."""
    enumerators = {value: f"{enum.name}_{value} as {value}" for enum in api.enums for value in enum.values}
    others = (CLibrary.of(api, other, names=names) for other in api.libraries if other != library)
    taken = {name for other in others for name, owner in other.foreign_names(api) if owner == library}
    own = {name for name in names if api.library_named(name) == library} | taken
    return use_declarations({f"{BINDINGS}::{enumerators.get(name, name)}" for name in own}, visibility="pub ")
