"""The cargo driver, against a stand-in for cargo and once against the real one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import fake_cargo
import pytest
from fake_cargo import artifact, message, relayed, span

from codegen.errors import ExitCode, InputOutputError, ToolchainMissing
from codegen.verify.cargo import cargo_environment, progress_line, require_programs, run_cargo, write_settings
from codegen.verify.testrun import TestBinary

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.verify import cargo as driver


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    folder = tmp_path / "bin"

    def install(body: str) -> None:
        fake_cargo.install(folder, "cargo", body)

    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return install


def run(tmp_path: Path, *arguments: str, timeout: float | None = None) -> tuple[driver.CargoRun, list[str]]:
    lines: list[str] = []
    done = run_cargo(
        tmp_path,
        arguments or ("check",),
        log=tmp_path / "logs/run.log",
        environment={"MARK": "1"},
        on_message=lines.append,
        timeout=timeout,
    )
    return done, lines


def test_diagnostics_are_collected_once_and_logged_readably(tmp_path: Path, fake: Callable[[str], None]) -> None:
    error = relayed(message("bad", span("src/lib.rs", 3), code="E0001"))
    warning = relayed(message("unused", span("src/lib.rs", 4), code="unused_imports", level="warning"))
    noise = [artifact("path+file:///x#one@1.2.3", "one", "lib", None), '{"reason":"build-finished","success":false}']
    status = ["    Checking one v1.2.3 (/somewhere/one)", "error: could not compile `one`"]
    fake(fake_cargo.printing([error, error, warning, *noise], status, 101))
    done, lines = run(tmp_path)
    assert done.returncode == 101
    assert not done.ok
    assert [one.code for one in done.errors] == ["E0001"]
    assert [one.code for one in done.warnings] == ["unused_imports"]
    assert lines == ["checking one 1.2.3"]
    assert done.complaint == "error: could not compile `one`"
    log = done.log.read_text(encoding="utf-8")
    assert "$ cargo check" in log
    assert "error: bad" in log
    assert "Checking one" in log
    assert "compiler-artifact" not in log


def test_what_candle_depends_on_is_optimised_and_candle_is_not(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("print(' '.join(sys.argv[1:]))")
    done, _ = run(tmp_path, "build")
    printed = done.log.read_text(encoding="utf-8").splitlines()[1]
    assert "--config profile.dev.package.candle-core.opt-level=0" in printed
    assert cargo_environment(tmp_path)["CARGO_PROFILE_DEV_OPT_LEVEL"] == "1"


def test_cargo_that_a_test_starts_compiles_nothing_once_more(tmp_path: Path) -> None:
    crate = tmp_path / "trees" / "any"
    (crate / "src").mkdir(parents=True)
    (crate / "Cargo.toml").write_text('[package]\nname = "candle-core"\nversion = "0.0.1"\n', encoding="utf-8")
    (crate / "src/lib.rs").write_text("", encoding="utf-8")
    environment = cargo_environment(tmp_path / "target")
    run_cargo(crate, ["build"], log=tmp_path / "log", environment=environment)
    command = ["cargo", "build", "--message-format=json", "--offline"]

    def is_fresh() -> bool:
        done = subprocess.run(command, cwd=crate, env={**os.environ, **environment}, capture_output=True, check=True)
        (made,) = (json.loads(line) for line in done.stdout.splitlines() if b"compiler-artifact" in line)
        return bool(made["fresh"])

    write_settings(crate.parent)
    assert is_fresh()
    shutil.rmtree(crate.parent / ".cargo")
    assert not is_fresh()


def test_settings_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / ".cargo").write_text("", encoding="utf-8")
    with pytest.raises(InputOutputError, match=r"cannot write .*config\.toml"):
        write_settings(tmp_path)


def test_json_is_asked_for_before_the_other_arguments(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("print(' '.join(sys.argv[1:]), os.environ['MARK'], os.getcwd())")
    done, _ = run(tmp_path, "clippy", "--", "-W", "x")
    printed = done.log.read_text(encoding="utf-8").splitlines()[1]
    assert printed.startswith("clippy --message-format=json --config ")
    assert printed.endswith(f" -- -W x 1 {tmp_path.resolve()}")


def test_what_was_built_is_known_with_its_test_binaries(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake(
        fake_cargo.printing(
            [
                artifact("registry+https://x/y#serde@1.0.2", "serde", "lib", None, test=False),
                artifact("path+file:///tree/core#1.2.3", "core", "lib", None, test=False),
                artifact("path+file:///tree/core#candle-core@1.2.3", "rocm_basic", "test", "/t/rocm_basic-1"),
                artifact("path+file:///tree/core#candle-core@1.2.3", "example", "example", "/t/example", test=False),
            ],
            [],
        )
    )
    done, _ = run(tmp_path, "test", "--no-run")
    assert done.built == ("serde", "core", "candle-core")
    assert done.binaries == (
        TestBinary("candle-core", "rocm_basic", "test", Path("/t/rocm_basic-1"), Path("/tree/core")),
    )


def test_output_that_only_looks_like_json_is_output(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake(fake_cargo.printing(['{"mine": 1}', '{"reason', "{}"], []))
    done, _ = run(tmp_path, "run")
    assert done.ok
    assert '{"mine": 1}\n{"reason\n{}' in done.log.read_text(encoding="utf-8")


def test_a_run_that_takes_too_long_is_ended_with_its_children(tmp_path: Path, fake: Callable[[str], None]) -> None:
    child = tmp_path / "child.pid"
    fake(
        "import subprocess, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)"
    )
    done, _ = run(tmp_path, timeout=1.0)
    assert done.timed_out
    assert not done.ok
    assert done.seconds < 30
    assert not _alive(int(child.read_text(encoding="utf-8")))


def test_ctrl_c_ends_cargo_and_its_children(tmp_path: Path, fake: Callable[[str], None]) -> None:
    pids = tmp_path / "pids"
    fake(
        "import subprocess, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "print('    Checking one v1.2.3 (/somewhere/one)', file=sys.stderr, flush=True)\n"
        "time.sleep(60)"
    )

    def interrupt(_line: str) -> None:
        raise KeyboardInterrupt

    threads = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        run_cargo(tmp_path, ["test"], log=tmp_path / "log", environment={}, on_message=interrupt)
    assert not any(_alive(int(pid)) for pid in pids.read_text(encoding="utf-8").split())
    assert set(threading.enumerate()) <= threads


def _alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not waited for yet (a zombie) does not."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
    return True


def test_missing_cargo_is_exit_7_and_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainMissing) as caught:
        run(tmp_path)
    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert "`cargo` not found on PATH" in str(caught.value)
    assert "https://rustup.rs" in str(caught.value)


def test_all_missing_programs_are_named_at_once() -> None:
    with pytest.raises(ToolchainMissing) as caught:
        require_programs(["cargo", "rustfmt"], which=lambda name: None if name == "rustfmt" else "/bin/cargo")
    assert str(caught.value) == (
        "missing toolchain: `rustfmt` not found on PATH\n"
        "  = help: run `rustup component add rustfmt`, or install your system's package `rustfmt`"
    )
    with pytest.raises(ToolchainMissing, match="`cargo`, `rustfmt` not found"):
        require_programs(["cargo", "rustfmt"], which=lambda _name: None)


@pytest.mark.parametrize(
    "complaint",
    ["error: no such command: `clippy`", "error: 'cargo-clippy' is not installed for the toolchain 'stable'"],
)
def test_a_missing_subcommand_is_exit_7(tmp_path: Path, fake: Callable[[str], None], complaint: str) -> None:
    fake(fake_cargo.printing([], [complaint], 101))
    with pytest.raises(ToolchainMissing, match="no subcommand `clippy`") as caught:
        run(tmp_path, "clippy")
    assert "rustup component add clippy" in str(caught.value)


def test_a_log_that_cannot_be_written_is_exit_6(tmp_path: Path, fake: Callable[[str], None]) -> None:
    fake("")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(InputOutputError, match="cannot write the log") as caught:
        run_cargo(tmp_path, ["check"], log=tmp_path / "file/log", environment={})
    assert caught.value.exit_code is ExitCode.IO


def test_what_a_child_outside_the_process_group_prints_last_is_not_waited_for(
    tmp_path: Path, fake: Callable[[str], None]
) -> None:
    """It holds cargo's streams, and is ended with cargo."""
    fake(
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))"
    )
    done, _ = run(tmp_path)
    assert done.ok
    assert done.seconds < 30
    assert not _alive(int((tmp_path / "pid").read_text(encoding="utf-8")))


