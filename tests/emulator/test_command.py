"""`candle-rocm emulator`: the variables that lead to the emulated device, and a program run with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CANDLE_ROCM = Path(sys.executable).with_name("candle-rocm")


def said(*arguments: str) -> str:
    done = subprocess.run([CANDLE_ROCM, "emulator", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_variables_lead_to_libraries_that_are_there() -> None:
    document = json.loads(said("--json"))
    assert (document["schema_version"], document["command"]) == (1, "emulator")
    rocm = Path(document["variables"]["ROCM_PATH"])
    assert (rocm / "lib/libamdhip64.so").exists()
    lines = said().splitlines()
    assert len(lines) == len(document["variables"]) > 0
    assert f"export ROCM_PATH={rocm}" in lines


def test_a_program_gets_them_and_keeps_its_exit_code() -> None:
    rocm = json.loads(said("--json"))["variables"]["ROCM_PATH"]
    assert said("printenv", "ROCM_PATH").strip() == rocm
    failed = subprocess.run([CANDLE_ROCM, "emulator", "sh", "-c", "exit 3"], check=False)
    assert failed.returncode == 3
    unknown = subprocess.run([CANDLE_ROCM, "emulator", "no-such-program"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "cannot run no-such-program" in unknown.stderr
