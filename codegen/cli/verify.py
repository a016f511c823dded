"""`candle-rocm verify`: cargo check, clippy, tests and the CUDA oracle on the patched tree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codegen.plan.model import Plan
    from codegen.verify.doctor import Check
    from codegen.verify.judge import Attempt, StepResult
    from codegen.verify.kept import Kept
    from codegen.verify.machine import Machine
    from codegen.verify.modelled import Modelled
    from codegen.verify.patched_tree import Subject
    from codegen.verify.run import Bench
    from codegen.verify.steps import Step
    from codegen.verify.target import Device
    from codegen.watch import Watch

LAST_PHASE = 7
TENSORS = 3
"""The phase with the ROCm variants of Candle's tests."""


@click.command("verify")
@click.argument("candle", shell_complete=complete.releases)
@click.option("--phase", type=click.IntRange(0, LAST_PHASE), help="Last phase. Default: all ready ones.")
@click.option(
    "--target",
    metavar="[auto|emulator|amd|nvidia|model[:ARCH]]",
    default="auto",
    show_default=True,
    shell_complete=complete.targets,
    help="The device to run on; auto takes an AMD GPU if one responds, otherwise the emulated device. model runs AMD's "
    "own runtime on a modelled GPU, gfx1100 unless ARCH names another.",
)
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="Default: as applied, otherwise dummy.")
@options.runtime
@click.option("--quick", is_flag=True, help="Skip the steps that take minutes.")
@click.option(
    "--only",
    multiple=True,
    metavar="STEP",
    shell_complete=complete.steps,
    help="Run only this step; may be given several times.",
)
@click.option(
    "--package",
    "-p",
    multiple=True,
    metavar="CRATE",
    shell_complete=complete.crates,
    help="Run only this crate's part of the steps; repeatable.",
)
@click.option(
    "--test",
    multiple=True,
    metavar="NAME",
    help="Run only this program of the steps' tests, lib for a crate's unit tests; repeatable.",
)
@click.option(
    "--test-timeout",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="Time limit for one test (default 900).",
)
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the scratch copy, cargo's target folder and the logs (several GB).",
)
@click.option("--fresh", is_flag=True, help="Do every step, also those that passed in a run that was interrupted.")
@options.quiet
@options.verbose
@options.leave_unknown
@options.offline
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    *,
    candle: str,
    phase: int | None,
    target: str,
    gating: str | None,
    runtime: str | None,
    quick: bool,
    only: tuple[str, ...],
    package: tuple[str, ...],
    test: tuple[str, ...],
    test_timeout: float | None,
    work: Path | None,
    fresh: bool,
    quiet: bool,
    verbose: bool,
    leave_unknown: bool,
    offline: bool,
    as_json: bool,
) -> None:
    """Build and test CANDLE, a folder or a version, with all phases up to --phase. Exit 8 if a step fails.

    Building a tree runs its code: verify only trees that you would build yourself. verify builds a scratch copy and
    never writes to the tree. Phases that are not applied yet are applied to the copy. Without a device, the steps that
    need one are skipped, with the reason. A run in which no step passes has failed. On the emulated device the tests
    run twice: once with waves of 32 lanes on the first card, and once with waves of 64.
    """
    from codegen.spec.kinds import Runtime
    from codegen.spec.loader import load_specs
    from codegen.verify.cargo import require_programs, write_settings
    from codegen.verify.chosen_tests import only_programs
    from codegen.verify.crate_targets import View
    from codegen.verify.doctor import rocm_checks
    from codegen.verify.document import verification_document
    from codegen.verify.expected_failures import waiting_tests
    from codegen.verify.identity import refuse_stand_in
    from codegen.verify.judge import refuse_failures
    from codegen.verify.machine import Machine
    from codegen.verify.patched_tree import Subject
    from codegen.verify.results import OF_VERIFY, append, found_by_verify, last_seconds
    from codegen.verify.run import TEST_TIMEOUT, Bench, run_steps
    from codegen.verify.scratch import ScratchTree
    from codegen.verify.steps import choose_steps
    from codegen.verify.surroundings import left_behind
    from codegen.verify.target import choose_device, named_target
    from codegen.verify.test_names import names_of_step
    from codegen.watch import watching

    told = options.verbosity(quiet=quiet, verbose=verbose)
    machine = Machine.here()
    require_programs(["cargo", "rustc", "rustfmt"], which=machine.which)
    kind, card = named_target(target)
    device = choose_device(kind, machine, card)
    for name in left_behind(machine.variables, emulated=device.emulated):
        terminal.note(f"{name} is set but not passed on: it could change the results")
    refuse_stand_in(device, machine.variables)
    root, plan = _planned(candle, phase=phase, gating=gating, runtime=runtime, offline=offline, leave=leave_unknown)
    last = max(each.phase for each in plan.phases) if phase is None else phase
    steps = choose_steps(last, runtime=Runtime(plan.runtime), quick=quick, only=only, packages=package)
    subject = Subject.of_plan(root, plan)
    if test:
        steps = only_programs(steps, test, View(subject.root, subject.patched))
    checks = rocm_checks(machine, root) if phase == 0 else ()
    folder = work or _default_work()
    on_model = _modelled(device, plan, folder)
    logs = folder / "logs" / plan.release
    specs = load_specs()
    present = {each.phase for each in plan.phases}
    options.note_that_code_runs("verify")
    expected = last_seconds(folder / OF_VERIFY, plan, device)
    scratch = ScratchTree(folder / "trees" / plan.release, folder / "target")
    write_settings(scratch.root.parent)
    with watching(len(steps), told) as watch:
        bench = Bench(
            scratch=scratch,
            logs=logs,
            device=device,
            which=machine.which,
            device_variables=_device_variables(device, steps, machine, logs, watch.message, linked=_is_linked(plan)),
            modelled=on_model,
            expected=lambda step: names_of_step(subject, step, variants=TENSORS in present),
            waiting=waiting_tests(specs.phases, plan.release, present),
            pins=specs.candle.pins_of(plan.release),
            test_timeout=test_timeout or TEST_TIMEOUT,
            at_once=min(len(device.passes), os.cpu_count() or 1) if device.emulated else 1,
            on_message=watch.message,
        )
        results = run_steps(
            steps,
            subject,
            bench,
            on_start=lambda step: watch.start(step.title, expected.get(step.id)),
            on_end=lambda done: _tell(watch, done),
            kept=None if fresh else lambda: _kept(bench, subject, machine, test_timeout),
        )
    found = found_by_verify(
        results, candle=candle, plan=plan, phase=last, packages=package, programs=test, device=device
    )
    if (unwritten := append(folder / OF_VERIFY, found)) is not None:
        terminal.note(unwritten)
    if as_json:
        import json

        document = verification_document(
            results,
            checks,
            candle=candle,
            release=plan.release,
            phase=last,
            gating=plan.gating,
            runtime=plan.runtime,
            tree=str(subject.on_disk),
            target=target,
            device=device.label,
        )
        terminal.say(json.dumps(document, indent=2, ensure_ascii=False))
        if not document["passed"]:
            from codegen.errors import ExitCode

            context.exit(ExitCode.VERIFICATION_FAILED)
        return
    choices = f"gating {plan.gating}, runtime {plan.runtime}"
    title = f"Candle {plan.release}, phases up to {last}, {choices}; tree {subject.on_disk}"
    _print(f"{title}; device: {device.label or device.absence}", checks, results)
    refuse_failures(results, bench.logs)


