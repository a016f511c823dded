"""Quants of blocks: the bytes of the table, however many words are asked for at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from codegen.device.hip import Launch
from codegen.device.kernels import pointer, u32
from kernels.blocks import FORMATS, quants, random_blocks

if TYPE_CHECKING:
    from codegen.device.hip import Module
    from codegen.device.kernels import Kernels

COUNTS = (1, 2, 4, 8)
"""Words: what numbers, tiles on each matrix unit, and parts ask for."""
BLOCKS = 301
PROBE = """
#include "candle_rocm/blocks.h"

namespace candle {

template <class B, u32 COUNT>
CANDLE_DEVICE void read(u32 *y, const u8 *blocks, u32 elements) {
  const u32 i = u32(thread_in_grid()) * 4 * COUNT;
  if (i >= elements) return;
  const auto words = B::template quants<COUNT>(blocks + i / B::ELEMENTS * B::BYTES, i % B::ELEMENTS);
  for (u32 w = 0; w < COUNT; ++w) y[i / 4 + w] = words.lane[w];
}
"""
KERNEL = """
CANDLE_KERNEL(64) read_{count}_{name}(u32 *y, const u8 *blocks, u32 elements) {{
  read<{cpp}, {count}>(y, blocks, elements);
}}
"""


@pytest.fixture(scope="module")
def probe(kernels: Kernels) -> Module:
    forms = (
        KERNEL.format(count=count, name=name, cpp=block.cpp) for name, block in FORMATS.items() for count in COUNTS
    )
    return kernels.compiled("probe.hip", f"{PROBE}{''.join(forms)}\n}}  // namespace candle\n")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", FORMATS)
def test_quants_are_those_of_the_table(kernels: Kernels, probe: Module, name: str, count: int) -> None:
    block = FORMATS[name]
    data = random_blocks(block, BLOCKS, block.elements, count)
    elements = BLOCKS * block.elements
    blocks, found = kernels.device.upload(data.tobytes()), kernels.device.zeros(elements)
    grid = -(-elements // (4 * count * 64))
    arguments = (pointer(found.address), pointer(blocks.address), u32(elements))
    probe.launch(Launch(f"read_{count}_{name}", (grid, 1, 1), (64, 1, 1), arguments))
    got = np.frombuffer(kernels.device.download(found), np.uint8)
    assert np.array_equal(got, quants(block, data).astype(np.uint8).reshape(-1))
