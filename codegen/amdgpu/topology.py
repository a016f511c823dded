"""The modelled machine as AMD's runtime reads it: a folder such as the kernel driver has, with a processor and a GPU.

ROCr reads it where `HSA_MODEL_TOPOLOGY` names it. Names and order of the properties are the driver's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Card:
    """A card that is modelled."""

    name: str
    """`gfx1100`."""
    version: int
    """The same as a number: major, minor and stepping, two digits each."""
    lanes: int
    """Of a wave."""
    units: int
    """Compute units."""
    simds: int
    """Of a unit."""
    waves: int
    """That a SIMD holds."""
    arrays: int
    """Of units."""
    device: int
    """PCI's number of the product."""
    caches: tuple[tuple[int, int], ...]
    """Level and KiB of each."""
    corrects: bool = False
    """Whether errors of its registers and caches are corrected (AMD: sramecc), for which compilers make other code."""


CARDS = {
    card.name: card
    for card in (
        Card("gfx942", 90402, 64, 304, 4, 8, 38, 0x74A1, ((1, 32), (2, 4096), (3, 262144)), corrects=True),
        Card("gfx1100", 110000, 32, 96, 2, 16, 12, 0x744C, ((1, 32), (2, 6144), (3, 98304))),
        Card("gfx1151", 110501, 32, 40, 2, 16, 4, 0x1586, ((1, 32), (2, 2048), (3, 32768))),
        Card("gfx1201", 120001, 32, 64, 2, 16, 8, 0x7550, ((1, 32), (2, 8192), (3, 65536))),
    )
}
"""Those whose instructions are executed, but for gfx90a: ROCr asks of it what no model can answer."""
MEMORY = 4 << 30
"""Bytes of the GPU."""
HOST_MEMORY = 8 << 30
CORRECTS = 1 << 26
"""What a card has that corrects errors, among the following."""
CAPABILITY = 0x2A80
"""Watch points and queues; bit 30, which asks for what no model has, is not set."""


def write_topology(folder: Path, card: Card) -> None:
    """Write the machine's description below a folder."""
    _write(folder / "generation_id", "1\n")
    _write(folder / "system_properties", _lines({"platform_oem": 0, "platform_id": 0, "platform_rev": 0}))
    _node(folder / "nodes/0", 0, "", _processor(), _bank(0, HOST_MEMORY, 64))
    _node(folder / "nodes/1", 2, card.name, _gpu(card), _bank(1, MEMORY, 384))
    for own, other in ((0, 1), (1, 0)):
        _write(folder / f"nodes/{own}/io_links/0/properties", _lines(_link(own, other)))
    for number, (level, size) in enumerate(card.caches):
        _write(folder / f"nodes/1/caches/{number}/properties", _lines(_cache(level, size)) + "sibling_map 1,0\n")


def _node(folder: Path, number: int, name: str, properties: Mapping[str, int], bank: Mapping[str, int]) -> None:
    _write(folder / "gpu_id", f"{number}\n")
    _write(folder / "name", f"{name}\n")
    _write(folder / "properties", _lines(properties))
    _write(folder / "mem_banks/0/properties", _lines(bank))


def _processor() -> dict[str, int]:
    return {"cpu_cores_count": 2, "simd_count": 0, "mem_banks_count": 1, "caches_count": 0, "io_links_count": 1} | {
        "max_engine_clk_ccompute": 3000
    }


def _gpu(card: Card) -> dict[str, int]:
    return {
        "cpu_cores_count": 0,
        "simd_count": card.units * card.simds,
        "mem_banks_count": 1,
        "caches_count": len(card.caches),
        "io_links_count": 1,
        "simd_id_base": 0x80001000,
        "max_waves_per_simd": card.waves,
        "lds_size_in_kb": 64,
        "num_gws": 64,
        "wave_front_size": card.lanes,
        "array_count": card.arrays,
        "simd_arrays_per_engine": 2,
        "cu_per_simd_array": card.units // card.arrays,
        "simd_per_cu": card.simds,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": card.version,
        "vendor_id": 0x1002,
        "device_id": card.device,
        "location_id": 0x300,
        "drm_render_minor": 128,
        # ROCr divides by their number. It is told to copy with kernels, since the model has no engines for copies.
        "num_sdma_engines": 2,
        "num_sdma_xgmi_engines": 0,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 8,
        "max_engine_clk_fcompute": 2500,
        "local_mem_size": 0,
        "fw_version": 550,
        "capability": CAPABILITY | (CORRECTS if card.corrects else 0),
        "debug_prop": 0,
        "sdma_fw_version": 20,
        "unique_id": 1,
        "num_xcc": 1,
        "family_id": 145,
        "max_engine_clk_ccompute": 3000,
    }


def _bank(kind: int, size: int, width: int) -> dict[str, int]:
    return {"heap_type": kind, "size_in_bytes": size, "flags": 0, "width": width, "mem_clk_max": 1249}


def _link(own: int, other: int) -> dict[str, int]:
    return {"type": 2, "version_major": 0, "version_minor": 0, "node_from": own, "node_to": other, "weight": 20} | {
        "min_bandwidth": 312,
        "max_bandwidth": 31504,
        "flags": 1,
    }


def _cache(level: int, size: int) -> dict[str, int]:
    return {
        "processor_id_low": 0x80001000,
        "level": level,
        "size": size,
        "cache_line_size": 128,
        "cache_lines_per_tag": 1,
        "association": 16,
        "latency": 0,
        "type": 9,
    }


def _lines(properties: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in properties.items())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
