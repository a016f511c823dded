"""`verify` and `doctor` from the command line: tables, JSON, exit codes."""

from __future__ import annotations

import json
import re
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import fake_cargo
import pytest
from click.testing import CliRunner
from fake_cargo import message, relayed, span
from fake_machine import machine, put

from codegen.cli import doctor, verify
from codegen.errors import ToolchainMissing, UsageError, VerificationFailed
from codegen.patch.changes import FileChange, Origin, PhaseChanges, Region
from codegen.plan.model import Plan
from codegen.spec.kinds import Runtime
from codegen.spec.model import CandleSpec, Pin
from codegen.verify.process import run_watched
from codegen.verify.results import FoundByVerify, read
from codegen.verify.steps import choose_steps
from codegen.verify.target import Device
from codegen.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from click.testing import Result

    from codegen.rocm.workspaces import Workspace as LibraryWorkspace
    from codegen.verify.process import Ended

CRATES = ("candle-core", "candle-nn", "candle-transformers")
TOOLS = ("cargo", "rustc", "rustfmt", "cargo-clippy", "git")
ORIGIN = Origin("setup.feature", "specs/phases/0-setup.yaml:17", 0)
CHANGE = FileChange("candle-core/src/lib.rs", b"old\n", b"old\nnew\n", (Region(2, 2, ORIGIN),))
PLAN = Plan("1.2.3", "dummy", "rocm-rs", (PhaseChanges(0, "setup", "The feature.", (CHANGE,)),))
NO_GPU = "SKIPPED: no AMD GPU, and no C++ compiler for the emulated HIP device"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with the tools and nothing else; each prints its name and the version 1.0."""
    folder = tmp_path / "bin"
    for name in TOOLS:
        made = [fake_cargo.artifact(crate) for crate in CRATES] if name == "cargo" else []
        fake_cargo.install(folder, name, fake_cargo.printing([f"{name} 1.0", *made], []))
    monkeypatch.setenv("PATH", str(folder))
    # The last is what these tests themselves run in (tests/limits.py).
    for variable in ("CXX", "ROCM_PATH", "SKIP_BINDGEN", "HSA_OVERRIDE_GFX_VERSION", "CANDLE_ROCM_TESTS_OF"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("codegen.verify.target.gpu_architectures", lambda _machine: ())
    monkeypatch.setattr("codegen.verify.target.amd_gpu_present", lambda _machine: False)
    return folder


@pytest.fixture
def invoke(tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `verify` on a small tree with a plan of phase 0."""
    root = tmp_path / "candle"
    files = {f"{crate}/Cargo.toml": f'[package]\nname = "{crate}"\n' for crate in CRATES}
    files["Cargo.toml"] = f"[workspace]\nmembers = {list(CRATES)}\n"
    files["candle-core/src/lib.rs"] = "old\n"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    monkeypatch.setattr(verify, "_planned", lambda *_arguments, **_more: (root, PLAN))

    def run(*arguments: str) -> Result:
        command = ["candle", "--work", str(tmp_path / "work"), *arguments]
        return CliRunner().invoke(verify.command, command, prog_name="verify")

    return run


def cargo_says(programs: Path, *stdout: str, code: int = 0) -> None:
    fake_cargo.install(programs, "cargo", fake_cargo.printing(list(stdout), [], code))


def cargo_error() -> str:
    found: str = relayed(message("cannot find `x`", span("candle-core/src/lib.rs", 2), code="E0425"))
    return found


def test_phase_0_passes_without_rocm_and_says_what_was_not_run(invoke: Callable[..., Result]) -> None:
    result = invoke("--phase", "0")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        f"Candle 1.2.3, phases up to 0, gating dummy, runtime rocm-rs; tree unpatched; device: {NO_GPU[9:]}\n"
    )
    assert "missing (optional without a GPU)" in result.stdout
    assert "check, rocm off" in result.stdout
    assert "passed" in result.stdout
    assert result.stdout.endswith(f"smoke: {NO_GPU}\n")
    first, *steps = result.stderr.splitlines()
    assert first.startswith("verify builds the tree, and so runs its code as you: ")
    assert [re.sub(r"after [\d.]+ s", "after N s", line) for line in steps] == [
        "step 1 of 3, check, rocm off: passed after N s: no warnings",
        "step 2 of 3, check, rocm on: passed after N s: no warnings",
        f"step 3 of 3, smoke program on the device: {NO_GPU}",
    ]


