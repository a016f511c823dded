"""Reads the metadata of AMDGPU code objects: what each kernel needs of the hardware.

Source: https://llvm.org/docs/AMDGPUUsage.html, sections "Note Records" and "Code Object V5 Metadata". The note is
MessagePack inside an ELF note of type NT_AMDGPU_METADATA by the vendor "AMDGPU".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

T = TypeVar("T")

_MACHINE_AMDGPU = 224
_SECTION_NOTE = 7
_NT_AMDGPU_METADATA = 32
_VENDOR = b"AMDGPU\0"

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOTE = struct.Struct("<III")


@dataclass(frozen=True, slots=True)
class KernelMetadata:
    """One kernel's needs, as the compiler wrote them."""

    symbol: str
    vgprs: int
    """Vector registers of a wave per lane; on architectures with unified registers these include `agprs`."""
    agprs: int
    sgprs: int
    lds: int
    """Bytes of LDS per block, without what the launch adds."""
    scratch: int
    """Bytes of private memory per lane; more than 0 means arrays in memory, or spills."""
    vgpr_spills: int
    sgpr_spills: int
    wave_size: int
    max_block: int
    """Threads a block may have."""
    dynamic_stack: bool
    """Whether scratch may grow beyond `scratch`: recursion or calls through pointers."""


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """Where an argument lies among all of a kernel's."""

    offset: int
    size: int
    """Bytes, as is the offset."""
    kind: str
    """`by_value`, `global_buffer`, `hidden_block_count_x`, ..."""


def read_kernels(path: Path) -> tuple[KernelMetadata, ...]:
    """The kernels of a code object file, by symbol.

    Raises:
        InputOutputError: the file cannot be read, or is no AMDGPU code object with metadata.
    """
    return tuple(sorted(_of_each(path, _kernel), key=lambda kernel: kernel.symbol))


def read_arguments(path: Path) -> dict[str, tuple[KernelArgument, ...]]:
    """The arguments of each kernel of a code object file, hidden ones included, by symbol; raises as `read_kernels`."""
    return dict(_of_each(path, lambda entry: (str(entry[".name"]), tuple(map(_argument, entry.get(".args", ()))))))


def _of_each(path: Path, read: Callable[[dict[str, Any]], T]) -> list[T]:
    try:
        content = path.read_bytes()
    except OSError as cause:
        raise InputOutputError(f"{path}: {cause.strerror or cause}", remedy="compile the kernels again") from cause
    try:
        return [read(entry) for entry in _metadata(content)["amdhsa.kernels"]]
    except (ValueError, KeyError, TypeError, OverflowError, struct.error) as cause:
        raise InputOutputError(
            f"{path} is no AMDGPU code object with metadata: {cause}", remedy="compile the kernels again"
        ) from cause


def _argument(entry: dict[str, Any]) -> KernelArgument:
    return KernelArgument(int(entry[".offset"]), int(entry[".size"]), str(entry[".value_kind"]))


def _kernel(entry: dict[str, Any]) -> KernelMetadata:
    return KernelMetadata(
        symbol=entry[".name"],
        vgprs=entry[".vgpr_count"],
        agprs=entry.get(".agpr_count", 0),
        sgprs=entry[".sgpr_count"],
        lds=entry[".group_segment_fixed_size"],
        scratch=entry[".private_segment_fixed_size"],
        vgpr_spills=entry.get(".vgpr_spill_count", 0),
        sgpr_spills=entry.get(".sgpr_spill_count", 0),
        wave_size=entry[".wavefront_size"],
        max_block=entry[".max_flat_workgroup_size"],
        dynamic_stack=entry.get(".uses_dynamic_stack", False),
    )


def _metadata(content: bytes) -> dict[str, Any]:
    import msgpack  # type: ignore[import-untyped]  # there are no stubs

    for kind, vendor, description in _notes(content):
        if kind == _NT_AMDGPU_METADATA and vendor == _VENDOR:
            metadata = msgpack.unpackb(description)
            if isinstance(metadata, dict):
                return metadata
    raise ValueError("it has no metadata note")


def _notes(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Type, vendor and description of each ELF note."""
    identification, _, machine, *_ = header = _HEADER.unpack_from(content)
    if not identification.startswith(b"\x7fELF\x02\x01") or machine != _MACHINE_AMDGPU:
        raise ValueError("not a 64-bit ELF file for AMDGPU")
    sections, entry_size, count = header[6], header[11], header[12]
    for number in range(count):
        _, kind, _, _, offset, size, *_ = _SECTION.unpack_from(content, sections + number * entry_size)
        at, end = offset, offset + size
        while kind == _SECTION_NOTE and at < end:
            vendor_size, description_size, note_type = _NOTE.unpack_from(content, at)
            vendor = at + _NOTE.size
            description = vendor + _aligned(vendor_size)
            yield (
                note_type,
                content[vendor : vendor + vendor_size],
                content[description : description + description_size],
            )
            at = description + _aligned(description_size)


def _aligned(size: int) -> int:
    return (size + 3) & ~3
