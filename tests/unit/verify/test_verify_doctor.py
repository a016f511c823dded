"""Each check on a machine made of folders: what it finds, what it says, what it advises."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fake_machine import TOOLS, machine, put, with_gpu, with_rocm

from codegen.errors import ExitCode, ToolchainMissing
from codegen.verify.doctor import Check, Need, State, all_checks, refuse_missing, rocm_checks
from codegen.verify.machine import Machine, run_program

if TYPE_CHECKING:
    from pathlib import Path

ON_PATH = {"PATH": "/usr/bin", "ROCM_PATH": "/opt/rocm"}


def found(at: Machine, tree: Path | None = None) -> dict[str, Check]:
    return {check.id: check for check in all_checks(at, tree)}


def test_ids_are_unique(tmp_path: Path) -> None:
    ids = [check.id for check in all_checks(machine(tmp_path))]
    assert len(set(ids)) == len(ids)


def test_a_machine_without_rocm_lacks_nothing_that_is_needed(tmp_path: Path) -> None:
    checks = found(machine(tmp_path))
    assert not any(check.blocks for check in checks.values())
    for name in (
        "rocm-path",
        "hipcc",
        "header-hip_runtime.h",
        "lib-amdhip64",
        "lib-rocblas",
        "lib-MIOpen",
        "lib-rocrand",
    ):
        assert checks[name].verdict == "missing (optional without a GPU)"
        assert checks[name].remedy
    assert checks["kfd"].found == "does not exist"
    assert checks["gpu"].found == "no AMD GPU answers"


def test_a_complete_machine_is_all_well(tmp_path: Path) -> None:
    with_rocm(tmp_path)
    with_gpu(tmp_path, 110000)
    variables = {**ON_PATH, "LD_LIBRARY_PATH": "/opt/rocm/lib", "SKIP_BINDGEN": "1"}
    checks = found(machine(tmp_path, variables, {**TOOLS, "hipcc": "HIP version: 7.1", "g++": ""}))
    assert [check.id for check in checks.values() if check.state in (State.MISSING, State.UNUSUAL)] == []
    assert checks["emulator"].found == "built when needed, compiles kernels with g++"
    assert checks["rocm-path"].found == "/opt/rocm (ROCm 7.1.0)"
    assert checks["hipcc"].found == "HIP version: 7.1"
    assert checks["lib-amdhip64"].found == "/opt/rocm/lib/libamdhip64.so.7"
    assert checks["gpu"].found == "gfx1100"
    assert checks["rocblas-kernels"].found == "gfx1100"
    assert checks["dri"].found == "renderD128"


def test_hip_on_nvidia_is_told_apart_from_rocm(tmp_path: Path) -> None:
    assert found(machine(tmp_path))["nvidia"].state is State.UNSET
    programs = {**TOOLS, "nvidia-smi": "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"}
    check = found(machine(tmp_path, programs=programs))["nvidia"]
    assert check.state is State.MISSING
    assert check.found.startswith("NVIDIA H200; HIP on NVIDIA needs one of libnvrtc.so.13, libnvrtc.so.12,")
    assert "libcublas.so.13" in check.found
    assert "CUDA_HOME" in check.remedy
    for name in ("libnvrtc.so.12", "libcublas.so.12"):
        put(tmp_path, f"usr/local/cuda/lib64/{name}")
    check = found(machine(tmp_path, programs=programs))["nvidia"]
    assert (check.state, check.found) == (State.OK, "NVIDIA H200; `verify --target nvidia` runs on it")
    assert found(machine(tmp_path, programs=programs))["gpu"].state is State.MISSING, "no AMD GPU"


def test_rccl_is_looked_for_and_missed_by_nobody_else(tmp_path: Path) -> None:
    check = found(machine(tmp_path))["lib-rccl"]
    assert (check.verdict, check.found) == (
        "not set",
        "not found; needed with the feature rocm-rccl only, for collectives of several GPUs",
    )
    put(tmp_path, "opt/rocm/lib/librccl.so.1")
    assert found(machine(tmp_path, ON_PATH))["lib-rccl"].found == "/opt/rocm/lib/librccl.so.1"


def test_every_missing_piece_of_rocm_has_its_own_check(tmp_path: Path) -> None:
    with_rocm(tmp_path)
    (tmp_path / "opt/rocm/include/miopen/miopen.h").unlink()
    (tmp_path / "opt/rocm/lib/librocblas.so").unlink()
    checks = found(machine(tmp_path, ON_PATH))
    missing = {
        check.id
        for check in checks.values()
        if check.state is State.MISSING and check.id.startswith(("header", "lib-"))
    }
    assert missing == {"header-miopen.h", "lib-rocblas"}
    assert "`miopen-hip-dev`" in checks["header-miopen.h"].remedy
    assert checks["lib-rocblas"].found == "no librocblas.so in /opt/rocm/lib or LD_LIBRARY_PATH"


@pytest.mark.parametrize("missing", sorted(TOOLS))
def test_each_missing_tool_blocks_and_is_exit_7(tmp_path: Path, missing: str) -> None:
    checks = all_checks(machine(tmp_path, programs={name: text for name, text in TOOLS.items() if name != missing}))
    assert [check.id for check in checks if check.blocks] == [missing]
    with pytest.raises(ToolchainMissing) as caught:
        refuse_missing(checks)
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert f"missing toolchain: {missing}: not on PATH" in str(caught.value)


def test_a_tool_that_does_not_start_is_as_good_as_missing(tmp_path: Path) -> None:
    check = found(machine(tmp_path, programs={**TOOLS, "rustfmt": None}))["rustfmt"]
    assert check.blocks
    assert check.found == "on PATH, but `--version` fails"
    assert check.remedy == "rustup component add rustfmt"


def test_nothing_missing_is_no_error(tmp_path: Path) -> None:
    refuse_missing(all_checks(machine(tmp_path)))


def test_rocm_path_to_nowhere(tmp_path: Path) -> None:
    check = found(machine(tmp_path, {"ROCM_PATH": "/elsewhere"}))["rocm-path"]
    assert check.found == "set to /elsewhere, which does not exist"
    assert "export ROCM_PATH=/opt/rocm" in check.remedy


def test_rocm_path_not_set_but_installed(tmp_path: Path) -> None:
    with_rocm(tmp_path)
    check = found(machine(tmp_path))["rocm-path"]
    assert (check.state, check.found) == (State.OK, "not set; /opt/rocm exists and is used (ROCm 7.1.0)")


def test_rocm_in_another_folder_is_followed(tmp_path: Path) -> None:
    put(tmp_path, "srv/rocm/lib/libamdhip64.so")
    checks = found(machine(tmp_path, {"ROCM_PATH": "/srv/rocm"}))
    assert checks["lib-amdhip64"].found == "/srv/rocm/lib/libamdhip64.so"
    assert checks["lib-rocrand"].found == "no librocrand.so in /srv/rocm/lib or LD_LIBRARY_PATH"


def test_hipcc_installed_but_not_on_path(tmp_path: Path) -> None:
    with_rocm(tmp_path)
    check = found(machine(tmp_path, ON_PATH))["hipcc"]
    assert check.found == "/opt/rocm/bin/hipcc exists, but is not on PATH"
    assert check.remedy == 'export PATH="/opt/rocm/bin:$PATH"'


def test_hipcc_that_does_not_run(tmp_path: Path) -> None:
    check = found(machine(tmp_path, programs={**TOOLS, "hipcc": None}))["hipcc"]
    assert (check.state, check.found) == (State.MISSING, "on PATH, but `--version` fails")


def test_libraries_are_looked_for_in_ld_library_path(tmp_path: Path) -> None:
    put(tmp_path, "my/libs/librocrand.so.1")
    check = found(machine(tmp_path, {"LD_LIBRARY_PATH": "relative::/my/libs"}))["lib-rocrand"]
    assert check.found == "/my/libs/librocrand.so.1"


@pytest.mark.parametrize(
    ("value", "ldconfig", "state"),
    [
        ("/opt/rocm/lib:/x", "", State.OK),
        ("", "libamdhip64.so.7 (libc6,x86-64) => /opt/rocm/lib/libamdhip64.so.7", State.OK),
        ("", "libc.so.6 => /lib/libc.so.6", State.UNUSUAL),
        ("/x", "", State.UNUSUAL),
    ],
)
def test_ld_library_path(tmp_path: Path, value: str, ldconfig: str, state: State) -> None:
    with_rocm(tmp_path)
    check = found(machine(tmp_path, {"LD_LIBRARY_PATH": value}, {**TOOLS, "ldconfig": ldconfig}))["ld-library-path"]
    assert check.state is state
    assert (state is State.UNUSUAL) == ("/etc/ld.so.conf.d" in check.remedy)


def test_skip_bindgen_in_the_environment_makes_libclang_unneeded(tmp_path: Path) -> None:
    checks = found(machine(tmp_path, {"SKIP_BINDGEN": "1"}), tmp_path)
    assert checks["skip-bindgen"].found == "set in the environment"
    assert checks["libclang"].found == "not needed: SKIP_BINDGEN is set"


def test_skip_bindgen_in_the_tree(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    put(tree, ".cargo/config.toml", '[env]\nSKIP_BINDGEN = "1"\n')
    checks = found(machine(tmp_path / "root"), tree)
    assert checks["skip-bindgen"].found == "set in the tree's .cargo/config.toml"
    assert checks["libclang"].state is State.OK


def test_a_tree_that_links_nothing_needs_neither(tmp_path: Path) -> None:
    """With the default runtime; it was told once to set SKIP_BINDGEN, or to install libclang."""
    put(
        tmp_path / "tree",
        "candle-core/Cargo.toml",
        '[dependencies]\nlibloading = "0.8"\n',
    )
    checks = found(machine(tmp_path / "root"), tmp_path / "tree")
    assert [checks[name].state for name in ("skip-bindgen", "libclang")] == [State.UNSET, State.UNSET]
    assert "with --runtime rocm-rs only" in checks["libclang"].found


def test_a_tree_without_skip_bindgen_needs_libclang(tmp_path: Path) -> None:
    put(tmp_path / "tree", ".cargo/config.toml", "= broken")
    put(tmp_path / "tree", "candle-core/Cargo.toml", '[dependencies]\nrocm-rs = "0.5"\n')
    checks = found(machine(tmp_path / "root"), tmp_path / "tree")
    assert checks["skip-bindgen"].state is State.UNUSUAL
    assert checks["libclang"].verdict == "missing (optional without a GPU)"
    assert "libclang-dev" in checks["libclang"].remedy


@pytest.mark.parametrize(
    ("path", "variables"),
    [
        ("usr/lib/llvm-19/lib/libclang.so.1", {}),
        ("usr/lib/x86_64-linux-gnu/libclang-19.so.19", {}),
        ("my/clang/libclang.so", {"LIBCLANG_PATH": "/my/clang"}),
    ],
)
def test_libclang_is_found(tmp_path: Path, path: str, variables: dict[str, str]) -> None:
    put(tmp_path, path)
    put(tmp_path, "usr/lib/libclang-cpp.so.19")
    check = found(machine(tmp_path, variables), tmp_path)["libclang"]
    assert (check.state, check.found) == (State.OK, f"/{path}")


@pytest.mark.parametrize(("closed", "name"), [("kfd", "kfd"), ("renderD128", "dri")])
def test_devices_without_access_name_the_groups(tmp_path: Path, closed: str, name: str) -> None:
    with_gpu(tmp_path, 110000)
    check = found(machine(tmp_path, closed=[closed]))[name]
    assert check.state is State.MISSING
    assert check.found.startswith("no access to /dev/")
    assert "usermod -aG render,video" in check.remedy


def test_a_gpu_that_rocblas_has_no_kernels_for(tmp_path: Path) -> None:
    with_rocm(tmp_path)
    with_gpu(tmp_path, 110000, 100302)
    check = found(machine(tmp_path))["rocblas-kernels"]
    assert (check.state, check.found) == (State.MISSING, "none for gfx1032")
    assert "HSA_OVERRIDE_GFX_VERSION" in check.remedy


@pytest.mark.parametrize(("value", "advice"), [("10.3.0", "unset it"), ("gfx1030", "three numbers")])
def test_the_override_is_pointed_at(tmp_path: Path, value: str, advice: str) -> None:
    check = found(machine(tmp_path, {"HSA_OVERRIDE_GFX_VERSION": value}))["override"]
    assert (check.state, check.found) == (State.UNUSUAL, value)
    assert advice in check.remedy


@pytest.mark.parametrize(
    ("name", "value"), [("HIP_VISIBLE_DEVICES", "-1"), ("ROCR_VISIBLE_DEVICES", "-1"), ("ROCR_VISIBLE_DEVICES", "")]
)
def test_hidden_devices_are_pointed_at(tmp_path: Path, name: str, value: str) -> None:
    check = found(machine(tmp_path, {name: value}))["visible-devices"]
    assert check.state is State.UNUSUAL
    assert f"{name} hides every device" in check.remedy


@pytest.mark.parametrize("value", ["", "1", "0,1"])
def test_an_empty_list_of_hip_hides_nothing(tmp_path: Path, value: str) -> None:
    check = found(machine(tmp_path, {"HIP_VISIBLE_DEVICES": value}))["visible-devices"]
    assert (check.state, check.remedy) == (State.OK, "")


def test_several_gpus_without_a_choice_get_advice(tmp_path: Path) -> None:
    with_gpu(tmp_path, 110000, 110000)
    assert "HIP_VISIBLE_DEVICES=0" in found(machine(tmp_path))["visible-devices"].remedy


def test_variables_that_builds_depend_on_are_shown(tmp_path: Path) -> None:
    checks = found(machine(tmp_path, {"HIP_PATH": "/opt/rocm/hip"}))
    assert checks["hip-path"].found == "/opt/rocm/hip"
    assert checks["bindgen-extra-clang-args"].state is State.UNSET


def test_phase_0_gets_the_rocm_checks_only(tmp_path: Path) -> None:
    checks = rocm_checks(machine(tmp_path))
    assert not any(check.need is Need.TOOL for check in checks)


def test_programs_that_fail_give_no_answer() -> None:
    assert run_program([sys.executable, "-c", "print('yes')"]) == "yes\n"
    assert run_program([sys.executable, "-c", "print('no'); raise SystemExit(1)"]) is None
    assert run_program(["/no/such/program"]) is None


def test_programs_that_hang_give_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_arguments: object, **_more: object) -> None:
        raise subprocess.TimeoutExpired("x", 1)

    monkeypatch.setattr(subprocess, "run", hang)
    assert run_program(["x"]) is None
