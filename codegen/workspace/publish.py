"""A git repository of patched releases: for each a branch, which has Candle as published and a commit for each phase.

What is committed depends on the release, the specs and the choices alone: author, committer and time are always the
same, so that two publications have the same hashes. A release's references change at once, when its commits are made.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import __version__, programs
from codegen.candle.fetch import copy_release
from codegen.errors import InputOutputError, ToolchainMissing, UsageError
from codegen.workspace.apply import apply_phases
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codegen.spec.kinds import Gating, Runtime
    from codegen.spec.model import PhaseSpec

Variables = Mapping[str, str]
NO_VARIABLES: Variables = {}
MARK = "candle-rocm-published"
"""A file of a repository that we made, and may change."""
TIME = "2025-01-01T00:00:00Z"
"""Of every commit: when one is made says nothing about it."""
WHO = {
    f"GIT_{role}_{what}": text
    for role in ("AUTHOR", "COMMITTER")
    for what, text in (
        ("NAME", "candle-rocm"),
        ("EMAIL", "candle-rocm@localhost"),
        ("DATE", TIME),
    )
}
_ALONE = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.excludesFile=/dev/null"),
    *("core.attributesFile=/dev/null", "core.autocrlf=false", "core.fileMode=true", "core.untrackedCache=false"),
    *("gc.auto=0", "i18n.commitEncoding=utf-8"),
)
"""Nobody's settings decide what is committed, and no program of a repository's runs."""


@dataclass(frozen=True, slots=True)
class Published:
    """A patched release in the repository."""

    release: str
    branch: str
    tag: str
    commit: str
    is_new: bool
    """Whether this run made the tag; otherwise nothing has changed since."""


def publish(
    folder: Path,
    releases: Sequence[str],
    *,
    gating: Gating,
    runtime: Runtime,
    offline: bool = False,
    on_release: Callable[[Published], None] = lambda _published: None,
) -> tuple[Published, ...]:
    """Make the repository, or bring it up to date; `on_release` hears of each release when it is published.

    Raises:
        UsageError: the folder has something in it that is no repository of ours.
        ToolchainMissing: git is not installed.
        InputOutputError: git or the disk refuses.
    """
    repository = _Repository.at(folder)
    found = []
    for release in releases:
        head = _commits(repository, release, gating=gating, runtime=runtime, offline=offline)
        found.append(_named(repository, release, head))
        repository.point(found[-1])
        on_release(found[-1])
    return tuple(found)


def _commits(repository: _Repository, release: str, *, gating: Gating, runtime: Runtime, offline: bool) -> str:
    """The last of the commits of a release."""
    with tempfile.TemporaryDirectory(prefix="candle-rocm-publish-") as scratch:
        tree = Path(scratch) / "candle"
        copy_release(release, tree, offline=offline)
        index = Path(scratch) / "index"
        head = repository.commit(tree, index, None, f"Candle {release}, as it was published")
        ready = [phase for phase in open_workspace(str(tree)).specs.phases if phase.applied]
        for phase in ready:
            workspace = open_workspace(str(tree), for_writing=True)
            apply_phases(workspace, phases=[phase.phase], gating=gating, runtime=runtime)
            head = repository.commit(tree, index, head, _message(phase, gating, runtime))
        return head


def _message(phase: PhaseSpec, gating: Gating, runtime: Runtime) -> str:
    made = f"Made by candle-rocm {__version__}: gating {gating}, runtime {runtime}."
    return f"ROCm, phase {phase.phase}: {phase.name}\n\n{phase.summary}\n\n{made}\n"


def _named(repository: _Repository, release: str, head: str) -> Published:
    """The tag that has this commit, or the next number."""
    tags = repository.tags(release)
    number = next((number for number, commit in tags.items() if commit == head), None)
    is_new = number is None
    return Published(
        release, f"{release}-rocm", f"{release}-rocm.{number or max(tags, default=0) + 1}", head, is_new=is_new
    )


@dataclass(frozen=True, slots=True)
class _Repository:
    """A bare repository of ours."""

    folder: Path
    program: str

    @classmethod
    def at(cls, folder: Path) -> _Repository:
        """The one in the folder; made where there is none."""
        program = programs.find("git")
        if program is None:
            raise ToolchainMissing("`git` not found on PATH", remedy="install git")
        repository = cls(folder.absolute(), program)
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            repository._git("init", "--quiet", "--bare", "--initial-branch=main", "--template=")
            (folder / MARK).write_text(f"{__version__}\n", encoding="utf-8")
        elif not (folder / MARK).is_file():
            raise UsageError(
                f"{folder} is no repository that `publish` made",
                remedy="name a new folder; push from there to the repository where it has to go",
            )
        return repository

    def commit(self, tree: Path, index: Path, parent: str | None, message: str) -> str:
        """A commit with all files of `tree`, but for those that a patched tree keeps to itself."""
        inside = {"GIT_WORK_TREE": str(tree), "GIT_INDEX_FILE": str(index)}
        self._git("add", "--all", ".", where=tree, variables=inside)
        written = self._git("write-tree", variables=inside)
        parents = () if parent is None else ("-p", parent)
        return self._git("commit-tree", written, *parents, "-F", "-", given=message, variables=WHO)

    def tags(self, release: str) -> dict[int, str]:
        """The commits of the tags of a release, by their numbers."""
        listed = self._git("for-each-ref", "--format=%(refname:strip=2) %(objectname)", "refs/tags")
        pattern = re.compile(rf"{re.escape(release)}-rocm\.(\d+) (\w+)")
        return {int(match[1]): match[2] for line in listed.splitlines() if (match := pattern.fullmatch(line))}

    def point(self, published: Published) -> None:
        """Change a release's references at once, and show it to those who look."""
        lines = [f"update refs/heads/{published.branch} {published.commit}\n"]
        lines += [f"create refs/tags/{published.tag} {published.commit}\n"] if published.is_new else []
        self._git("update-ref", "--stdin", given="".join(lines))
        self._git("symbolic-ref", "HEAD", f"refs/heads/{published.branch}")

    def _git(self, *words: str, given: str = "", where: Path | None = None, variables: Variables = NO_VARIABLES) -> str:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        try:
            done = programs.run(
                [self.program, *settings, *words],
                cwd=where or programs.NEUTRAL,
                variables={**programs.environment(), "GIT_DIR": str(self.folder), **_ALONE, **variables},
                given=given,
            )
        except OSError as error:
            raise InputOutputError(f"git cannot be started: {error.strerror}", remedy="install git") from error
        if done.returncode != 0:
            said = programs.complains(done).strip().partition("\n")[0]
            raise InputOutputError(f"git {words[0]} in {self.folder}: {said}", remedy="make the folder writable")
        return programs.says(done).strip()
