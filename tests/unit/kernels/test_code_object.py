"""Metadata of code objects: read from real ones, refused from anything else."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]  # there are no stubs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rocm_toolchain import real_toolchain
from small_kernels import TWICE, source, sources

from codegen.errors import InputOutputError
from codegen.kernels.code_object import KernelMetadata, read_kernels
from codegen.kernels.compile import compile_kernels

if TYPE_CHECKING:
    from pathlib import Path

KERNEL: dict[str, Any] = {
    ".name": "k",
    ".vgpr_count": 7,
    ".sgpr_count": 9,
    ".group_segment_fixed_size": 128,
    ".private_segment_fixed_size": 0,
    ".wavefront_size": 64,
    ".max_flat_workgroup_size": 256,
}


def note(vendor: bytes, kind: int, description: bytes) -> bytes:
    """An ELF note with its padding."""
    padded = [part + b"\0" * (-len(part) % 4) for part in (vendor, description)]
    return struct.pack("<III", len(vendor), len(description), kind) + b"".join(padded)


def code_object(*notes: bytes, machine: int = 224) -> bytes:
    """An ELF file with one section of notes."""
    content = b"".join(notes)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, 0, 64, 0, 64, 0, 0, 64, 1, 0)
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 128, len(content), 0, 0, 4, 0)
    return header + section + content


def metadata(*kernels: dict[str, Any]) -> bytes:
    """The note that the compiler writes."""
    return note(b"AMDGPU\0", 32, msgpack.packb({"amdhsa.kernels": list(kernels)}))


def read(folder: Path, content: bytes) -> tuple[KernelMetadata, ...]:
    (folder / "k.hsaco").write_bytes(content)
    return read_kernels(folder / "k.hsaco")


def test_kernels_come_by_symbol(tmp_path: Path) -> None:
    found = read(tmp_path, code_object(metadata({**KERNEL, ".name": "b"}, {**KERNEL, ".name": "a"})))
    assert [kernel.symbol for kernel in found] == ["a", "b"]


def test_every_number_is_read(tmp_path: Path) -> None:
    more = {".agpr_count": 3, ".vgpr_spill_count": 4, ".sgpr_spill_count": 5, ".uses_dynamic_stack": True}
    (found,) = read(tmp_path, code_object(metadata({**KERNEL, **more})))
    assert found == KernelMetadata(
        symbol="k",
        vgprs=7,
        agprs=3,
        sgprs=9,
        lds=128,
        scratch=0,
        vgpr_spills=4,
        sgpr_spills=5,
        wave_size=64,
        max_block=256,
        dynamic_stack=True,
    )


def test_other_notes_are_passed_over(tmp_path: Path) -> None:
    others = (note(b"GNU\0", 3, b"build"), note(b"AMD\0", 32, msgpack.packb({})), note(b"AMDGPU\0", 31, b"yy"))
    assert len(read(tmp_path, code_object(*others, metadata(KERNEL)))) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", "unpack", id="empty"),
        pytest.param(b"__CLANG_OFFLOAD_BUNDLE__" + b"\0" * 64, "not a 64-bit ELF file", id="a bundle"),
        pytest.param(code_object(metadata(KERNEL), machine=62), "not a 64-bit ELF file for AMDGPU", id="x86"),
        pytest.param(code_object(note(b"GNU\0", 3, b"")), "no metadata note", id="without metadata"),
        pytest.param(code_object(metadata({".name": "k"})), ".vgpr_count", id="without registers"),
    ],
)
def test_what_is_no_code_object_is_refused(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(InputOutputError) as raised:
        read(tmp_path, content)
    assert told in str(raised.value)
    assert "k.hsaco is no AMDGPU code object" in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputOutputError, match=r"absent\.hsaco: No such file"):
        read_kernels(tmp_path / "absent.hsaco")


@given(cut=st.integers(0, 400), flipped=st.integers(0, 400), bits=st.integers(1, 255))
def test_damage_is_an_error_and_never_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, cut: int, flipped: int, bits: int
) -> None:
    content = bytearray(code_object(metadata(KERNEL))[: max(cut, 1)])
    content[flipped % len(content)] ^= bits
    path = tmp_path_factory.getbasetemp() / "damaged.hsaco"
    path.write_bytes(content)
    try:
        kernels = read_kernels(path)
    except InputOutputError:
        return
    assert all(isinstance(kernel, KernelMetadata) for kernel in kernels)


def test_a_real_one(tmp_path: Path) -> None:
    objects = compile_kernels(sources(source(TWICE)), ["gfx1100", "gfx90a"], real_toolchain(), tmp_path)
    wave32, wave64 = (kernel for code in objects for kernel in read_kernels(code.path))
    assert (wave32.symbol, wave32.wave_size, wave32.max_block) == ("twice_f32", 32, 256)
    assert (wave64.symbol, wave64.wave_size, wave64.max_block) == ("twice_f32", 64, 256)
    assert wave32.vgprs > 0
    assert wave32.scratch == wave32.vgpr_spills == wave32.lds == 0
