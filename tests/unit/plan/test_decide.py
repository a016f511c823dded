"""What happens at each site of the made-up tree, and what the scan refuses to decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import DEVICE, LIB, OLDEST, STORAGE, candle_tree, replace_in

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, InputOutputError, NotACandleTree, UnknownSite
from codegen.plan import decide
from codegen.plan.decide import Scan, missing_enums, refuse_undecided, refuse_unknown, scan_tree
from codegen.plan.model import Decision, State
from codegen.spec.kinds import Gating
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.loaded import LoadedSpecs

NOTES = "candle-core/src/notes.rs"


@pytest.fixture(scope="module")
def specs() -> LoadedSpecs:
    return load_specs()


@pytest.fixture(scope="module")
def scan(pristine: Path, specs: LoadedSpecs) -> Scan:
    return scan_tree(open_tree(pristine), specs)


def only(scan: Scan, path: str, **wanted: object) -> Decision:
    """The one decision about a site in `path` whose attributes are as wanted."""
    found = [
        decision
        for decision in scan.decisions
        if decision.site.path == path and all(getattr(decision.site, key) == value for key, value in wanted.items())
    ]
    assert len(found) == 1, [decision.site for decision in found]
    return found[0]


def test_a_handled_site(scan: Scan) -> None:
    decision = only(scan, STORAGE, item="Storage::scale")

    assert (decision.state, decision.rule, decision.verb) == (State.HANDLED, "core.dispatch", "mirror")
    assert (decision.phase, decision.lands, decision.stand_in) == (1, 1, None)
    assert decision.crate == "candle-core"


def test_a_site_of_a_later_phase_with_a_stand_in(scan: Scan) -> None:
    decision = only(scan, "candle-core/src/quantized/mod.rs", item="Device::quantized_zeros")

    assert (decision.state, decision.rule) == (State.HANDLED, "quant.device-match")
    assert (decision.phase, decision.lands, decision.stand_in) == (2, 2, 1)


def test_a_site_of_a_later_phase_that_rustc_demands_now(scan: Scan) -> None:
    """Where a mirrored arm will do, phase 1 writes the final form at once."""
    decision = only(scan, "candle-core/benches/benchmarks/mod.rs", item="Device::sync")

    assert (decision.state, decision.phase, decision.lands) == (State.HANDLED, 7, 1)


def test_a_site_that_calls_what_a_later_phase_brings_gets_a_stand_in(scan: Scan) -> None:
    decision = only(scan, "candle-core/src/tensor.rs", item="Tensor::to_scalar")

    assert (decision.phase, decision.lands, decision.stand_in) == (3, 3, 1)


def test_a_match_with_a_fallback_arm_can_wait(scan: Scan) -> None:
    decision = only(scan, "candle-core/src/tensor.rs", item="Tensor::to_device")

    assert (decision.state, decision.phase, decision.lands) == (State.HANDLED, 3, 3)


def test_an_enum_whose_variant_lands_in_a_later_phase_demands_nothing_yet(scan: Scan) -> None:
    decision = only(scan, "candle-core/src/quantized/mod.rs", item="QStorage::width")

    assert decision.site.exhaustive
    assert (decision.state, decision.lands) == (State.HANDLED, 2)


def test_a_rule_that_lands_earlier_than_its_phase(scan: Scan) -> None:
    decision = only(scan, "candle-pyo3/src/lib.rs", item="PyDevice::from_device")

    assert (decision.phase, decision.lands, decision.state) == (6, 1, State.HANDLED)


def test_a_site_that_is_left_alone(scan: Scan) -> None:
    decision = only(scan, LIB, gate='feature = "cudnn"')

    assert (decision.state, decision.rule) == (State.LEFT, "core.cuda-libraries")
    assert decision.reason == "re-exports of cuDNN and cuTile, which are CUDA-only libraries"


def test_a_crate_that_is_left_alone(scan: Scan) -> None:
    for crate in ("candle-ug", "candle-kernels"):
        found = [decision for decision in scan.decisions if decision.crate == crate and decision.site.kind != "text"]
        assert found
        assert {(decision.state, decision.rule) for decision in found} == {(State.LEFT, "candle.crates")}


def test_a_site_inside_another_shares_its_fate(scan: Scan) -> None:
    outer = only(scan, DEVICE, kind="fn", name="as_cuda_device")
    inner = only(scan, DEVICE, kind="match", item="Device::as_cuda_device")

    assert (outer.inside, inner.inside) == (False, True)
    assert (inner.state, inner.rule, inner.lands) == (outer.state, outer.rule, outer.lands)
    assert inner.reason == f"inside the fn at line {outer.site.line}"


def test_a_foreign_rule_reaches_into_code_that_is_left_alone(scan: Scan) -> None:
    outer = only(scan, "candle-core/src/quantized/mod.rs", kind="fn", name="device_ptr_with_guard")
    inner = only(scan, "candle-core/src/quantized/mod.rs", kind="match", item="QStorage::device_ptr_with_guard")

    assert outer.state is State.LEFT
    assert (inner.state, inner.rule, inner.inside) == (State.HANDLED, "quant.cuda-gated-match", False)


def test_a_foreign_file_is_one_site(scan: Scan) -> None:
    decision = only(scan, "candle-core/src/cuda_backend/mod.rs")

    assert (decision.site.kind, decision.state, decision.rule) == ("file", State.LEFT, "candle.foreign")
    assert decision.reason == "the CUDA backend itself"


def test_features_are_sites(pristine: Path, scan: Scan, specs: LoadedSpecs) -> None:
    features = {d.crate: d for d in scan.decisions if d.site.kind == "cargo-feature"}

    assert features["candle-nn"].rule == "setup.feature"
    assert features["candle-nn"].site.snippet == 'cuda = ["candle/cuda"]'
    assert features["candle-ug"].state is State.LEFT


def test_a_cuda_library_with_a_namesake_is_mirrored(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    manifest = root / "candle-core/Cargo.toml"
    replace_in(manifest, "metal = []", "metal = []\ncudnn = []")
    manifest.write_text(manifest.read_text() + "\n[dependencies.x]\ncudnn = 1\n")

    scan = scan_tree(open_tree(root), specs)

    found = {d.site.name: d for d in scan.decisions if d.site.kind == "cargo-feature" and d.crate == "candle-core"}
    assert (found["cudnn"].state, found["cudnn"].rule) == (State.HANDLED, "tensors.miopen-feature")
    assert manifest.read_text().splitlines()[found["cudnn"].site.line - 1] == "cudnn = []"


def test_features_of_cuda_libraries_are_left_alone(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    manifest = root / "candle-core/Cargo.toml"
    replace_in(manifest, "metal = []", 'metal = []\nnccl = []\n"cutile" = ["dep:cudatile"]')
    manifest.write_text(manifest.read_text() + "\n[dependencies.x]\nnccl = 1\n")

    scan = scan_tree(open_tree(root), specs)

    found = {d.site.name: d for d in scan.decisions if d.site.kind == "cargo-feature" and d.crate == "candle-core"}
    assert (found["nccl"].state, found["nccl"].rule) == (State.LEFT, "candle.cuda-libraries")
    assert found["nccl"].reason == "NCCL is CUDA's; its counterpart RCCL has the feature rocm-rccl"
    assert found["cutile"].site.snippet == '"cutile" = ["dep:cudatile"]'
    assert manifest.read_text().splitlines()[found["nccl"].site.line - 1] == "nccl = []"


def test_a_feature_that_needs_cuda_and_is_not_listed_is_unknown(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    replace_in(root / "candle-nn/Cargo.toml", 'cuda = ["candle/cuda"]', 'cuda = ["candle/cuda"]\nwarp = ["cuda"]')

    with pytest.raises(UnknownSite) as raised:
        refuse_unknown(scan_tree(open_tree(root), specs))

    message = str(raised.value)
    assert "does not list it under cuda_libraries (cargo-feature in features)" in message
    assert ' | warp = ["cuda"]\n' in message


def test_the_gating_changes_rules(pristine: Path, specs: LoadedSpecs) -> None:
    cfg = scan_tree(open_tree(pristine), specs, gating=Gating.CFG)

    assert only(cfg, LIB, kind="mod", name="dummy_cuda_backend").rule == "core.no-dummy-module"
    assert only(cfg, DEVICE, kind="fn", name="is_cuda").rule == "core.is-rocm-gated"


def test_releases_change_rules(tmp_path: Path, specs: LoadedSpecs, scan: Scan) -> None:
    oldest = scan_tree(open_tree(candle_tree(tmp_path, OLDEST)), specs)
    custom_op = "candle-core/src/custom_op.rs"

    assert only(scan, custom_op, name="cuda_fwd_aliased").rule == "core.aliased-text"
    assert only(oldest, custom_op, item="UgIOp1", name="cuda_fwd").rule == "custom-ops.ug-fwd"


def test_every_site_of_the_made_up_tree_is_decided(scan: Scan, specs: LoadedSpecs) -> None:
    assert scan.of_state(State.UNKNOWN) == ()
    refuse_undecided(scan, specs)


# --- what is refused ---------------------------------------------------------------------------------------------


def scanned(root: Path, specs: LoadedSpecs, text: str) -> Scan:
    (root / NOTES).write_text(text)
    return scan_tree(open_tree(root), specs)


def test_an_unknown_site_is_shown(candle: Path, specs: LoadedSpecs) -> None:
    scan = scanned(candle, specs, "fn a() {\n    place::cuda();\n}\n\nfn cuda_b() {}\n")

    with pytest.raises(UnknownSite) as caught:
        refuse_unknown(scan)

    assert caught.value.exit_code is ExitCode.UNKNOWN_SITE
    assert str(caught.value) == (
        f"unhandled backend site: {NOTES}:2:5: no rule handles this site and no spec leaves it alone (call in a)\n"
        "  2 |     place::cuda();\n"
        "    |     ^\n"
        f"{NOTES}:5:1: no rule handles this site and no spec leaves it alone (fn in the file)\n"
        "  5 | fn cuda_b() {}\n"
        "    | ^\n"
        "  = help: decide each site in candle-rocm.yaml at the root of the tree "
        "(`candle-rocm scan CANDLE --suggest` writes a draft), or leave them for later: `apply --leave-unknown`"
    )


def test_an_exhaustive_match_inside_code_that_is_left_alone(candle: Path, specs: LoadedSpecs) -> None:
    """It would stop compiling for CUDA's users as soon as the enum has a ROCm variant."""
    replace_in(
        candle / "candle-core/src/sort.rs",
        "    use crate::cuda_backend::cudarc;",
        "    fn place(d: &Device) -> u8 {\n        match d {\n            Device::Cpu => 0,\n            "
        "Device::Cuda(_) => 1,\n            Device::Metal(_) => 2,\n        }\n    }",
    )

    with pytest.raises(UnknownSite, match="an exhaustive match inside code that is left alone would stop compiling"):
        refuse_unknown(scan_tree(open_tree(candle), specs))


