"""What a program needs to be built with a patched Candle: a tree, a feature, and a [patch] section that names the tree.

The release is the one that the program's Cargo.lock names. No code of the program runs.
"""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codegen import beneath
from codegen.candle import lock, toml_text
from codegen.candle.manifest import add_patch, extend_feature
from codegen.candle.program import CANDLE, WITH_FEATURE, dependencies, find_program, manifest_of, table_of
from codegen.candle.reading import read_below
from codegen.errors import CandleRocmError, Conflict, Location, NotACandleTree, Problem, UsageError
from codegen.patch.changes import FileChange
from codegen.record.disk import Disk
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codegen.candle.program import Program

FEATURE = "rocm"
CRATES_IO = "crates-io"
_MANIFEST = "Cargo.toml"


@dataclass(frozen=True, slots=True)
class UsePlan:
    """What is to be done, and what is wrong already."""

    root: Path
    """The folder of the workspace's manifest, or of the program's own."""
    release: str
    source: str
    """`crates-io`, the URL of a repository, or empty for a folder."""
    tree: Path
    """Where the patched Candle is, or will be."""
    commands: tuple[tuple[str, ...], ...]
    """What makes the tree, in order; none where it is as it has to be."""
    changes: tuple[FileChange, ...]
    """Of the program's manifests; paths are relative to `root`."""
    faults: tuple[Problem, ...] = ()
    """What the program has already, and what keeps it from working."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return not (self.commands or self.changes or self.faults)


def plan_use(app: str | Path, tree: Path | None = None) -> UsePlan:
    """What the program in the folder `app` needs; `tree` is the patched Candle, by default beside the program.

    Raises:
        UsageError: there is no program that depends on Candle, or no lock that says on which.
        NotACandleTree: a manifest is no TOML, or the lock has several Candles.
        InputOutputError: a file cannot be read.
    """
    root = workspace_root(Path(app).absolute())
    program = find_program(root)
    if program is None:
        raise no_program(app, root)
    locked = locked_candle(root)
    core = next((each for each in locked if each.name == "candle-core"), locked[0])
    manifest = manifest_of(root, _MANIFEST)
    source, known = _patched_already(manifest, root) or (_source(core), None)
    place = tree or known or (None if source else _folder_of(core, manifest, root, program))
    place = Path(os.path.abspath(place or root.parent / f"candle-{core.version}"))  # noqa: PTH100 - links stay
    commands, faults = _tree_commands(core, source, place, root)
    texts = {path: read_below(root, path).decode() for path in {_MANIFEST, *program.manifests}}
    changed = dict(texts)
    for path in program.manifests:
        if "package" in manifest_of(root, path):
            changed[path] = extend_feature(changed[path], FEATURE, _entries(root, path, program), file=path)
        faults += _patch_in_member(root, path, texts[path])
    for crate in dict.fromkeys(each.name for each in locked) if source else ():
        changed[_MANIFEST], fault = _with_patch(changed[_MANIFEST], source, crate, place, root)
        faults += fault
    changes = tuple(
        FileChange(path, texts[path].encode(), changed[path].encode())
        for path in sorted(texts)
        if changed[path] != texts[path]
    )
    return UsePlan(root, core.version, source, place, tuple(commands), changes, tuple(faults))


def workspace_root(app: Path) -> Path:
    """Where the manifest with [workspace] is, as cargo looks for it; the program's own folder where there is none."""
    if not (app / _MANIFEST).is_file():
        raise UsageError(f"{app} has no {_MANIFEST}", remedy="give the folder of a program that depends on Candle")
    named = manifest_of(app, _MANIFEST).get("package", {}).get("workspace")
    if isinstance(named, str):
        return Path(os.path.abspath(app / named))  # noqa: PTH100 - as cargo does
    for folder in (app, *app.parents):
        if (folder / _MANIFEST).is_file() and isinstance(
            workspace := manifest_of(folder, _MANIFEST).get("workspace"), dict
        ):
            excluded = [str(each) for each in workspace.get("exclude", [])]
            inside = app.relative_to(folder).as_posix()
            return app if any(inside == each or inside.startswith(f"{each}/") for each in excluded) else folder
    return app


def no_program(app: str | Path, root: Path) -> UsageError:
    """Why there is nothing to be done: no Candle at all, or one that only other crates ask for."""
    text = read_below(root, lock.FILE).decode("utf-8", "replace") if (root / lock.FILE).is_file() else ""
    for each in lock.packages(text, ("candle-core",)):
        return UsageError(
            f"Candle {each.version} comes to {app} through other crates, and a feature needs a dependency of its own",
            remedy=f"run `cargo add candle-core@={each.version}` there",
        )
    return UsageError(
        f"{app} is no program that depends on Candle",
        remedy=f"give the folder of a Cargo.toml that depends on one of {', '.join(CANDLE)}",
    )


def locked_candle(root: Path) -> tuple[lock.Locked, ...]:
    """The Candle crates of the lock, each once."""
    if not (root / lock.FILE).is_file():
        raise UsageError(
            f"{root} has no {lock.FILE}, which says with which release of Candle the program is built",
            remedy="run `cargo generate-lockfile` there",
        )
    found = lock.packages(read_below(root, lock.FILE).decode("utf-8", "replace"), CANDLE)
    if not found:
        raise UsageError(
            f"{lock.FILE} of {root} has no Candle: it is older than {_MANIFEST}", remedy="run `cargo update -w` there"
        )
    versions = dict.fromkeys(each.version for each in found)
    if len(versions) > 1:
        raise NotACandleTree(
            f"{root / lock.FILE} has Candle {' and '.join(versions)}, and a [patch] section can stand for one of them",
            remedy=f"`cargo tree -i candle-core@{next(iter(versions))}` shows who asks for which; make them agree",
        )
    return found


