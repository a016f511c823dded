"""Asks g++ whether statements about C headers are true.

A claim is a declaration that compiles only if a header says the same. All claims about a set of headers go through the
compiler at once (about a second for a thousand), and each of its errors belongs to one claim: `#line` says which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import InputOutputError, Problem, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from codegen.errors import Location

COMPILER = "g++"
"""Not any C++ compiler: clang's constant expressions cannot look into bit-fields."""
DEFINES = ("__HIP_PLATFORM_AMD__=1", "__HIP_DISABLE_CPP_FUNCTIONS__=1")
"""HIP's headers want a platform, and add C++ overloads to functions of C unless told not to."""

_CLAIMS = "claims"
"""The file name that errors about claims carry."""
_ERROR = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+):\d+: (fatal )?error: (?P<message>.*)")
_UNDECLARED = re.compile(r"not declared|does not name a type")
_VALUE = re.compile(r"value<.*?(?P<found>-?\d+)[a-z]*>' to .*value<.*?(?P<claimed>-?\d+)[a-z]*>'")
_TYPE = re.compile(r"from 'type<(?P<found>.+?)>'( {aka '[^']*'})? to non-scalar")
_FUNCTION = re.compile(r"invalid conversion from '(?P<found>[^']+)'")


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement about a header."""

    cpp: str
    """Compiles only if the statement is true. Declarations on the last line, directives before; `CLAIM` stands for a
    name of its own."""
    place: Location
    """Where the statement is made."""
    says: str
    """The statement for readers: `hipSuccess is 0`."""


def check_claims(
    claims: Sequence[Claim],
    undeclared: Sequence[Claim] = (),
    *,
    include: Path,
    headers: Iterable[str],
    preamble: str,
    whose: str,
) -> tuple[Problem, ...]:
    """A problem for each claim that the headers below `include` contradict; `whose` names them, such as `ROCm 6.4`.

    The claims in `undeclared` say that a name does not exist: they are true if the compiler does not know it.
    `preamble` is C++ that the claims need. Raises `ToolchainMissing` without g++, and `InputOutputError` if
    the headers do not compile on their own.
    """
    refused: dict[int, str] = {}
    for file, line, message in _errors(_source((*claims, *undeclared), headers, preamble), include):
        if file != _CLAIMS:
            raise InputOutputError(
                f"the headers of {whose} do not compile: {file}:{line}: {message}",
                remedy="fetch the headers again",
            )
        refused.setdefault(line - 1, message)
    wrong = [(claim, _explained(refused[index])) for index, claim in enumerate(claims) if index in refused]
    for index, claim in enumerate(undeclared, len(claims)):
        message = refused.get(index, "its headers declare it")
        wrong += [] if _UNDECLARED.search(message) else [(claim, message)]
    return tuple(Problem(f"{claim.says}: not so in {whose}: {because}", claim.place) for claim, because in wrong)


def _source(claims: Sequence[Claim], headers: Iterable[str], preamble: str) -> str:
    lines = [*(f"#include <{header}>" for header in headers), preamble]
    for index, claim in enumerate(claims):
        directives, _, declarations = claim.cpp.replace("CLAIM", f"claim_{index}").rpartition("\n")
        lines += [directives, f'#line {index + 1} "{_CLAIMS}"', declarations]
    return "\n".join([*lines, ""])


def _errors(source: str, include: Path) -> list[tuple[str, int, str]]:
    """File, line and message of each error."""
    program = programs.find(COMPILER)
    if program is None:
        raise ToolchainMissing(f"{COMPILER} is not installed", remedy="install Debian's package g++")
    command = [program, "-x", "c++", "-std=c++17", "-fsyntax-only"]
    command += [*(f"-D{define}" for define in DEFINES), "-isystem", str(include.absolute()), "-"]
    done = programs.run(command, given=source)
    complaints = programs.complains(done)
    errors = [(m["file"], int(m["line"]), m["message"]) for m in _ERROR.finditer(complaints)]
    if done.returncode and not errors:
        raise InputOutputError(
            f"{program} failed: {complaints.strip() or f'exit code {done.returncode}'}",
            remedy="read its message; more memory may help",
        )
    return errors


def _explained(message: str) -> str:
    """What the header says, where the compiler's message tells."""
    if value := _VALUE.search(message):
        return f"it is {value['found']}"
    if other := _TYPE.search(message) or _FUNCTION.search(message):
        return f"it is {other['found']}"
    return message.removesuffix(" [-fpermissive]").removeprefix("static assertion failed: ")
