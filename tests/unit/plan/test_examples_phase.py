"""Phase 7 on the made-up tree: what its example programs choose a device by, patched as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.candle.tree import open_tree
from codegen.patch.attributed_text import edited
from codegen.plan.decide import scan_tree
from codegen.plan.edits import plan_edits
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

LIB = "candle-examples/src/lib.rs"
CHAT = "candle-examples/examples/chat/main.rs"
DIGITS = "candle-examples/examples/digits/main.rs"
CUSTOM = "candle-examples/examples/custom-ops/main.rs"
BENCH = "candle-core/benches/benchmarks/mod.rs"


def patched(root: Path, gating: Gating) -> dict[str, str]:
    """The edited files as they come from the verbs, before rustfmt."""
    specs, tree = load_specs(), open_tree(root)
    scan = scan_tree(tree, specs, gating=gating)
    edits = plan_edits(scan, specs, phases=(0, 1, 3, 4, 5, 7), gating=gating)
    return {path: " ".join(edited(tree.read(path), own).text.split()) for path, own in edits.items()}


@pytest.fixture(scope="module", params=list(Gating))
def texts(request: pytest.FixtureRequest, pristine: Path) -> dict[str, str]:
    return patched(pristine, request.param)


def test_the_device_is_chosen_behind_cuda_and_before_metal(texts: dict[str, str]) -> None:
    text = texts[LIB]
    assert "use candle::utils::{cuda_is_available, metal_is_available, rocm_is_available};" in text
    order = ["cuda_is_available() {", "new_cuda(0)", "rocm_is_available() {", "new_rocm(0)", "metal_is_available() {"]
    assert [text.index(piece) for piece in order] == sorted(text.index(piece) for piece in order)


def test_the_hint_names_the_feature(texts: dict[str, str]) -> None:
    assert "build this example with `--features rocm`" in texts[LIB]
    assert "`rocm` is on, but no AMD GPU was found" in texts[LIB]


def test_the_dtype_is_that_of_cuda(texts: dict[str, str]) -> None:
    assert "let half = if device.is_cuda() || device.is_rocm() { 16 }" in texts[CHAT]
    assert "let whole = if device.is_metal() { 16 }" in texts[CHAT], "a gap of Metal's is not ROCm's"


def test_a_program_built_for_a_gpu_is_so_with_rocm(texts: dict[str, str]) -> None:
    assert '#[cfg(any(feature = "cuda", feature = "rocm"))] fn on_cpu() -> bool' in texts[CHAT]


def test_what_only_cuda_has_is_left_alone(texts: dict[str, str]) -> None:
    for name in ("set_force_dmmv", "disable_event_tracking", "set_gemm_reduced_precision_f16"):
        assert texts[CHAT].count(name) == 1, name


def test_the_cpu_is_taken_only_where_neither_is_found(texts: dict[str, str]) -> None:
    assert "candle::Device::Cpu => candle::Device::rocm_if_available(0), found => Ok(found)" in texts[DIGITS]


def test_the_custom_op_has_a_kernel_in_hip(texts: dict[str, str]) -> None:
    assert '#[cfg(feature = "rocm")] fn rocm_fwd(' in texts[CUSTOM]
    assert 'include_str!("kernels/layernorm_kernels.hip")' in texts[CUSTOM]


def test_benchmarks_run_on_rocm(texts: dict[str, str]) -> None:
    assert 'else if cfg!(feature = "rocm") {' in texts[BENCH]
    assert "Device::Rocm(device) =>" in texts[BENCH]


def test_patterns_and_devices_need_the_feature_where_every_branch_is_gated(pristine: Path) -> None:
    dummy, cfg = patched(pristine, Gating.DUMMY), patched(pristine, Gating.CFG)

    assert "if let Device::Cuda(_) | Device::Rocm(_) = device" in dummy[CHAT]
    assert '#[cfg(feature = "rocm")] if let Device::Rocm(_) = device {' in cfg[CHAT]
    assert "if let Device::Cuda(_) = device {" in cfg[CHAT]
    assert 'rocm_is_available() { #[cfg(feature = "rocm")] { candle::Device::new_rocm(0) }' in cfg[LIB]
    assert '#[cfg(feature = "rocm")]' not in dummy[LIB]
    assert "pub fn rocm_if_available(ordinal: usize) -> Result<Self> { #[cfg" in cfg["candle-core/src/device.rs"]
