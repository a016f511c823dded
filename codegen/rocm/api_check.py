"""Holds `specs/hip_api.yaml` against the headers and the shared libraries of real ROCm releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Problem
from codegen.rocm.api_claims import PREAMBLE, absences, claims_about
from codegen.rocm.headers import check_claims
from codegen.rocm.symbols import exported_functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codegen.spec.hip_api import HipApiFile, Library


@dataclass(frozen=True, slots=True)
class RocmFiles:
    """Where the headers and libraries of a ROCm release are."""

    include: Path
    """Holds `hip/`, `rocblas/` and so on."""
    libraries: tuple[Path, ...] = ()
    """Shared libraries, or Debian packages with them."""


@dataclass(frozen=True, slots=True)
class ApiCheck:
    """The outcome of a check."""

    problems: tuple[Problem, ...]
    """What the table says and ROCm does not."""
    claims: Mapping[str, int]
    """How many statements were held against the headers, by release."""
    exported: Mapping[tuple[str, str], frozenset[str]]
    """Names of the functions that a library exports, by release and library, where the library was there."""
    unchecked: tuple[str, ...]
    """What could not be checked: `MIOpen of ROCm 5.7: Debian packages ...`."""


def check_hip_api(table: HipApiFile, roots: Mapping[str, RocmFiles]) -> ApiCheck:
    """Checks every entry against each release of `roots` (`{"7.2": ...}`).

    Headers: signatures, enumerators, macros, sizes, offsets and types agree; what the table excludes from a release is
    not in its headers. Libraries: every function is exported. A library that is not among the files is `unchecked`.
    Raises `ToolchainMissing` without g++, readelf or dpkg-deb, and `InputOutputError` for unreadable files.
    """
    problems: list[Problem] = []
    unchecked: list[str] = []
    counts: dict[str, int] = {}
    exported: dict[tuple[str, str], frozenset[str]] = {}
    for release, files in roots.items():
        readable = [library for library in table.api.libraries if release not in library.unchecked]
        unchecked += (
            f"{library.name} of ROCm {release}: {library.unchecked[release]}"
            for library in table.api.libraries
            if release in library.unchecked
        )
        claims = [claim for library in readable for claim in claims_about(table, library, release)]
        undeclared = [claim for library in readable for claim in absences(table, library, release)]
        counts[release] = len(claims) + len(undeclared)
        problems += check_claims(
            claims,
            undeclared,
            include=files.include,
            headers=[library.header for library in readable],
            preamble=PREAMBLE,
            whose=f"ROCm {release}",
        )
        for library in readable:
            name = library.inside.get(release, library.name)
            names = exported.get((release, name)) or _exported(files, name)
            if names is None:
                unchecked.append(f"symbols of {library.name} of ROCm {release}: lib{name}.so is not there")
            else:
                exported[release, name] = names
                problems += _not_exported(table, library, release, names)
    return ApiCheck(tuple(problems), counts, exported, tuple(unchecked))


def _exported(files: RocmFiles, library: str) -> frozenset[str] | None:
    """What a library exports; None if it is not among the files."""
    for file in files.libraries:
        # Debian names the package for the library; the others need not be opened.
        if file.name.lower().startswith(f"lib{library.lower()}"):
            names = exported_functions(file, library)
            if names is not None:
                return names
    return None


def _not_exported(table: HipApiFile, library: Library, release: str, names: frozenset[str]) -> Iterator[Problem]:
    for index, function in enumerate(table.api.functions):
        if function.holds_in(release) and table.api.library_of(function) == library and function.name not in names:
            message = f"{function.name} is not among the functions that lib{library.name} of ROCm {release} exports"
            yield Problem(message, table.place("functions", index))


def unsupported_functions(table: HipApiFile, library: Library, check: ApiCheck, *, release: str) -> tuple[str, ...]:
    """Functions that a library exports in any of the checked releases and that the table does not have in `release`.

    Sorted. A program may link them although no backend of Candle calls them.
    """
    exported: set[str] = set()
    for (_, name), names in check.exported.items():
        exported |= names if name == library.name else set()
    known = {function.name for function in table.api.functions_of(library, release)}
    own = {name for name in exported - known if table.api.library_named(name.lstrip("_")) == library}
    return tuple(sorted(own))
