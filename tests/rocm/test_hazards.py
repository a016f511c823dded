"""Wait states that a program has to leave between instructions: no kernel has fewer, and hardly any is for nothing."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels.machine_code import LANES, Card, MachineCode, hazards, text_place
from rocm_toolchain import architectures, real_toolchain

from codegen.amdgpu.topology import CARDS
from codegen.device.hip import HipError, Launch
from codegen.kernels.compile import compile_kernels
from codegen.kernels.loader import load_families
from codegen.kernels.render import Source, Sources, render_sources
from rocm.rocblas import KINDS, fallback

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WANTED = [name for name in architectures() if name in LANES]
FEWEST = {"gfx90a": 400, "gfx942": 1500}
"""S_NOPs that something needs, of all kernels; there were 468 and 1,902. RDNA's hazards ask for other instructions."""
WAIT = 0xBF80
"""The upper half of S_NOP."""
SOURCE = """
typedef _Float16 halves __attribute__((ext_vector_type(4)));
typedef float floats __attribute__((ext_vector_type(4)));
// Of each lane: a product of two matrices of 16 rows and columns, divided, and a sum over lanes.
extern "C" __global__ void __launch_bounds__(64) probe(float *y, const halves *x, const float *by) {
  const halves a = x[threadIdx.x];
  floats product = {0, 0, 0, 0};
  product = __builtin_amdgcn_mfma_f32_16x16x16f16(a, a, product, 0, 0, 0);
  float sum = (product[0] + product[1] + product[2] + product[3]) / by[threadIdx.x];
  sum += __builtin_amdgcn_update_dpp(0.f, sum, 0x111, 0xf, 0xf, true);
  sum += __builtin_amdgcn_update_dpp(0.f, sum, 0x112, 0xf, 0xf, true);
  y[threadIdx.x] = sum + __builtin_amdgcn_readfirstlane(int(sum));
}
"""


@pytest.mark.parametrize("architecture", WANTED)
def test_no_kernel_has_too_few_wait_states(architecture: str) -> None:
    """What AMD's compiler makes breaks no rule, so none is too strict; what waits for nothing has a reason."""
    found: Counter[str] = Counter()
    for code in compile_kernels(render_sources(load_families()), [architecture], real_toolchain()):
        has = hazards(code.path.read_bytes(), architecture)
        assert has.faults == [], code.path.name
        needed = [place for place, is_needed in has.waits.items() if is_needed]
        found["needed"] += len(needed)
        found.update(reason(place, has.instructions) for place in has.waits.keys() - needed)
    print(architecture, dict(found))
    assert found["needed"] >= FEWEST.get(architecture, 0)
    # Only gfx942 forwards parts of registers.
    assert found["behind other code"] <= (200 if architecture == "gfx942" else 0)


def reason(place: int, instructions: Mapping[int, str]) -> str:
    """Why the compiler has put an S_NOP at a place, which nothing needs."""
    places = list(instructions)
    before = after = places.index(place)
    while before >= 0 and instructions[places[before]] == "S_NOP":
        before -= 1
    while after < len(places) - 1 and instructions[places[after]] == "S_NOP":
        after += 1
    former, later = instructions[places[before]], instructions[places[after]]
    if former in ("S_ENDPGM", "S_BRANCH", "S_SETPC_B64"):
        return "padding"
    if former.startswith(LOADS) and later.startswith(LOADS):
        return "loads that may be done again"
    # It waits for a mask of lanes as for a constant. AMD's own assembly does not, since hardware hands masks on.
    if later.startswith(("V_CNDMASK", "V_ADDC_", "V_SUBB")):
        return "before a mask"
    # Likewise, before products of matrices.
    if later.startswith("V_MFMA"):
        return "before a product of matrices"
    # The compiler takes the halves that these read for one that they write.
    if former.startswith(("V_PK_", "V_FMA_MIX", "V_MAD_MIX")):
        return "behind packed numbers"
    # It knows nothing of what an `asm` has made, and ours are empty.
    return "behind other code"


LOADS = ("S_LOAD", "S_BUFFER_LOAD", "GLOBAL_LOAD", "FLAT_LOAD", "BUFFER_LOAD")


@pytest.mark.parametrize("architecture", CARDS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_kernel_of_rocblas_has_too_few_wait_states(architecture: str, kind: str) -> None:
    code = fallback(kind, architecture)
    assert hazards(code.read_bytes(), architecture).faults == []


@pytest.fixture(scope="module", params=["gfx90a", "gfx942"])
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """A card, and a kernel as AMD's compiler makes it for that."""
    source = Source("probe.hip", "#include <hip/hip_runtime.h>\n" + SOURCE, None, ())
    folder = tmp_path_factory.mktemp("code")
    (found,) = compile_kernels(Sources((), (source,)), [request.param], real_toolchain(), folder)
    return request.param, found.path.read_bytes()


def run(card_name: str, code: bytes, folder: Path) -> None:
    (folder / "probe.hsaco").write_bytes(code)
    card = Card(card_name)
    module = MachineCode(card, folder / "probe.hsaco")
    x = (np.arange(256) % 3).astype(np.float16)
    buffers = (card.zeros(256), card.upload(x.tobytes()), card.upload(np.ones(64, np.float32).tobytes()))
    try:
        module.launch(
            Launch("probe", (1, 1, 1), (64, 1, 1), tuple(each.address.to_bytes(8, "little") for each in buffers))
        )
    finally:
        module.unload()


def without_wait(code: bytes, place: int, later: int) -> bytes:
    """The same, with an S_NOP at a place behind the next instruction, which is so long."""
    end = place + 4
    return code[:place] + code[end : end + later] + code[place:end] + code[end + later :]


def test_a_wait_that_is_too_short_is_noticed(kernel: tuple[str, bytes], tmp_path: Path) -> None:
    """Each S_NOP of a kernel in turn, before the kernel's end."""
    card, code = kernel
    run(card, code, tmp_path)
    first, names = text_place(code)[0], hazards(code, card).instructions
    places, told = list(names), []
    waits = [each for each in places[: list(names.values()).index("S_ENDPGM")] if names[each] == "S_NOP"]
    for place in waits:
        index = places.index(place)
        later = places[index + 2] - places[index + 1]
        with pytest.raises(HipError, match=r"wait states? after \w+ \w+ it, and \d+ (is|are) needed") as raised:
            run(card, without_wait(code, first + place, later), tmp_path)
        told += re.findall(r"(\w+) is (?:used|written) \d+ wait states? after (\w+) ", str(raised.value))
    print(card, len(waits), told)
    assert len(waits) >= (3 if card == "gfx90a" else 5)
    assert any(former.startswith("V_MFMA") for _, former in told)
