"""What `generate` wrote into a folder once, with this version of the tool or with another, as a plan."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from codegen import beneath
from codegen.candle.cache import io_errors
from codegen.errors import Conflict, UsageError
from codegen.patch.changes import FileChange, Origin, PhaseChanges, Region
from codegen.patch.merge import ROOM, git_program, run_git
from codegen.plan.model import Plan
from codegen.record.fields import checked_path
from codegen.workspace.output import REPORT, TOOL, patch_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.candle.tree import CandleTree

_SECONDS = 60


class _Read(BaseModel):
    """Other versions of the tool may say more."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Region(_Read):
    first: int
    last: int
    rule: str
    spec: str
    phase: int
    template: str | None = None

    def region(self) -> Region:
        return Region(self.first, self.last, Origin(self.rule, self.spec, self.phase, self.template))


class _File(_Read):
    path: str
    new: bool
    regions: tuple[_Region, ...]


class _Phase(_Read):
    phase: int
    name: str
    summary: str = ""
    files: tuple[_File, ...]


class _Tool(_Read):
    name: str
    version: str


class _Report(_Read):
    tool: _Tool
    candle: str
    gating: str
    runtime: str
    phases: tuple[_Phase, ...]


@dataclass(frozen=True, slots=True)
class Generated:
    """A folder that `generate` wrote."""

    folder: Path
    report: _Report

    @property
    def release(self) -> str:
        """Candle's, which it was written for."""
        return self.report.candle

    @property
    def name(self) -> str:
        """The release, and who wrote it."""
        return f"{self.report.candle} as {TOOL} {self.report.tool.version} generated it"

    def plan(self, tree: CandleTree) -> Plan:
        """What every phase changes in the tree, which has to be the pristine one that it was generated for.

        Raises:
            Conflict: a patch does not fit, or leaves out a file that the report names.
            ToolchainMissing: git is not installed, which applies the patches.
            InputOutputError: there is no room for a copy, or git cannot be started.
        """
        git = git_program("patches")
        with tempfile.TemporaryDirectory() as name, io_errors("applying patches", remedy=ROOM):
            copy = Path(name)
            for path in {file.path for phase in self.report.phases for file in phase.files if not file.new}:
                if tree.exists(path):
                    (copy / path).parent.mkdir(parents=True, exist_ok=True)
                    (copy / path).write_bytes(tree.read(path))
            phases = tuple(self._phase(git, copy, phase) for phase in self.report.phases)
        return Plan(self.report.candle, self.report.gating, self.report.runtime, phases)

    def _phase(self, git: str, copy: Path, phase: _Phase) -> PhaseChanges:
        before = {file.path: _content(copy / file.path) for file in phase.files}
        patch = self.folder / patch_path(phase.phase, phase.name)
        # git looks no further for a repository, in which paths would be others.
        alone = {"GIT_CEILING_DIRECTORIES": str(copy.parent)}
        command = [git, "apply", "--whitespace=nowarn", str(patch.resolve())]
        done = run_git(command, "patches", alone, seconds=_SECONDS, cwd=copy)
        after = {file.path: _content(copy / file.path) for file in phase.files}
        if done.returncode != 0 or None in after.values():
            raise Conflict(
                f"{patch} does not fit Candle {self.report.candle}",
                remedy="compare with a folder as `generate` wrote it, for this tree or for a release of Candle",
            )
        return PhaseChanges(phase.phase, phase.name, phase.summary, tuple(_changes(phase.files, before, after)))


def _changes(
    files: Iterable[_File], before: dict[str, bytes | None], after: dict[str, bytes | None]
) -> Iterable[FileChange]:
    for file in files:
        regions = tuple(region.region() for region in file.regions)
        yield FileChange(file.path, before[file.path], after[file.path] or b"", regions)


def _content(path: Path) -> bytes | None:
    found = beneath.read(path)
    return None if found is None else found.data


def read_generated(folder: Path) -> Generated | None:
    """What `generate` wrote into the folder; None if it has no report of ours.

    Raises `UsageError` for a report that says less than ours do, or names files elsewhere.
    """
    with io_errors(f"reading {folder / REPORT}", remedy="check the permissions there"):
        found = beneath.read(Path.cwd() / folder / REPORT)
    if found is None:
        return None
    try:
        report = _Report.model_validate_json(found.data)
        for phase in report.phases:
            for path in (patch_path(phase.phase, phase.name), *(file.path for file in phase.files)):
                checked_path(path)
    except (ValidationError, ValueError) as cause:
        raise UsageError(
            f"{folder / REPORT} is no report of `{TOOL} generate`", remedy="name a folder that `generate` wrote"
        ) from cause
    return Generated(folder, report) if report.tool.name == TOOL else None
