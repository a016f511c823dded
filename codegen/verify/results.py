"""What runs of `verify` and of our own tests found: lines of JSON beside their build output, one for each finding.

They are the raw material of docs/acceptance-record.json (`codegen.verify.record`); nothing else reads them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from codegen import __version__
from codegen.errors import InputOutputError
from codegen.paths import repository_root
from codegen.spec.model import Model
from codegen.verify.judge import Verdict  # noqa: TC001 - pydantic looks it up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from codegen.plan.model import Plan
    from codegen.verify.judge import StepResult
    from codegen.verify.target import Device

OF_VERIFY = "results.jsonl"
"""In the work folder of `verify`."""
OF_PYTEST = "pytest-results.jsonl"
"""In build/ of the repository."""

Moment = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
"""In UTC; later ones sort behind earlier ones."""


class StepRun(Model):
    """What one run of `verify` says of one step."""

    step: str
    release: str
    gating: str
    runtime: str
    packages: tuple[str, ...] = ()
    """The crates that the run was narrowed to."""
    programs: tuple[str, ...] = ()
    """The test programs that it was narrowed to."""
    device: str | None = None
    """The device that was chosen for the step; what it really ran on is in `ran_on`."""
    phase: int
    """The last phase that was in the tree."""
    at: Moment
    tool: str
    verdict: Verdict
    ran_on: str | None = None
    """What the loaded libraries said that they are."""
    detail: str = ""
    seconds: float | None = None
    """How long it took; runs of old do not say."""

    @property
    def day(self) -> str:
        """`2026-11-24`."""
        return self.at[:10]

    @property
    def narrowed(self) -> tuple[str, ...]:
        """The options that left a part of the step out."""
        return (*(f"-p {name}" for name in self.packages), *(f"--test {name}" for name in self.programs))


class FileRun(Model):
    """What one run of pytest says of one file with tests, all of which were to run."""

    file: str
    at: Moment
    passed: int
    failed: int
    skipped: int
    ran_on: tuple[str, ...] = ()
    """What the loaded libraries said that they are, `emulator (gfx90a)`, in the tests that passed."""

    @property
    def day(self) -> str:
        """`2026-11-24`."""
        return self.at[:10]


class FoundByVerify(Model):
    """A line of `results.jsonl`."""

    kind: Literal["step"] = "step"
    root: str
    """The folder with the specs and templates: a copy's results are not the repository's."""
    candle: str
    """CANDLE as it was given; of a folder nobody knows whether it is as it was released."""
    found: StepRun


class FoundByPytest(Model):
    """A line of `pytest-results.jsonl`."""

    kind: Literal["file"] = "file"
    root: str
    found: FileRun


Found = FoundByVerify | FoundByPytest
_LINE: TypeAdapter[Found] = TypeAdapter(Annotated[Found, Field(discriminator="kind")])


def now() -> str:
    """The moment, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def found_by_verify(
    results: Iterable[StepResult],
    *,
    candle: str,
    plan: Plan,
    phase: int,
    packages: Sequence[str],
    programs: Sequence[str],
    device: Device,
) -> list[FoundByVerify]:
    """A line for each step."""
    at, root = now(), str(repository_root())
    return [
        FoundByVerify(
            root=root,
            candle=candle,
            found=StepRun(
                step=result.step.id,
                release=plan.release,
                gating=plan.gating,
                runtime=plan.runtime,
                packages=tuple(sorted(packages)),
                programs=tuple(sorted(programs)),
                device=device.label if result.step.device else None,
                phase=phase,
                at=result.earlier.at if result.earlier is not None else at,
                tool=__version__,
                verdict=result.verdict,
                ran_on=result.ran_on,
                detail=result.detail,
                seconds=round(result.seconds, 1),
            ),
        )
        for result in results
    ]


def last_seconds(file: Path, plan: Plan, device: Device) -> dict[str, float]:
    """How long each step of this release took in its last whole run here, by its id; nothing where nobody knows."""
    about = (plan.release, plan.gating, plan.runtime)
    try:
        found = [each.found for each in read(file) if isinstance(each, FoundByVerify)]
    except (OSError, InputOutputError):
        return {}
    return {
        run.step: run.seconds
        for run in found
        if run.seconds and not run.narrowed
        if (run.release, run.gating, run.runtime) == about and run.device in (None, device.label)
    }


def append(file: Path, found: Iterable[Found]) -> str | None:
    """Add lines to a file; why that was not possible, in words: a run is not worse for being forgotten."""
    text = "".join(f"{line.model_dump_json()}\n" for line in found)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        return f"cannot write {file}: {error.strerror}; `make acceptance` will not know of this run"
    return None


def read(file: Path) -> list[Found]:
    """The lines of a file. Raises InputOutputError, naming the line, for one that is none of ours."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(_LINE.validate_json(line))
        except ValidationError as error:
            raise InputOutputError(
                f"{file}:{number} is no result of a run: {line[:120]}", remedy="take the line out, and run it again"
            ) from error
    return found
