"""The emulated HIP device as verification uses it: built with cargo, and laid out like a ROCm installation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, VerificationFailed
from codegen.verify.cargo import run_cargo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codegen.verify.cargo import CargoRun

WORKSPACE = "emulator"
TARGET = "build/emulator"
"""The same folder as `make emulator` uses, below the repository."""
LIBRARY_PATH = "LD_LIBRARY_PATH"


def prepare_emulator(
    repository: Path,
    *,
    variables: Mapping[str, str],
    log: Path,
    cargo: Callable[..., CargoRun] = run_cargo,
    on_message: Callable[[str], None] = lambda _line: None,
) -> dict[str, str]:
    """Build the emulated device's libraries, and return the variables with which Candle builds and runs on them.

    ROCM_PATH names a folder of links, because Candle's build script looks for `lib/libamdhip64.so` below it.

    Raises VerificationFailed when the libraries do not build, InputOutputError when the folder cannot be written.
    """
    target = repository / TARGET
    on_message("building the emulated HIP device")
    arguments = ("build", "--release", "--manifest-path", str(repository / WORKSPACE / "Cargo.toml"))
    run = cargo(
        repository,
        (*arguments, "--target-dir", str(target)),
        log=log,
        environment={"CARGO_TERM_COLOR": "never", "CARGO_TERM_PROGRESS_WHEN": "never"},
        on_message=on_message,
    )
    if not run.ok:
        raise VerificationFailed(
            "the emulated HIP device does not build",
            remedy=f"the whole output is in {log}; see `make emulator`",
        )
    rocm = target / "rocm"
    try:
        _link_libraries(target / "release", rocm / "lib")
    except OSError as error:
        raise InputOutputError(
            f"cannot lay out the emulated HIP device in {rocm}: {error.strerror}", remedy="make the folder writable"
        ) from error
    searched = [str(rocm / "lib"), *filter(None, [variables.get(LIBRARY_PATH)])]
    return {"ROCM_PATH": str(rocm), LIBRARY_PATH: os.pathsep.join(searched)}


def _link_libraries(built: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for library in sorted(built.glob("lib*.so")):
        link = folder / library.name
        if not (link.is_symlink() and link.readlink() == library):
            link.unlink(missing_ok=True)
            link.symlink_to(library)
