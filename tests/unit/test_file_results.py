"""What a run of pytest writes down of its files, on runs of pytest inside pytest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parents[2]
MIXED = """
import pytest

@pytest.fixture
def probe():
    class Probe:
        ran_on = set()
    return Probe()

def test_on_a_device(probe): probe.ran_on.add("emulator (gfx90a)")

def test_plain(): pass

@pytest.mark.skip(reason="no AMD GPU")
def test_skipped(): pass
"""
FAILING = """
def test_passes(): pass
def test_fails(): assert False
"""

Written = list[dict[str, Any]]


@pytest.fixture
def written(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Written]:
    """What a run of the files in the folder, a repository of its own, leaves."""
    monkeypatch.setenv("PYTHONPATH", f"{REPOSITORY / 'tests'}:{REPOSITORY}")
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(pytester.path))
    monkeypatch.delenv("RELEASES", raising=False)
    pytester.mkdir("specs")
    pytester.makepyfile(test_mixed=MIXED, test_failing=FAILING)

    def run(*arguments: str) -> Written:
        own = ("-p", "file_results", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:cov")
        (pytester.runpytest_subprocess if "-n" in arguments else pytester.runpytest_inprocess)(*own, *arguments)
        file = pytester.path / "build" / "pytest-results.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        return [json.loads(line)["found"] for line in lines]

    return run


def counts(found: Written) -> dict[str, tuple[int, int, int]]:
    return {each["file"]: (each["passed"], each["failed"], each["skipped"]) for each in found}


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_each_file_is_written_down_once_with_what_it_ran_on(
    written: Callable[..., Written], workers: tuple[str, ...]
) -> None:
    found = written(*workers)
    assert counts(found) == {"test_failing.py": (1, 1, 0), "test_mixed.py": (2, 0, 1)}
    assert [each["ran_on"] for each in found] == [[], ["emulator (gfx90a)"]]


@pytest.mark.parametrize(
    "narrowed",
    [("-k", "passes"), ("-m", "not slow"), ("-x",), ("--maxfail=1",), ("--collect-only",), ("--deselect=x",)],
)
def test_a_run_of_less_than_whole_files_is_not(written: Callable[..., Written], narrowed: tuple[str, ...]) -> None:
    assert written(*narrowed) == []


def test_of_a_file_of_which_a_test_was_named_nothing_is_written(written: Callable[..., Written]) -> None:
    assert counts(written("test_failing.py::test_passes", "test_mixed.py")) == {"test_mixed.py": (2, 0, 1)}


def test_a_file_that_cannot_be_read_has_failed(pytester: pytest.Pytester, written: Callable[..., Written]) -> None:
    pytester.makepyfile(test_broken="import nowhere")
    assert counts(written("test_broken.py", "--continue-on-collection-errors")) == {"test_broken.py": (0, 1, 0)}


def test_what_ci_leaves_out_of_the_releases_is_no_whole_run(
    pytester: pytest.Pytester, written: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pytester.path / "tests" / "releases"
    folder.mkdir(parents=True)
    (folder / "test_one.py").write_text("def test_one(): pass\n", encoding="utf-8")
    monkeypatch.setenv("RELEASES", "0.11.1")
    assert counts(written("tests", "test_mixed.py")) == {"test_mixed.py": (2, 0, 1)}


def test_another_folder_than_the_repository_has_no_results(
    written: Callable[..., Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANDLE_ROCM_HOME", str(REPOSITORY))
    assert written() == []


def test_a_place_where_nothing_can_be_written_is_named(
    pytester: pytest.Pytester, written: Callable[..., Written], capsys: pytest.CaptureFixture[str]
) -> None:
    (pytester.path / "build" / "pytest-results.jsonl").mkdir(parents=True)
    assert written("test_mixed.py") == []
    assert "`make acceptance` will not know of this run" in capsys.readouterr().out
