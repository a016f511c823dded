"""Test programs that die, hang, lie or vanish, built by the real cargo once and run with another fate each time."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.libtest import list_tests, run_tests
from codegen.verify.testrun import Outcome, TestBinary, TestTally

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.verify.testrun import TestRun

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")

MANIFEST = '[package]\nname = "fates"\nversion = "0.1.0"\nedition = "2021"\n'
SOURCE = """
use std::io::Write;

fn fate() -> String {
    std::env::var("FATE").unwrap_or_default()
}

// The pause lets the other tests end first.
fn later() {
    std::thread::sleep(std::time::Duration::from_millis(300));
}

fn past_the_capture(text: &str) {
    std::io::stdout().lock().flush().unwrap();
    std::fs::OpenOptions::new().append(true).open("/dev/stdout").unwrap().write_all(text.as_bytes()).unwrap();
}

extern "C" {
    fn atexit(call: extern "C" fn()) -> i32;
    fn _exit(code: i32) -> !;
}

extern "C" fn lie() {
    unsafe { _exit(101) }
}

extern "C" fn die() {
    std::process::abort()
}

fn deep(n: u64) -> u64 {
    let big = [n; 4096];
    std::hint::black_box(&big);
    if n == u64::MAX { 0 } else { deep(n + 1) + big[7] }
}

#[test]
fn a_first() {}

#[test]
fn b_fated() {
    println!("on its way to {}", fate());
    match fate().as_str() {
        "exit" => { later(); std::process::exit(0) }
        "abort" => { later(); std::process::abort() }
        "overflow" => { later(); println!("{}", deep(0)) }
        "hang" => loop { std::thread::park() },
        "fail" => panic!("so it goes"),
        "forge" => {
            later();
            past_the_capture("test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished\\n");
            std::process::exit(0)
        }
        "late" => { unsafe { atexit(die) }; }
        "lie" => { unsafe { atexit(lie) }; }
        "skip" => writeln!(std::io::stderr(), "SKIPPED: b_fated: no luck").unwrap(),
        "leave" => {
            std::process::Command::new("sh").args(["-c", "setsid sleep 300 & echo $! > left"]).status().unwrap();
        }
        _ => {}
    }
}

mod inner {
    #[test]
    #[ignore = "tired"]
    fn c_ignored() {}

