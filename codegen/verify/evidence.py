"""Judges the tests of a step by what was seen of them: silence, absence and an empty list are failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codegen.verify.expected_failures import judge_waiting, summary
from codegen.verify.target import Share
from codegen.verify.testrun import Outcome, TestTally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from codegen.verify.device_use import DeviceUse
    from codegen.verify.expected_failures import WaitingTest
    from codegen.verify.target import Device
    from codegen.verify.testrun import TestRun
    from codegen.verify.unrun import UnrunTests, Where

SHOWN = 5
DEVICE_ABSENT = "no ROCm device"
"""What generated tests say that they were skipped for where no device answers."""


@dataclass(frozen=True, slots=True)
class ExpectedNames:
    """The tests that have to run, as the sources have them."""

    targets: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By test program, as `str` of a TestBinary names it."""
    faults: tuple[str, ...] = ()
    """Tests that the patch lost, and what makes tests in a way that is not understood."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What the tests of a step are held to."""

    unrun: UnrunTests
    waiting: tuple[WaitingTest, ...] = ()
    """Tests that have to fail, because a phase is missing."""
    expected: ExpectedNames | None = None
    """The tests that have to run; None where nobody knows."""
    where: Where = "none"
    """The device, `none` for a step without one."""


@dataclass(frozen=True, slots=True)
class TestJudgement:
    """What the tests of a step show."""

    __test__ = False

    passed: bool
    detail: str
    waiting: tuple[WaitingTest, ...]
    complaints: tuple[str, ...]
    """Everything that is wrong, most telling first."""


def judge_tests(runs: Sequence[TestRun], demands: Demands) -> TestJudgement:
    """Whether every test that had to run did, and ended as it should, on the device that was asked for."""
    waiting, unmet = _judge_waiting(runs, demands.waiting)
    expected_failures = {test.name for test in demands.waiting}
    tally = TestTally.of(runs)
    complaints = tuple(
        dict.fromkeys(
            (
                *(doubt for run in runs for doubt in _titled(run, run.doubts)),
                *_failures(runs, expected_failures),
                *unmet,
                *_unrun(runs, demands),
                *_missing(runs, demands.expected),
                *(lack for run in runs for lack in _titled(run, _device_lacks(run, demands.where))),
                *_nothing(tally, runs),
            )
        )
    )
    counted = TestTally(tally.passed, tally.failed - len(waiting), tally.ignored, tally.skipped)
    detail = ", ".join(filter(None, [str(counted), _left_out(runs), summary(waiting)]))
    if complaints:
        more = ", ..." if len(complaints) > SHOWN else ""
        detail = f"{detail}: {', '.join(complaints[:SHOWN])}{more}"
    return TestJudgement(not complaints, detail, waiting, complaints)


def observed(uses: Iterable[DeviceUse | None], device: Device) -> str | None:
    """What programs ran on, as the libraries themselves say: `emulator (gfx1100 and gfx90a)`.

    Where the libraries would say it and did not, nobody knows; AMD's keep no record, and go by the driver's word.
    """
    said = [use for use in uses if use is not None and use.libraries]
    if not said:
        return None if device.keeps_record else device.label
    first = dict.fromkeys(devices[0] for use in said for devices in sorted(use.devices) if devices)
    library = " and ".join(sorted({name for use in said for name in use.libraries}))
    if device.kind in ("nvidia", "model") and library == device.kind:
        return device.label
    return f"{library} ({' and '.join(first)})" if first else library


def _left_out(runs: Iterable[TestRun]) -> str:
    """How many tests were not run on the device, and for which reasons."""
    reasons = {(run.binary, name): why for run in runs for name, why in run.left_out.items()}
    return f"{len(reasons)} left out ({'; '.join(sorted(set(reasons.values())))})" if reasons else ""


def _titled(run: TestRun, complaints: Iterable[str]) -> Iterator[str]:
    title = run.where.title if run.where is not None else ""
    return (f"{complaint} [{title}]" if title else complaint for complaint in complaints)


