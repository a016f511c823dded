"""What came of a step, judged by what cargo and the tests showed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from codegen.errors import Problem, VerificationFailed
from codegen.verify.candles_own import is_candles_own
from codegen.verify.evidence import SHOWN, judge_tests, observed
from codegen.verify.provenance import TracedDiagnostic, trace, trace_all
from codegen.verify.steps import PassCriterion, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codegen.verify.cargo import CargoRun
    from codegen.verify.device_use import DeviceUse
    from codegen.verify.diagnostics import Diagnostic
    from codegen.verify.evidence import Demands
    from codegen.verify.expected_failures import WaitingTest
    from codegen.verify.feature_examples import LeftOut
    from codegen.verify.patched_tree import Subject
    from codegen.verify.pins import Pinned
    from codegen.verify.target import Device
    from codegen.verify.testrun import TestRun

COMPLAINT_LINES = 12
FINDINGS_SHOWN = 20


class Verdict(StrEnum):
    """What came of a step."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run that was interrupted, in which a step passed."""

    at: str
    """In UTC, `2026-11-24T08:30:00Z`."""
    document: Mapping[str, Any]
    """The step as that run would have shown it in JSON."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step and what came of it."""

    step: Step
    verdict: Verdict
    detail: str
    """Warnings, tests, or why it failed or was skipped (`SKIPPED: no AMD GPU ...`)."""
    seconds: float = 0.0
    ran_on: str | None = None
    """The device's label, `ROCm (gfx1100)` for an AMD GPU; None for a step that needs no device."""
    findings: tuple[TracedDiagnostic, ...] = ()
    """The errors, new warnings or lints that made it fail, each traced to its rule."""
    complaints: tuple[str, ...] = ()
    """What its tests lack as a proof; `detail` has the first of them."""
    log: Path | None = None
    waiting: tuple[WaitingTest, ...] = ()
    """Tests that failed because a phase is missing, as the specs say they have to."""
    left_out: tuple[LeftOut, ...] = ()
    """Examples that the step did not build, because of features that they require."""
    tests: tuple[TestRun, ...] = ()
    """What its test programs did."""
    pinned: tuple[Pinned, ...] = ()
    """The dependencies that it was built with and whose versions the specs name."""
    earlier: Earlier | None = None
    """Where it passed, if that was in a run before this one."""

    @property
    def told(self) -> str:
        """The detail, and when that was seen if it was not in this run."""
        when = "" if self.earlier is None else f"at {self.earlier.at}, in a run that was interrupted: "
        return f"{when}{self.detail}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step whose command was run on the patched tree, or could not be."""

    step: Step
    run: CargoRun | None
    obstacle: str = ""
    """Why it was not run."""
    broken: bool = False
    """Whether that is a fault of the tree, and not of the machine."""
    left_out: tuple[LeftOut, ...] = ()
    tests: tuple[TestRun, ...] = ()
    use: DeviceUse | None = None
    """What the device says of a program that is no test."""
    timeout: float | None = None


def refuse_failures(results: Iterable[StepResult], logs: Path) -> None:
    """Raise VerificationFailed with every failed step and its findings, each traced to its rule; or if no step ran."""
    results = tuple(results)
    problems = []
    if not any(result.verdict is not Verdict.SKIPPED for result in results):
        problems.append(Problem("no step ran, so nothing is proven"))
    for result in results:
        if result.verdict is Verdict.FAILED:
            problems.append(Problem(f"{result.step.title}: {result.detail}"))
            problems += [Problem(complaint) for complaint in result.complaints[SHOWN : SHOWN + FINDINGS_SHOWN]]
            problems += [Problem(str(finding)) for finding in result.findings[:FINDINGS_SHOWN]]
            more = len(result.findings) - FINDINGS_SHOWN
            problems += [Problem(f"... and {more} more")] if more > 0 else []
    if problems:
        raise VerificationFailed(problems, remedy=f"the whole output is in {logs}; change the rule or template named")


def all_passed(results: Sequence[StepResult]) -> bool:
    """Whether something was proven and nothing failed."""
    verdicts = {result.verdict for result in results}
    return Verdict.PASSED in verdicts and Verdict.FAILED not in verdicts


def judged(
    attempt: Attempt, subject: Subject, device: Device, demands: Demands, baseline: CargoRun | None
) -> StepResult:
    """The result of an attempt; `baseline` is what the unpatched tree says to the same command."""
    step, run = attempt.step, attempt.run
    if run is None and attempt.broken:
        return StepResult(step, Verdict.FAILED, attempt.obstacle)
    if run is None:
        return StepResult(step, Verdict.SKIPPED, f"{Verdict.SKIPPED}: {attempt.obstacle}")
    result = _judge(attempt, run, subject, demands, baseline)
    uses = (attempt.use, *(test.device for test in attempt.tests))
    ran_on = observed(uses, device) if step.device else None
    seconds = run.seconds + sum(test.seconds for test in attempt.tests)
    return replace(
        result,
        seconds=seconds,
        log=run.log,
        ran_on=ran_on,
        left_out=attempt.left_out,
        tests=attempt.tests,
        pinned=run.pinned,
    )


