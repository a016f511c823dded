"""`candle-rocm explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import options

if TYPE_CHECKING:
    from codegen.plan.model import Plan
    from codegen.workspace.workspace import Workspace


@click.command("explain")
@click.argument("arguments", nargs=-1, required=True, metavar="[CANDLE] FILE:LINE")
@click.option(
    "--candle", metavar="CANDLE", help="The tree, if it is not the first argument. Default: the current folder."
)
@click.option("--gating", type=click.Choice(["dummy", "cfg"]), help="Default: as applied, otherwise dummy.")
@options.runtime
@options.offline
@options.as_json
def command(
    arguments: tuple[str, ...],
    *,
    candle: str | None,
    gating: str | None,
    runtime: str | None,
    offline: bool,
    as_json: bool,
) -> None:
    """Explain FILE:LINE: its backend sites, the change to each, and the rule and spec line that decide it.

    FILE is relative to the tree or to the current folder. LINE is a line of pristine Candle; if phases are applied, it
    is also looked up in the patched file. FILE may also be a template, source or spec of candle-rocm, such as
    templates/rust/edits/exports.rs.j2 or specs/kernels/unary.yaml. explain then lists the lines of the patched tree
    that come from this line, or from the entry around it.

    Or explain MESSAGE, what an error of candle-rocm or of the ROCm backend means and what to do about it: the message
    as it was printed, in quotes, or its code, such as out-of-memory.
    """
    if len(arguments) == 1 and candle is None and (" " in arguments[0] or "/" not in arguments[0]):
        from codegen.report.place import is_place

        if not is_place(arguments[0]):
            _explain_message(arguments[0], as_json=as_json)
            return
    from codegen.paths import repository_root
    from codegen.plan.build import plan_tree
    from codegen.plan.decide import scan_tree
    from codegen.plan.model import Plan
    from codegen.report.explain import Explainer
    from codegen.report.explanation_text import (
        explanation_document,
        explanation_text,
        source_document,
        source_text,
    )
    from codegen.report.findings import findings
    from codegen.report.json_document import dumps
    from codegen.report.place import Place
    from codegen.report.requested_plan import selected_plan
    from codegen.report.source_line import made_of
    from codegen.report.spec_entry import SPECS, made_of_spec
    from codegen.workspace.workspace import open_workspace

    folder, written = _subject(arguments, candle)
    place = Place.parse(written)
    workspace = open_workspace(folder, offline=offline, progress=options.progress)
    options.note_absent(workspace)
    tree, specs = workspace.tree, workspace.specs
    if not workspace.tried:
        options.note_untried(workspace)
    chosen, reached = workspace.gating(gating), workspace.runtime(runtime)
    scan = scan_tree(tree, specs, gating=chosen)
    leave = workspace.record is not None
    if findings(scan, specs, leave_unknown=leave) is None:
        plan = plan_tree(tree, specs, gating=chosen, runtime=reached, scan=scan, leave_unknown=leave)
        partial = workspace.applied not in ((), tuple(phase.phase for phase in plan.phases))
        on_disk = (
            selected_plan(
                workspace, phases=workspace.applied, gating=chosen, runtime=reached, scan=scan, leave_unknown=leave
            )
            if partial
            else plan
        )
    else:
        plan = on_disk = Plan(tree.release, chosen.value, reached.value, ())
    own = place.in_sources()
    if own is not None:
        made = (
            made_of_spec(own, place.line, on_disk, specs.lines, repository_root())
            if own.startswith(SPECS)
            else made_of(own, place.line, on_disk, repository_root())
        )
        if as_json:
            content = source_document(own, place.line, made, release=tree.release, tried=workspace.tried)
            terminal.say(dumps(content))
        else:
            terminal.say(source_text(own, place.line, made))
        return
    path = place.in_tree(tree.root, _files(workspace, plan))
    found = Explainer(scan, specs, plan, on_disk=on_disk).explain(path, place.line)
    applied = workspace.record is not None
    if as_json:
        content = explanation_document(found, release=tree.release, tried=workspace.tried, applied=applied)
        terminal.say(dumps(content))
    else:
        terminal.say(explanation_text(found, release=tree.release, applied=applied))


def _explain_message(words: str, *, as_json: bool) -> None:
    from codegen.report.messages import explanation_lines, lookup, message_document

    kind, message = lookup(words)
    if as_json:
        from codegen.report.json_document import dumps

        terminal.say(dumps(message_document(kind, message)))
        return
    for line in explanation_lines(kind, message):
        terminal.say(line)


def _subject(arguments: tuple[str, ...], candle: str | None) -> tuple[str, str]:
    """The tree and FILE:LINE of both forms: `explain CANDLE FILE:LINE` and `explain [--candle CANDLE] FILE:LINE`."""
    from codegen.errors import UsageError

    if len(arguments) > 2 or (len(arguments) == 2 and candle is not None):
        raise UsageError(
            "explain takes one place and one tree",
            remedy="candle-rocm explain 0.11.1 candle-core/src/device.rs:10, "
            "or candle-rocm explain --candle 0.11.1 candle-core/src/device.rs:10",
        )
    return (arguments[0] if len(arguments) == 2 else candle or "."), arguments[-1]


def _files(workspace: Workspace, plan: Plan) -> frozenset[str]:
    """Every file that a place may name: Candle's sources and manifests, and those that the plan writes."""
    tree = workspace.tree
    manifests = ("Cargo.toml", *(crate.manifest for crate in tree.crates))
    return frozenset((*tree.rust_files(), *tree.python_files(), *manifests, *(change.path for change in plan.changes)))
