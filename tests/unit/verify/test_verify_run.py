"""Judging steps, with cargo's answers given by the test."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from codegen.errors import ExitCode, VerificationFailed
from codegen.patch.changes import Origin, Region
from codegen.paths import repository_root
from codegen.spec.model import Pin
from codegen.verify.cargo import CargoRun
from codegen.verify.chosen_tests import with_programs
from codegen.verify.device_use import RECORD
from codegen.verify.diagnostics import Diagnostic, Span
from codegen.verify.evidence import DEVICE_ABSENT, ExpectedNames
from codegen.verify.expected_failures import WaitingTest
from codegen.verify.judge import StepResult, Verdict, all_passed, refuse_failures
from codegen.verify.modelled import Modelled
from codegen.verify.patched_tree import OnDisk, Subject
from codegen.verify.pins import Pinned
from codegen.verify.run import Bench, run_step, run_steps
from codegen.verify.scratch import ScratchTree
from codegen.verify.steps import LINTS, PassCriterion, Step
from codegen.verify.target import EMULATOR, NO_DEVICE, Device
from codegen.verify.testrun import Outcome, TestBinary, TestRun
from codegen.verify.unrun import LeftOut, UnrunTests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EMULATED = Device(EMULATOR)
ORIGIN = Origin("core.dispatch", "specs/phases/1-core.yaml:42", 1)
CHECK = Step("check-on", "check, rocm on", "check", ("candle-core",), PassCriterion.BUILDS, 1, features=("rocm",))
LINT = replace(CHECK, id="clippy-on", criterion=PassCriterion.LINT, subcommand="clippy")
TESTS = replace(CHECK, id="tests", criterion=PassCriterion.TESTS, subcommand="test")
BASIC = replace(TESTS, id="rocm-basic", device=True, programs=("hipcc",))
LOG = Path(os.devnull)
BINARY = TestBinary("candle-core", "rocm_basic", "test", Path("/t/rocm_basic"), Path("/tree"))


def diagnostic(
    level: str, line: int, message: str = "m", code: str | None = "c", file: str = "core/a.rs"
) -> Diagnostic:
    return Diagnostic(level, code, message, Span(file, line, 1, line, 2))


def answer(code: int = 0, *diagnostics: Diagnostic, **more: Any) -> CargoRun:
    fields: dict[str, Any] = {"complaint": "", "built": ("candle-core", "candle-pyo3"), "binaries": (BINARY,), **more}
    return CargoRun(("check",), code, diagnostics, seconds=1.5, log=LOG, **fields)


@dataclass
class Programs:
    """Stands in for test programs: gives the runs in turn and remembers the variables of each."""

    runs: list[TestRun]
    environments: list[Mapping[str, str]] = field(default_factory=list)
    record: str = ""
    """What the device writes."""

    def __call__(self, *_program: object, environment: Mapping[str, str], **more: Any) -> TestRun:
        self.environments.append(environment)
        if RECORD in environment and self.record:
            (Path(environment[RECORD]) / "1.jsonl").write_text(self.record, encoding="utf-8")
        run = self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        chosen = tuple(filter(more["choose"], run.selected))
        return replace(run, selected=chosen, outcomes={name: run.outcomes[name] for name in chosen})


def ran(passed: int = 3, failures: Mapping[str, str] | None = None, **more: Any) -> TestRun:
    failures = failures or {}
    outcomes = {f"t{number}": Outcome.PASSED for number in range(passed)} | dict.fromkeys(failures, Outcome.FAILED)
    fields: dict[str, Any] = {"selected": tuple(outcomes), "outcomes": outcomes, "outputs": failures, **more}
    return TestRun(BINARY, returncode=101 if failures else 0, **fields)


def recorded(library: str = "emulator", devices: str = "gfx1100,gfx90a", launches: int = 1) -> str:
    known = [{"arch": name} for name in devices.split(",")]
    start = {"event": "start", "library": library, "devices": known}
    end = {"event": "end", "launches": launches, "copies": 0, "kernels": {}}
    return "\n".join(map(json.dumps, (start, end))) + "\n"


@dataclass
class Cargo:
    """Gives the answers in turn and remembers what it was asked."""

    answers: list[CargoRun]
    asked: list[tuple[str, ...]] = field(default_factory=list)
    trees: list[bytes] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)

    def __call__(
        self, root: Path, arguments: tuple[str, ...], *, environment: dict[str, str], **_more: object
    ) -> CargoRun:
        self.asked.append(arguments)
        self.environments.append(environment)
        self.trees.append((root / "core/a.rs").read_bytes())
        return self.answers.pop(0)


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    root = tmp_path / "tree"
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["core"]\n',
        "core/Cargo.toml": '[package]\nname = "candle-core"\n',
        "core/a.rs": "before",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Subject(
        root,
        OnDisk.UNPATCHED,
        patched={"core/a.rs": b"after"},
        pristine={"core/a.rs": b"before"},
        regions={"core/a.rs": (Region(10, 20, ORIGIN),)},
    )


def carry_out(
    step: Step, subject: Subject, *answers: CargoRun, device: Device | None = None, hipcc: bool = True, **more: Any
) -> tuple[StepResult, Cargo]:
    cargo = Cargo(list(answers or [answer()]))
    return run_step(step, subject, bench_of(subject, cargo, device=device, hipcc=hipcc, **more)), cargo


def bench_of(subject: Subject, cargo: Cargo, *, device: Device | None = None, hipcc: bool = True, **more: Any) -> Bench:
    where = subject.root.parent
    return Bench(
        ScratchTree(where / "scratch", where / "target"),
        where / "logs",
        device or Device(None, NO_DEVICE),
        which=lambda name: "/bin/" + name if hipcc else None,
        cargo=cargo,
        **({"libtest": Programs([ran()])} | more),
    )


def test_passes_of_an_emulated_device_are_made_at_a_time(subject: Subject) -> None:
    """All of them run before one ends, their results come in the order of the passes, and each log is in one piece."""
    passes = EMULATED.passes
    together = Barrier(len(passes), timeout=60)

    def run(
        program: TestBinary, *, environment: Mapping[str, str], log: Callable[[str], None], **_more: Any
    ) -> TestRun:
        devices = environment["CANDLE_ROCM_EMULATOR_DEVICES"]
        log(f"begins {devices}")
        together.wait()
        log(f"ends {devices}")
        (Path(environment[RECORD]) / "1.jsonl").write_text(recorded(devices=devices), encoding="utf-8")
        return replace(ran(), binary=program)

    log = subject.root.parent / "step.log"
    built = replace(answer(), log=log)
    bench = bench_of(subject, Cargo([built]), device=EMULATED, libtest=run, at_once=len(EMULATED.passes))

    runs = [*bench._tests(BASIC, built)]

    assert [found.where for found in runs] == list(passes)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 * len(passes)
    assert all(begin.removeprefix("begins") == end.removeprefix("ends") for begin, end in batched(lines))


def batched(lines: list[str]) -> list[tuple[str, str]]:
    return list(zip(lines[::2], lines[1::2], strict=True))


def test_ctrl_c_ends_what_the_other_passes_run(subject: Subject) -> None:
    first, *others = EMULATED.passes
    together, ended = Barrier(1 + len(others), timeout=60), []

    def run(*_program: object, environment: Mapping[str, str], stopped: Callable[[], bool], **_more: Any) -> TestRun:
        together.wait()
        if first.variables.items() <= environment.items():
            raise KeyboardInterrupt
        until = time.monotonic() + 60
        while not stopped() and time.monotonic() < until:
            time.sleep(0.01)
        ended.append(stopped())
        return ran()

    built = replace(answer(), log=subject.root.parent / "step.log", binaries=(BINARY,))
    bench = bench_of(subject, Cargo([built]), device=EMULATED, libtest=run, at_once=len(EMULATED.passes))

    with pytest.raises(KeyboardInterrupt):
        list(bench._tests(BASIC, built))
    assert ended == [True] * len(others)


def test_a_clean_build_passes_without_building_the_unpatched_tree(subject: Subject) -> None:
    result, cargo = carry_out(CHECK, subject, answer())
    assert (result.verdict, result.detail) == (Verdict.PASSED, "no warnings")
    assert (result.seconds, result.log) == (1.5, LOG)
    assert cargo.asked == [("check", "-p", "candle-core", "--features", "rocm")]
    assert cargo.trees == [b"after"]


@pytest.mark.parametrize("locks", [[], ["Cargo.lock"]])
def test_pins_are_held_in_the_patched_and_in_the_unpatched_tree_before_cargo_builds(
    subject: Subject, locks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = Pin(crate="float8", version="0.5.0", reason="0.5.1 is for another cudarc")
    pinned = Pinned("float8", "0.5.0", "0.5.0", pin.reason)
    held = []
    for lock in locks:
        (subject.root / lock).touch()

    def hold(root: Path, pins: object, *, environment: Mapping[str, str], own_lock: bool, **_more: object) -> Any:
        held.append(((root / "core/a.rs").read_bytes(), pins, own_lock, len(cargo.asked)))
        assert "CARGO_TARGET_DIR" in environment
        assert not root.is_relative_to(subject.root)
        return (pinned,)

    monkeypatch.setattr("codegen.verify.run.hold", hold)
    cargo = Cargo([answer(0, diagnostic("warning", 12)), answer(0, diagnostic("warning", 3))])
    result = run_step(CHECK, subject, bench_of(subject, cargo, pins=(pin,)))

    assert held == [(b"after", (pin,), bool(locks), 0), (b"before", (pin,), bool(locks), 1)]
    assert (result.verdict, result.pinned) == (Verdict.PASSED, (pinned,))


def test_a_gated_step_builds_the_examples_of_the_tree_and_tells_what_is_left_out(subject: Subject) -> None:
    manifest = """
    [package]
    name = "candle-core"
    [features]
    symphonia = []
    [[example]]
    name = "guitar"
    required-features = ["symphonia"]
    [[example]]
    name = "mandolin"
    required-features = ["symphonia", "onnx"]
    """
    subject = replace(subject, patched={**subject.patched, "core/Cargo.toml": manifest.encode()})
    warnings = (diagnostic("warning", 12), diagnostic("warning", 3))

    result, cargo = carry_out(replace(CHECK, gated=True), subject, *(answer(0, each) for each in warnings))

    asked = ("check", "-p", "candle-core", "--example", "guitar", "--features")
    assert cargo.asked == [(*asked, "rocm,symphonia"), (*asked, "symphonia")]
    assert result.verdict is Verdict.PASSED
    assert [str(each) for each in result.left_out] == [
        "candle-core mandolin is left out: it requires onnx (needs protoc)"
    ]


def test_errors_fail_and_are_traced(subject: Subject) -> None:
    result, cargo = carry_out(CHECK, subject, answer(101, diagnostic("error", 12)))
    assert result.verdict is Verdict.FAILED
    assert result.detail == "1 error"
    assert [finding.origin for finding in result.findings] == [ORIGIN]
    assert cargo.trees == [b"after"], "an error in generated lines is ours, whatever the unpatched tree does"


def test_an_error_in_candles_lines_is_tried_on_the_unpatched_tree(subject: Subject) -> None:
    result, cargo = carry_out(CHECK, subject, answer(101, diagnostic("error", 1)), answer())
    assert (result.verdict, result.detail) == (Verdict.FAILED, "1 error")
    assert cargo.trees == [b"after", b"before"]


def test_an_unpatched_tree_that_fails_as_well_is_said_to(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, answer(101, diagnostic("error", 1)), answer(101))
    assert result.verdict is Verdict.FAILED
    assert result.detail == "1 error; the unpatched tree fails as well"


def test_cargos_own_complaint_is_the_detail(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, answer(101, complaint="error: no such feature"), answer())
    assert result.detail == "error: no such feature"


def test_warnings_of_the_unpatched_tree_are_not_new_although_lines_moved(subject: Subject) -> None:
    result, cargo = carry_out(CHECK, subject, answer(0, diagnostic("warning", 12)), answer(0, diagnostic("warning", 3)))
    assert (result.verdict, result.detail) == (Verdict.PASSED, "1 warning, all Candle's own")
    assert cargo.asked[1] == ("check", "-p", "candle-core")


@pytest.mark.parametrize(
    "known",
    [
        diagnostic("warning", 12, message="other"),
        diagnostic("warning", 12, code="other"),
        diagnostic("warning", 12, file="core/b.rs"),
        diagnostic("note", 12),
    ],
)
def test_a_warning_is_new_if_code_message_or_file_differ(subject: Subject, known: Diagnostic) -> None:
    result, _ = carry_out(CHECK, subject, answer(0, diagnostic("warning", 12)), answer(0, known))
    assert result.verdict is Verdict.FAILED
    assert result.detail == "1 warning that the unpatched tree does not have"
    assert result.findings[0].origin == ORIGIN


def test_warnings_cannot_be_compared_with_a_tree_that_does_not_build(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, answer(0, diagnostic("warning", 12)), answer(101))
    assert result.verdict is Verdict.FAILED
    assert "does not build" in result.detail


def test_lints_count_in_generated_lines_only(subject: Subject) -> None:
    theirs, ours = (diagnostic("warning", line, code="clippy::x") for line in (9, 10))
    passed, cargo = carry_out(LINT, subject, answer(0, theirs))
    assert cargo.trees == [b"after"], "clippy's lints are not compared with the unpatched tree's"
    assert (passed.verdict, passed.detail) == (Verdict.PASSED, "generated lines clean; 1 lint in Candle's own")
    failed, _ = carry_out(LINT, subject, answer(0, theirs, ours))
    assert (failed.verdict, failed.detail) == (Verdict.FAILED, "1 lint in generated lines")
    assert [finding.diagnostic for finding in failed.findings] == [ours]


def test_warnings_of_rustc_under_clippy_are_compared_with_the_unpatched_tree(subject: Subject) -> None:
    lint, warning = diagnostic("warning", 1, code="clippy::x"), diagnostic("warning", 2, code="dead_code")
    new, cargo = carry_out(LINT, subject, answer(0, lint, warning), answer(0))
    assert (new.verdict, new.detail) == (Verdict.FAILED, "1 warning that the unpatched tree does not have")
    assert cargo.asked[1] == ("clippy", "-p", "candle-core", *LINTS)
    known, _ = carry_out(LINT, subject, answer(0, lint, warning), answer(0, warning))
    assert (known.verdict, known.detail) == (Verdict.PASSED, "generated lines clean; 2 lints in Candle's own")


def test_the_unpatched_tree_is_built_after_all_steps_and_each_command_once(subject: Subject) -> None:
    warns = answer(0, diagnostic("warning", 1))
    cargo = Cargo([warns, warns, warns])
    off = replace(CHECK, id="check-off", features=())
    results = run_steps([off, CHECK], subject, bench_of(subject, cargo))
    assert [result.verdict for result in results] == [Verdict.PASSED, Verdict.PASSED]
    assert cargo.trees == [b"after", b"after", b"before"]


def test_a_test_run_without_tests_fails(subject: Subject) -> None:
    result, _ = carry_out(TESTS, subject, libtest=Programs([ran(0)]))
    assert (result.verdict, result.detail) == (Verdict.FAILED, "0 passed, 0 failed, 0 ignored: no test ran")


def test_a_step_of_tests_for_which_cargo_builds_none_fails(subject: Subject) -> None:
    result, _ = carry_out(TESTS, subject, answer(binaries=()))
    assert (result.verdict, result.complaints) == (Verdict.FAILED, ("cargo built no test",))


def test_cargo_has_to_make_something_of_each_crate(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, answer(built=("serde",)))
    assert (result.verdict, result.detail) == (
        Verdict.FAILED,
        "cargo ended with 0, but made nothing of candle-core",
    )


def test_a_test_run_shows_its_tally(subject: Subject) -> None:
    result, cargo = carry_out(TESTS, subject, libtest=Programs([ran(7)]))
    assert (result.verdict, result.detail) == (Verdict.PASSED, "7 passed, 0 failed, 0 ignored")
    assert cargo.asked == [("test", "--no-run", "-p", "candle-core", "--features", "rocm")]


def test_a_doubt_about_a_program_fails_its_step_although_no_test_failed(subject: Subject) -> None:
    result, _ = carry_out(TESTS, subject, libtest=Programs([ran(doubts=("rocm_basic ended with signal 9 (SIGKILL)",))]))
    assert result.verdict is Verdict.FAILED
    assert result.detail == "3 passed, 0 failed, 0 ignored: rocm_basic ended with signal 9 (SIGKILL)"


def test_failed_tests_are_named(subject: Subject) -> None:
    names = dict.fromkeys((f"f{number}" for number in range(7)), "")
    result, _ = carry_out(TESTS, subject, libtest=Programs([ran(1, names)]))
    assert result.verdict is Verdict.FAILED
    assert result.detail == "1 passed, 7 failed, 0 ignored: f0, f1, f2, f3, f4, ..."
    assert result.complaints == tuple(names)


def test_tests_that_have_to_run_are_missed_by_name(subject: Subject) -> None:
    targets = {"candle-core rocm_basic": ("t0", "lost"), "candle-core rocm_matrix": ("all",)}
    expected = ExpectedNames(targets, ("the patch lost rocm_basic away",))
    result, _ = carry_out(TESTS, subject, libtest=Programs([ran()]), expected=lambda _step: expected)
    assert result.complaints == (
        "the patch lost rocm_basic away",
        "candle-core rocm_basic did not run lost",
        "candle-core rocm_matrix was not built, with 1 tests",
    )


def test_sources_are_not_read_for_tests_that_could_not_be_built(subject: Subject) -> None:
    """A tree that lacks the crate, or whose manifest is no TOML, has none to read."""

    def refuse(_step: Step) -> ExpectedNames:
        raise KeyError("candle-core/Cargo.toml")

    result, _ = carry_out(TESTS, subject, answer(101, complaint="error: bad manifest"), expected=refuse)
    assert (result.verdict, result.detail) == (Verdict.FAILED, "error: bad manifest")
    result, _ = carry_out(replace(TESTS, crates=("candle-nn",)), subject, expected=refuse)
    assert result.verdict is Verdict.SKIPPED


def test_an_ignored_test_needs_leave(subject: Subject) -> None:
    def ignoring(name: str) -> Programs:
        return Programs([ran(outcomes={"t0": Outcome.PASSED, name: Outcome.IGNORED}, selected=("t0", name))])

    result, _ = carry_out(TESTS, subject, libtest=ignoring("lazy"))
    assert result.complaints == ("candle-core rocm_basic: lazy is ignored",)
    result, _ = carry_out(TESTS, subject, libtest=ignoring("bench_qmatmul_prefill_cpu"))
    assert (result.verdict, result.detail) == (Verdict.PASSED, "1 passed, 0 failed, 1 ignored")


def test_a_run_that_took_too_long_fails(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, replace(answer(-9), timed_out=True))
    assert (result.verdict, result.detail) == (Verdict.FAILED, "ended after 3600 s")


def test_without_a_device_the_reason_is_given_word_for_word(subject: Subject) -> None:
    result, cargo = carry_out(BASIC, subject)
    assert result.verdict is Verdict.SKIPPED
    assert result.detail == "SKIPPED: no AMD GPU, and no C++ compiler for the emulated HIP device"
    assert result.ran_on is None
    assert cargo.asked == []


def test_without_hipcc_the_reason_is_hipcc(subject: Subject) -> None:
    result, _ = carry_out(BASIC, subject, device=Device("ROCm (gfx1100)"), hipcc=False)
    assert result.detail == "SKIPPED: hipcc not found on PATH"


def test_a_run_on_a_device_is_labelled(subject: Subject) -> None:
    result, _ = carry_out(BASIC, subject, device=Device("ROCm (gfx1100)"))
    assert (result.verdict, result.ran_on) == (Verdict.PASSED, "ROCm (gfx1100)")


def test_a_run_as_hip_on_nvidia_is_labelled_so_and_says_what_it_leaves_out(subject: Subject) -> None:
    device = Device("HIP on NVIDIA (NVIDIA H200)")
    tests = Programs([ran()], record=recorded("nvidia", "sm_90"))
    result, _ = carry_out(BASIC, subject, device=device, libtest=tests)
    assert (result.verdict, result.ran_on) == (Verdict.PASSED, "HIP on NVIDIA (NVIDIA H200)")
    result, cargo = carry_out(replace(BASIC, not_on=(("nvidia", "no MIOpen there"),)), subject, device=device)
    assert (result.verdict, result.detail, cargo.asked) == (Verdict.SKIPPED, "SKIPPED: no MIOpen there", [])


def test_what_the_libraries_could_have_said_and_did_not_is_not_claimed(subject: Subject) -> None:
    """The device that was chosen is no word of what the tests ran on."""
    result, _ = carry_out(BASIC, subject, device=Device("emulator"), libtest=Programs([ran()]))
    assert result.ran_on is None


def test_a_program_that_cargo_runs_says_where_it_ran(subject: Subject) -> None:
    class Writing(Cargo):
        def __call__(
            self, root: Path, arguments: tuple[str, ...], *, environment: dict[str, str], **more: object
        ) -> CargoRun:
            (Path(environment[RECORD]) / "1.jsonl").write_text(recorded(devices="gfx90a"), encoding="utf-8")
            return super().__call__(root, arguments, environment=environment, **more)

    smoke = replace(BASIC, criterion=PassCriterion.RUNS)
    result = run_step(smoke, subject, bench_of(subject, Writing([answer()]), device=Device("emulator")))
    assert (result.verdict, result.ran_on) == (Verdict.PASSED, "emulator (gfx90a)")


class TwoCards(Programs):
    """Writes the record that the emulated device of each pass would."""

    def __call__(self, *program: object, environment: Mapping[str, str], **more: Any) -> TestRun:
        self.record = recorded(devices=environment["CANDLE_ROCM_EMULATOR_DEVICES"])
        return super().__call__(*program, environment=environment, **more)


def test_the_emulated_device_has_both_wave_sizes_and_tests_run_on_each(subject: Subject) -> None:
    tests = TwoCards(
        [ran(outcomes=dict.fromkeys(names := ("a", "b_without_a_device"), Outcome.PASSED), selected=names)]
    )
    result, _ = carry_out(BASIC, subject, device=Device("emulator"), libtest=tests)
    assert (result.verdict, result.detail) == (Verdict.PASSED, "2 passed, 0 failed, 0 ignored")
    assert result.ran_on == "emulator (gfx1100 and gfx90a)"
    assert [run.selected for run in result.tests] == [names, names[:1], names[1:]]
    assert [each.get("CANDLE_ROCM_EMULATOR_DEVICES") for each in tests.environments] == [
        "gfx1100,gfx90a",
        "gfx90a,gfx1100",
        "gfx1100",
    ]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (recorded(launches=0), "candle-core rocm_basic launched and copied nothing on the device [waves of 32]"),
        ("", "candle-core rocm_basic launched and copied nothing on the device [waves of 32]"),
        (recorded("nvidia"), "candle-core rocm_basic ran on nvidia instead of emulator [waves of 32]"),
        (recorded(devices="gfx1100"), "candle-core rocm_basic saw gfx1100 instead of gfx1100, gfx90a [waves of 32]"),
        (
            recorded().splitlines()[0] + "\n",
            "candle-core rocm_basic: 1 of its processes did not end by themselves [waves of 32]",
        ),
    ],
)
def test_the_device_says_itself_that_it_worked(subject: Subject, record: str, complaint: str) -> None:
    tests = Programs([ran()], record=record)
    result, _ = carry_out(BASIC, subject, device=Device("emulator"), libtest=tests)
    assert result.verdict is Verdict.FAILED
    assert complaint in result.complaints


def test_a_device_that_no_test_finds_is_a_failure_and_no_skip(subject: Subject) -> None:
    tests = Programs([ran(2, skipped={"t0": "no ROCm device", "t1": "no ROCm device"})])
    result, _ = carry_out(BASIC, subject, device=Device("HIP on NVIDIA"), libtest=tests)
    assert result.verdict is Verdict.FAILED
    assert "no test ran: no ROCm device" in result.complaints
    tests = Programs([ran(3, skipped={"t0": "no ROCm device"})])
    result, _ = carry_out(replace(BASIC, device=False), subject, libtest=tests)
    assert result.verdict is Verdict.PASSED, "tests on the CPU may lack one"


@pytest.mark.parametrize("name", ["rocm_basic", "rocm_memory", "rocm_miopen", "rocm_rocrand"])
def test_generated_tests_say_that_a_device_is_absent_in_those_words(name: str) -> None:
    (source,) = (repository_root() / "templates").rglob(f"{name}.rs*")
    assert re.search(rf'(: |"){DEVICE_ABSENT}(\\n)?"', source.read_text(encoding="utf-8"))


def test_a_crate_that_the_tree_does_not_have_is_skipped_not_passed(subject: Subject) -> None:
    result, _ = carry_out(replace(CHECK, crates=("candle-core", "candle-pyo3")), subject)
    assert (result.verdict, result.detail) == (Verdict.SKIPPED, "SKIPPED: candle-pyo3 is not in this tree")


def test_a_crate_that_the_plan_changes_and_the_tree_lacks_is_a_failure(subject: Subject) -> None:
    lost = replace(subject, pristine={**subject.pristine, "candle-pyo3/src/lib.rs": b""})
    result, _ = carry_out(replace(CHECK, crates=("candle-core", "candle-pyo3")), lost)
    detail = "candle-pyo3 is not in this tree: the plan changes candle-pyo3"
    assert (result.verdict, result.detail) == (Verdict.FAILED, detail)


def test_a_manifest_that_cannot_be_read_is_no_absent_crate(subject: Subject) -> None:
    broken = replace(subject, patched={**subject.patched, "core/Cargo.toml": b"[package\n"})
    result, cargo = carry_out(
        replace(CHECK, crates=("core",)), broken, answer(101, complaint="error: bad manifest"), answer()
    )
    assert (result.verdict, result.detail) == (Verdict.FAILED, "error: bad manifest")
    assert cargo.asked[0] == ("check", "-p", "core", "--features", "rocm")


def test_cuda_steps_run_on_a_stubbed_tree(subject: Subject) -> None:
    crate = subject.root / "candle-kernels"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text("", encoding="utf-8")
    (crate / "build.rs").write_text("needs nvcc", encoding="utf-8")
    carry_out(replace(CHECK, cuda_stub=True), subject, answer())
    assert "no nvcc" in (subject.root.parent / "scratch/candle-kernels/build.rs").read_text(encoding="utf-8")
    assert (crate / "build.rs").read_text(encoding="utf-8") == "needs nvcc"


def test_all_steps_run_although_one_fails(subject: Subject) -> None:
    cargo = Cargo([answer(101), answer(), answer()])
    started: list[str] = []
    results = run_steps([CHECK, LINT], subject, bench_of(subject, cargo), on_start=lambda step: started.append(step.id))
    assert [result.verdict for result in results] == [Verdict.FAILED, Verdict.PASSED]
    assert started == ["check-on", "clippy-on"]


def test_failures_become_one_error_with_exit_8(subject: Subject) -> None:
    result, _ = carry_out(CHECK, subject, answer(101, *(diagnostic("error", line) for line in range(10, 33))), answer())
    with pytest.raises(VerificationFailed) as caught:
        refuse_failures([result], Path("work/logs"))
    assert caught.value.exit_code is ExitCode.VERIFICATION_FAILED
    text = str(caught.value)
    assert text.startswith("verification failed: check, rocm on: 23 errors\nerror[c]: m\n  --> core/a.rs:10:1\n")
    assert "made by rule core.dispatch (specs/phases/1-core.yaml:42), mirrored from CUDA" in text
    assert "... and 3 more" in text
    assert "work/logs" in text


def test_no_failure_is_no_error(subject: Subject) -> None:
    passed, _ = carry_out(CHECK, subject, answer())
    skipped, _ = carry_out(BASIC, subject)
    refuse_failures([passed, skipped], Path())


def test_a_run_in_which_nothing_passed_is_a_failure(subject: Subject) -> None:
    skipped, _ = carry_out(BASIC, subject)
    for results in ([], [skipped]):
        assert not all_passed(results)
        with pytest.raises(VerificationFailed, match="no step ran, so nothing is proven"):
            refuse_failures(results, Path())


def test_the_devices_variables_are_for_the_steps_that_need_it(subject: Subject) -> None:
    variables = {"ROCM_PATH": "/emulated"}
    _, on_device = carry_out(BASIC, subject, device=Device("emulator"), device_variables=variables)
    assert on_device.environments[0]["ROCM_PATH"] == "/emulated"
    _, elsewhere = carry_out(CHECK, subject, answer(), device=Device("emulator"), device_variables=variables)
    assert "ROCM_PATH" not in elsewhere.environments[0]


# --- tests that wait for a phase -----------------------------------------------------------------------------------

PHASED = replace(TESTS, id="rocm-tests", device=True, phased=True)
WAITING = (WaitingTest("qmm::rocm", 2, "quant.tests"), WaitingTest("load::rocm", 2, "quant.tests"))
WANTS_PHASE_2 = (
    "Error: `qzeros` is not available on ROCm yet: it comes with phase 2 of candle-rocm, "
    "which this build does not have (`candle-rocm status CANDLE` on its tree says whether it can be applied)"
)


def phased(subject: Subject, passed: int, failures: dict[str, str]) -> StepResult:
    tests = Programs([ran(passed, failures)])
    return carry_out(PHASED, subject, device=Device("ROCm (gfx1100)"), waiting=WAITING, libtest=tests)[0]


def test_tests_that_fail_for_want_of_their_phase_are_counted_apart_and_named(subject: Subject) -> None:
    result = phased(subject, 7, {"qmm::rocm": WANTS_PHASE_2, "load::rocm": WANTS_PHASE_2})
    assert (result.verdict, result.detail) == (
        Verdict.PASSED,
        "7 passed, 0 failed, 0 ignored, 2 wait for phase 2",
    )
    assert result.waiting == WAITING


@pytest.mark.parametrize(
    ("failures", "complaint"),
    [
        ({"qmm::rocm": WANTS_PHASE_2}, "load::rocm did not run: correct quant.tests"),
        (
            {"qmm::rocm": WANTS_PHASE_2, "load::rocm": "assertion failed"},
            "load::rocm failed, but not for want of phase 2",
        ),
        (
            {"qmm::rocm": WANTS_PHASE_2, "load::rocm": WANTS_PHASE_2.replace("phase 2", "phase 3")},
            "load::rocm failed, but not for want of phase 2",
        ),
        ({"qmm::rocm": WANTS_PHASE_2, "load::rocm": WANTS_PHASE_2, "add::rocm": WANTS_PHASE_2}, "add::rocm"),
    ],
)
def test_any_other_failure_and_any_waiting_test_that_passes_fails_the_step(
    subject: Subject, failures: dict[str, str], complaint: str
) -> None:
    result = phased(subject, 7, failures)
    assert result.verdict is Verdict.FAILED
    assert result.detail.endswith(f": {complaint}")


def test_tests_of_another_crate_do_not_wait_here(subject: Subject) -> None:
    elsewhere = tuple(replace(test, crate="candle-nn") for test in WAITING)
    result, _ = carry_out(PHASED, subject, device=Device("ROCm (gfx1100)"), waiting=elsewhere)
    assert (result.verdict, result.waiting) == (Verdict.PASSED, ())


def test_tests_of_programs_that_were_not_chosen_do_not_wait_here(subject: Subject) -> None:
    run = ran(7, {"qmm::rocm": WANTS_PHASE_2})
    more: dict[str, Any] = {
        "device": Device("ROCm (gfx1100)"),
        "waiting": WAITING,
        "expected": lambda _step: ExpectedNames({str(run.binary): tuple(run.outcomes)}),
    }
    result, _ = carry_out(with_programs(PHASED, ["quant"]), subject, libtest=Programs([run]), **more)
    assert (result.verdict, result.waiting) == (Verdict.PASSED, WAITING[:1])

    whole = replace(PHASED, options=("--tests",))
    result, _ = carry_out(whole, subject, libtest=Programs([run]), **more)
    assert result.complaints == ("load::rocm did not run: correct quant.tests",)


def test_a_run_in_which_all_tests_wait_has_run_none(subject: Subject) -> None:
    result = phased(subject, 0, {"qmm::rocm": WANTS_PHASE_2, "load::rocm": WANTS_PHASE_2})
    assert result.verdict is Verdict.FAILED
    assert result.complaints == ("no test ran",)


def test_a_waiting_test_that_passes_fails_the_step(subject: Subject) -> None:
    outcomes = {"t0": Outcome.PASSED, "qmm::rocm": Outcome.PASSED, "load::rocm": Outcome.FAILED}
    run = ran(0, {"load::rocm": WANTS_PHASE_2}, outcomes=outcomes, selected=tuple(outcomes))
    result, _ = carry_out(PHASED, subject, device=Device("ROCm (gfx1100)"), waiting=WAITING, libtest=Programs([run]))
    assert result.complaints == ("qmm::rocm did not fail: take it off quant.tests",)


def test_a_phased_step_that_does_not_build_fails_as_any_other(subject: Subject) -> None:
    run = answer(101, diagnostic("error", 12))
    result, _ = carry_out(PHASED, subject, run, device=Device("emulator"), waiting=WAITING)
    assert (result.verdict, result.detail) == (Verdict.FAILED, "1 error")


PYTHON = replace(TESTS, id="rocm-python-tests", subcommand="build", crates=("candle-pyo3",), device=True, python=True)


@pytest.fixture
def package(subject: Subject) -> Subject:
    """The subject with a candle-pyo3 that asks for the ABI of a Python yet to come."""
    files = {
        "Cargo.toml": '[workspace]\nmembers = ["core", "candle-pyo3"]\n',
        "candle-pyo3/Cargo.toml": '[package]\nname = "candle-pyo3"\n\n[dependencies]\npyo3 = "abi3-py399"\n',
        "candle-pyo3/py_src/candle/__init__.py": "",
        "candle-pyo3/tests/test_a.py": "",
    }
    for path, text in files.items():
        (subject.root / path).parent.mkdir(parents=True, exist_ok=True)
        (subject.root / path).write_text(text, encoding="utf-8")
    return subject


def test_python_tests_follow_the_build(package: Subject) -> None:
    tests = TwoCards([ran(outcomes={"tests.test_rocm::a": Outcome.PASSED}, selected=("tests.test_rocm::a",))])

    result, cargo = carry_out(PYTHON, package, device=Device("emulator"), pytest=tests)

    assert (result.verdict, result.detail) == (Verdict.PASSED, "1 passed, 0 failed, 0 ignored")
    assert cargo.asked == [("build", "-p", "candle-pyo3", "--features", "rocm")]
    manifest = (package.root.parent / "scratch/candle-pyo3/Cargo.toml").read_text(encoding="utf-8")
    assert "abi3-py3" in manifest
    assert "abi3-py399" not in manifest
    assert [len(run.selected) for run in result.tests] == [1, 1], "with either card as the first one"


def test_python_tests_wait_for_a_build(package: Subject) -> None:
    def tests(*_: object, **_more: object) -> TestRun:
        raise AssertionError("nothing was built")

    result, _ = carry_out(
        PYTHON, package, answer(101, diagnostic("error", 12)), device=Device("emulator"), pytest=tests
    )

    assert (result.verdict, result.detail) == (Verdict.FAILED, "1 error")


def test_without_a_python_package_the_reason_is_given(package: Subject) -> None:
    shutil.rmtree(package.root / "candle-pyo3/py_src")

    result, cargo = carry_out(PYTHON, package, device=Device("emulator"))

    assert result.detail == "SKIPPED: candle-pyo3 has no Python package in this tree"
    assert cargo.asked == []


MODEL = Device("AMD's runtime on a modelled gfx942", card="gfx942")
LEFT_OUT = LeftOut(test="t1", on=("model",), reason="needs a library that is not there")


def modelled(folder: Path) -> Modelled:
    """With a stand-in for patchelf, which copies a program as it is."""
    fake = folder / "patchelf"
    fake.write_text(
        '#!/bin/sh\n[ "$1 $2 $3" = "--set-interpreter /loader --output" ] && cp "$5" "$4"\n', encoding="utf-8"
    )
    fake.chmod(0o755)
    return Modelled(Path("/loader"), str(fake), folder / "copies", {"LD_LIBRARY_PATH": "/amd"})


def test_on_a_model_programs_are_copies_with_the_loader_of_amds_packages(subject: Subject, tmp_path: Path) -> None:
    program = tmp_path / "rocm_basic"
    program.write_bytes(b"a program")
    binary = replace(BINARY, executable=program)
    seen = []

    class Started(Programs):
        def __call__(self, *arguments: object, environment: Mapping[str, str], **more: Any) -> TestRun:
            (copy,) = arguments
            assert isinstance(copy, TestBinary)
            seen.append((copy.executable, copy.executable.read_bytes()))
            return super().__call__(environment=environment, **more)

    tests = Started([ran()], record=recorded("model", "gfx942"))
    result, cargo = carry_out(
        BASIC, subject, answer(binaries=(binary,)), device=MODEL, libtest=tests, modelled=modelled(tmp_path)
    )
    assert (result.verdict, result.ran_on) == (Verdict.PASSED, "AMD's runtime on a modelled gfx942")
    copy, content = seen[0]
    assert (copy.parent, content, copy.exists()) == (tmp_path / "copies", b"a program", False)
    assert {test.binary for test in result.tests} == {binary}
    # rustc and cargo do not run with the packages' C library.
    assert tests.environments[0]["LD_LIBRARY_PATH"] == "/amd"
    assert cargo.environments[0].get("LD_LIBRARY_PATH") != "/amd"


def test_a_program_that_gets_no_loader_is_an_error_and_leaves_no_copy(tmp_path: Path) -> None:
    binary = replace(BINARY, executable=tmp_path / "not there")
    with (
        pytest.raises(VerificationFailed, match="gets no other loader"),
        modelled(tmp_path).start(binary),
    ):
        pass
    assert list((tmp_path / "copies").iterdir()) == []


def test_what_ran_on_the_emulated_device_does_not_count_as_the_model(subject: Subject) -> None:
    tests = Programs([ran()], record=recorded("emulator", "gfx942"))
    result, _ = carry_out(BASIC, subject, device=MODEL, libtest=tests)
    assert result.verdict is Verdict.FAILED
    assert "ran on emulator instead of model" in result.detail


@pytest.mark.parametrize(("device", "runs"), [(MODEL, ("t0", "t2")), (Device("ROCm (gfx942)"), ("t0", "t1", "t2"))])
def test_tests_are_left_out_on_their_devices_only_and_counted(
    subject: Subject, device: Device, runs: tuple[str, ...]
) -> None:
    tests = Programs([ran()], record=recorded("model", "gfx942"))
    expected = ExpectedNames({str(BINARY): ("t0", "t1", "t2")})
    unrun = UnrunTests(left_out=(LEFT_OUT,))
    result, _ = carry_out(BASIC, subject, device=device, libtest=tests, unrun=unrun, expected=lambda _step: expected)
    assert (result.verdict, result.tests[0].passed) == (Verdict.PASSED, runs)
    left_out = ", 1 left out (needs a library that is not there)" if device is MODEL else ""
    assert result.detail == f"{len(runs)} passed, 0 failed, 0 ignored{left_out}"