def test_an_enum_that_no_spec_knows(candle: Path, specs: LoadedSpecs) -> None:
    path = "candle-core/src/quantized/new.rs"
    (candle / path).write_text(
        "fn a(p: Place) -> u8 {\n    match p {\n        Place::Cuda => 1,\n        Place::Cpu => 0,\n    }\n}\n"
    )

    with pytest.raises(UnknownSite, match=rf"{path}:2:5: specs/candle\.yaml knows no enum Place \(match in a\)"):
        refuse_unknown(scan_tree(open_tree(candle), specs))


def test_a_missing_enum_is_looked_for_in_its_own_crate(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / "candle-pyo3/src/lib.rs", "enum PyDevice", "enum Place")
    with (candle / STORAGE).open("a") as file:
        file.write("\nenum PyDevice {\n    Cpu,\n    Cuda,\n}\n")
    scan = scan_tree(open_tree(candle), specs)

    with pytest.raises(UnknownSite) as caught:
        missing_enums(scan.tree, specs, scan)

    assert [str(problem) for problem in caught.value.problems] == [
        "Candle 0.11.1 has no `enum PyDevice` with a Cuda variant in candle-pyo3 (renamed, or moved?)"
    ]


def test_a_crate_that_the_tree_lacks_is_not_missed(candle: Path, specs: LoadedSpecs) -> None:
    """crates.io does not have all crates of every release."""
    replace_in(candle / "Cargo.toml", ', "candle-pyo3"', "")

    scan = scan_tree(open_tree(candle), specs)
    missing_enums(scan.tree, specs, scan)


