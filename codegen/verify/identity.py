"""Whose libamdhip64 the programs of a verification load: a GPU in the machine says nothing about that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from codegen import programs
from codegen.errors import ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codegen.verify.target import Device

ASK_SECONDS = 60.0
ASK = """
import ctypes
for name in ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"):
    try:
        hip = ctypes.CDLL(name)
    except OSError:
        continue
    ours = {"candle_rocm_emulator_last_report": "emulator", "candle_rocm_on_nvidia": "nvidia"}
    print(next((kind for function, kind in ours.items() if hasattr(hip, function)), "amd"))
    break
"""


def loaded_library(
    environment: Mapping[str, str], command: Sequence[str] = (sys.executable, "-I", "-c", ASK)
) -> str | None:
    """`amd`, `emulator` or `nvidia`: what the loader finds with these variables; None where it finds nothing.

    A program of its own asks, because the loader reads LD_LIBRARY_PATH when a program starts.
    """
    try:
        done = programs.run(command, variables=environment, seconds=ASK_SECONDS)
    except (OSError, programs.TookTooLong):
        return None
    return programs.says(done).strip() or None


def refuse_stand_in(
    device: Device, environment: Mapping[str, str], ask: Callable[[Mapping[str, str]], str | None] = loaded_library
) -> None:
    """Raise ToolchainMissing when tests on an AMD GPU would run on one of our own libraries instead.

    Where the loader finds no library at all, the tests themselves fail: that is not judged here.
    """
    if device.kind != "amd":
        return
    found = ask(environment)
    if found not in (None, "amd"):
        raise ToolchainMissing(
            f"{device.label} was chosen, but the libamdhip64 that programs load here is the {found}'s",
            remedy="take its folder out of LD_LIBRARY_PATH, or choose it with --target",
        )