def _planned(
    candle: str, *, phase: int | None, gating: str | None, runtime: str | None, offline: bool, leave: bool
) -> tuple[Path, Plan]:
    """The tree's folder, and the plan of all phases that are applied or up to `phase`, as those were applied."""
    from codegen.plan.build import plan_tree
    from codegen.workspace.workspace import open_workspace

    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    ready = [each.phase for each in workspace.specs.phases if each.applied]
    wanted = [number for number in ready if phase is None or number <= phase or number in workspace.applied]
    plan = plan_tree(
        workspace.tree,
        workspace.specs,
        phases=wanted,
        gating=workspace.gating(gating),
        runtime=workspace.runtime(runtime),
        leave_unknown=leave,
    )
    return workspace.root, plan


def _device_variables(
    device: Device, steps: Sequence[Step], machine: Machine, logs: Path, report: Callable[[str], None], *, linked: bool
) -> Mapping[str, str]:
    """What the steps on the device need; libraries of ours are built for them, and only if there are any."""
    from codegen.verify.hip_libraries import libraries_of

    run_on_it = any(step.device and device.obstacle(step) is None for step in steps)
    return libraries_of(device, machine, logs=logs, linked=linked, on_message=report) if run_on_it else {}


def _modelled(device: Device, plan: Plan, folder: Path) -> Modelled | None:
    """How programs are started on a modelled GPU; None for any other device."""
    from codegen.verify.modelled import modelled

    if device.card is None:
        return None
    return modelled(device.card, folder / "modelled", linked=_is_linked(plan))