def test_everything_that_is_undecided_comes_in_one_error(candle: Path, specs: LoadedSpecs) -> None:
    replace_in(candle / DEVICE, "enum DeviceLocation", "enum Place")
    scan = scanned(candle, specs, "fn cuda_a() {}\n")

    with pytest.raises(UnknownSite) as caught:
        refuse_undecided(scan, specs)

    message = str(caught.value)
    assert f"{NOTES}:1:1: no rule handles this site" in message
    assert "has no `enum DeviceLocation`" in message
    assert message.index("has no `enum DeviceLocation`") < message.index("no rule handles this site")
    assert "correct the enum's entry in specs/candle.yaml; decide each site" in message


def test_a_file_that_is_not_utf_8(candle: Path, specs: LoadedSpecs) -> None:
    (candle / NOTES).write_bytes(b"// ok\n// cuda \xff\n")

    with pytest.raises(NotACandleTree, match=rf"{NOTES}:2:1: the file is not UTF-8"):
        scan_tree(open_tree(candle), specs)


# --- what mutations of the code survived ---------------------------------------------------------------------------


def test_of_two_enums_the_earlier_variant_demands_an_answer(candle: Path, specs: LoadedSpecs) -> None:
    """`Device` gains its variant in phase 1, `QStorage` in phase 2: from phase 1 on, rustc rejects a match of both."""
    quantized = "candle-core/src/quantized/mod.rs"
    replace_in(
        candle / quantized,
        "impl Device {\n",
        "impl Device {\n"
        "    fn holds(&self, storage: &QStorage) -> bool {\n"
        "        match (self, storage) {\n"
        "            (Device::Cpu, QStorage::Cpu(_)) => true,\n"
        "            (Device::Cuda(_), QStorage::Cuda(_)) => true,\n"
        "            (Device::Metal(_), QStorage::Metal(_)) => true,\n"
        "        }\n"
        "    }\n",
        count=1,
    )

    decision = only(scan_tree(open_tree(candle), specs), quantized, item="Device::holds")

    assert decision.site.exhaustive
    assert decision.site.enums == ("Device", "QStorage")
    assert decision.phase == 2
    assert (decision.stand_in or decision.lands) == 1


