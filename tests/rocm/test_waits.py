"""Machine code that does not wait for what it has asked for: in software, it is an error that names the register."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels.machine_code import Card, MachineCode
from rocm_toolchain import real_toolchain

from codegen.device.hip import HipError, Launch
from codegen.kernels.compile import compile_kernels
from codegen.kernels.render import Source, Sources

if TYPE_CHECKING:
    from pathlib import Path

CARD = "gfx1100"
LANES = 32
SOURCE = """
extern "C" __global__ void __launch_bounds__(32) probe(float *y, const float *x, const float *more, unsigned count) {
  __shared__ float held[32];
  held[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = held[31 - threadIdx.x] + more[threadIdx.x] * count;
}
"""
WAIT, NOTHING = 0xBF89, 0xBF800000
"""The upper half of S_WAITCNT, and S_NOP."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The kernel as AMD's compiler makes it."""
    source = Source("probe.hip", "#include <hip/hip_runtime.h>\n" + SOURCE, None, ())
    (found,) = compile_kernels(Sources((), (source,)), [CARD], real_toolchain(), tmp_path_factory.mktemp("code"))
    return found.path.read_bytes()


def waits(code: bytes) -> list[int]:
    """Where words of S_WAITCNT begin."""
    words = np.frombuffer(code[: len(code) // 4 * 4], np.uint32)
    return [int(word) * 4 for word in np.flatnonzero(words >> 16 == WAIT)]


def without(code: bytes, place: int) -> bytes:
    """The same, but for one instruction."""
    return code[:place] + NOTHING.to_bytes(4, "little") + code[place + 4 :]


def run(code: bytes, folder: Path) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """What the kernel computes."""
    (folder / "probe.hsaco").write_bytes(code)
    card = Card(CARD)
    module = MachineCode(card, folder / "probe.hsaco")
    x = np.arange(LANES, dtype=np.float32)
    of_x, of_more, of_y = card.upload(x.tobytes()), card.upload((x + 1).tobytes()), card.zeros(4 * LANES)
    arguments = [each.address.to_bytes(8, "little") for each in (of_y, of_x, of_more)]
    arguments.append((3).to_bytes(4, "little"))
    try:
        module.launch(Launch("probe", (1, 1, 1), (LANES, 1, 1), tuple(arguments)))
    finally:
        module.unload()
    return np.frombuffer(card.download(of_y), np.float32)


def test_it_waits_for_all_that_it_uses(code: bytes, tmp_path: Path) -> None:
    x = np.arange(LANES, dtype=np.float32)
    assert (run(code, tmp_path) == x[::-1] + 3 * (x + 1)).all()


def test_what_is_used_too_early_is_named(code: bytes, tmp_path: Path) -> None:
    """Each wait but those for what is stored, which nothing uses, is missed: for arguments, memory and LDS."""
    found = []
    for place in waits(code):
        try:
            run(without(code, place), tmp_path)
        except HipError as error:
            found += re.findall(r"(\w+): ([vs])\d+ is used before the program has waited for it", str(error))
    instructions = {name for name, _ in found}
    assert {register for _, register in found} == {"s", "v"}
    # A load by address that an argument has, a store to LDS of what memory has, and a sum of what LDS has.
    assert any(name.startswith(("GLOBAL_LOAD", "S_")) for name in instructions), found
    assert any(name.startswith("DS_STORE") for name in instructions), found
    assert any(name.startswith("V_") for name in instructions), found