def _judge_waiting(
    runs: Sequence[TestRun], expected: Sequence[WaitingTest]
) -> tuple[tuple[WaitingTest, ...], tuple[str, ...]]:
    """Every test that waits has to fail for want of its phase, on each device where it runs, and on one at least."""
    complaints: list[str] = []
    failed: dict[WaitingTest, None] = {}
    for title in dict.fromkeys(_title(run) for run in runs):
        here = [run for run in runs if _title(run) == title]
        selected = {name for run in here for name in run.selected}
        outputs = {name: text for run in here for name, text in run.outputs.items()}
        judged = judge_waiting((test for test in expected if test.name in selected), outputs)
        failed |= dict.fromkeys(judged.waiting)
        complaints += judged.complaints
    ran = {name for run in runs for name in run.selected}
    complaints += (f"{test.name} did not run: correct {test.rule}" for test in expected if test.name not in ran)
    return tuple(test for test in expected if test in failed), tuple(complaints)


def _title(run: TestRun) -> str:
    return run.where.title if run.where is not None else ""


def _failures(runs: Iterable[TestRun], expected: Collection[str]) -> Iterator[str]:
    for run in runs:
        yield from _titled(run, (name for name in run.named(Outcome.FAILED) if name not in expected))


def _unrun(runs: Sequence[TestRun], demands: Demands) -> Iterator[str]:
    """Tests that were ignored, or returned early wherever they ran, without leave."""
    ran = {(run.binary, name) for run in runs for name in run.passed}
    for run in runs:
        for name in run.named(Outcome.IGNORED):
            if not demands.unrun.may_ignore(run.binary.crate, name):
                yield f"{run.binary}: {name} is ignored"
        for name, says in run.skipped.items():
            if (run.binary, name) not in ran and not demands.unrun.may_skip(name, says, demands.where):
                yield f"{run.binary}: {name} was skipped: {says}"


def _missing(runs: Iterable[TestRun], expected: ExpectedNames | None) -> Iterator[str]:
    if expected is None:
        return
    yield from expected.faults
    known: dict[str, set[str]] = {}
    for run in runs:
        known.setdefault(str(run.binary), set()).update(run.outcomes, run.left_out)
    for target, names in expected.targets.items():
        if names and target not in known:
            yield f"{target} was not built, with {len(names)} tests"
            continue
        lost = sorted(set(names) - known.get(target, set()))
        if lost:
            more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
            yield f"{target} did not run {', '.join(lost[:SHOWN])}{more}"


def _device_lacks(run: TestRun, where: Where) -> Iterator[str]:
    """What the device's own record holds against a run; an AMD GPU's library keeps none."""
    use, asked = run.device, run.where
    if use is None or asked is None or not run.selected:
        return
    if use.libraries - {where}:
        yield f"{run.binary} ran on {', '.join(sorted(use.libraries))} instead of {where}"
    if asked.devices is not None and use.devices - {asked.devices}:
        seen = "; ".join(", ".join(devices) or "no device" for devices in sorted(use.devices))
        yield f"{run.binary} saw {seen} instead of {', '.join(asked.devices)}"
    if use.unended and not run.doubts:
        yield f"{run.binary}: {use.unended} of its processes did not end by themselves"
    if use.idle and asked.share is not Share.WITHOUT_A_DEVICE and _is_about_the_device(run):
        yield f"{run.binary} launched and copied nothing on the device"


def _is_about_the_device(run: TestRun) -> bool:
    """Whether something of it has to reach the device: a file of ours, or a test that `test_device!` makes for ROCm."""
    return run.binary.target.startswith("rocm_") or any(name.endswith("::rocm") for name in run.selected)


def _nothing(tally: TestTally, runs: Sequence[TestRun]) -> Iterator[str]:
    absent = [line for line in tally.skipped if line.endswith(f": {DEVICE_ABSENT}")]
    if not runs:
        yield "cargo built no test"
    elif tally.passed == 0:
        yield "no test ran" if not absent else f"no test ran: {DEVICE_ABSENT}"