def test_quietly_it_says_that_code_runs_and_the_result(invoke: Callable[..., Result]) -> None:
    assert invoke("--phase", "0", "--quiet").stderr.count("\n") == 1
    assert isinstance(invoke("--quiet", "--verbose").exception, UsageError)


def test_what_a_failed_step_said_last_is_shown_with_its_log(invoke: Callable[..., Result], programs: Path) -> None:
    fake_cargo.install(programs, "cargo", fake_cargo.printing([cargo_error()], ["error: it broke", "the end"], 101))
    said = invoke("--phase", "0", "--only", "check-on").stderr
    assert re.search(r"step 1 of 1, check, rocm on: FAILED after .*check-on\.log ends with: \S.*\n$", said)


def test_a_step_that_is_judged_later_says_so(invoke: Callable[..., Result], programs: Path) -> None:
    fake_cargo.install(programs, "cargo", fake_cargo.printing([], ["error: it broke"], 101))
    said = invoke("--phase", "0", "--only", "check-on").stderr
    assert "does not build after " in said
    assert said.endswith(": the unpatched tree is built for comparison when all other steps are done\n")


def test_after_an_interruption_what_passed_is_not_done_again(
    invoke: Callable[..., Result], programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second step ends the run; the third run finds nothing kept, since the second came to its end."""
    asked = tmp_path / "asked"
    body = f"open({str(asked)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
    made = [fake_cargo.artifact(crate) for crate in CRATES]
    fake_cargo.install(programs, "cargo", body + fake_cargo.printing(["cargo 1.0", *made], []))
    checks = ("--only", "check-off", "--only", "check-on")

    def checked() -> list[str]:
        lines = asked.read_text(encoding="utf-8").splitlines()
        asked.unlink()
        return ["on" if "--features" in line else "off" for line in lines if line.startswith("check ")]

    def interrupted(command: Sequence[str], **more: Any) -> Ended:
        if "--features" in command:
            raise KeyboardInterrupt
        return run_watched(command, **more)

    with monkeypatch.context() as patched:
        patched.setattr("codegen.verify.cargo.run_watched", interrupted)
        assert invoke(*checks).exit_code == 1
    assert checked() == ["off"]

    second = invoke(*checks)
    assert (second.exit_code, checked()) == (0, ["on"])
    assert re.search(
        r"step 1 of 2, check, rocm off: passed: at \S+Z, in a run that was interrupted: no warnings\n", second.stderr
    )
    assert re.search(r"check, rocm off +passed .* in a run that was interrupted: no warnings", second.stdout)
    found = [each.found for each in read(tmp_path / "work/results.jsonl") if isinstance(each, FoundByVerify)]
    assert [run.step for run in found] == ["check-off", "check-on"]
    assert f"at {found[0].at}, in a run" in second.stderr

    assert (invoke(*checks).exit_code, checked()) == (0, ["off", "on"])


def test_a_step_that_failed_is_done_again(
    invoke: Callable[..., Result], programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    cargo_says(programs, cargo_error(), code=101)
    with monkeypatch.context() as patched:
        patched.setattr("codegen.verify.run._baselines", stop)
        assert invoke("--only", "check-off").exit_code == 1
    (step,) = json.loads(invoke("--only", "check-off", "--json").stdout)["steps"]
    assert (step["verdict"], step["passed_before"]) == ("FAILED", None)


def test_fresh_does_all_steps_and_json_says_which_passed_before(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("codegen.verify.run._baselines", stop)
        assert invoke("--only", "check-off").exit_code == 1
    fresh = json.loads(invoke("--only", "check-off", "--json", "--fresh").stdout)
    again = json.loads(invoke("--only", "check-off", "--json").stdout)
    assert fresh["steps"][0]["passed_before"] is None
    assert re.fullmatch(r"\d{4}-.*Z", again["steps"][0]["passed_before"])
    assert {**again["steps"][0], "passed_before": None, "seconds": 0} == {**fresh["steps"][0], "seconds": 0}


def test_a_tree_with_more_phases_applied_is_planned_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--phase 0` on a tree with phases 0 and 1: what lies there is what the plan of both leaves."""
    asked: list[list[int]] = []
    phases = [SimpleNamespace(phase=number, applied=number < 2) for number in range(4)]
    workspace = SimpleNamespace(
        root=tmp_path,
        tree=None,
        applied=(0, 1),
        record=SimpleNamespace(header=SimpleNamespace(gating="cfg", runtime="dynamic")),
        specs=SimpleNamespace(phases=phases),
    )
    workspace.gating = partial(Workspace.gating, cast("Workspace", workspace))
    workspace.runtime = partial(Workspace.runtime, cast("Workspace", workspace))

    def plan(
        _tree: object, _specs: object, *, phases: list[int], gating: str, runtime: str, leave_unknown: bool
    ) -> Plan:
        asked.append(phases)
        assert (gating, runtime, leave_unknown) == ("cfg", "dynamic", False)
        return PLAN

    monkeypatch.setattr("codegen.workspace.workspace.open_workspace", lambda *_arguments, **_more: workspace)
    monkeypatch.setattr("codegen.plan.build.plan_tree", plan)
    for phase in (0, None):
        verify._planned("candle", phase=phase, gating=None, runtime=None, leave=False, offline=True)
    workspace.applied = ()
    verify._planned("candle", phase=0, gating=None, runtime=None, leave=False, offline=True)
    assert asked == [[0, 1], [0, 1], [0]]


def test_rocm_checks_are_for_phase_0_only(invoke: Callable[..., Result]) -> None:
    assert "hipcc" not in invoke("--only", "check-off").stdout


def test_json_is_alone_on_stdout_and_versioned(invoke: Callable[..., Result]) -> None:
    result = invoke("--phase", "0", "--json")
    document = json.loads(result.stdout)
    assert document["schema_version"] == 1
    assert (document["release"], document["phase"], document["tree"]) == ("1.2.3", 0, "unpatched")
    assert document["passed"] is True
    assert document["device"] is None
    verdicts = {step["id"]: (step["verdict"], step["detail"]) for step in document["steps"]}
    assert verdicts["check-on"] == ("passed", "no warnings")
    assert verdicts["smoke"] == ("SKIPPED", NO_GPU)
    assert {check["id"] for check in document["checks"]} >= {"rocm-path", "hipcc", "libclang", "kfd"}


def test_a_pinned_dependency_is_said_once_and_in_json_for_each_step_that_ran(
    invoke: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = Pin(crate="float8", version="0.5.0", reason="0.5.1 is for another cudarc")
    monkeypatch.setattr(CandleSpec, "pins_of", lambda _spec, release: (pin,) if release == "1.2.3" else ())
    lock = tmp_path / "work/trees/1.2.3/Cargo.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(
        '[[package]]\nname = "float8"\nversion = "0.5.0"\nsource = "registry+https://index.example"\n', encoding="utf-8"
    )

    result = invoke("--phase", "0")
    document = json.loads(invoke("--phase", "0", "--json").stdout)

    assert result.exit_code == 0, result.output
    said = "built with float8 0.5.0, not the newest version that the manifests admit: 0.5.1 is for another cudarc\n"
    assert result.stdout.count(said) == result.stdout.count("float8") == 1
    entry = {"crate": "float8", "version": "0.5.0", "pin": "0.5.0", "reason": pin.reason}
    pinned = {step["id"]: step["pinned"] for step in document["steps"]}
    assert (pinned["check-off"], pinned["check-on"], pinned["smoke"]) == ([entry], [entry], [])


def test_a_failed_step_is_exit_8_with_the_rule(invoke: Callable[..., Result], programs: Path) -> None:
    cargo_says(programs, cargo_error(), code=101)
    result = invoke("--phase", "0")
    assert isinstance(result.exception, VerificationFailed)
    text = str(result.exception)
    assert "check, rocm off: 1 error\n" in text
    assert "error[E0425]: cannot find `x`\n  --> candle-core/src/lib.rs:2:1\n" in text
    assert "made by rule setup.feature (specs/phases/0-setup.yaml:17), mirrored from CUDA" in text
    assert "FAILED" in result.stdout


def test_a_failed_step_in_json_is_exit_8_too(invoke: Callable[..., Result], programs: Path) -> None:
    cargo_says(programs, cargo_error(), code=101)
    result = invoke("--phase", "0", "--json")
    assert result.exit_code == 8
    document: dict[str, Any] = json.loads(result.stdout)
    assert document["passed"] is False
    (finding,) = document["steps"][0]["findings"]
    assert finding == {
        "level": "error",
        "code": "E0425",
        "message": "cannot find `x`",
        "file": "candle-core/src/lib.rs",
        "line": 2,
        "column": 1,
        "rule": "setup.feature",
        "spec": "specs/phases/0-setup.yaml:17",
        "template": None,
        "phase": 0,
        "in_generated_text": True,
    }


def test_the_tree_on_disk_is_left_alone(invoke: Callable[..., Result], tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "candle").rglob("*") if path.is_file()}
    invoke("--phase", "0")
    assert {path: path.read_bytes() for path in (tmp_path / "candle").rglob("*") if path.is_file()} == before
    assert (tmp_path / "work/trees/1.2.3/candle-core/src/lib.rs").read_bytes() == CHANGE.after
    assert (tmp_path / "work/logs/1.2.3/check-on.log").is_file()


