"""`candle-rocm verify`: cargo check, clippy, tests and the CUDA oracle on the patched tree."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codegen.cli import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from codegen.plan.model import Plan
    from codegen.verify.environment import Check
    from codegen.verify.run import StepResult

LAST_PHASE = 7


@click.command("verify")
@click.argument("candle")
@click.option("--phase", type=click.IntRange(0, LAST_PHASE), help="Last phase; by default all that are ready.")
@click.option("--target", type=click.Choice(["auto", "emulator", "amd", "nvidia"]), default="auto", show_default=True)
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="By default what is applied, else dummy.")
@click.option("--quick", is_flag=True, help="Leave out the steps that take minutes.")
@click.option("--only", multiple=True, metavar="STEP", help="Run only this step; may be given several times.")
@click.option(
    "--work",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the scratch copy, cargo's target folder and the logs (several GB).",
)
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
    quick: bool,
    only: tuple[str, ...],
    work: Path | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Build and test CANDLE, a folder or a version, with all phases up to --phase; exit 8 when a step fails.

    The tree is built in a scratch copy and never written to. If the phases are not applied yet, they are applied to
    the copy. Steps that need a device are skipped, with the reason, where there is none.
    """
    from codegen.verify.cargo import require_programs
    from codegen.verify.document import verification_document
    from codegen.verify.environment import rocm_checks
    from codegen.verify.machine import Machine
    from codegen.verify.run import Bench, refuse_failures, run_steps
    from codegen.verify.scratch import ScratchTree
    from codegen.verify.steps import Target, choose_steps
    from codegen.verify.subject import Subject
    from codegen.verify.target import choose_device

    machine = Machine.here()
    require_programs(["cargo", "rustc", "rustfmt"], which=machine.which)
    device = choose_device(Target(target), machine)
    root, plan = _planned(candle, phase=phase, gating=gating, offline=offline)
    last = max(each.phase for each in plan.phases) if phase is None else phase
    steps = choose_steps(last, quick=quick, only=only)
    subject = Subject.of_plan(root, plan)
    checks = rocm_checks(machine, root) if phase == 0 else ()
    folder = work or _default_work()
    with _progress() as report:
        bench = Bench(
            scratch=ScratchTree(folder / "trees" / plan.release, folder / "target"),
            logs=folder / "logs" / plan.release,
            device=device,
            which=machine.which,
            on_message=report,
        )
        results = run_steps(steps, subject, bench, on_start=lambda step: report(step.title))
    if as_json:
        import json

        document = verification_document(
            results,
            checks,
            candle=candle,
            release=plan.release,
            phase=last,
            gating=plan.gating,
            tree=str(subject.on_disk),
            target=target,
            device=device.label,
        )
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        if not document["passed"]:
            from codegen.errors import ExitCode

            context.exit(ExitCode.VERIFICATION_FAILED)
        return
    _print(f"Candle {plan.release}, phases up to {last}, gating {plan.gating}; tree {subject.on_disk}", checks, results)
    refuse_failures(results, bench.logs)


def _planned(candle: str, *, phase: int | None, gating: str | None, offline: bool) -> tuple[Path, Plan]:
    """The tree's folder, and the plan of all phases that are applied or up to `phase`, in the applied gating."""
    from codegen.plan.build import plan_tree
    from codegen.plan.workspace import open_workspace

    workspace = open_workspace(candle, offline=offline, progress=options.progress)
    ready = [each.phase for each in workspace.specs.phases if each.applied]
    wanted = [number for number in ready if phase is None or number <= phase or number in workspace.applied]
    return workspace.root, plan_tree(workspace.tree, workspace.specs, phases=wanted, gating=workspace.gating(gating))


def _default_work() -> Path:
    from codegen.candle.cache import default_cache

    return default_cache() / "verify"


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that shows what cargo is doing; nothing when stderr is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _line: None
        return
    with console.status("") as status:
        yield lambda line: status.update(line)


def _print(title: str, checks: Sequence[Check], results: Sequence[StepResult]) -> None:
    from codegen.verify.document import checks_table, stdout_console, steps_table
    from codegen.verify.run import Verdict

    click.echo(title)
    console = stdout_console()
    if checks:
        console.print(checks_table(checks))
    console.print(steps_table(results))
    for result in results:
        if result.verdict is Verdict.SKIPPED:
            click.echo(f"{result.step.id}: {result.detail}")
