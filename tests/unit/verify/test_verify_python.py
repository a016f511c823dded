"""candle-pyo3 tested in Python: a made-up package takes the place of what cargo builds."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from codegen.errors import InputOutputError
from codegen.verify import python
from codegen.verify.evidence import Demands, judge_tests
from codegen.verify.testrun import Outcome, TestRun, TestTally
from codegen.verify.unrun import load_unrun

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

Run = Callable[..., TestRun]
MADE_UP = "tests.test_made_up::"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the tests of a package whose module says `text`, as after a successful build."""

    def run(
        text: str,
        tests: str = TESTS,
        *,
        rocm: bool = True,
        library: bool = True,
        limit: float = 60.0,
        choose: Callable[[str], bool] = lambda _name: True,
    ) -> TestRun:
        tree, target = tmp_path / "tree", tmp_path / "target"
        for path, content in {
            tree / python.PACKAGE / "__init__.py": text,
            tree / python.TESTS / "test_made_up.py": tests,
            target / "debug" / python.library_name(): "",
        }.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        if not library:
            (target / "debug" / python.library_name()).unlink()
        with (tmp_path / "step.log").open("a", encoding="utf-8") as log:
            return python.run_python_tests(
                tree,
                target_dir=target,
                folder=tmp_path / "laid-out",
                environment={**os.environ, "GPUS": "2"},
                limit=limit,
                log=lambda line: print(line, file=log),
                choose=choose,
                rocm=rocm,
            )

    return run


def tally(run: TestRun) -> str:
    return str(TestTally.of([run]))


def test_results_are_counted_and_logged(run: Run, tmp_path: Path) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n")
    assert (done.returncode, done.doubts) == (0, ())
    assert done.skipped == {f"{MADE_UP}test_cuda": "CUDA is not available"}
    assert tally(done) == "2 passed, 0 failed, 0 ignored, 1 SKIPPED (CUDA is not available)"
    log = (tmp_path / "step.log").read_text(encoding="utf-8")
    assert log.startswith("$ python -m pytest")
    assert "2 passed, 1 skipped" in log


def test_failures_are_named(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, False\n")
    assert (done.doubts, done.named(Outcome.FAILED)) == ((), (f"{MADE_UP}test_rocm",))
    assert "assert candle.WORKS" in done.outputs[f"{MADE_UP}test_rocm"]


def test_a_device_that_python_does_not_find_is_skipped_without_leave(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, False, True\n")
    judged = judge_tests([done], Demands(load_unrun(), where="emulator"))
    assert judged.complaints == (f"candle-pyo3 pytest: {MADE_UP}test_rocm was skipped: ROCm is not available",)


def test_without_the_feature_there_is_no_device(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, False, True\n", rocm=False)
    assert judge_tests([done], Demands(load_unrun())).passed
    claimed = run("CUDA, ROCM, WORKS = False, True, True\n", rocm=False)
    assert claimed.doubts == ("candle-pyo3 pytest has no test that misses ROCm, in a build without it",)


def test_some_of_the_tests_may_be_chosen(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n", choose=lambda name: "rocm" in name)
    assert (done.selected, tuple(done.outcomes), done.doubts) == (
        (f"{MADE_UP}test_rocm",),
        (f"{MADE_UP}test_rocm",),
        (),
    )


def test_overflows_count_as_skipped(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n", TESTS + OVERFLOWING)
    assert (done.returncode, done.doubts) == (1, ())
    assert done.skipped[f"{MADE_UP}test_overflows"] == python.OVERFLOWS


def test_an_overflow_that_is_not_known_as_candles_fails(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n", TESTS + OVERFLOWING)
    judged = judge_tests([done], Demands(load_unrun(), where="emulator"))
    assert judged.complaints == (f"candle-pyo3 pytest: {MADE_UP}test_overflows was skipped: {python.OVERFLOWS}",)


def test_an_end_that_is_none_of_a_test_is_no_proof(run: Run) -> None:
    done = run("import atexit, os\natexit.register(os._exit, 139)\nCUDA, ROCM, WORKS = False, True, True\n")
    assert done.doubts != ()


@pytest.mark.parametrize("code", [0, 1])
def test_a_test_that_ends_pytest_is_named(run: Run, code: int) -> None:
    tests = f"import os\n{TESTS}\ndef test_ends():\n    os._exit({code})\n\ndef test_that_follows():\n    pass\n"
    done = run("CUDA, ROCM, WORKS = False, True, True\n", tests)
    assert f"of 5 tests; {MADE_UP}test_ends did not end" in done.doubts[-1]


def test_a_test_that_hangs_is_ended_and_named(run: Run) -> None:
    tests = f"{TESTS}\ndef test_hangs():\n    import time\n    time.sleep(300)\n"
    done = run("CUDA, ROCM, WORKS = False, True, True\n", tests, limit=20.0)
    assert done.doubts[0] == "candle-pyo3 pytest was ended: no test ended for 20 s"
    assert done.doubts[1].endswith(f"{MADE_UP}test_hangs did not end")


def test_a_test_that_is_not_collected_is_missed(run: Run) -> None:
    done = run("CUDA, ROCM, WORKS = False, True, True\n", f"{TESTS}\ndel test_rocm\n")
    assert done.doubts == (f"candle-pyo3 pytest did not run {MADE_UP}test_rocm",)


def test_a_package_that_cannot_be_imported_is_no_proof(run: Run) -> None:
    done = run("raise ImportError('undefined symbol')\n")
    assert done.doubts[0].startswith("candle-pyo3 pytest does not list its tests")


def test_no_tests_are_no_proof(run: Run) -> None:
    assert run("", "").doubts[0].startswith("candle-pyo3 pytest does not list its tests: no tests collected")


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