def test_verify_without_rustfmt_is_exit_7(invoke: Callable[..., Result], programs: Path) -> None:
    (programs / "rustfmt").unlink()
    result = invoke("--phase", "0")
    assert isinstance(result.exception, ToolchainMissing)
    assert "`rustfmt` not found on PATH" in str(result.exception)
    assert "rustup component add rustfmt" in str(result.exception)


def test_verify_on_an_amd_gpu_that_is_not_there_is_exit_7(invoke: Callable[..., Result]) -> None:
    assert isinstance(invoke("--target", "amd").exception, ToolchainMissing)


def test_verify_on_an_nvidia_gpu_that_is_not_there_is_exit_7(invoke: Callable[..., Result], programs: Path) -> None:
    fake_cargo.install(programs, "nvidia-smi", "sys.exit(9)")
    assert isinstance(invoke("--target", "nvidia").exception, ToolchainMissing)


def test_verify_on_an_nvidia_gpu_names_it_and_what_it_leaves_out(invoke: Callable[..., Result], programs: Path) -> None:
    fake_cargo.install(programs, "nvidia-smi", "print('GPU 0: NVIDIA H200 (UUID: GPU-1)')")
    result = invoke("--phase", "0", "--target", "nvidia", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["target"], document["device"]) == ("nvidia", "HIP on NVIDIA (NVIDIA H200)")
    verdicts = {step["id"]: (step["verdict"], step["detail"]) for step in document["steps"]}
    assert verdicts["check-on"] == ("passed", "no warnings")
    assert verdicts["smoke"] == ("SKIPPED", "SKIPPED: hipcc compiles the smoke program's kernel for AMD GPUs")


