"""A program that is linked against a library of ROCm's loads with HIP on NVIDIA too."""

from __future__ import annotations

import re
import subprocess

import pytest

from codegen.paths import repository_root
from codegen.rocm.symbols import exported_functions
from codegen.spec.hip_api import CURRENT_RELEASE, HIP_API, parse_hip_api
from hip_on_nvidia.libraries import LIBRARIES, library, run_with

OWN = {"candle_rocm_on_nvidia"}
NOT_SUPPORTED = {
    "amdhip64": ("hipStreamAddCallback", 801),
    "hiprtc": ("hiprtcGetBitcode", 11),
    "rocblas": ("rocblas_sgemm", 2),
    "rccl": ("ncclGather", 5),
}
"""A function of the API table that each library lacks, and what it answers."""
FAR = {
    "amdhip64": "hipGraphCreate",
    "hiprtc": "hiprtcLinkCreate",
    "rocblas": "rocblas_zherkx",
    "rccl": "ncclCommShrink",
}
"""A function that the table leaves out."""
NAME = r"((?:hip|hiprtc|rocblas_|nccl)\w+)\("
CALLED, WRITTEN = re.compile(rf"\bapi::{NAME}"), re.compile(rf"\bfn {NAME}")


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_function_is_exported(name: str) -> None:
    api = parse_hip_api((repository_root() / HIP_API).read_bytes()).api
    listed = next(entry for entry in api.libraries if entry.name == name)
    table = {function.name for function in api.functions_of(listed, CURRENT_RELEASE)}
    left_out = (repository_root() / "emulator/unsupported" / f"{name}.txt").read_text(encoding="utf-8").split()
    exported = exported_functions(library(name), name)
    assert exported is not None
    assert len(table) > 10
    assert exported - OWN == table | set(left_out)


def test_no_function_that_the_backend_calls_is_lacking() -> None:
    """Each is written out in nvidia/: what is exported for want of it answers that it is not supported."""
    root = repository_root()
    sources = [path.read_text(encoding="utf-8") for path in (root / "templates/candle").rglob("*.rs*")]
    called = {name for text in sources for name in CALLED.findall(text)}
    libraries = [path.read_text(encoding="utf-8") for path in (root / "nvidia").rglob("*.rs")]
    written = {name for text in libraries for name in WRITTEN.findall(text)}
    assert len(called) > 40
    assert called - written == set()


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_function_that_is_lacking_says_so_once_and_for_itself(name: str) -> None:
    function, status = NOT_SUPPORTED[name]
    done = run_with(name, f"print(lib.{function}(), lib.{function}(), lib.{FAR[name]}())")
    assert done.stdout.split() == [str(status)] * 3
    assert done.stderr == "".join(f"{each}: not supported by HIP on NVIDIA\n" for each in (function, FAR[name]))


def test_it_is_the_last_error() -> None:
    name_of = "lib.hipGetErrorName.restype = c_char_p\nprint(lib.hipGetErrorName(lib.hipGetLastError()))"
    assert run_with("amdhip64", f"lib.hipMallocPitch()\n{name_of}").stdout.strip() == "b'hipErrorNotSupported'"


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_libraries_have_their_names(name: str) -> None:
    command = ["readelf", "--dynamic", str(library(name))]
    dynamic = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"Library soname: [lib{name}.so]" in dynamic
