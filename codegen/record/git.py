"""What git knows of a tree: which files have changes that are not committed.

A tree need not be a git checkout, and git need not be installed: then there is nothing that could be uncommitted.

A repository's configuration can name programs for git to run: filters, hooks, fsmonitor, the transport that fetches
missing objects. So git never sees it. It works from a repository of ours for one question, made of links to the other's
objects, references and index, with a configuration of the few harmless settings that decide how files are compared.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from codegen import beneath, programs
from codegen.candle.cache import io_errors
from codegen.errors import DirtyTree, InputOutputError, Problem
from codegen.record.record import digest_of
from codegen.terminal import shown_name
from codegen.tree_path import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from subprocess import CompletedProcess

    from codegen.record.record import Record

LISTED = 10
"""So many files are named in a message; of the others it gives the number."""

_LIMIT_SECONDS = 9.0
"""A hundred times what it takes; a pipe in place of a .gitignore takes for ever."""
_MOST_BLOB_BYTES = 256 << 20
"""Of all objects together that are read for one tree."""
_POINTER_BYTES = 1 << 16
"""A `.git` file or `commondir` is one line; what is longer is none."""
_SHARED = ("objects", "refs", "packed-refs", "reftable", "shallow")
_INFO = ("exclude", "attributes", "sparse-checkout")
_HARMLESS = {
    name.lower(): name
    for name in (
        *("core.autocrlf", "core.eol", "core.fileMode", "core.ignoreCase", "core.symlinks", "core.precomposeUnicode"),
        *("core.checkStat", "core.trustctime", "core.sparseCheckout", "core.sparseCheckoutCone", "core.excludesFile"),
        *("core.repositoryFormatVersion", "extensions.objectFormat", "extensions.refStorage", "index.sparse"),
    )
}
"""Settings that decide how files are compared and where git keeps what; none of them names a program."""
_OF_THE_USER_ONLY = frozenset({"core.excludesfile"})
"""A file name, which a tree may not choose."""
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


def uncommitted(root: Path, record: Record | None = None) -> tuple[str, ...]:
    """Paths below `root`, sorted, that `git status` reports, less the record itself and what it speaks of.

    Ignored files, the inside of submodules, and files of the repository outside of `root` do not count. Raises
    `InputOutputError` when git is there and the tree is a checkout, but git refuses to look at it.
    """
    program = programs.find("git")
    checkout = _checkout_of(root) if program is not None else None
    if program is None or checkout is None:
        return ()
    with _private(program, checkout, root) as git:
        # A folder that merely lies in somebody's repository, with nothing in it tracked, is not a checkout.
        if checkout.prefix and not git.ask("ls-files", "-z", "--", checkout.prefix):
            return ()
        status = git.ask(
            *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=dirty"),
            *("--", checkout.prefix or "."),
        )
    # `XY path`, ended by NUL, relative to the top of the repository whatever the working directory.
    skipped = 3 + len(os.fsencode(checkout.prefix))
    paths = {os.fsdecode(entry[skipped:]) for entry in status.split(b"\0") if entry}
    ours = {path: {digest} for path, digest in record.left().items()} if record is not None else {}
    for declared in record.declared if record is not None else ():
        ours[declared.path].add(declared.own)
    found = (path for path in paths if path.split("/")[0] != FOLDER)
    return tuple(sorted(path for path in found if digest_of(root, path) not in ours.get(path, ())))


def blobs(root: Path, names: Iterable[str]) -> dict[str, bytes]:
    """What git's objects have under these names, of what it has; nothing where the tree is no checkout.

    Nothing is fetched, and what git cannot say counts as not there.
    """
    wanted = sorted(set(names))
    program = programs.find("git")
    checkout = _checkout_of(root) if program is not None and wanted else None
    if program is None or checkout is None:
        return {}
    try:
        with _private(program, checkout, root) as git:
            listing = git.ask("cat-file", "--batch-check", given="".join(f"{name}\n" for name in wanted).encode())
            there, size = [], 0
            for line in listing.splitlines():
                name, kind, length, *_ = *os.fsdecode(line).split(" "), "", "", ""
                if kind != "blob" or not length.isdecimal() or int(length) > beneath.LARGEST:
                    continue
                size += int(length)
                if size <= _MOST_BLOB_BYTES:
                    there.append(name)
            if not there:
                return {}
            content = git.ask("cat-file", "--batch", given="".join(f"{name}\n" for name in there).encode())
    except InputOutputError:
        return {}
    return _parted(content)


def mark_unmerged(root: Path, conflicts: Mapping[str, Mapping[int, bytes]]) -> bool:
    """Tell git's index of files in conflict, as a merge does, so that `git status` and `git mergetool` know of them.

    `conflicts` has the contents of each file's stages: 1 the base, 2 ours, 3 theirs. False where the tree is no
    checkout. Raises `InputOutputError` when git refuses.
    """
    program = programs.find("git")
    checkout = _checkout_of(root) if program is not None and conflicts else None
    if program is None or checkout is None:
        return False
    with _private(program, checkout, root) as git:
        lines = []
        for path, stages in conflicts.items():
            name = f"{checkout.prefix}{path}"
            file = root / path
            mode = "100755" if _is(Path.is_file, file) and file.stat().st_mode & stat.S_IXUSR else "100644"
            blobs = {
                stage: git.ask("hash-object", "-w", "--stdin", given=each).decode().strip()
                for stage, each in stages.items()
            }
            lines.append(f"0 {'0' * len(next(iter(blobs.values())))}\t{name}")
            lines += [f"{mode} {blob} {stage}\t{name}" for stage, blob in sorted(blobs.items())]
        git.ask("update-index", "-z", "--index-info", given=os.fsencode("\0".join([*lines, ""])))
    return True


def not_checked_out(root: Path) -> tuple[str, ...]:
    """Paths below `root`, sorted, of files that a sparse checkout leaves out; none where git cannot tell."""
    program = programs.find("git")
    checkout = _checkout_of(root) if program is not None else None
    if program is None or checkout is None or not _is(Path.is_file, _info(checkout, "sparse-checkout")):
        return ()
    try:
        with _private(program, checkout, root) as git:
            listing = git.ask("ls-files", "-t", "-z", "--full-name", "--", checkout.prefix or ".")
    except InputOutputError:
        return ()
    skipped = 2 + len(os.fsencode(checkout.prefix))
    paths = (os.fsdecode(entry[skipped:]) for entry in listing.split(b"\0") if entry.startswith(b"S "))
    return tuple(sorted(path for path in paths if not os.path.lexists(root / path)))


def _parted(content: bytes) -> dict[str, bytes]:
    """What `cat-file --batch` says: `NAME blob LENGTH`, and that many bytes, for each."""
    found = {}
    at = 0
    while (end := content.find(b"\n", at)) >= 0:
        name, _, length = os.fsdecode(content[at:end]).split(" ")
        at = end + 1 + int(length)
        found[name] = content[end + 1 : at]
        at += 1
    return found


def require_clean(root: Path, record: Record | None = None) -> None:
    """Raises `DirtyTree` when the tree has changes, other than our own, that are not committed, or is not all there."""
    paths = uncommitted(root, record)
    if paths:
        count = "1 file has" if len(paths) == 1 else f"{len(paths)} files have"
        raise DirtyTree(
            [Problem(f"{count} uncommitted changes in {root}:"), *_listed(paths)],
            remedy="commit or stash them, or pass --allow-dirty",
        )
    absent = not_checked_out(root)
    if absent:
        count = "1 file is" if len(absent) == 1 else f"{len(absent)} files are"
        raise DirtyTree(
            [Problem(f"{count} left out of the sparse checkout {root}, and would not be patched:"), *_listed(absent)],
            remedy="check them out (git sparse-checkout disable), or pass --allow-dirty",
        )


def _listed(paths: tuple[str, ...]) -> list[Problem]:
    problems = [Problem(shown_name(path)) for path in paths[:LISTED]]
    if len(paths) > LISTED:
        problems.append(Problem(f"and {len(paths) - LISTED} more"))
    return problems


@dataclass(frozen=True, slots=True)
class _Checkout:
    """A work tree, and where its repository lies."""

    top: Path
    own: Path
    """What belongs to this work tree: HEAD and the index."""
    shared: Path
    """What all work trees of the repository share; mostly the same folder."""
    prefix: str
    """Where the folder that was asked about lies below `top`: empty, or with a slash at its end."""


def _checkout_of(root: Path) -> _Checkout | None:
    """The work tree that a folder lies in, found as git finds it (but for `core.worktree`, which is not believed)."""
    try:
        start = root.resolve(strict=True)
    except OSError as cause:
        _refuse(root, cause.strerror or str(cause))
    ceilings = {Path(each) for each in os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep) if each}
    for top in (start, *start.parents):
        if top != start and top in ceilings:
            return None
        if _is_repository(top):  # its inside: no work tree
            return None
        own = _git_folder(top / ".git")
        if own is not None:
            line = _pointer(own / "commondir")
            shared = own / line if line else own
            prefix = start.relative_to(top).as_posix()
            return _Checkout(top, own, shared, "" if prefix == "." else f"{prefix}/")
    return None


def _git_folder(path: Path) -> Path | None:
    """The folder that a `.git` is, or that it names."""
    if _is(Path.is_file, path):
        named = _pointer(path)
        path = path.parent / named.removeprefix("gitdir: ") if named.startswith("gitdir: ") else path
    return path if _is_repository(path) else None


def _is_repository(folder: Path) -> bool:
    return _is(Path.is_file, folder / "HEAD") and any(
        _is(Path.exists, folder / name) for name in ("objects", "commondir")
    )


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """Whether a path is of that kind; one whose name is too long, for which `Path` has an error, is not."""
    try:
        return kind(path)
    except OSError:
        return False


def _pointer(path: Path) -> str:
    """The one line of a file, empty where there is no such file."""
    if not _is(Path.is_file, path):
        return ""
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(_POINTER_BYTES)).rstrip("\r\n").replace("\0", "")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class _Git:
    """git with a repository of ours."""

    program: str
    root: Path
    variables: Mapping[str, str]

    def ask(self, *arguments: str, given: bytes = b"") -> bytes:
        """What git answers, with `given` on standard input. Raises `InputOutputError` when it refuses to."""
        return _asked(self.program, self.root, self.variables, *arguments, given=given)


@contextmanager
def _private(program: str, checkout: _Checkout, root: Path) -> Iterator[_Git]:
    room = "free space for temporary files, or choose another folder with TMPDIR"
    with tempfile.TemporaryDirectory() as name:
        own = Path(name)
        with io_errors("preparing a look at the git repository", remedy=room):
            (own / "info").mkdir()
            (own / "HEAD").write_bytes(os.fsencode(_head(checkout.own / "HEAD")))  # git wants no link to one
            links = [(each, checkout.shared / each) for each in _SHARED]
            links += [(f"info/{each}", _info(checkout, each)) for each in _INFO]
            links += [(each.name, each) for each in (checkout.own / "index", *checkout.own.glob("sharedindex.*"))]
            for link, target in links:
                if _is(Path.is_file, target) or _is(Path.is_dir, target):
                    (own / link).symlink_to(target)
            for needed in ("refs", "objects"):
                (own / needed).mkdir(exist_ok=True)
            (own / "config").write_bytes(_configuration(program, checkout, root))
        variables = {
            **_environment(),
            "GIT_DIR": str(own),
            "GIT_WORK_TREE": str(checkout.top),
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_TERMINAL_PROMPT": "0",
        }
        yield _Git(program, root, variables)


def _head(path: Path) -> str:
    """What is checked out; old repositories have a link to the branch."""
    return (f"ref: {path.readlink().as_posix()}" if path.is_symlink() else _pointer(path)) + "\n"


def _info(checkout: _Checkout, name: str) -> Path:
    """Which folders are checked out is a matter of each work tree."""
    return (checkout.own if name == "sparse-checkout" else checkout.shared) / "info" / name


def _configuration(program: str, checkout: _Checkout, root: Path) -> bytes:
    """The harmless settings of the user and of the repository, as a file."""
    settings = _settings(program, root, "--global", "--includes")
    for file in (checkout.shared / "config", checkout.own / "config.worktree"):
        if _is(Path.is_file, file):
            of_tree = _settings(program, root, "--file", str(file), "--no-includes")
            settings |= {name: value for name, value in of_tree.items() if name not in _OF_THE_USER_ONLY}
    sections: dict[str, list[str]] = {}
    for name, value in settings.items():
        section, _, key = _HARMLESS[name].partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        sections.setdefault(section, []).append(f'\t{key} = "{quoted}"\n')
    return os.fsencode("".join(f"[{section}]\n{''.join(lines)}" for section, lines in sections.items()))


def _settings(program: str, root: Path, *source: str) -> dict[str, str]:
    """The harmless ones among the settings of one file, which git reads as text and does not follow."""
    if source[0] == "--global" and os.environ.get("GIT_CONFIG_GLOBAL") == os.devnull:
        return {}
    # Without a repository around, git has no other configuration to take orders from.
    variables = {**_environment(), "GIT_DIR": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = _run(program, root, variables, "config", *source, "--null", "--list")
    if done.returncode != 0:
        if source[0] == "--global":  # the user has none
            return {}
        _refuse(root, programs.complains(done).strip() or f"exit status {done.returncode}")
    found = {}
    for entry in done.stdout.split(b"\0"):
        name, parted, value = os.fsdecode(entry).partition("\n")
        if name in _HARMLESS:
            found[name] = value if parted else "true"
    return found


def _environment() -> dict[str, str]:
    # In a hook, or under `git rebase --exec`, GIT_DIR and its kin name another repository than the tree's.
    return {**programs.environment(), **{name: os.environ[name] for name in _KEPT if name in os.environ}}


def _asked(program: str, root: Path, variables: Mapping[str, str], *arguments: str, given: bytes = b"") -> bytes:
    done = _run(program, root, variables, *arguments, given=given)
    if done.returncode != 0:
        _refuse(root, programs.complains(done).strip() or f"exit status {done.returncode}")
    return done.stdout


def _run(
    program: str, root: Path, variables: Mapping[str, str], *arguments: str, given: bytes = b""
) -> CompletedProcess[bytes]:
    try:
        return programs.run([program, *arguments], variables=variables, given=given, seconds=_LIMIT_SECONDS)
    except programs.TookTooLong as cause:
        raise programs.hangs(f"git, asked what is uncommitted in {root},", cause) from cause
    except OSError as cause:
        _refuse(root, cause.strerror or str(cause))


def _refuse(root: Path, reason: str) -> NoReturn:
    raise InputOutputError(
        f"git cannot tell what is uncommitted in {root}: {reason}",
        remedy="solve the problem that git reports, or pass --allow-dirty",
    )