@pytest.mark.parametrize(
    ("label", "step", "workspace", "needed"),
    [
        ("HIP on NVIDIA (NVIDIA H200)", "rocm-basic", "nvidia", ("/usr/local/cuda/lib64",)),
        ("emulator", "rocm-basic", "emulator", ()),
        ("HIP on NVIDIA", "check-on", None, None),
        ("HIP on NVIDIA", "smoke", None, None),
        ("emulator", "smoke", "emulator", ()),
        ("ROCm (gfx1100)", "rocm-basic", None, None),
    ],
)
def test_libraries_are_built_for_the_device_that_steps_run_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    label: str,
    step: str,
    workspace: str | None,
    needed: tuple[str, ...] | None,
) -> None:
    built: list[tuple[str, str, tuple[str, ...]]] = []

    def prepare(which: LibraryWorkspace, *_arguments: object, log: Path, **more: Any) -> dict[str, str]:
        built.append((which.name, log.name, tuple(more["needed"])))
        return {"ROCM_PATH": "/there"}

    monkeypatch.setattr("codegen.verify.hip_libraries.prepare_libraries", prepare)
    for name in ("libnvrtc.so.12", "libcublas.so.12"):
        put(tmp_path, f"usr/local/cuda/lib64/{name}")
    steps = choose_steps(1, runtime=Runtime.ROCM_RS, only=[step])
    variables = verify._device_variables(
        Device(label), steps, machine(tmp_path), tmp_path, lambda _line: None, linked=True
    )
    assert built == ([] if workspace is None else [(workspace, f"{workspace}.log", needed)])
    assert variables == ({} if workspace is None else {"ROCM_PATH": "/there"})


