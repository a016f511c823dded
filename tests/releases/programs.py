"""Crates in folders of their own that use a patched Candle, and where they are built."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from codegen.candle.archive import unpack
from codegen.candle.lock import FILE, packages
from codegen.candle.program import CANDLE
from codegen.candle.registry import connect
from codegen.paths import repository_root
from codegen.verify.cargo import UNOPTIMISED
from codegen.verify.device_use import RECORD, DeviceUse, read_use
from releases.command_line import candle_rocm

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN = Path(__file__).with_name("program")
"""A program that nothing but its manifest ties to Candle."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, and what it did with the device."""

    output: str
    use: DeviceUse


def patched_candle(folder: Path, release: str, *options: str) -> Path:
    """A folder with the release, patched as users do it; one that is as apply leaves it is kept."""
    if folder.is_dir() and candle_rocm("check", folder, *options).code != 0:
        shutil.rmtree(folder)
    if not folder.is_dir():
        fetched = candle_rocm("fetch", release, "--to", folder)
        assert fetched.code == 0, fetched.stderr
        applied = candle_rocm("apply", folder, *options)
        assert applied.code == 0, applied.stderr
    return folder


def published_source(folder: Path, name: str, version: str, release: str, candle: Path) -> None:
    """A published crate as it is in the registry, with `use --write` for a patched Candle.

    `release` is Candle's, and has to be one that the crate's own manifest allows.
    """
    shutil.rmtree(folder, ignore_errors=True)
    registry = connect()
    (entry,) = (each for each in registry.entries(name) if each.version == version)
    unpack(registry.download(entry), name, version, folder)
    for each in packages((folder / FILE).read_text(encoding="utf-8"), CANDLE):
        update = ["cargo", "update", "--quiet", "--package", each.name, "--precise", release]
        done = subprocess.run(update, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
    used = candle_rocm("use", folder, "--candle", candle, "--write")
    assert used.code == 0, used.stderr


def with_patch(program: Path, candle: Path) -> None:
    """Gives a program what it needs, as docs/use-in-your-program.md says."""
    subprocess.run(["cargo", "generate-lockfile", "--quiet"], cwd=program, check=True)
    written = candle_rocm("use", program, "--candle", candle, "--write")
    assert written.code == 0, written.stderr


def with_build_script(program: Path) -> None:
    """Gives a program the build script that docs/use-in-your-program.md has for linked ones."""
    page = (repository_root() / "docs" / "use-in-your-program.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Linked to ROCm\n")
    _, _, script = section.partition("```rust\n")
    (program / "build.rs").write_text(script.partition("```\n")[0], encoding="utf-8")


def using(folder: Path, name: str, version: str, release: str) -> None:
    """A program of ours (published/NAME.rs) that uses a published crate."""
    (folder / "src").mkdir(parents=True)
    shutil.copy(OWN.with_name("published") / f"{name}.rs", folder / "src" / "main.rs")
    manifest = (OWN / "Cargo.toml").read_text(encoding="utf-8").replace('"0.11"', f'"{release}"')
    head, _, tail = manifest.partition("[dependencies]\n")
    (folder / "Cargo.toml").write_text(f'{head}[dependencies]\n{name} = "{version}"\n{tail}', encoding="utf-8")


def cargo(program: Path, target: Path, *arguments: str, variables: Mapping[str, str]) -> Ran:
    """Runs cargo in the program's folder, and what it runs on the device; it has to end well."""
    return run(
        "cargo",
        arguments[0],
        *UNOPTIMISED,
        *arguments[1:],
        folder=program,
        variables={"CARGO_TARGET_DIR": str(target), **variables},
    )


def run(*command: str, folder: Path, variables: Mapping[str, str]) -> Ran:
    """Runs a program that uses the device; it has to end well."""
    kept = {name: value for name, value in os.environ.items() if name not in ("SKIP_BINDGEN", "ROCM_PATH")}
    with TemporaryDirectory() as record:
        environment = {**kept, RECORD: record, **variables}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return Ran(done.stdout, read_use(Path(record)))
