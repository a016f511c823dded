"""Carries out verification steps on a subject, one after another, and judges each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from codegen.errors import Problem, VerificationFailed
from codegen.verify import python
from codegen.verify.cargo import CargoRun, cargo_environment, run_cargo
from codegen.verify.cuda_oracle import ENVIRONMENT as CUDA_ENVIRONMENT
from codegen.verify.cuda_oracle import stub_overlay
from codegen.verify.gated import LeftOut, fitted, left_out
from codegen.verify.provenance import TracedDiagnostic, trace, trace_all
from codegen.verify.scratch import ScratchTree, member_manifests
from codegen.verify.steps import Judge, Step
from codegen.verify.waiting import WaitingTest, judge_waiting, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from pathlib import Path

    from codegen.verify.diagnostics import Diagnostic
    from codegen.verify.subject import Subject
    from codegen.verify.target import Device

STEP_TIMEOUT = 3600.0
COMPLAINT_LINES = 12
FINDINGS_SHOWN = 20
DEVICE_ABSENT = "no ROCm device"
"""What generated tests say that they were skipped for where no device answers."""


class Verdict(StrEnum):
    """What came of a step."""

    PASSED = "passed"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


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
    log: Path | None = None
    waiting: tuple[WaitingTest, ...] = ()
    """Tests that failed because a phase is missing, as the specs say they have to."""
    left_out: tuple[LeftOut, ...] = ()
    """Examples that the step did not build, because of features that they require."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Where the steps are run: the scratch tree, the logs, cargo's settings and the device."""

    scratch: ScratchTree
    logs: Path
    device: Device
    which: Callable[[str], str | None]
    device_variables: Mapping[str, str] = field(default_factory=dict)
    """For the steps that need the device."""
    waiting: tuple[WaitingTest, ...] = ()
    """Tests that cannot pass, because a phase is missing."""
    cargo: Callable[..., CargoRun] = run_cargo
    pytest: Callable[..., CargoRun] = python.run_python_tests
    timeout: float | None = STEP_TIMEOUT
    on_message: Callable[[str], None] = lambda _line: None

    def build(self, subject: Subject, step: Step, *, baseline: bool = False) -> CargoRun:
        """Run the step's cargo command on the patched tree, or its counterpart on the unpatched one."""
        overlay: Mapping[str, bytes | None] = subject.pristine if baseline else subject.patched
        if step.cuda_stub:
            overlay = {**overlay, **stub_overlay(subject.root)}
        if step.python:
            overlay = {
                **overlay,
                python.MANIFEST: python.manifest_for(_content(subject.root, overlay, python.MANIFEST)),
            }
        self.scratch.sync(subject.root, overlay)
        variables = self.device_variables if step.device else {}
        built = self.cargo(
            self.scratch.root,
            step.arguments(baseline=baseline),
            log=self.logs / f"{step.id}{'-unpatched' if baseline else ''}.log",
            environment=cargo_environment(
                self.scratch.target_dir,
                PYO3_NO_PYTHON="1",
                **(CUDA_ENVIRONMENT if step.cuda_stub else {}),
                **variables,
            ),
            on_message=self.on_message,
            timeout=self.timeout,
        )
        return self._python_tests(step, built, variables) if step.python and built.ok else built

    def _python_tests(self, step: Step, built: CargoRun, variables: Mapping[str, str]) -> CargoRun:
        self.on_message("running pytest")
        return self.pytest(
            self.scratch.root,
            built,
            target_dir=self.scratch.target_dir,
            folder=self.scratch.target_dir / "python" / step.id,
            environment={**variables, **(python.TWO_GPUS if self.device.emulated else {})},
            rocm=step.device,
            timeout=self.timeout,
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step whose command was run on the patched tree, or could not be."""

    step: Step
    run: CargoRun | None
    obstacle: str = ""
    """Why it was not run."""
    left_out: tuple[LeftOut, ...] = ()


Command = tuple[bool, tuple[str, ...]]
"""Whether candle-kernels is stubbed, and cargo's arguments."""


def run_step(step: Step, subject: Subject, bench: Bench) -> StepResult:
    """Carry out one step, or say why it cannot be."""
    attempt = _attempt(step, subject, bench)
    return _result(attempt, subject, bench, _baselines([attempt], subject, bench))


def run_steps(
    steps: Iterable[Step],
    subject: Subject,
    bench: Bench,
    *,
    on_start: Callable[[Step], None] = lambda _step: None,
) -> tuple[StepResult, ...]:
    """Carry out the steps in order; a failed one does not stop the others.

    The unpatched tree is built for comparison after all of them, each command once: changing the scratch tree back and
    forth would make cargo compile every crate of the workspace anew each time.
    """
    attempts = []
    with bench.scratch.exclusive(bench.on_message):
        for step in steps:
            on_start(step)
            attempts.append(_attempt(step, subject, bench))
        baselines = _baselines(attempts, subject, bench)
    return tuple(_result(attempt, subject, bench, baselines) for attempt in attempts)


def refuse_failures(results: Iterable[StepResult], logs: Path) -> None:
    """Raise VerificationFailed with every failed step and its findings, each traced to its rule; else nothing."""
    problems = []
    for result in results:
        if result.verdict is Verdict.FAILED:
            problems.append(Problem(f"{result.step.title}: {result.detail}"))
            problems += [Problem(str(finding)) for finding in result.findings[:FINDINGS_SHOWN]]
            more = len(result.findings) - FINDINGS_SHOWN
            problems += [Problem(f"... and {more} more")] if more > 0 else []
    if problems:
        raise VerificationFailed(problems, remedy=f"the whole output is in {logs}; change the rule or template named")


def _obstacle(step: Step, subject: Subject, bench: Bench, members: Container[str]) -> str | None:
    absent = [crate for crate in step.crates if crate not in members]
    if absent:
        return f"{', '.join(absent)} is not in this tree"
    if (why := bench.device.obstacle(step)) is not None:
        return why
    if step.python and (why := python.obstacle(subject.root)) is not None:
        return why
    missing = [program for program in step.programs if bench.which(program) is None]
    return f"{', '.join(missing)} not found on PATH" if missing else None


def _content(root: Path, overlay: Mapping[str, bytes | None], path: str) -> bytes:
    """What a file of the tree with `overlay` laid over it holds; nothing where there is none."""
    content = overlay[path] if path in overlay else (root / path).read_bytes()
    return content or b""


def _attempt(step: Step, subject: Subject, bench: Bench) -> Attempt:
    manifests = member_manifests(subject.root, subject.patched)
    obstacle = _obstacle(step, subject, bench, manifests)
    if obstacle is not None:
        return Attempt(step, None, obstacle)
    step = fitted(step, manifests)
    return Attempt(step, bench.build(subject, step), left_out=left_out(step, manifests))


def _baselines(attempts: Iterable[Attempt], subject: Subject, bench: Bench) -> dict[Command, CargoRun]:
    """What the unpatched tree says to the commands whose answers must be compared with it."""
    wanted = {_baseline(each.step): each.step for each in attempts if _needs_baseline(each, subject)}
    return {command: bench.build(subject, step, baseline=True) for command, step in wanted.items()}


def _baseline(step: Step) -> Command:
    return step.cuda_stub, step.arguments(baseline=True)


def _needs_baseline(attempt: Attempt, subject: Subject) -> bool:
    run = attempt.run
    if run is None or run.timed_out or attempt.step.judge not in (Judge.BUILDS, Judge.LINT):
        return False
    if not run.ok:
        return not any(trace(error, subject.regions).in_generated_text for error in run.errors)
    return bool(_compared(attempt.step, run))


def _compared(step: Step, run: CargoRun) -> tuple[Diagnostic, ...]:
    """The warnings that the unpatched tree must have too; clippy's own count in generated lines only."""
    return tuple(one for one in run.warnings if step.judge is not Judge.LINT or not _is_lint(one))


def _is_lint(warning: Diagnostic) -> bool:
    return (warning.code or "").startswith("clippy::")


def _result(attempt: Attempt, subject: Subject, bench: Bench, baselines: Mapping[Command, CargoRun]) -> StepResult:
    step, run = attempt.step, attempt.run
    if run is None:
        return StepResult(step, Verdict.SKIPPED, f"{Verdict.SKIPPED}: {attempt.obstacle}")
    result = _judge(step, subject, bench, run, baselines.get(_baseline(step)))
    ran_on = bench.device.label if step.device else None
    return replace(result, seconds=run.seconds, log=run.log, ran_on=ran_on, left_out=attempt.left_out)


def _judge(step: Step, subject: Subject, bench: Bench, run: CargoRun, baseline: CargoRun | None) -> StepResult:
    if run.timed_out:
        return StepResult(step, Verdict.FAILED, f"ended after {bench.timeout:.0f} s")
    if step.device and any(test.endswith(f": {DEVICE_ABSENT}") for test in run.skipped_tests):
        return StepResult(step, Verdict.FAILED, f"the device does not answer: {run.tally}")
    waiting = tuple(test for test in bench.waiting if test.crate in step.crates) if step.phased else ()
    if waiting and not run.errors and run.test_results:
        return _judge_with_waiting(step, waiting, run)
    if not run.ok:
        return _failure(step, subject, run, baseline)
    if step.judge is Judge.BUILDS:
        return _judge_warnings(step, subject, run, baseline)
    if step.judge is Judge.LINT:
        return _judge_lints(step, subject, run, baseline)
    if step.judge is Judge.TESTS:
        if run.tally.passed + run.tally.failed == 0:
            return StepResult(step, Verdict.FAILED, "no test ran")
        return StepResult(step, Verdict.PASSED, str(run.tally))
    return StepResult(step, Verdict.PASSED, "exit code 0")


def _judge_with_waiting(step: Step, waiting: tuple[WaitingTest, ...], run: CargoRun) -> StepResult:
    """All that waits has to fail for want of its phase, and nothing else may."""
    judged = judge_waiting(waiting, run.failures)
    expected = {test.name for test in waiting}
    complaints = [*(name for name in run.failed_tests if name not in expected), *judged.complaints]
    tally = replace(run.tally, failed=run.tally.failed - len(judged.waiting))
    detail = ", ".join(filter(None, [str(tally), summary(judged.waiting)]))
    if tally.failed or complaints:
        shown = ", ".join(complaints[:5]) + (", ..." if len(complaints) > 5 else "")
        return StepResult(step, Verdict.FAILED, f"{detail}: {shown}", waiting=judged.waiting)
    if tally.passed == 0:
        return StepResult(step, Verdict.FAILED, "no test ran", waiting=judged.waiting)
    return StepResult(step, Verdict.PASSED, detail, waiting=judged.waiting)


def _failure(step: Step, subject: Subject, run: CargoRun, baseline: CargoRun | None) -> StepResult:
    findings = trace_all(run.errors, subject.regions)
    if run.errors:
        detail = _counted(len(run.errors), "error")
    elif run.failed_tests:
        detail = f"{run.tally}: {', '.join(run.failed_tests[:5])}" + (", ..." if len(run.failed_tests) > 5 else "")
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
    """A warning is new when the unpatched tree has none of the same code and message in the same file."""
    compared = _compared(step, run)
    if not compared:
        return StepResult(step, Verdict.PASSED, "no warnings")
    if baseline is None or not baseline.ok:
        return StepResult(step, Verdict.FAILED, "the unpatched tree does not build, so its warnings are unknown")
    known = {warning_key(one) for one in baseline.warnings}
    new = [one for one in compared if warning_key(one) not in known]
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
