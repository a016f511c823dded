"""Machine code that uses registers and LDS before anything has written them: in software, it is an error."""

from __future__ import annotations

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

CARDS = ("gfx1100", "gfx942")
THREADS = 64
HERE = "int i = threadIdx.x;"
VECTOR = 'int left; asm volatile("" : "={v40}"(left));'
"""What the compiler takes for written, and is not."""
SCALAR = 'int left; asm volatile("" : "={s40}"(left));'
LATER = 'asm volatile("" ::: "memory");'

FAULTS = {
    "stored": (f"{VECTOR} y[i] = left;", r"what is stored .*lane 0 of v"),
    "in-a-lane": (f"{VECTOR} y[i] = i == 37 ? left : x[i];", r"what is stored .*lane (37|5) of v"),
    "computed": (f"{VECTOR} y[i] = x[i] + 3 * left;", "what is stored "),
    "half": (f"{VECTOR} ((short *)y)[i] = x[i] + short(left >> 16);", "what is stored "),
    "scalar": (f"{SCALAR} y[i] = x[i] + left;", "what is stored "),
    "of-another-lane": (f"{VECTOR} left = i < 48 ? i : left; y[i] = __shfl(left, i ^ 16);", "what is stored "),
    "address": (f"{VECTOR} y[left & 63] = x[i];", "an address "),
    "loaded-from": (f"{VECTOR} y[i] = x[left & 63];", "an address "),
    "added": (f"{VECTOR} atomicAdd(&y[i], left);", "what is stored "),
    "branch": (f'{SCALAR} if (left & 1) asm volatile("s_nop 1"); y[i] = x[i];', "where it goes on "),
    "lanes": (
        f'{VECTOR} if (left > 5) asm volatile("s_nop 1"); y[i] = x[i];',
        "(which lanes are|where it goes) on ",
    ),
    "lds": (f"__shared__ int held[64]; held[i & 62] = i; {LATER} y[i] = held[i];", r"what is stored .*lane 1 of v"),
    "lds-of-others": (
        f"__shared__ int held[64]; {VECTOR} held[i] = left; __syncthreads(); y[i] = held[63 - i];",
        "what is stored ",
    ),
    "lds-address": (f"__shared__ int held[64]; {VECTOR} held[i] = i; y[i] = held[left & 63];", "an address "),
}
ALLOWED = {
    "no-bit-of-it": f"{VECTOR} y[i] = x[i] + (left & x[64]);",
    "not-chosen": f"{VECTOR} y[i] = x[64] ? left : x[i];",
    "off": f"{VECTOR} if (i < x[64]) y[i] = left; y[i + 0] = x[i];",
    "shifted-out": f"{VECTOR} y[i] = x[i] + ((unsigned(left) >> 16) >> (x[64] + 16));",
    "overwritten": f"__shared__ int held[64]; held[i] = x[i]; {LATER} y[i] = held[i];",
}
"""What makes no difference. The last of the numbers is 0, which the compiler does not know."""


@pytest.fixture(scope="module", params=CARDS)
def code(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A card, and a kernel for each of the bodies as AMD's compiler makes them for it."""
    bodies = {fault: body for fault, (body, _) in FAULTS.items()} | ALLOWED
    start = f'extern "C" __global__ void __launch_bounds__({THREADS})'
    given = "int *y, [[maybe_unused]] const int *x"
    kernels = (f"{start} {symbol(name)}({given}) {{\n  {HERE} {body}\n}}\n" for name, body in bodies.items())
    source = Source("probe.hip", "#include <hip/hip_runtime.h>\n" + "".join(kernels), None, ())
    folder = tmp_path_factory.mktemp("code")
    (found,) = compile_kernels(Sources((), (source,)), [request.param], real_toolchain(), folder)
    return request.param, found.path


def symbol(name: str) -> str:
    """What the kernel is called."""
    return name.replace("-", "_")


def run(code: tuple[str, Path], name: str) -> list[int]:
    """What a kernel computes of the numbers from 0 to 63 and a 0."""
    card = Card(code[0])
    module = MachineCode(card, code[1])
    x = np.append(np.arange(THREADS, dtype=np.int32), np.int32(0))
    of_x, of_y = card.upload(x.tobytes()), card.zeros(4 * THREADS)
    arguments = tuple(each.address.to_bytes(8, "little") for each in (of_y, of_x))
    try:
        module.launch(Launch(symbol(name), (1, 1, 1), (THREADS, 1, 1), arguments))
    finally:
        module.unload()
    return [int(number) for number in np.frombuffer(card.download(of_y), np.int32)]


@pytest.mark.parametrize("fault", FAULTS)
def test_what_depends_on_it_is_named(fault: str, code: tuple[str, Path]) -> None:
    with pytest.raises(HipError, match=FAULTS[fault][1]) as error:
        run(code, fault)
    assert "depends on registers or LDS that nothing has written" in str(error.value)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_makes_no_difference_is_none(name: str, code: tuple[str, Path]) -> None:
    assert run(code, name) == list(range(THREADS))
