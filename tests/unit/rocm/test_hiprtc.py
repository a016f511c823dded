"""The real libhiprtc compiles without a GPU, in processes of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rocm_toolchain import real_toolchain

from codegen.errors import ToolchainMissing
from codegen.rocm.hiprtc import HipRtcRequest, HipRtcResult, compile_with_hiprtc
from codegen.rocm.toolchain import HipRtc, Toolchain

SOURCE = """\
#include "own/twice.h"
extern "C" __global__ void __launch_bounds__(256) k(float *y, const float *x) {
  y[threadIdx.x] = twice(x[threadIdx.x]) + expf(x[threadIdx.x]);
}
"""
HEADERS = {"own/twice.h": "template <class T> __device__ T twice(T x) { return x + x; }\n"}


@pytest.fixture
def toolchain() -> Toolchain:
    found = real_toolchain()
    if found.hiprtc is None:
        pytest.skip(f"{found} has no libhiprtc")
    return found


def request_for(architecture: str, folder: Path, **other: object) -> HipRtcRequest:
    request = HipRtcRequest("k.hip", SOURCE, architecture, folder / f"{architecture}/k.hsaco", HEADERS, ("-O3",))
    return replace(request, **other)  # type: ignore[arg-type]  # the keys are HipRtcRequest's own


def test_both_wave_sizes(toolchain: Toolchain, tmp_path: Path) -> None:
    told: list[HipRtcResult] = []
    requests = [request_for(name, tmp_path) for name in ("gfx1100", "gfx90a")]
    results = compile_with_hiprtc(requests, toolchain, progress=told.append)
    assert [result.request for result in results] == requests
    assert [(result.ok, result.meaning, result.log) for result in results] == [(True, "HIPRTC_SUCCESS", "")] * 2
    codes = [result.request.code.read_bytes() for result in results]
    assert all(code.startswith(b"\x7fELF") for code in codes)
    assert codes[0] != codes[1]
    assert sorted(map(id, told)) == sorted(map(id, results))


def test_an_error_is_in_the_log_under_the_sources_name(toolchain: Toolchain, tmp_path: Path) -> None:
    broken = request_for("gfx1100", tmp_path, source=SOURCE + "int x = undeclared;\n")
    fine = request_for("gfx1100", tmp_path, code=tmp_path / "fine.hsaco")
    first, second = compile_with_hiprtc([broken, fine], toolchain, jobs=1)
    assert (first.ok, first.meaning) == (False, "HIPRTC_ERROR_COMPILATION")
    assert first.log.startswith("k.hip:5:9: error: use of undeclared identifier 'undeclared'")
    assert not broken.code.exists()
    assert second.ok, "the process goes on after a failure"


def test_the_home_is_left_alone(toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    compile_with_hiprtc([request_for("gfx1100", tmp_path / "out")], toolchain)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_no_requests_need_no_library(toolchain: Toolchain) -> None:
    assert compile_with_hiprtc([], toolchain) == ()


def bare(hiprtc: HipRtc | None) -> Toolchain:
    return Toolchain(
        compiler=Path("clang"),
        flags=(),
        origin="a test's",
        hip="0",
        version="0",
        identity="0",
        precompiles_headers=False,
        hiprtc=hiprtc,
    )


def test_a_toolchain_without_hiprtc(tmp_path: Path) -> None:
    with pytest.raises(ToolchainMissing, match="a test's has no libhiprtc"):
        compile_with_hiprtc([request_for("gfx1100", tmp_path)], bare(None))


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    library = tmp_path / "libhiprtc.so.7"
    library.write_bytes(b"not a library")
    requests = [request_for("gfx1100", tmp_path), request_for("gfx90a", tmp_path)]
    with pytest.raises(ToolchainMissing, match=r"libhiprtc\.so\.7 did not survive k\.hip: .*OSError"):
        compile_with_hiprtc(requests * 3, bare(HipRtc(library)), jobs=2)
