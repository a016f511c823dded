"""`python -m codegen.rocm [PART...]`: what `make rocm-toolchain` runs.

Fetches the oldest and the newest compiler, a disassembler, and of every ROCm version the headers and libraries that
specs/hip_api.yaml is checked against; `compiler` alone is enough to compile kernels.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codegen import terminal
from codegen.errors import CandleRocmError, ExitCode, UsageError
from codegen.rocm.fetch import fetch
from codegen.rocm.packages import Part, releases_with

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Fetch the parts (default: all); the exit code, after saying on stderr what is wrong."""
    try:
        for part in _parts(arguments):
            for release in releases_with(part):
                there = fetch(release, part, progress=terminal.note)
                terminal.say(f"ROCm {release.version} {part}: {len(there.packages)} packages in {there.folder}")
    except CandleRocmError as error:
        terminal.note(error)
        return error.exit_code
    return ExitCode.OK


def _parts(arguments: Sequence[str]) -> list[Part]:
    try:
        return [Part(argument) for argument in arguments] or list(Part)
    except ValueError as cause:
        raise UsageError(str(cause), remedy=f"choose from {', '.join(Part)}") from cause


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
