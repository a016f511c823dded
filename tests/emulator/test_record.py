"""The record that each process on the emulated device leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from codegen.paths import repository_root
from emulator.machine import emulator_folder

if TYPE_CHECKING:
    from pathlib import Path

DEVICES = [
    {"name": "AMD Radeon RX 7900 XTX (emulated)", "arch": "gfx1100", "wave": 32},
    {"name": "AMD Instinct MI210 (emulated)", "arch": "gfx90a", "wave": 64},
]
PRELUDE = """
import ctypes, os, signal, sys
from codegen.device.hip import Device, HipError, Launch, compile_source
SOURCE = '''
extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void again(int* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void wild(int* x) { x[1 << 20] = 1; }
'''
device = Device()
hip = device.libraries.hip
module = device.module(compile_source(device.libraries, "k.hip", SOURCE, {}, ["--offload-arch=gfx1100"]))
buffer = device.upload(bytes(16))
def launch(name, threads=4):
    module.launch(Launch(name, (1, 1, 1), (threads, 1, 1), (buffer.address.to_bytes(8, "little"),)))
"""
"""What it does is an allocation and a copy."""


def run(program: str, record: Path | str, *, exit_code: int = 0) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own, on two devices."""
    environment = {
        **os.environ,
        "CANDLE_ROCM_HIP": str(emulator_folder()),
        "CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx90a",
        "CANDLE_ROCM_RECORD": str(record),
    }
    code = PRELUDE + textwrap.dedent(program)
    command = [sys.executable, "-c", code]
    root = repository_root()
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == exit_code, done.stderr
    return done


def recorded(folder: Path) -> list[dict[str, Any]]:
    """The lines of the only file, which is named for its process."""
    (file,) = folder.iterdir()
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert file.suffix == ".jsonl"
    assert file.name.startswith(f"{lines[0]['pid']}-")
    return lines


def end(**counts: int) -> dict[str, Any]:
    """The last line of a process that launched kernels so often, and did nothing else but the prelude's."""
    none = {"copies": 1, "allocations": 1, "synchronisations": 0}
    return {"event": "end", "launches": sum(counts.values()), **none, "kernels": counts}


def test_a_process_is_recorded_from_its_start_to_its_end(tmp_path: Path) -> None:
    run(
        """
        launch("twice")
        launch("again")
        launch("twice")
        device.synchronize()
        device.download(buffer)
        """,
        tmp_path / "record",
    )
    start, *functions, last = recorded(tmp_path / "record")
    assert start.pop("pid") > 0
    assert start.pop("program").startswith("python")
    assert start == {"event": "start", "library": "emulator", "devices": DEVICES}
    assert functions == [{"event": "function", "name": name} for name in ("twice", "again")]
    assert last == end(again=1, twice=2) | {"copies": 2, "synchronisations": 1}


@pytest.mark.parametrize(
    "what",
    [
        "launch('twice', 4096)",
        "hip.candle_rocm_emulator_fail(b'hipModuleLaunchKernel', ctypes.c_longlong(1), 719); launch('twice')",
        "launch('wild'); launch('again'); device.synchronize()",
        "hip.hipMemcpy(None, ctypes.c_void_p(buffer.address), ctypes.c_size_t(16), 2)",
        "hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 50))",
        "hip.hipMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(0))",
        "hip.hipStreamSynchronize(ctypes.c_void_p(3))",
        "launch('again')",
    ],
    ids=["refused", "made to fail", "at fault", "no copy", "too large", "nothing", "no stream", "never waited for"],
)
def test_what_was_not_done_does_not_count(tmp_path: Path, what: str) -> None:
    """Of these the faulty kernel ran in part, the one after it was dropped, and the last is still on its stream."""
    run(f"try:\n    {what}\nexcept HipError:\n    pass", tmp_path)
    assert recorded(tmp_path)[-1] == end()


def test_rows_are_one_copy(tmp_path: Path) -> None:
    run(
        """
        rows = (ctypes.c_char * 16)()
        size = ctypes.c_size_t
        assert hip.hipMemcpy2D(rows, size(4), ctypes.c_void_p(buffer.address), size(4), size(4), size(4), 2) == 0
        assert hip.hipMemcpy2D(rows, size(4), ctypes.c_void_p(buffer.address), size(4), size(4), size(0), 2) == 0
        """,
        tmp_path,
    )
    assert recorded(tmp_path)[-1] == end() | {"copies": 2}


@pytest.mark.parametrize(
    ("how", "code", "ends"),
    [
        ("sys.exit(3)", 3, True),
        ("raise SystemExit", 0, True),
        ("ctypes.CDLL(None).exit(4)", 4, True),
        ("import atexit; atexit.register(lambda: (launch('again'), device.synchronize()))", 0, True),
        ("os._exit(0)", 0, False),
        ("os.abort()", -6, False),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, False),
        ("ctypes.string_at(0)", -11, False),
    ],
)
def test_only_a_process_that_ends_by_itself_says_so(tmp_path: Path, how: str, code: int, *, ends: bool) -> None:
    run(how, tmp_path, exit_code=code)
    last = recorded(tmp_path)[-1]
    if "atexit" in how:
        assert last == end(again=1) | {"synchronisations": 1}
    else:
        assert last["event"] == ("end" if ends else "start")


def test_a_library_that_is_closed_has_not_ended_the_process(tmp_path: Path) -> None:
    program = """
    import _ctypes
    for _ in range(5):
        _ctypes.dlclose(hip._handle)
    launch("again")
    device.synchronize()
    os._exit(0)
    """
    run(program, tmp_path)
    assert [line["event"] for line in recorded(tmp_path)] == ["start", "function"]


def test_a_forked_process_leaves_its_parent_s_record_alone(tmp_path: Path) -> None:
    program = """
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    launch("again")
    device.synchronize()
    """
    run(program, tmp_path)
    events = [line["event"] for line in recorded(tmp_path)]
    assert events == ["start", "function", "end"]


def test_each_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    run(
        "import subprocess; subprocess.run([sys.executable, '-c', 'from codegen.device.hip import Device; Device()'])",
        tmp_path,
    )
    ends = sorted(json.loads(file.read_text("utf-8").splitlines()[-1])["copies"] for file in tmp_path.iterdir())
    assert ends == [0, 1]


def test_a_record_that_cannot_be_written_is_said_once_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    done = run("launch('again'); device.synchronize(); print(device.download(buffer)[0])", tmp_path / "file")
    assert done.stdout == "1\n"
    assert done.stderr.startswith(f"CANDLE_ROCM_RECORD: cannot write to {tmp_path / 'file'}: ")
    assert done.stderr.count("\n") == 1


def test_nothing_is_written_unless_it_is_wanted() -> None:
    assert run("launch('again'); device.synchronize()", "").stderr == ""