def _is_linked(plan: Plan) -> bool:
    """Whether programs are linked with ROCm's libraries, in place of opening them."""
    from codegen.spec.kinds import Runtime

    return plan.runtime != Runtime.DYNAMIC


def _default_work() -> Path:
    from codegen.paths import default_cache

    return default_cache() / "verify"


def _kept(bench: Bench, subject: Subject, machine: Machine, test_timeout: float | None) -> Kept:
    """The steps of a run that was interrupted, as far as nothing has changed since."""
    from codegen.verify.kept import Kept, state_of
    from codegen.verify.surroundings import inherited

    variables = {**inherited(emulated=bench.device.emulated), **bench.device_variables}
    programs = {name: machine.first_line(name, "--version") for name in ("cargo", "rustc")}
    more = (repr(bench.device), repr(test_timeout), repr(bench.modelled is not None))
    state = state_of(subject, programs=programs, variables=variables, more=more)
    return Kept(bench.logs, bench.scratch.root, state)


def _tell(watch: Watch, done: Attempt | StepResult) -> None:
    """A line about a step that has ended."""
    from codegen.verify.judge import Attempt, Verdict

    if isinstance(done, Attempt):
        well = done.run is not None and done.run.ok
        watch.end(
            "built with warnings" if well else "does not build",
            "the unpatched tree is built for comparison when all other steps are done",
        )
        return
    detail = done.told.removeprefix(f"{Verdict.SKIPPED}: ")
    if done.verdict is Verdict.FAILED and done.log is not None:
        detail = f"{detail}; {done.log} ends with: {_last_line(done.log)}"
    watch.end(done.verdict, detail, done=done.verdict is not Verdict.SKIPPED and done.earlier is None)


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1].strip() if lines else ""


def _print(title: str, checks: Sequence[Check], results: Sequence[StepResult]) -> None:
    from codegen.verify.document import checks_table, stdout_console, steps_table
    from codegen.verify.judge import Verdict

    terminal.say(title)
    console = stdout_console()
    if checks:
        console.print(checks_table(checks))
    console.print(steps_table(results))
    for pinned in dict.fromkeys(each for result in results for each in result.pinned):
        terminal.say(pinned)
    for result in results:
        if result.verdict is Verdict.SKIPPED:
            terminal.say(f"{result.step.id}: {result.detail}")
        for target in result.left_out:
            terminal.say(f"{result.step.id}: {target}")
        for test in result.waiting:
            terminal.say(f"{result.step.id}: {test.name} waits for phase {test.phase} ({test.rule})")
