"""candle-pyo3 tested in Python: a made-up package takes the place of what cargo builds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from codegen.errors import InputOutputError
from codegen.verify import python
from codegen.verify.cargo import CargoRun

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import candle, os, pytest

def test_passes():
    assert os.environ["GPUS"] == "2"

@pytest.mark.skipif(not candle.CUDA, reason="CUDA is not available")
def test_cuda():
    pass

@pytest.mark.skipif(not candle.ROCM, reason="ROCm is not available")
def test_rocm():
    assert candle.WORKS
"""
OVERFLOWING = """
class PanicException(BaseException):
    pass

def test_overflows():
    raise PanicException("attempt to subtract with overflow")
"""

Run = Callable[..., CargoRun]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the tests of a package whose module says `text`, as after a successful build."""

    def run(text: str, tests: str = TESTS, *, rocm: bool = True, library: bool = True) -> CargoRun:
        tree, target = tmp_path / "tree", tmp_path / "target"
        for path, content in {
            tree / python.PACKAGE / "__init__.py": text,
            tree / python.TESTS / "test_made_up.py": tests,
            target / "debug" / python.library_name(): "",
            tmp_path / "step.log": "cargo said\n",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        if not library:
            (target / "debug" / python.library_name()).unlink()
        built = CargoRun(("build",), 0, (), (), (), "", 1.0, tmp_path / "step.log")
        return python.run_python_tests(
            tree,
            built,
            target_dir=target,
            folder=tmp_path / "laid-out",
            environment={"GPUS": "2"},
            rocm=rocm,
            timeout=60,
        )

    return run


def test_results_are_counted_and_the_log_goes_on(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n")
    assert done.ok
    assert str(done.tally) == "2 passed, 0 failed, 1 ignored"
    assert done.seconds > 1.0
    log = done.log.read_text(encoding="utf-8")
    assert log.startswith("cargo said\n$ python -m pytest")
    assert "2 passed, 1 skipped" in log


def test_failures_are_named(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, False\n")
    assert not done.ok
    assert str(done.tally) == "1 passed, 1 failed, 1 ignored"
    assert done.failed_tests == ("tests.test_made_up::test_rocm",)
    assert "assert candle.WORKS" in done.failures["tests.test_made_up::test_rocm"]


def test_a_device_that_python_does_not_find_fails(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, False, True\n")
    assert not done.ok
    assert str(done.tally) == "1 passed, 1 failed, 1 ignored"
    assert done.failures == {"tests.test_made_up::test_rocm": "skipped: ROCm is not available"}


def test_without_the_feature_there_is_no_device(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, False, True\n", rocm=False)
    assert done.ok
    assert str(done.tally) == "1 passed, 0 failed, 2 ignored"
    claimed = run("CUDA, ROCM, WORKS = False, True, True\n", rocm=False)
    assert not claimed.ok
    assert claimed.failed_tests == ("rocm_is_available",)


def test_overflows_count_as_skipped(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n", TESTS + OVERFLOWING)
    assert done.ok
    assert str(done.tally) == f"2 passed, 0 failed, 1 ignored, 1 SKIPPED ({python.OVERFLOWS})"


def test_an_overflow_of_a_test_about_rocm_fails(run: Run) -> None:
    done = run(
        "CUDA, ROCM, WORKS = False, True, True\n", TESTS + OVERFLOWING.replace("test_overflows", "test_rocm_adds")
    )
    assert done.failed_tests == ("tests.test_made_up::test_rocm_adds",)


def test_an_end_that_is_none_of_a_test_fails(run: Run) -> None:
    crash = "import atexit, os\natexit.register(os._exit, 139)\nCUDA, ROCM, WORKS = False, True, True\n"
    done = run(crash)
    assert not done.ok
    assert done.failures == {"pytest": "ended with 139 after its tests"}


def test_a_package_that_cannot_be_imported_fails(run: Run) -> None:
    done = run("raise ImportError('undefined symbol')\n")
    assert not done.ok
    assert "undefined symbol" in "".join(done.failures.values())


def test_no_tests_fail(run: Run) -> None:
    done = run("", "")
    assert not done.ok
    assert done.test_results == ()
    assert done.complaint.startswith("pytest ended with 5")


def test_a_library_that_is_not_there(run: Run) -> None:
    with pytest.raises(InputOutputError, match="cannot lay out the Python package"):
        run("", library=False)


@pytest.mark.parametrize(
    ("asked", "minor", "given"),
    [("abi3-py313", 11, "abi3-py311"), ("abi3-py311", 13, "abi3-py311"), ("none", 11, "none")],
)
def test_the_stable_abi_is_no_later_than_the_python_that_tests_it(asked: str, minor: int, given: str) -> None:
    manifest = 'pyo3 = {{ features = ["extension-module", "{}"] }}\n'
    assert python.manifest_for(manifest.format(asked).encode(), minor) == manifest.format(given).encode()


def test_what_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert python.obstacle(tmp_path) == python.NO_PACKAGE
    (tmp_path / python.PACKAGE).mkdir(parents=True)
    (tmp_path / python.TESTS).mkdir()
    assert python.obstacle(tmp_path) is None
    monkeypatch.setitem(sys.modules, "pytest", None)
    assert python.obstacle(tmp_path) == python.NO_PYTEST
