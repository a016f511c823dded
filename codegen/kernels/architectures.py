"""What the AMD architectures that kernels are built for have of registers, LDS, wave slots and matrix products.

Sources: "User Guide for AMDGPU Backend" (https://llvm.org/docs/AMDGPUUsage.html: processors, wavefront sizes, LDS
granules), AMD's ISA guides (Vega, CDNA 1 to 4, RDNA 1 to 4: registers and LDS of a compute unit), and for the granules
of registers LLVM's AMDGPUBaseInfo.cpp (IsaInfo). The tests compare the occupancy computed from this table with what
clang reports, and have clang assemble the instructions, for every architecture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.errors import UsageError

KIB = 1024


@dataclass(frozen=True, slots=True)
class Registers:
    """The vector registers of one SIMD, for one wave size."""

    total: int
    """Registers of 32 bit per lane, shared by the waves that are resident."""
    granule: int
    """A wave gets a multiple of this."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One AMD GPU architecture, as the compiler's --offload-arch names it."""

    name: str
    family: str
    """AMD's name of the generation."""
    wave_size: int
    """Lanes of a wave unless told otherwise."""
    vgprs: Registers
    """For the default wave size."""
    unified_agprs: bool
    """Accumulation registers come out of the same file; else, where there are any, they have one of the same size."""
    sgprs: Registers | None
    """Scalar registers per SIMD; None where every wave has its full set."""
    max_waves: int
    """Waves that a SIMD can hold."""
    simds: int
    """SIMDs that a block's waves are spread over: those of a compute unit (GCN, CDNA) or a work-group processor (RDNA,
    which compilers use as one unit unless told -mcumode)."""
    lds: int
    """Bytes of LDS that the blocks on those SIMDs share."""
    lds_of_block: int
    """The most that one block may have."""
    lds_granule: int
    """A block gets a multiple of this, in bytes."""
    dot4: str | None
    """The instructions that add up four products of signed bytes, as a pattern of their names; None without any."""
    matrix: str | None
    """Those that multiply matrices of signed bytes, likewise."""
    halves: str | None
    """Those that multiply matrices of 16-bit floats and add up in f32, likewise."""


_GCN = Architecture(
    name="gfx906",
    family="GCN 5",
    wave_size=64,
    vgprs=Registers(256, 4),
    unified_agprs=False,
    sgprs=Registers(800, 16),
    max_waves=10,
    simds=4,
    lds=64 * KIB,
    lds_of_block=64 * KIB,
    lds_granule=512,
    dot4="v_dot4*_i32_i8",
    matrix=None,
    halves=None,
)
_CDNA1 = replace(_GCN, name="gfx908", family="CDNA 1", matrix="v_mfma_i32_*i8", halves="v_mfma_f32_*f16*")
_CDNA2 = replace(_CDNA1, name="gfx90a", family="CDNA 2", vgprs=Registers(512, 8), unified_agprs=True, max_waves=8)
_RDNA1 = Architecture(
    name="gfx1010",
    family="RDNA 1",
    wave_size=32,
    vgprs=Registers(1024, 8),
    unified_agprs=False,
    sgprs=None,
    max_waves=20,
    simds=4,
    lds=128 * KIB,
    lds_of_block=64 * KIB,
    lds_granule=512,
    dot4=None,
    matrix=None,
    halves=None,
)
_RDNA2 = replace(
    _RDNA1,
    name="gfx1030",
    family="RDNA 2",
    vgprs=Registers(1024, 16),
    max_waves=16,
    lds_granule=1024,
    dot4="v_dot4*_i32_i8",
)
_RDNA3 = replace(
    _RDNA2,
    name="gfx1100",
    family="RDNA 3",
    vgprs=Registers(1536, 24),
    dot4="v_dot4_i32_iu8",
    matrix="v_wmma_i32_*_iu8",
    halves="v_wmma_f32_*f16",
)
_RDNA4 = replace(_RDNA3, name="gfx1200", family="RDNA 4")

ARCHITECTURES = (
    _GCN,
    _CDNA1,
    _CDNA2,
    replace(_CDNA2, name="gfx942", family="CDNA 3"),
    replace(_CDNA2, name="gfx950", family="CDNA 4", lds=160 * KIB, lds_of_block=160 * KIB, lds_granule=1280),
    _RDNA1,
    _RDNA2,
    _RDNA3,
    replace(_RDNA3, name="gfx1101"),
    replace(_RDNA3, name="gfx1102", vgprs=Registers(1024, 16)),
    replace(_RDNA3, name="gfx1151", family="RDNA 3.5"),
    _RDNA4,
    replace(_RDNA4, name="gfx1201"),
)
"""All that kernels are built for, by name."""


def architecture(name: str) -> Architecture:
    """The architecture of that name, `gfx90a`. Raises `UsageError` listing the known ones."""
    for each in ARCHITECTURES:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in ARCHITECTURES)
    raise UsageError(f"no architecture '{name}'", remedy=f"choose from {known}")


def parse_architectures(text: str) -> tuple[Architecture, ...]:
    """The architectures of `gfx906,gfx1100`, or all of them for `all`. Raises `UsageError`."""
    return ARCHITECTURES if text == "all" else tuple(architecture(name.strip()) for name in text.split(","))


def occupancy(on: Architecture, *, vgprs: int, sgprs: int, lds: int, block: int) -> int:
    """Waves that a SIMD can hold at a time: the most that registers, LDS and wave slots allow.

    `vgprs` and `sgprs` are a wave's, `lds` the bytes of a block, `block` its threads. Blocks are taken as spread evenly
    over the SIMDs. 0 means that the kernel cannot be launched.
    """
    if lds > on.lds_of_block:
        return 0
    waves = min(on.max_waves, on.vgprs.total // _round_up(max(vgprs, 1), on.vgprs.granule))
    if on.sgprs is not None:
        waves = min(waves, on.sgprs.total // _round_up(max(sgprs, 1), on.sgprs.granule))
    if lds > 0:
        blocks = on.lds // _round_up(lds, on.lds_granule)
        waves = min(waves, -(-blocks * _round_up(block, on.wave_size) // on.wave_size // on.simds))
    return waves


def _round_up(value: int, granule: int) -> int:
    return -(-value // granule) * granule
