"""What `use` says of a program, as lines and as JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.patch.git_format import unified_diff
from codegen.report.json_document import SCHEMA_VERSION, problem_entry
from codegen.terminal import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codegen.report.json_document import Document
    from codegen.workspace.use import UsePlan

RUN = "cargo run --features rocm"


def use_lines(plan: UsePlan, *, written: bool = False) -> Iterator[str]:
    """What there is, what is to be done, and how the program is run then."""
    tree = os.path.relpath(plan.tree, plan.root)
    yield shown(f"Candle {plan.release} from {plan.source or 'a folder'}; patched tree: {tree}")
    if plan.commands:
        yield ""
        yield "Make the patched tree (here, or let --write do it):"
        for words in plan.commands:
            yield shown(f"  {' '.join(words)}")
    if plan.changes:
        yield ""
        yield "Change the manifests (--write does it; `git apply` takes these lines):"
        yield shown("".join(unified_diff(plan.changes, color=False)).rstrip("\n"))
    if plan.done:
        yield ("Written." if written else "All is there.") + f" Build and run: {RUN}"
        yield f"Without an AMD GPU: candle-rocm emulator {RUN}"


def use_document(plan: UsePlan) -> Document:
    """The same as data."""
    files = [{"path": each.path, "diff": "".join(unified_diff([each], color=False))} for each in plan.changes]
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "use",
        "tool": {"name": "candle-rocm", "version": __version__},
        "program": str(plan.root),
        "release": plan.release,
        "source": plan.source or None,
        "tree": str(plan.tree),
        "done": plan.done,
        "commands": [list(words) for words in plan.commands],
        "files": files,
        "faults": [problem_entry(each) for each in plan.faults],
    }