def test_a_feature_is_sought_in_its_table_only(candle: Path, specs: LoadedSpecs) -> None:
    manifest = "candle-core/Cargo.toml"
    lines = ["[package.metadata.docs]", 'cuda = "no feature"', "", "[features]", 'metal = ["dep:metal"]', "cuda = []"]
    text = (candle / manifest).read_text()
    features = [line for line in text.partition("[features]\n")[2].splitlines() if line.startswith("cuda")]
    (candle / manifest).write_text("\n".join(lines[:3]) + "\n" + text)

    decision = only(scan_tree(open_tree(candle), specs), manifest, name="cuda")

    assert decision.site.snippet == features[0]
    assert (candle / manifest).read_text().splitlines()[decision.site.line - 1] == features[0]


def test_sources_that_are_too_large_together(
    pristine: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MOST_NODES", 1000)

    with pytest.raises(InputOutputError, match=r"\.rs: the sources that name backends are too large"):
        scan_tree(open_tree(pristine), specs)


def test_a_scan_is_given_up_when_its_time_is_over(
    pristine: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "MOST_SECONDS", 0.0)
    with pytest.raises(InputOutputError, match=r"candle-core/.*\.rs: the scan has taken more than 0 seconds"):
        scan_tree(open_tree(pristine), specs)
