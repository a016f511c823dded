"""`specs/unrun_tests.yaml`: which tests may be ignored or skipped, on what, and why."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from codegen.errors import InputOutputError
from codegen.paths import repository_root
from codegen.spec.model import Model, Reason
from codegen.spec.validation import parsed

if TYPE_CHECKING:
    from pathlib import Path

UNRUN = "specs/unrun_tests.yaml"

Where = Literal["emulator", "amd", "model", "nvidia", "none"]


class Ignored(Model):
    """A test with `#[ignore]`."""

    crate: str
    test: str
    reason: Reason


class Skipped(Model):
    """Tests that return early, and say why."""

    says: str
    test: str
    on: Annotated[tuple[Where, ...], Field(min_length=1)]
    reason: Reason


class LeftOut(Model):
    """Tests that are not run on a device."""

    test: str
    on: Annotated[tuple[Where, ...], Field(min_length=1)]
    reason: Reason


class UnrunTests(Model):
    """The whole file."""

    ignored: tuple[Ignored, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def may_ignore(self, crate: str, test: str) -> bool:
        """Whether a test of a crate may carry `#[ignore]`."""
        return any(each.crate == crate and fnmatchcase(test, each.test) for each in self.ignored)

    def may_skip(self, test: str, says: str, where: Where) -> bool:
        """Whether a test may return early there for the reason that it gives."""
        return any(
            where in each.on and fnmatchcase(says, each.says) and fnmatchcase(test, each.test) for each in self.skipped
        )

    def why_left_out(self, test: str, where: Where) -> str | None:
        """Why a test is not run there; None where it is."""
        return next((each.reason for each in self.left_out if where in each.on and fnmatchcase(test, each.test)), None)


def parse_unrun(content: bytes) -> UnrunTests:
    """The lists in `content`. Raises SpecInvalid with every finding and its place."""
    return parsed(UNRUN, content, UnrunTests, remedy=f"The head of {UNRUN} says what the keys mean.")


def load_unrun(root: Path | None = None) -> UnrunTests:
    """The lists of a repository. Raises as `parse_unrun`, and InputOutputError where there is no such file."""
    try:
        return parse_unrun(((root or repository_root()) / UNRUN).read_bytes())
    except OSError as error:
        raise InputOutputError(f"cannot read {UNRUN}: {error.strerror}", remedy="reinstall candle-rocm") from error
