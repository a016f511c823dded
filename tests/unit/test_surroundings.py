"""What a test run does not take over from its environment, and what it refuses in CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from surroundings import ADDED_OPTIONS, FLAGS, OWN, PLACES, cleared, in_ci, refusal, report

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parents[2]
THINNER = {
    "CANDLE_ROCM_EMULATOR_DEVICES": "",
    "CANDLE_ROCM_EMULATOR_CHECK": "0",
    "CANDLE_ROCM_EMULATOR_MEMORY": "1M",
    "CANDLE_ROCM_ALLOCATOR": "direct",
    "CANDLE_ROCM_HOME": "/elsewhere",
    "RUSTFLAGS": "-Awarnings",
    "CARGO_ENCODED_RUSTFLAGS": "--cap-lints=allow",
}


def test_what_thins_out_the_proof_is_cleared() -> None:
    kept = {"PATH": "/bin", "CANDLE_ROCM_FETCH_DIR": "/cache", "CANDLE_ROCM_HIP": "/rocm"}
    kept |= {"CANDLE_ROCM_MUTANT": "17", "CANDLE_ROCM_REACHED": "/record"}
    environment = kept | THINNER

    assert cleared(environment) == dict(sorted(THINNER.items()))
    assert environment == kept


@pytest.mark.parametrize("name", sorted(THINNER))
def test_a_run_that_is_given_it_goes_without_and_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytester.makepyfile(f"import os\ndef test_without(): assert {name!r} not in os.environ\n")
    monkeypatch.setenv(name, THINNER[name])
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "tests"))
    result = pytester.runpytest_subprocess("-p", "surroundings", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"not passed on to the tests: {name}={THINNER[name]}"])


def test_the_devices_of_kernel_tests_are_two_whatever_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, conftest, kernels.conftest, emulator.conftest; print(os.environ['CANDLE_ROCM_EMULATOR_DEVICES'])"
    given = {**os.environ, **THINNER, "PYTHONPATH": str(REPOSITORY / "tests")}

    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True)

    assert done.stdout == "gfx1100,gfx90a\n"


def test_no_setting_of_this_process_is_left_but_places() -> None:
    left = {name for name in os.environ if name.startswith(OWN)}
    set_by_tests = {"CANDLE_ROCM_EMULATOR_DEVICES", "CANDLE_ROCM_EMULATOR_MEMORY", "CANDLE_ROCM_TESTS_OF"}
    assert left <= PLACES | set_by_tests


def test_ci_starts_without_them_too() -> None:
    text = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
    for name in (*FLAGS, ADDED_OPTIONS):
        assert re.search(rf"^unset [^\n]*\b{name}\b", text, re.MULTILINE), name
    kept = re.search(r"grep -vxE '([^']*)'", text)
    assert kept is not None
    assert set(kept[1].split("|")) <= PLACES


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("1", True), ("yes", True), ("", False), ("0", False)])
def test_ci(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    monkeypatch.setenv("CI", value)
    assert in_ci() is expected


def test_goldens_and_added_options_are_refused_in_ci() -> None:
    assert refusal({}, writes_goldens=False) is None
    assert "--update-goldens" in (refusal({}, writes_goldens=True) or "")
    assert "-k nothing" in (refusal({ADDED_OPTIONS: "-k nothing"}, writes_goldens=False) or "")


@pytest.mark.parametrize(
    ("options", "added"),
    [(("--update-goldens",), ""), ((), "--update-goldens"), ((), "-k fresh"), ((), "-p no:skips")],
)
def test_a_run_of_the_goldens_in_ci_refuses(options: tuple[str, ...], added: str) -> None:
    """As somebody would start it, on this repository's own tests; nothing is collected, so nothing is written."""
    command = [sys.executable, "-m", "pytest", "tests/golden/test_providers.py", "--collect-only", *options]
    given = {**os.environ, "CI": "true", ADDED_OPTIONS: added}
    done = subprocess.run(command, cwd=REPOSITORY, env=given, capture_output=True, text=True, check=False)

    assert done.returncode == pytest.ExitCode.USAGE_ERROR, done.stdout
    assert "ERROR: " in done.stderr


def test_options_that_the_command_line_does_not_show_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDED_OPTIONS, "-k fast")
    assert report({"RUSTFLAGS": "-A"}.items()) == [
        "not passed on to the tests: RUSTFLAGS=-A",
        "PYTEST_ADDOPTS: -k fast",
    ]
