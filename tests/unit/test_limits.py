"""A test that takes too long ends by its name, with all that it started; on runs of pytest inside pytest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import limits
import pytest

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parents[2]
OWN = ("-p", "limits", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:cov")

FOREVER = """
import subprocess, sys, time

def test_starts_others():
    code = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(1000)"
    again = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {code!r}]).wait()"
    child = subprocess.Popen([sys.executable, "-c", again], stdout=subprocess.PIPE, text=True)
    open("pid", "w").write(child.stdout.readline())
    time.sleep(1000)

def test_is_quick():
    pass
"""

DEAF = """
import signal, time

def test_hears_no_signal():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    while True:
        time.sleep(1)
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> pytest.RunResult:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "tests"))
    return pytester.runpytest_subprocess(*OWN, *arguments, timeout=120)


def runs(pid: int) -> bool:
    """Whether a process is there, and more than a zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_what_takes_too_long_fails_by_name_with_its_children(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_some=FOREVER)
    result = run(pytester, monkeypatch, "--timeout", "3")

    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["FAILED test_some.py::test_starts_others - Failed: Timeout (>3*"])
    assert not runs(int((pytester.path / "pid").read_text())), "it is in a session of its own, and was ended"


def test_what_cannot_be_interrupted_ends_the_run_by_name(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_some=DEAF)
    pytester.makeconftest("import limits\nlimits.GRACE_SECONDS = 1\n")
    result = run(pytester, monkeypatch, "--timeout", "2")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stderr.fnmatch_lines(
        ["test_some.py::test_hears_no_signal took more than 2 s*", "*test_some.py*in test_hears_no_signal"]
    )


@pytest.mark.parametrize("given", ["0", "-1", "inf", "nan", "soon"])
def test_a_limit_that_is_none_is_refused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    pytester.makepyfile("def test_one(): pass")
    pytester.makeini(f"[pytest]\ntimeout = {given}\n")

    assert run(pytester, monkeypatch).ret != pytest.ExitCode.OK


def test_tests_that_build_candle_have_more_time(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makeini("[pytest]\nmarkers = cargo: builds\ntimeout = 5\n")
    pytester.makepyfile(
        """
        import pytest, limits

        def limit(request):
            return limits.limit_of(request.node, limits.seconds(request.config))

        @pytest.mark.cargo
        def test_long(request): assert limit(request) == 4 * 7

        @pytest.mark.cargo
        @pytest.mark.timeout(9)
        def test_own(request): assert limit(request) == 9

        def test_usual(request): assert limit(request) == 7
        """
    )
    monkeypatch.setenv(limits.VARIABLE, "7")

    run(pytester, monkeypatch).assert_outcomes(passed=3)


def test_this_very_run_has_limits(request: pytest.FixtureRequest) -> None:
    assert 0 < limits.seconds(request.config) < 100_000
    assert os.environ[limits.MARK]
    assert signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN, None)


def test_only_what_this_process_started_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(1000)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as another:
        assert another.stdout is not None
        another.stdout.readline()
        limits.mark_children()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as own:
            assert own.stdout is not None
            own.stdout.readline()
            assert limits.end_children() == (own.pid,)
        assert own.returncode == -signal.SIGKILL
        assert another.poll() is None
        another.kill()