def _judge(
    attempt: Attempt, run: CargoRun, subject: Subject, demands: Demands, baseline: CargoRun | None
) -> StepResult:
    step = attempt.step
    if run.timed_out:
        return StepResult(step, Verdict.FAILED, f"ended after {attempt.timeout:.0f} s")
    if not run.ok:
        return _failure(step, subject, run, baseline)
    unmade = [crate for crate in step.crates if crate not in run.built]
    if unmade:
        return StepResult(step, Verdict.FAILED, f"cargo ended with 0, but made nothing of {', '.join(unmade)}")
    if step.criterion is PassCriterion.BUILDS:
        return _judge_warnings(step, subject, run, baseline)
    if step.criterion is PassCriterion.LINT:
        return _judge_lints(step, subject, run, baseline)
    if step.criterion is PassCriterion.TESTS:
        tests = judge_tests(attempt.tests, demands)
        verdict = Verdict.PASSED if tests.passed else Verdict.FAILED
        return StepResult(step, verdict, tests.detail, waiting=tests.waiting, complaints=tests.complaints)
    if attempt.use is not None and attempt.use.idle:
        return StepResult(step, Verdict.FAILED, "exit code 0, but nothing was launched or copied on the device")
    return StepResult(step, Verdict.PASSED, "exit code 0")


def needs_baseline(attempt: Attempt, subject: Subject) -> bool:
    """Whether the answer of the unpatched tree is needed to judge it."""
    run = attempt.run
    if run is None or run.timed_out or attempt.step.criterion not in (PassCriterion.BUILDS, PassCriterion.LINT):
        return False
    if not run.ok:
        return not any(trace(error, subject.regions).in_generated_text for error in run.errors)
    return bool(_doubtful(_compared(attempt.step, run), subject))


def _compared(step: Step, run: CargoRun) -> tuple[Diagnostic, ...]:
    """The warnings that the unpatched tree must have too; clippy's own count in generated lines only."""
    return tuple(one for one in run.warnings if step.criterion is not PassCriterion.LINT or not _is_lint(one))


def _doubtful(compared: Iterable[Diagnostic], subject: Subject) -> tuple[Diagnostic, ...]:
    """Those of which only the unpatched tree can say whether they are Candle's own."""
    return tuple(one for one in compared if not is_candles_own(one, subject))


def _is_lint(warning: Diagnostic) -> bool:
    return (warning.code or "").startswith("clippy::")


def _failure(step: Step, subject: Subject, run: CargoRun, baseline: CargoRun | None) -> StepResult:
    findings = trace_all(run.errors, subject.regions)
    if run.errors:
        detail = _counted(len(run.errors), "error")
    else:
        detail = "\n".join(run.complaint.splitlines()[:COMPLAINT_LINES]) or f"cargo ended with {run.returncode}"
    ours = any(finding.in_generated_text for finding in findings)
    unpatched_fails = not ours and baseline is not None and not baseline.ok
    return StepResult(
        step,
        Verdict.FAILED,
        detail + ("; the unpatched tree fails as well" if unpatched_fails else ""),
        findings=findings,
    )


def _judge_warnings(step: Step, subject: Subject, run: CargoRun, baseline: CargoRun | None) -> StepResult:
    """A warning is new when the unpatched tree has none of the same code and message in the same file, and need not."""
    compared = _compared(step, run)
    if not compared:
        return StepResult(step, Verdict.PASSED, "no warnings")
    doubtful = _doubtful(compared, subject)
    if doubtful and (baseline is None or not baseline.ok):
        return StepResult(step, Verdict.FAILED, "the unpatched tree does not build, so its warnings are unknown")
    known = {warning_key(one) for one in baseline.warnings} if baseline is not None else set()
    new = [one for one in doubtful if warning_key(one) not in known]
    if new:
        detail = f"{_counted(len(new), 'warning')} that the unpatched tree does not have"
        return StepResult(step, Verdict.FAILED, detail, findings=trace_all(new, subject.regions))
    return StepResult(step, Verdict.PASSED, f"{_counted(len(compared), 'warning')}, all Candle's own")


def _judge_lints(step: Step, subject: Subject, run: CargoRun, baseline: CargoRun | None) -> StepResult:
    ours = tuple(traced for one in run.warnings if (traced := trace(one, subject.regions)).in_generated_text)
    if ours:
        return StepResult(step, Verdict.FAILED, f"{_counted(len(ours), 'lint')} in generated lines", findings=ours)
    rustc = _judge_warnings(step, subject, run, baseline)
    others = len(run.warnings)
    if rustc.verdict is Verdict.FAILED or not others:
        return replace(rustc, detail=rustc.detail if others else "clean")
    return StepResult(step, Verdict.PASSED, f"generated lines clean; {_counted(others, 'lint')} in Candle's own")


def warning_key(diagnostic: Diagnostic) -> tuple[str | None, str, str]:
    """What makes two warnings the same although lines moved: code, message and file."""
    return diagnostic.code, diagnostic.message, diagnostic.span.file if diagnostic.span else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
