"""docs/acceptance-record.json: what was last seen of each step and test that specs/acceptance.yaml names.

`make acceptance` renews it from the results that runs left on this machine (`codegen.verify.results`), and writes
docs/acceptance.md from it. What no run on this machine did keeps what the record has, with its day.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from codegen import terminal
from codegen.errors import CandleRocmError, ExitCode, InputOutputError
from codegen.paths import checkout
from codegen.spec.loader import load_specs
from codegen.spec.model import Model
from codegen.verify.judge import Verdict
from codegen.verify.results import OF_PYTEST, OF_VERIFY, FileRun, Found, FoundByVerify, StepRun, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codegen.spec.loaded import LoadedSpecs
    from codegen.verify.acceptance import Acceptance

RECORD = "docs/acceptance-record.json"


class Record(Model):
    """What was last seen, in a stable order."""

    schema_version: Literal[1] = 1
    steps: tuple[StepRun, ...] = ()
    """The last run of each step in each combination of release, gating, runtime and device. Of runs that were narrowed
    to crates or programs only failed ones: they show that something is wrong, and not that a step passes."""
    files: tuple[FileRun, ...] = ()

    def runs_of(self, step: str) -> tuple[StepRun, ...]:
        """The runs of a step."""
        return tuple(run for run in self.steps if run.step == step)

    def run_of(self, file: str) -> FileRun | None:
        """The last run of a file with tests."""
        return next((run for run in self.files if run.file == file), None)

    @property
    def text(self) -> str:
        """The file."""
        parts = {"steps": self.steps, "files": self.files}
        lines = [f'{{\n  "schema_version": {self.schema_version}']
        for name, runs in parts.items():
            rows = ",\n".join(f"    {json.dumps(_shown(run), ensure_ascii=False)}" for run in runs)
            lines.append(f'  "{name}": [\n{rows}\n  ]' if runs else f'  "{name}": []')
        return ",\n".join(lines) + "\n}\n"


def read_record(root: Path) -> Record:
    """The committed record. Raises InputOutputError when it is not there or not of this form."""
    try:
        return Record.model_validate_json((root / RECORD).read_bytes())
    except (OSError, ValidationError) as error:
        raise InputOutputError(f"cannot read {RECORD}: {error}", remedy="take it from the last commit") from error


def renewed(record: Record, found: Iterable[Found], spec: Acceptance, specs: LoadedSpecs, root: str) -> Record:
    """The record with what was found since, as far as it counts.

    It counts when it was found with the specs of `root`, about all phases that are ready, applied to a release that
    the specs list and that was fetched, and when `spec` names it.
    """
    ready = max(phase.phase for phase in specs.phases if phase.applied)
    order = {release.version: number for number, release in enumerate(specs.candle.releases)}
    steps, files = set(spec.steps), set(spec.files)
    own = [each for each in found if each.root == root]
    of_steps = [each.found for each in own if isinstance(each, FoundByVerify) and each.candle == each.found.release]
    of_files = [each.found for each in own if not isinstance(each, FoundByVerify)]
    last_run = {_key(run): run for run in sorted((*record.steps, *of_steps), key=lambda run: run.at)}
    last_of_file = {run.file: run for run in sorted((*record.files, *of_files), key=lambda run: run.at)}
    kept = [
        run.model_copy(update={"detail": _public(run)})
        for run in last_run.values()
        if run.step in steps and run.release in order and run.phase == ready
        if not run.narrowed or run.verdict is Verdict.FAILED
    ]
    return Record(
        steps=tuple(sorted(kept, key=lambda run: (run.step, order[run.release], _key(run)))),
        files=tuple(last_of_file[name] for name in sorted(last_of_file) if name in files),
    )


def results_below(folders: Iterable[Path]) -> list[Found]:
    """All that runs left in these folders. Raises InputOutputError for a line that is no result."""
    names = (OF_VERIFY, OF_PYTEST)
    return [found for folder in folders for name in names if (folder / name).is_file() for found in read(folder / name)]


def _shown(run: Model) -> dict[str, object]:
    """As it stands in the record: how long this machine took says nothing elsewhere."""
    return run.model_dump(mode="json", exclude={"seconds"})


def _key(run: StepRun) -> tuple[str, ...]:
    return (run.step, run.release, run.gating, run.runtime, " ".join(run.narrowed), run.device or "")


def _public(run: StepRun) -> str:
    """One line without a path of a machine: what failed is in its logs, and cargo's words have such paths."""
    return "" if run.verdict is Verdict.FAILED else run.detail.partition("\n")[0]


def main(arguments: Sequence[str]) -> int:
    """Renew the record and docs/acceptance.md; a folder with further work folders may be named. The exit code."""
    from codegen.paths import default_cache
    from codegen.verify.acceptance import ACCEPTANCE, parse_acceptance
    from codegen.verify.account import DOCUMENTED, document

    root = checkout("the record is a checkout's")
    above = [root / "build", *map(Path, arguments)]
    folders = [*above, *(folder for each in above for folder in sorted(each.glob("*/"))), default_cache() / "verify"]
    try:
        spec = parse_acceptance((root / ACCEPTANCE).read_bytes())
        before = read_record(root)
        after = renewed(before, results_below(folders), spec, load_specs(root), str(root))
        (root / RECORD).write_text(after.text, encoding="utf-8")
        (root / DOCUMENTED).write_text(document(spec, after), encoding="utf-8")
    except CandleRocmError as error:
        terminal.note(error)
        return error.exit_code
    changed = len({*after.steps, *after.files} - {*before.steps, *before.files})
    terminal.say(f"{len(after.steps)} runs of steps, {len(after.files)} files with tests; {changed} of them renewed")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
