"""Every error that a user can cause: title, location, what to do, exit code.

Exit codes are part of the command line's contract (see README). A bug of ours is any exception that is
not in this catalogue; the entry point turns it into exit code 70.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


LISTED = 200
"""So many problems are written out in a message."""
QUOTED = 160
"""So many characters of a source line are quoted."""


@lru_cache(maxsize=4)
def _lines(text: str) -> tuple[str, ...]:
    """A text with a thousand faults is parted into lines once."""
    return tuple(text.splitlines())


class ExitCode(IntEnum):
    """What a command's exit status means."""

    OK = 0
    CHANGES_NEEDED = 1
    USAGE = 2
    SPEC_INVALID = 3
    UNKNOWN_SITE = 4
    CONFLICT = 5
    IO = 6
    TOOLCHAIN_MISSING = 7
    VERIFICATION_FAILED = 8
    BUG = 70


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A place in a text file; `line` and `column` count from 1, `column` in characters."""

    file: str
    line: int
    column: int = 1
    source_line: str | None = None
    """The line, of which a long one is cut to `QUOTED` characters around the column."""
    cut: int = 0
    """Characters in front of what is left of the line."""

    def __post_init__(self) -> None:
        line = self.source_line
        if line is None or len(line) <= QUOTED:
            return
        start = min(max(0, self.column - 1 - self.cut - QUOTED // 2), max(0, len(line) - QUOTED))
        end = start + QUOTED
        ends = ("…" if start else "", "…" if end < len(line) else "")
        quoted = ends[0] + line[start + len(ends[0]) : end - len(ends[1])] + ends[1]
        object.__setattr__(self, "source_line", quoted)
        object.__setattr__(self, "cut", self.cut + start)

    @classmethod
    def in_text(cls, file: str, text: str, line: int, column: int = 1) -> Location:
        """The location with its source line taken from `text` (empty when `line` lies past the end)."""
        lines = _lines(text)
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        return cls(file, line, column, source)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def caret(self) -> str:
        """The source line with a caret under the column, or an empty string when no source is known."""
        if self.source_line is None:
            return ""
        number = str(self.line)
        pad = "".join("\t" if c == "\t" else " " for c in self.source_line[: self.column - 1 - self.cut])
        return f"  {number} | {self.source_line}\n  {' ' * len(number)} | {pad}^"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of an error that reports several at once."""

    message: str
    location: Location | None = None

    def __str__(self) -> str:
        if self.location is None:
            return self.message
        caret = self.location.caret()
        return f"{self.location}: {self.message}" + (f"\n{caret}" if caret else "")


class CandleRocmError(Exception):
    """Base of the catalogue; never raised itself. `str()` is the whole message for the user."""

    exit_code: ClassVar[ExitCode]
    title: ClassVar[str]

    def __init__(self, problems: str | Problem | Iterable[Problem], *, remedy: str) -> None:
        if isinstance(problems, str):
            problems = [Problem(problems)]
        elif isinstance(problems, Problem):
            problems = [problems]
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        body = "\n".join(str(problem) for problem in self.problems[:LISTED])
        if len(self.problems) > LISTED:
            body += f"\nand {len(self.problems) - LISTED} more"
        return f"{self.title}: {body}\n  = help: {self.remedy}"


class UsageError(CandleRocmError):
    """The command line asks for something that makes no sense."""

    exit_code = ExitCode.USAGE
    title = "usage error"


class NotACandleTree(CandleRocmError):
    """The folder is not a Candle workspace."""

    exit_code = ExitCode.USAGE
    title = "not a Candle tree"


class UnknownRelease(CandleRocmError):
    """The registry has no such version of Candle, or has yanked it."""

    exit_code = ExitCode.USAGE
    title = "unknown Candle release"


class SpecInvalid(CandleRocmError):
    """One or more spec files are wrong; every finding is listed."""

    exit_code = ExitCode.SPEC_INVALID
    title = "invalid spec"


class TemplateInvalid(CandleRocmError):
    """A template does not parse, or uses a name that its context does not have."""

    exit_code = ExitCode.SPEC_INVALID
    title = "invalid template"


class UnknownSite(CandleRocmError):
    """A backend site that no rule handles and no spec leaves alone."""

    exit_code = ExitCode.UNKNOWN_SITE
    title = "unhandled backend site"


class UnansweredItem(UnknownSite):
    """A public item of CUDA's side that ROCm's side lacks, and that no spec gives a reason for."""

    title = "public item without a counterpart or a reason"


class RenamedVariant(UnknownSite):
    """Backend enums of a release have a variant of a name that no spec knows, where one of Candle's was."""

    title = "renamed backend variant"


class Conflict(CandleRocmError):
    """The tree is not in the state that the operation needs; nothing was written."""

    exit_code = ExitCode.CONFLICT
    title = "conflict"


class HandEdited(Conflict):
    """Files that candle-rocm wrote were changed by somebody else since."""

    title = "hand-edited files"


class PhaseOrder(Conflict):
    """A phase is applied or reverted out of order."""

    title = "phase order"


class ForeignBackend(Conflict):
    """The tree already has a ROCm backend that this tool did not write."""

    title = "ROCm backend of other origin"


class InputOutputError(CandleRocmError):
    """Reading, writing or downloading failed; the tree is as it was before."""

    exit_code = ExitCode.IO
    title = "input/output error"


class DirtyTree(InputOutputError):
    """The git tree has uncommitted changes."""

    title = "dirty git tree"


class RegistryUnreachable(InputOutputError):
    """The crate registry could not be reached, and the cache does not have what is needed."""

    title = "crate registry unreachable"


class ChecksumMismatch(InputOutputError):
    """A downloaded crate does not have the checksum that the registry's index gives."""

    title = "checksum mismatch"


class ToolchainMissing(CandleRocmError):
    """A program that the command needs is not installed."""

    exit_code = ExitCode.TOOLCHAIN_MISSING
    title = "missing toolchain"


class VerificationFailed(CandleRocmError):
    """cargo or HIP said no to the patched tree."""

    exit_code = ExitCode.VERIFICATION_FAILED
    title = "verification failed"


class KernelRejected(VerificationFailed):
    """A HIP compiler refuses a kernel, or a kernel needs more of the hardware than its spec allows."""

    title = "kernel rejected"
