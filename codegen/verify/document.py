"""What `verify` and `doctor` found, as JSON documents and as terminal tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codegen import terminal
from codegen.verify.doctor import State
from codegen.verify.judge import Verdict, all_passed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console
    from rich.table import Table

    from codegen.verify.doctor import Check
    from codegen.verify.judge import StepResult
    from codegen.verify.provenance import TracedDiagnostic
    from codegen.verify.testrun import TestRun

SCHEMA_VERSION = 1
WIDTH_OF_A_FILE = 250
COLOURS = {
    Verdict.PASSED: "green",
    Verdict.FAILED: "bold red",
    Verdict.SKIPPED: "yellow",
    State.OK: "green",
    State.MISSING: "yellow",
    State.UNUSUAL: "yellow",
    State.UNSET: "dim",
    State.NOT_CHECKED: "dim",
}


def verification_document(
    results: Sequence[StepResult], checks: Sequence[Check], **about: str | int | bool | None
) -> dict[str, Any]:
    """The JSON document of `verify`; `about` says what was verified, and where."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "verify",
        **about,
        "passed": all_passed(results),
        "checks": [_check(check) for check in checks],
        "steps": [step_document(result) for result in results],
    }


def doctor_document(checks: Sequence[Check]) -> dict[str, Any]:
    """The JSON document of `doctor`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "doctor",
        "ready": not any(check.blocks for check in checks),
        "checks": [_check(check) for check in checks],
    }


def steps_table(results: Iterable[StepResult]) -> Table:
    """One row per step: verdict, time, and one line of detail."""
    table = _table("step", "verdict", "time", "detail")
    for result in results:
        seconds = f"{result.seconds:.1f} s" if result.verdict is not Verdict.SKIPPED else ""
        detail = result.told.removeprefix(f"{Verdict.SKIPPED}: ")
        detail = detail if result.ran_on is None else f"{result.ran_on}: {detail}"
        table.add_row(_plain(result.step.title), _coloured(result.verdict, result.verdict), seconds, _plain(detail))
    return table


def checks_table(checks: Iterable[Check]) -> Table:
    """One row per check; what to do stands below what was found."""
    table = _table("check", "state", "found")
    for check in checks:
        found = f"{check.found}\n-> {check.remedy}" if check.remedy else check.found
        colour: State | Verdict = Verdict.FAILED if check.blocks else check.state
        table.add_row(_plain(check.title), _coloured(check.verdict, colour), _plain(found))
    return table


def stdout_console() -> Console:
    """A console for tables; where stdout is not a terminal, wide enough that no text is folded."""
    console = terminal.console()
    return console if console.is_terminal else terminal.console(width=WIDTH_OF_A_FILE)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column == "time" else "left")
    return table


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def _coloured(text: str, state: State | Verdict) -> Any:
    from rich.text import Text

    return Text(text, style=COLOURS[state])


def _check(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "title": check.title,
        "need": str(check.need),
        "state": str(check.state),
        "verdict": check.verdict,
        "found": check.found,
        "remedy": check.remedy,
    }


def step_document(result: StepResult) -> dict[str, Any]:
    """A step in JSON; one of an earlier run as it was there, with its time."""
    if result.earlier is not None:
        return {**result.earlier.document, "passed_before": result.earlier.at}
    return {
        "id": result.step.id,
        "title": result.step.title,
        "command": " ".join(("cargo", *result.step.arguments())),
        "verdict": str(result.verdict),
        "detail": result.detail,
        "ran_on": result.ran_on,
        "seconds": round(result.seconds, 1),
        "passed_before": None,
        "log": str(result.log) if result.log else None,
        "complaints": list(result.complaints),
        "findings": [_finding(finding) for finding in result.findings],
        "left_out": [
            {"crate": each.crate, "target": each.target, "features": list(each.features), "reason": each.reason}
            for each in result.left_out
        ],
        "pinned": [
            {"crate": each.crate, "version": each.version, "pin": each.pin, "reason": each.reason}
            for each in result.pinned
        ],
        "waiting": [{"test": test.name, "phase": test.phase, "rule": test.rule} for test in result.waiting],
        "tests": [_test_run(run) for run in result.tests],
    }


def _test_run(run: TestRun) -> dict[str, Any]:
    use = run.device
    return {
        "program": str(run.binary),
        "pass": run.where.title if run.where is not None else "",
        "seconds": round(run.seconds, 1),
        "outcomes": {name: "skipped" if name in run.skipped else str(run.outcomes[name]) for name in run.outcomes},
        "skipped": dict(run.skipped),
        "launches": use.launches if use is not None else None,
        "copies": use.copies if use is not None else None,
        "kernels": sorted(use.functions) if use is not None else None,
    }


def _finding(finding: TracedDiagnostic) -> dict[str, Any]:
    diagnostic, origin = finding.diagnostic, finding.origin
    span = diagnostic.span
    return {
        "level": diagnostic.level,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": span.file if span else None,
        "line": span.first_line if span else None,
        "column": span.first_column if span else None,
        "rule": origin.rule if origin else None,
        "spec": origin.spec if origin else None,
        "template": origin.template if origin else None,
        "phase": origin.phase if origin else None,
        "in_generated_text": finding.in_generated_text,
    }
