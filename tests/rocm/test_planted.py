"""Faults planted in machine code: a kernel with one bit flipped, or one instruction gone, does not pass for right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels.machine_code import Card, MachineCode, text_place
from rocm_toolchain import real_toolchain

from codegen.device.hip import HipError, Launch
from codegen.kernels.compile import compile_kernels
from codegen.kernels.render import Source, Sources

if TYPE_CHECKING:
    from pathlib import Path

CARDS = ("gfx1100", "gfx942")
BLOCK, ROWS, COLUMNS = 128, 3, 300
NOTHING = 0xBF800000
"""S_NOP."""
SOURCE = """
// Of each row, the sum of the numbers that are larger than its mean, and how many bytes its largest number takes.
extern "C" __global__ void __launch_bounds__(128) probe(float *sums, unsigned *bits, const float *x, unsigned columns) {
  __shared__ float held[128];
  __shared__ unsigned most;
  const float *row = x + blockIdx.x * columns;
  if (threadIdx.x == 0) most = 0;
  float total = 0, chosen = 0;
  for (unsigned c = threadIdx.x; c < columns; c += 128) total += row[c];
  held[threadIdx.x] = total;
  __syncthreads();
  for (unsigned step = 64; step > 0; step /= 2) {
    if (threadIdx.x < step) held[threadIdx.x] += held[threadIdx.x + step];
    __syncthreads();
  }
  const float mean = held[0] / columns;
  __syncthreads();
  unsigned largest = 0;
  for (unsigned c = threadIdx.x; c < columns; c += 128) {
    if (row[c] > mean) chosen += row[c];
    const unsigned number = unsigned(row[c]);
    largest = number > largest ? number : largest;
  }
  atomicMax(&most, largest);
  held[threadIdx.x] = chosen;
  __syncthreads();
  for (unsigned step = 64; step > 0; step /= 2) {
    if (threadIdx.x < step) held[threadIdx.x] += held[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = held[0];
    bits[blockIdx.x] = most;
  }
}
"""


@pytest.fixture(scope="module", params=CARDS)
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A card, and the kernel as AMD's compiler makes it for that."""
    source = Source("probe.hip", "#include <hip/hip_runtime.h>\n" + SOURCE, None, ())
    folder = tmp_path_factory.mktemp("code")
    (found,) = compile_kernels(Sources((), (source,)), [request.param], real_toolchain(), folder)
    return request.param, found.path.read_bytes()


def numbers() -> Any:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(1).integers(0, 5000, (ROWS, COLUMNS)).astype(np.float32)


def run(card_name: str, code: bytes, folder: Path) -> tuple[Any, Any, list[tuple[str, int, bool]]]:
    """What the kernel computes, and its instructions."""
    (folder / "probe.hsaco").write_bytes(code)
    card = Card(card_name)
    card.patience = 100_000  # a loop may have lost its end
    module = MachineCode(card, folder / "probe.hsaco")
    buffers = [card.zeros(4 * ROWS), card.zeros(4 * ROWS), card.upload(numbers().tobytes())]
    arguments = [*(each.address.to_bytes(8, "little") for each in buffers), COLUMNS.to_bytes(4, "little")]
    try:
        module.launch(Launch("probe", (ROWS, 1, 1), (BLOCK, 1, 1), tuple(arguments)))
        instructions = module.instructions()
    finally:
        module.unload()
    sums, bits = (
        np.frombuffer(card.download(buffers[0]), np.float32),
        np.frombuffer(card.download(buffers[1]), np.uint32),
    )
    return sums, bits, instructions


def is_right(card: str, code: bytes, folder: Path) -> bool:
    """Whether it computes what it should, and ends."""
    try:
        sums, bits, _ = run(card, code, folder)
    except HipError:
        return False
    x = numbers()
    wanted = [row[row > row.mean(dtype=np.float64)].sum() for row in x]
    return bool((sums == wanted).all() and (bits == x.max(axis=1)).all())


def test_it_is_right(kernel: tuple[str, bytes], tmp_path: Path) -> None:
    assert is_right(*kernel, tmp_path)


TOLD = (
    "DS_",
    "GLOBAL_",
    "S_LOAD",
    "S_WAITCNT",
    "V_ADD",
    "V_SUB",
    "V_CNDMASK",
    "V_DIV_SCALE",
    "V_RCP",
    "V_CVT",
    "V_MAX",
)
"""Beginnings of the names of instructions that nothing else in the kernel makes up for."""
HINTS = ("S_WAITCNT_DEPCTR",)
FEWEST = 90


def test_an_instruction_that_is_gone_is_noticed(kernel: tuple[str, bytes], tmp_path: Path) -> None:
    """By a wrong result, or by an error: a register that is used before its wait, LDS that waves race for."""
    card, code = kernel
    (start, _), (_, _, instructions) = text_place(code), run(card, code, tmp_path)
    tried, unnoticed, place = 0, [], start
    for name, size, is_reached in instructions:
        if is_reached and name.startswith(TOLD) and name not in HINTS:
            tried += 1
            without = code[:place] + NOTHING.to_bytes(4, "little") * (size // 4) + code[place + size :]
            if is_right(card, without, tmp_path):
                unnoticed.append(f"{name} at {place - start:#x}")
        place += size
    assert not unnoticed
    assert tried >= FEWEST


def test_waves_that_do_not_meet_are_noticed(kernel: tuple[str, bytes], tmp_path: Path) -> None:
    """Without the first barrier, waves load from LDS what others may not have stored."""
    card, code = kernel
    (start, _), (_, _, instructions) = text_place(code), run(card, code, tmp_path)
    places = np.cumsum([0, *(size for _, size, _ in instructions)])
    first = (
        next(place for place, (name, _, _) in zip(places, instructions, strict=False) if name == "S_BARRIER") + start
    )
    without = code[:first] + NOTHING.to_bytes(4, "little") + code[first + 4 :]
    with pytest.raises(HipError, match=r"of LDS, which another wave has (stored|loaded) since the last barrier"):
        run(card, without, tmp_path)