def _source(core: lock.Locked) -> str:
    """As [patch] names it: `crates-io`, or the URL of a repository; empty for a folder."""
    if core.from_registry:
        return CRATES_IO
    return core.git[0] if core.git is not None else ""


def _patched_already(manifest: Mapping[str, Any], root: Path) -> tuple[str, Path] | None:
    """The source and the tree that a [patch] section names for candle-core."""
    for source, section in table_of(manifest, "patch").items():
        entry = section.get("candle-core") if isinstance(section, dict) else None
        if isinstance(entry, dict) and isinstance(path := entry.get("path"), str):
            return source, (root / path).parent
    return None


def _folder_of(core: lock.Locked, manifest: Mapping[str, Any], root: Path, program: Program) -> Path | None:
    """The Candle tree that the program's manifests depend on by a path."""
    for path in (_MANIFEST, *program.manifests):
        for each in dependencies(manifest_of(root, path), manifest):
            if each.package == core.name and isinstance(folder := each.wanted.get("path"), str):
                base = root if each.inherited else (root / path).parent
                return (base / folder).parent
    return None


def _tree_commands(
    core: lock.Locked, source: str, place: Path, root: Path
) -> tuple[list[tuple[str, ...]], list[Problem]]:
    """What makes the patched tree, and what is wrong with one that is there."""
    shown = os.path.relpath(place, root)
    apply = ("candle-rocm", "apply", shown)
    if not place.exists():
        if core.git is not None:
            url, commit = core.git
            return [("git", "clone", url, shown), ("git", "-C", shown, "checkout", commit), apply], []
        if source in ("", CRATES_IO):
            return [("candle-rocm", "fetch", core.version, "--to", shown), apply], []
        return [("git", "clone", source, shown), apply], []
    try:
        workspace = open_workspace(str(place), as_it_is=True)
    except CandleRocmError as error:
        return [], [Problem(f"{shown} is no Candle tree: {error.problems[0].message}")]
    if workspace.tree.release != core.version:
        wrong = f"{shown} is Candle {workspace.tree.release}, and {lock.FILE} names {core.version}"
        return [], [Problem(f"{wrong}: `cargo update -p candle-core`, or name another tree with --candle")]
    return ([] if workspace.applied else [apply]), []


def _entries(root: Path, path: str, program: Program) -> list[str]:
    """The entries of a package's feature: Candle's crates, and packages of the same workspace that have it.

    Of an optional dependency, only where that is on (`?`).
    """
    own = {
        manifest["package"]["name"]
        for each in program.manifests
        if "package" in (manifest := manifest_of(root, each)) and each != path
    }
    found = [
        f"{each.key}{'?' if each.wanted.get('optional') else ''}/{FEATURE}"
        for each in dependencies(manifest_of(root, path), manifest_of(root, _MANIFEST))
        if each.package in WITH_FEATURE or each.package in own
    ]
    return list(dict.fromkeys(found))


def _with_patch(text: str, source: str, crate: str, place: Path, root: Path) -> tuple[str, list[Problem]]:
    """The root's manifest with the crate in its [patch] section, and what is wrong with one that is there."""
    path = Path(os.path.relpath(place / crate, root)).as_posix()
    section = table_of(table_of(toml_text.load(text, _MANIFEST), "patch"), source)
    known = section.get(crate)
    if known is None:
        return add_patch(text, source, crate, path), []
    named = known.get("path") if isinstance(known, dict) else None
    if isinstance(named, str) and os.path.abspath(root / named) == os.path.abspath(root / path):  # noqa: PTH100
        return text, []
    above, _, below = text.partition("[patch")
    where = Location.in_text(_MANIFEST, text, above.count("\n") + toml_text.line_of_key(below, crate))
    message = f"[patch] gives {crate} another place than {path}: correct it, or name that tree with --candle"
    return text, [Problem(message, where)]


def _patch_in_member(root: Path, path: str, text: str) -> list[Problem]:
    """Cargo reads [patch] in the workspace's manifest alone."""
    if path == _MANIFEST or not table_of(manifest_of(root, path), "patch"):
        return []
    where = Location.in_text(
        path, text, next((n for n, line in enumerate(text.splitlines(), 1) if "[patch" in line), 1)
    )
    return [Problem(f"cargo does not read [patch] here, only in {_MANIFEST} of the workspace: take it out", where)]


def write_changes(plan: UsePlan) -> None:
    """Write the manifests, each whole or not at all, where they are still as they were read.

    Raises `InputOutputError`, and `Conflict` for a manifest that somebody changed meanwhile.
    """
    disk = Disk()
    for change in plan.changes:
        file = plan.root / change.path
        found = beneath.read(file, attributes=True)
        if found is None or found.data != change.before:
            raise Conflict(f"{change.path} was changed meanwhile", remedy="run the command again")
        new = file.with_name(f".{file.name}.{os.getpid()}")
        mode, owner = stat.S_IMODE(found.status.st_mode), (found.status.st_uid, found.status.st_gid)
        disk.write(new, change.after, mode, owner, found.attributes)
        disk.replace(new, file)


def command_line(words: tuple[str, ...]) -> str:
    """A command as a shell takes it."""
    return shlex.join(words)