def test_variables_that_hide_lints_do_not_reach_cargo(
    tmp_path: Path, fake: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hiding = ("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS", "CARGO_BUILD_RUSTFLAGS")
    passed_on = "CARGO_BUILD_JOBS"
    for name in (*hiding, passed_on):
        monkeypatch.setenv(name, "x")
    fake(f"print([name for name in {(*hiding, passed_on)!r} if name in os.environ])")
    done, _ = run(tmp_path)
    assert done.log.read_text(encoding="utf-8").splitlines()[1] == f"['{passed_on}']"


def test_the_environment_is_the_documented_one(tmp_path: Path) -> None:
    variables = cargo_environment(tmp_path, EXTRA="1")
    assert variables["CARGO_PROFILE_DEV_OPT_LEVEL"] == "1"
    assert variables["CARGO_PROFILE_DEV_DEBUG"] == "0"
    assert variables["CARGO_PROFILE_DEV_LTO"] == "off"
    assert variables["CARGO_TARGET_DIR"] == str(tmp_path)
    assert variables["EXTRA"] == "1"


def test_a_relative_target_folder_is_not_below_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cargo_environment(Path("target"))["CARGO_TARGET_DIR"] == str(tmp_path / "target")


@pytest.mark.parametrize(
    ("verb", "rest", "expected"),
    [
        ("Checking", "candle-core v0.11.1 (/x/candle-core)", "checking candle-core 0.11.1"),
        ("Running", "unittests src/lib.rs (target/debug/deps/a-1)", "running unittests src/lib.rs"),
        ("Blocking", "waiting for file lock on build directory", "blocking waiting for file lock on build directory"),
    ],
)
def test_progress_lines_have_no_paths(verb: str, rest: str, expected: str) -> None:
    assert progress_line(verb, rest) == expected


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_real_rustc_messages_are_understood(tmp_path: Path) -> None:
    """The one test that would notice a change of rustc's JSON."""
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text(
        '[package]\nname = "probe"\nversion = "0.1.0"\nedition = "2021"\n', encoding="utf-8"
    )
    source = (
        "pub enum Side { Left, Right }\n"
        "macro_rules! pick {\n"
        "    ($side:expr) => { match $side { Side::Left => 1 } };\n"
        "}\n"
        "pub fn direct(side: Side) -> u32 {\n"
        "    match side { Side::Left => 1 }\n"
        "}\n"
        "pub fn by_macro(side: Side) -> u32 { pick!(side) }\n"
    )
    (tmp_path / "src/lib.rs").write_text(source, encoding="utf-8")
    lines: list[str] = []
    done = run_cargo(
        tmp_path,
        ["check"],
        log=tmp_path / "log",
        environment=cargo_environment(tmp_path / "t"),
        on_message=lines.append,
    )
    assert "checking probe 0.1.0" in lines
    assert not done.ok
    assert {one.code for one in done.errors} == {"E0004"}
    places = sorted((one.span.first_line, one.span.first_column) for one in done.errors if one.span)
    assert places == [(6, 11), (8, 44)]
    enum = [one for error in done.errors for one in error.related if one.first_line == 1]
    assert enum, "the note points at the enum's definition"