    #[test]
    #[should_panic(expected = "as it should")]
    fn d_panics() {
        panic!("as it should")
    }
}
"""
ALL = ("a_first", "b_fated", "inner::c_ignored", "inner::d_panics")


@pytest.fixture(scope="module")
def fates(tmp_path_factory: pytest.TempPathFactory) -> TestBinary:
    folder = tmp_path_factory.mktemp("fates")
    (folder / "src").mkdir()
    (folder / "tests").mkdir()
    (folder / "Cargo.toml").write_text(MANIFEST, encoding="utf-8")
    (folder / "src/lib.rs").write_text("", encoding="utf-8")
    (folder / "tests/fates.rs").write_text(SOURCE, encoding="utf-8")
    built = run_cargo(
        folder,
        ["test", "--no-run", "--test", "fates"],
        log=folder / "log",
        environment=cargo_environment(folder / "target"),
    )
    assert built.ok, built.complaint
    assert built.built == ("fates",)
    (binary,) = built.binaries
    assert (binary.crate, binary.target, binary.kind, binary.folder) == ("fates", "fates", "test", folder)
    return binary


@pytest.fixture
def run(fates: TestBinary) -> Callable[..., TestRun]:
    def with_fate(fate: str, limit: float = 60.0, choose: Callable[[str], bool] = lambda _name: True) -> TestRun:
        return run_tests(fates, {**os.environ, "FATE": fate}, limit=limit, log=lambda _line: None, choose=choose)

    return with_fate


def test_the_tests_of_a_binary_are_listed(fates: TestBinary) -> None:
    assert list_tests(fates, os.environ) == ALL


def test_each_test_has_its_outcome(run: Callable[..., TestRun]) -> None:
    done = run("")
    assert done.doubts == ()
    assert (done.returncode, done.selected) == (0, ALL)
    assert done.outcomes == dict.fromkeys(ALL, Outcome.PASSED) | {"inner::c_ignored": Outcome.IGNORED}


def test_some_of_the_tests_may_be_chosen(run: Callable[..., TestRun]) -> None:
    done = run("", choose=lambda name: name.startswith("inner"))
    assert (done.doubts, done.selected) == ((), ALL[2:])
    assert run("", choose=lambda _name: False).selected == ()


def test_a_failed_test_is_a_result_and_no_doubt(run: Callable[..., TestRun]) -> None:
    done = run("fail")
    assert (done.returncode, done.doubts, done.named(Outcome.FAILED)) == (101, (), ("b_fated",))
    assert "so it goes" in done.outputs["b_fated"]


def test_a_test_that_returns_early_says_so(run: Callable[..., TestRun]) -> None:
    done = run("skip")
    assert (done.doubts, done.skipped) == ((), {"b_fated": "no luck"})
    assert done.passed == ("a_first", "inner::d_panics")


@pytest.mark.parametrize(
    ("fate", "how"),
    [
        ("exit", "b_fated did not end; alone it ends with exit code 0, having printed"),
        ("abort", "ended with signal 6 (SIGABRT)"),
        ("overflow", "stack overflow, aborting"),
        ("forge", "b_fated did not end; alone it ends with exit code 0"),
    ],
)
def test_a_program_that_dies_in_the_middle_is_no_proof(run: Callable[..., TestRun], fate: str, how: str) -> None:
    """Whatever it ends with: a test that calls exit(0) takes the tests behind it along."""
    done = run(fate)
    assert "b_fated" not in done.outcomes
    text = "\n".join(done.doubts)
    assert "b_fated" in text
    assert how in text


def test_a_program_that_dies_after_its_closing_line_is_no_proof(run: Callable[..., TestRun]) -> None:
    """As one does whose library fails to clean up behind itself."""
    done = run("late")
    assert set(done.outcomes) == set(ALL)
    assert len(done.doubts) == 1
    assert done.doubts[0].startswith("fates fates ended with signal 6 (SIGABRT); its last words: ")


def test_an_exit_code_that_does_not_fit_the_tests_is_no_proof(run: Callable[..., TestRun]) -> None:
    assert run("lie").doubts == ("fates fates ended with exit code 101, although 0 tests failed",)


def test_a_test_that_hangs_is_ended_and_named_with_its_last_words(run: Callable[..., TestRun]) -> None:
    done = run("hang", limit=2.0)
    text = "\n".join(done.doubts)
    assert done.seconds < 30
    assert "was ended: no test ended for 2 s" in text
    assert "b_fated did not end; alone it still runs after 2 s, having printed `on its way to hang`" in text


def test_what_a_test_leaves_running_is_ended(run: Callable[..., TestRun], fates: TestBinary) -> None:
    done = run("leave")
    assert done.doubts == ()
    pid = (fates.folder / "left").read_text(encoding="utf-8").strip()
    assert not Path(f"/proc/{pid}").exists() or b") Z " in Path(f"/proc/{pid}/stat").read_bytes()


def test_a_program_that_cannot_be_started_is_no_proof(fates: TestBinary, tmp_path: Path) -> None:
    absent = TestBinary("fates", "fates", "test", tmp_path / "absent", tmp_path)
    done = run_tests(absent, os.environ, limit=60.0, log=lambda _line: None)
    assert done.doubts[0].startswith("fates fates does not list its tests: ")
    (tmp_path / "mute").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (tmp_path / "mute").chmod(0o755)
    mute = TestBinary("fates", "fates", "test", tmp_path / "mute", tmp_path)
    done = run_tests(mute, os.environ, limit=60.0, log=lambda _line: None)
    assert done.doubts == ("fates fates does not list its tests: `--list` ended with exit code 3",)


def test_a_test_that_ran_twice_counts_once_by_its_worst_outcome(run: Callable[..., TestRun]) -> None:
    assert str(TestTally.of([run(""), run("fail")])) == "2 passed, 1 failed, 1 ignored"
    assert str(TestTally.of([run(""), run("skip")])) == "3 passed, 0 failed, 1 ignored"
    assert str(TestTally.of([run("skip")])) == "2 passed, 0 failed, 1 ignored, 1 SKIPPED (no luck)"
