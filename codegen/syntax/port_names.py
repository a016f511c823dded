"""The names of Candle's CUDA side in a program, and what they are on ROCm's: the rules of docs/port-from-cuda.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.syntax.rename import rename

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codegen.syntax.imports import Import

STREAM = "hipStream_t"
STREAM_TYPE = f"#[allow(non_camel_case_types)]\ntype {STREAM} = *mut core::ffi::c_void;"
"""What `hip_stream` returns; `rocm::driver` has no name for it."""
_WORDS = {
    "cu_stream": "hip_stream",
    "CUdeviceptr": "hipDeviceptr_t",
    "CUstream": STREAM,
    "PTX": "HIP",
    "builder_arg": "rocm_builder_arg",
    "NcclType": "RcclType",
    "cuda_backend": "rocm",
}
_WORD = re.compile(rf"\b({'|'.join(_WORDS)})\b")
_QUALIFIED_STREAM = re.compile(r"(?:\w+::)+sys::CUstream\b")
_QUALIFIED_POINTER = re.compile(r"(?:\w+::)+sys::CUdeviceptr\b")
_OWN_CUDARC = re.compile(r"\b(?:cuda_backend|cuda)::cudarc\b")
_BARE_CUDARC = re.compile(r"(?<![\w:])cudarc(?=::)")
_NCCL = re.compile(r"\bnccl(?=::)")
_SOURCE = re.compile(r'\.ptx(?=")')
_BOXED = re.compile(r"\b(Error::Cuda\()(Box::new\([^()]*\))\)")
"""`Error::Rocm` holds a `RocmError`, which a boxed error becomes."""
_C_API = re.compile(r"cuda[A-Z]\w*|cu[A-Z][a-z]\w+|CUDA_[RC]_\d+\w*|CU_\w+|CUBLAS_\w+|CUDNN_\w+")
"""Names of CUDA's libraries in C, those excepted that have a counterpart."""
_DRIVER = "driver"
_COLLECTIVES = "nccl"
_SYSTEM = {"CUstream": STREAM, "CUdeviceptr": "hipDeviceptr_t"}

NO_MODULE = {
    "cublas": "rocBLAS's handle is lent by RocmDevice::with_rocblas",
    "cublaslt": "hipBLASLt takes the stream with each call, so a program makes its own handle",
    "cudnn": "MIOpen is no part of the public face",
    "curand": "random numbers come from Tensor::rand and Tensor::randn",
    "nvrtc": "RocmDevice::get_or_load_custom_func compiles HIP source",
    "runtime": "the runtime's own calls have no counterpart",
}
"""What stands for a module of cudarc that `rocm` does not have."""
CALLS = (
    *("upgrade_device_ptr", "memset_zeros", "bind_to_thread", "cu_device", "cu_ctx", "load_function"),
    *("launch_host_function", "disable_multi_stream_mode", "null_stream", "leak_slice"),
)
"""Methods of cudarc's types that `rocm::driver` does not have, recognized by their name alone."""


@dataclass(frozen=True, slots=True)
class Names:
    """How a crate names what it uses, and what has no counterpart."""

    core: str
    """What the crate calls candle-core, such as `candle`."""
    driver: frozenset[str]
    """What `rocm::driver` has."""
    lacking: Mapping[str, str]
    """Names of items without a namesake on ROCm, and why, or what stands for them."""
    enums: frozenset[str] = frozenset()
    """Candle's enums that have a variant for each backend."""

    def why_not(self, word: str) -> str | None:
        """Why a word of the code has no counterpart; None where it may have one."""
        if word in self.lacking:
            return self.lacking[word]
        if word in CALLS:
            return "cudarc's method has no counterpart"
        if word not in _WORDS and _C_API.fullmatch(word):
            return "it is of CUDA's libraries in C"
        return None

    def why_not_imported(self, each: Import) -> str | None:
        """Why an imported name has no counterpart."""
        _, found, rest = each.path.partition("cudarc::")
        if not found:
            return self.why_not(each.path.rpartition("::")[2].partition(" as ")[0])
        module, _, name = rest.partition("::")
        if module in NO_MODULE:
            return f"cudarc::{module} has no counterpart: {NO_MODULE[module]}"
        if module == _DRIVER and name:
            first, _, inner = name.partition("::")
            if first == "sys" and inner in _SYSTEM:
                return None
            if inner or rename(first.partition(" as ")[0]) not in self.driver:
                return f"rocm::driver has no {name}"
        return None


def ported(text: str, names: Names, *, imported: bool = False) -> str:
    """Rust text with ROCm's names for CUDA's.

    `imported` says whether the file imports Candle's `cudarc`; otherwise that is the crate of this name.
    """
    text = re.sub(r"\bcandle_flash_attn\b", f"{names.core}::rocm::flash_attn", text)
    text = _OWN_CUDARC.sub("rocm", text)
    text = _BARE_CUDARC.sub("rocm" if imported else f"{names.core}::rocm", text)
    text = _QUALIFIED_STREAM.sub("*mut core::ffi::c_void", text)
    text = _QUALIFIED_POINTER.sub(f"{names.core}::rocm::driver::hipDeviceptr_t", text)
    text = _NCCL.sub("rccl", text)
    text = _SOURCE.sub(".hip", text)
    text = _BOXED.sub(r"\1(\2 as Box<dyn std::error::Error + Send + Sync>).into())", text)
    return rename(_WORD.sub(lambda found: _WORDS[found[0]], text), protected=frozenset({"cudarc"}))


def ported_imports(found: Sequence[Import], names: Names) -> tuple[str, ...]:
    """The declarations for some imports of one declaration: one for each path that their names are in."""
    grouped: dict[str, list[str]] = {}
    lines: list[str] = []
    for each in found:
        path = each.path
        if path.endswith("driver::sys::CUstream"):
            lines.append(STREAM_TYPE)
            continue
        path = path.replace("driver::sys::CUdeviceptr", "driver::CUdeviceptr").replace("cudarc::nccl", "cudarc::rccl")
        path = re.sub(r"^cudarc\b", f"{names.core}::rocm", path)
        inside, _, name = ported(path, names).rpartition("::")
        grouped.setdefault(inside, []).append(name)
    for inside, members in grouped.items():
        listed = members[0] if len(members) == 1 else f"{{{', '.join(sorted(dict.fromkeys(members)))}}}"
        lines.append(f"use {inside}::{listed};" if inside else f"use {listed};")
    return tuple(lines)
