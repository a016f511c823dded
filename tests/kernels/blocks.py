"""Quantized blocks with any bits in them, and the numbers that they stand for, from the table of formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.kernels.blocks import load_blocks

if TYPE_CHECKING:
    from codegen.kernels.blocks import Block

Array = np.ndarray[Any, Any]
FORMATS = {block.name: block for block in load_blocks()}


def random_blocks(block: Block, rows: int, columns: int, seed: int) -> Array:
    """Bytes of rows of blocks (rows, bytes of a row): any quants and scales, factors of an ordinary size."""
    rng = np.random.default_rng(seed)
    count = columns // block.elements
    made = rng.integers(0, 256, (rows, count, block.bytes), np.uint8)
    for field, kind in block.fields.items():
        if isinstance(kind, str):
            at, size = block.offset(field), block.size(field)
            factors = rng.normal(scale=0.01, size=(rows, count, 1)).astype({"f16": np.float16, "f32": np.float32}[kind])
            made[:, :, at : at + size] = factors.view(np.uint8)
    return made.reshape(rows, count * block.bytes)


def numbers(block: Block, data: Array) -> Array:
    """The numbers that rows of blocks stand for, as f32: scale * (quant - bias) + offset."""
    rows = data.shape[0]
    blocks = data.reshape(-1, block.bytes)
    scales, offsets = _lines(block, blocks)
    repeated = block.scales.group
    scaled = np.repeat(scales, repeated, 1) * (quants(block, blocks) - block.bias).astype(np.float32)
    result = scaled + np.repeat(offsets, repeated, 1) if block.has_offset else scaled
    return result.astype(np.float32).reshape(rows, -1)


def _field(block: Block, blocks: Array, name: str) -> Array:
    at = block.offset(name)
    return blocks[:, at : at + block.size(name)]


def _float(block: Block, blocks: Array, name: str) -> Array:
    kind = {"f16": np.float16, "f32": np.float32}[str(block.fields[name])]
    return np.ascontiguousarray(_field(block, blocks, name)).view(kind).astype(np.float32)


def quants(block: Block, blocks: Array) -> Array:
    """Those of each block (blocks, elements), with their bias."""
    if block.signed:
        return _field(block, blocks, block.quants[0].field).view(np.int8).astype(np.int32)
    elements = np.arange(block.elements)
    found = np.zeros((len(blocks), block.elements), np.int32)
    shift = 0
    for plane in block.quants:
        at = elements // plane.chunk * plane.run + elements % plane.run
        place = plane.bits * (elements % plane.chunk // plane.run)
        bits = _field(block, blocks, plane.field)[:, at] >> place & ((1 << plane.bits) - 1)
        found |= bits.astype(np.int32) << shift
        shift += plane.bits
    return found


def _lines(block: Block, blocks: Array) -> tuple[Array, Array]:
    """Scale and offset of each group (blocks, groups)."""
    d = _float(block, blocks, "d")
    groups = np.arange(block.elements // block.scales.group)
    none = np.zeros((len(blocks), len(groups)), np.float32)
    match block.scales.packed:
        case "one":
            return np.broadcast_to(d, none.shape), none
        case "affine":
            return d, _float(block, blocks, "m")
        case "bytes":
            return d * _field(block, blocks, "scales").view(np.int8).astype(np.float32), none
        case "nibbles":
            packed = _field(block, blocks, "scales")
            return d * (packed & 15).astype(np.float32), -(
                _float(block, blocks, "dmin") * (packed >> 4).astype(np.float32)
            )
        case "pairs":
            packed = _field(block, blocks, "scales")
            low = packed[:, groups % 8] >> (4 * (groups // 8)) & 15
            high = packed[:, 8 + groups % 4] >> (2 * (groups // 4)) & 3
            return d * ((low | high << 4).astype(np.float32) - 32), none
        case "six_bits":
            packed = _field(block, blocks, "scales").astype(np.int32)
            first, second, last = packed[:, :4], packed[:, 4:8], packed[:, 8:]
            scale = np.concatenate([first & 63, (last & 15) | first >> 6 << 4], 1)
            least = np.concatenate([second & 63, last >> 4 | second >> 6 << 4], 1)
            return d * scale.astype(np.float32), -(_float(block, blocks, "dmin") * least.astype(np.float32))
    raise AssertionError(block.scales.packed)


def rounded(x: Array) -> Array:
    """Rows as they are after rounding to 8 bits in parts of 32, in f64."""
    parts = x.astype(np.float32).reshape(-1, 32)
    d = np.abs(parts).max(1, keepdims=True) / np.float32(127)
    q = np.rint(np.divide(parts, d, out=np.zeros_like(parts), where=d > 0))
    result: Array = (q.astype(np.float64) * d).reshape(x.shape)
    return result
