"""What `port` says of a program, as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.patch.git_format import unified_diff
from codegen.report.diff_document import stat_lines
from codegen.report.json_document import SCHEMA_VERSION
from codegen.report.wording import plural
from codegen.syntax.port_file import BY_HAND, LEFT, MIRRORED, STUB, WIDENED
from codegen.terminal import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.report.json_document import Document
    from codegen.workspace.port import Port

ORDER = (MIRRORED, WIDENED, STUB, LEFT, BY_HAND)
ALONE = "ROCm's code is compiled where the feature `cuda` is off: `{}` would be there twice"


def port_lines(port: Port) -> Iterator[str]:
    """A line for each use, how many there are of each outcome, and which files change."""
    plan = port.plan
    for each in plan.uses:
        yield shown(f"{each.path}:{each.line} {each.what} -> {each.outcome}{f': {each.note}' if each.note else ''}")
    counts = Counter(each.outcome for each in plan.uses)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ORDER if counts[outcome])
    yield f"Candle {plan.release}: {plural(len(plan.uses), 'use')} of CUDA{f': {said}' if said else ''}"
    if plan.changes:
        yield ""
        yield from map(shown, stat_lines(plan.changes))
    if plan.alone:
        yield shown(ALONE.format(plan.alone))


def check_command(port: Port) -> str:
    """What checks a port that is written."""
    off = " --no-default-features" if port.plan.default_cuda else ""
    return f"cargo check{off} --features rocm"


def port_document(port: Port, differing: tuple[tuple[str, str], ...]) -> Document:
    """The same as data; `differing` are the files that are not as the port would leave them, and what is wrong."""
    plan = port.plan
    uses = [
        {"path": each.path, "line": each.line, "what": each.what, "outcome": each.outcome, "note": each.note or None}
        for each in plan.uses
    ]
    files = [
        {
            "path": each.path,
            "new": each.before is None,
            "diff": "".join(unified_diff([each], color=False)),
        }
        for each in plan.changes
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "port",
        "tool": {"name": "candle-rocm", "version": __version__},
        "program": str(port.root),
        "release": plan.release,
        "written": port.written,
        "clean": not differing,
        "alone": plan.alone or None,
        "uses": uses,
        "files": files,
        "differing": [{"path": path, "problem": problem} for path, problem in differing],
    }
