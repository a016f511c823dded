"""Three trees into one, by git's own merge in a repository of ours: it follows renames, and its conflicts are git's.

Only files in which the trees differ need be given: of what all have, nothing becomes anything else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from codegen import programs
from codegen.candle.cache import io_errors
from codegen.errors import InputOutputError
from codegen.patch.merge import ROOM, git_program, run_git
from codegen.tree_path import is_tree_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from subprocess import CompletedProcess

Files = Mapping[str, bytes]
"""Contents by path."""
BASE, OURS, THEIRS = 1, 2, 3
"""git's stages of a file in conflict."""
_SECONDS = 300.0
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.autocrlf=false", "core.fileMode=false"),
    *("core.symlinks=false", "core.precomposeUnicode=false", "core.quotePath=false", "gc.auto=0"),
    *("merge.conflictStyle=diff3", "merge.directoryRenames=true", "merge.renameLimit=20000"),
)
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding -eol merge\n"
"""What the trees' own .gitattributes say counts for nothing here."""
_WHO = "candle-rocm <candle-rocm@localhost> 0 +0000"


@dataclass(frozen=True, slots=True)
class TreeConflict:
    """A file of which git does not know what it becomes."""

    path: str
    stages: Mapping[int, bytes]
    """What each side has there: BASE, OURS and THEIRS, those that there are."""
    lines: tuple[int, ...]
    """Where in the merged text conflicts begin, from 1; none where a side has no such file."""


@dataclass(frozen=True, slots=True)
class MergedTree:
    """What a merge gives: all files of it, those in conflict with git's marks in them."""

    files: Files
    conflicts: tuple[TreeConflict, ...]


def merged_trees(base: Files, ours: Files, theirs: Files, *, names: tuple[str, str]) -> MergedTree:
    """`ours` with what `theirs` changed in `base`; `names` are those of the last two in the marks of conflicts.

    Raises `ToolchainMissing` where there is no git, and `InputOutputError`.
    """
    if base == theirs:
        return MergedTree(dict(ours), ())
    if base == ours:
        return MergedTree(dict(theirs), ())
    program = git_program("trees")
    with tempfile.TemporaryDirectory(prefix="candle-rocm-merge-") as folder:
        repository = _Repository(program, Path(folder))
        repository.make([base, ours, theirs])
        is_clean = repository.merge(names)
        with io_errors("reading a merge", remedy=ROOM):
            files = repository.files()
        conflicts = () if is_clean else tuple(repository.conflicts(files))
    return MergedTree(files, conflicts)


@dataclass(frozen=True, slots=True)
class _Repository:
    """A repository with three commits, `base` and two on top of it, and the work tree of `ours`."""

    program: str
    root: Path

    def make(self, trees: Sequence[Files]) -> None:
        self._git("init", "--quiet", "--template=", str(self.root))
        with io_errors("preparing a merge", remedy=ROOM):
            (self.root / ".git/info").mkdir(exist_ok=True)
            (self.root / ".git/info/attributes").write_text(_ATTRIBUTES, encoding="ascii")
        self._git("fast-import", "--quiet", "--date-format=raw", given=b"".join(_commits(trees)))
        self._git("read-tree", "--reset", "-u", "refs/heads/2")
        self._git("update-ref", "--no-deref", "HEAD", "refs/heads/2")

    def merge(self, names: tuple[str, str]) -> bool:
        """Whether there was no conflict."""
        commits = [self._says("rev-parse", f"refs/heads/{number}") for number in (BASE, OURS, THEIRS)]
        labels = {f"GITHEAD_{commit}": name for commit, name in zip(commits[1:], names, strict=True)}
        done = self._run("merge-recursive", commits[0], "--", *commits[1:], variables=labels)
        if done.returncode not in (0, 1):
            self._refuse("merge-recursive", done)
        return done.returncode == 0

    def files(self) -> dict[str, bytes]:
        """Of the work tree."""
        found = {}
        for folder, folders, names in os.walk(self.root):
            if Path(folder) == self.root:
                folders.remove(".git")
            for name in names:
                path = Path(folder) / name
                found[path.relative_to(self.root).as_posix()] = path.read_bytes()
        return found

    def conflicts(self, files: Files) -> Iterator[TreeConflict]:
        """`MODE BLOB STAGE<tab>PATH`, ended by NUL, for each side of each file."""
        sides: dict[str, dict[int, bytes]] = {}
        for entry in filter(None, self._git("ls-files", "--unmerged", "-z").split(b"\0")):
            fields, _, name = entry.partition(b"\t")
            _, blob, stage = fields.split()
            sides.setdefault(os.fsdecode(name), {})[int(stage)] = self._git("cat-file", "blob", blob.decode())
        for path, stages in sorted(sides.items()):
            is_in_text = OURS in stages and THEIRS in stages
            yield TreeConflict(path, stages, _marks(files.get(path, b"")) if is_in_text else ())

    def _says(self, *words: str) -> str:
        return self._git(*words).decode().strip()

    def _git(self, *words: str, given: bytes = b"") -> bytes:
        done = self._run(*words, given=given)
        if done.returncode != 0:
            self._refuse(words[0], done)
        return done.stdout

    def _run(
        self, *words: str, given: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> CompletedProcess[bytes]:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        own = {"GIT_DIR": str(self.root / ".git"), "GIT_WORK_TREE": str(self.root), **(variables or {})}
        command = [self.program, *settings, *words]
        return run_git(command, "trees", own, seconds=_SECONDS, cwd=self.root, given=given)

    def _refuse(self, verb: str, done: CompletedProcess[bytes]) -> NoReturn:
        said = programs.complains(done).strip() or f"exit status {done.returncode}"
        raise InputOutputError(f"git {verb} cannot merge trees: {said}", remedy=ROOM)


def _commits(trees: Iterable[Files]) -> Iterator[bytes]:
    """What `git fast-import` reads: branches 1, 2 and 3, the last two on top of the first."""
    for number, files in enumerate(trees, BASE):
        yield f"commit refs/heads/{number}\ncommitter {_WHO}\ndata 0\n".encode()
        if number > BASE:
            yield f"from refs/heads/{BASE}\n".encode()
        yield b"deleteall\n"
        for path, content in files.items():
            assert is_tree_path(path), path
            quoted = path.replace("\\", "\\\\").replace('"', '\\"')
            yield f'M 100644 inline "{quoted}"\ndata {len(content)}\n'.encode() + content + b"\n"


def _marks(text: bytes) -> tuple[int, ...]:
    """Lines where conflicts begin, from 1."""
    return tuple(number for number, line in enumerate(text.split(b"\n"), 1) if line.startswith(b"<<<<<<< "))