def test_without_cudas_libraries_no_step_runs_on_an_nvidia_gpu(tmp_path: Path) -> None:
    device, steps = Device("HIP on NVIDIA"), choose_steps(1, only=["rocm-basic"])
    with pytest.raises(ToolchainMissing, match=r"libnvrtc\.so\.13.*\n.*libcublas\.so\.13"):
        verify._device_variables(device, steps, machine(tmp_path), tmp_path, lambda _line: None, linked=True)


@pytest.mark.parametrize("arguments", [("--phase", "9"), ("--gating", "none")])
def test_bad_options_are_usage_errors(invoke: Callable[..., Result], arguments: tuple[str, str]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_a_target_that_there_is_not_is_a_usage_error_with_those_that_there_are(invoke: Callable[..., Result]) -> None:
    result = invoke("--target", "intel")
    assert isinstance(result.exception, UsageError)
    assert "choose among auto, emulator, amd, nvidia, model, model:gfx942" in str(result.exception)


@pytest.mark.parametrize("runtime", list(Runtime))
def test_programs_for_a_model_are_linked_with_the_emulated_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Runtime
) -> None:
    built, linked = [], runtime is Runtime.ROCM_RS

    def prepare(which: LibraryWorkspace, *_arguments: object, **_more: object) -> dict[str, str]:
        built.append(which.name)
        return {}

    monkeypatch.setattr("codegen.verify.hip_libraries.prepare_libraries", prepare)
    steps = choose_steps(1, runtime=runtime, only=["rocm-basic"])
    device = Device("a model", card="gfx1100")
    verify._device_variables(device, steps, machine(tmp_path), tmp_path, lambda _line: None, linked=linked)
    assert built == (["emulator"] if linked else [])


def test_doctor_on_a_machine_without_a_gpu_is_ready(programs: Path) -> None:
    result = CliRunner().invoke(doctor.command, [])
    assert result.exit_code == 0, result.output
    assert "cargo 1.0" in result.stdout
    assert "missing (optional without a GPU)" in result.stdout


def test_doctor_names_what_is_missing_with_exit_7(programs: Path) -> None:
    (programs / "git").unlink()
    result = CliRunner().invoke(doctor.command, [])
    assert isinstance(result.exception, ToolchainMissing)
    assert "git: not on PATH" in str(result.exception)
    assert "cargo 1.0" in result.stdout


def test_doctor_json(programs: Path) -> None:
    ready = json.loads(CliRunner().invoke(doctor.command, ["--json"]).stdout)
    assert (ready["schema_version"], ready["command"], ready["ready"]) == (1, "doctor", True)
    (programs / "git").unlink()
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == 7
    assert json.loads(result.stdout)["ready"] is False


def test_doctor_reads_a_trees_cargo_settings(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "tree/.cargo").mkdir(parents=True)
    (tmp_path / "tree/.cargo/config.toml").write_text('[env]\nSKIP_BINDGEN = "1"\n', encoding="utf-8")
    result = CliRunner().invoke(doctor.command, ["--candle", str(tmp_path / "tree")])
    assert "set in the tree's .cargo/config.toml" in result.stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_every_run_leaves_a_line_for_each_step(
    invoke: Callable[..., Result], tmp_path: Path, options: tuple[str, ...]
) -> None:
    invoke("--phase", "0", "-p", "candle-core", *options)
    invoke("--phase", "0", "--only", "check-on", *options)
    found = read(tmp_path / "work" / "results.jsonl")
    assert all(isinstance(each, FoundByVerify) for each in found)
    runs = [each.found for each in found if isinstance(each, FoundByVerify)]
    assert [(run.step, run.verdict.value, run.packages) for run in runs] == [
        ("check-off", "passed", ("candle-core",)),
        ("check-on", "passed", ("candle-core",)),
        ("smoke", "SKIPPED", ("candle-core",)),
        ("check-on", "passed", ()),
    ]
    assert {(run.release, run.gating, run.runtime, run.phase) for run in runs} == {("1.2.3", "dummy", "rocm-rs", 0)}


def test_a_run_that_cannot_be_written_down_says_so_and_passes(invoke: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "work" / "results.jsonl").mkdir(parents=True)
    result = invoke("--phase", "0", "--json")
    assert result.exit_code == 0
    assert "results.jsonl: Is a directory; `make acceptance` will not know of this run" in result.stderr
    assert json.loads(result.stdout)["passed"]
