"""The guard against skips that nobody listed, on runs of pytest inside pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from skips import AllowedSkips
from some import some

pytest_plugins = ["pytester"]

REPOSITORY = Path(__file__).parents[2]

SKIPPING = """
import pytest

def test_runs(): pass

@pytest.mark.skip(reason="no AMD GPU")
def test_needs_a_gpu(): pass

@pytest.mark.parametrize("release", ["0.9.1", "0.11.1"])
def test_release(release):
    if release == "0.9.1":
        pytest.skip("only the newest")

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_failure(): assert False
"""


def run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *arguments: str, ci: str = "true"
) -> pytest.RunResult:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "tests"))
    own = ("-p", "skips", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:cov")
    start = pytester.runpytest_subprocess if "-n" in arguments else pytester.runpytest_inprocess
    return start(*own, *arguments)


def allow(pytester: pytest.Pytester, *lines: str) -> None:
    (pytester.path / "tests").mkdir()
    (pytester.path / "tests" / "allowed_skips.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_an_unlisted_skip_fails_a_run_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_some=SKIPPING)
    allow(pytester, "# known", "test_some.py::test_release* : only the newest release is built")

    result = run(pytester, monkeypatch, *workers)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*skipped, and not listed in tests/allowed_skips.txt*"])
    result.stdout.fnmatch_lines(["test_some.py::test_needs_a_gpu : no AMD GPU"])
    result.stdout.no_fnmatch_line("test_some.py::test_release*: only*")
    result.stdout.no_fnmatch_line("test_some.py::test_expected*: *")


def test_listed_skips_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some=SKIPPING)
    allow(
        pytester, "test_some.py::test_release[[]0.9.1] : built once  # a glob", "test_some.py::test_needs_a_gpu : none"
    )

    assert run(pytester, monkeypatch).ret == pytest.ExitCode.OK


def test_outside_ci_skips_are_free(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some=SKIPPING)

    assert run(pytester, monkeypatch, ci="").ret == pytest.ExitCode.OK


def test_a_skipped_module_counts(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some="import pytest\npytest.skip('no numpy', allow_module_level=True)\n")

    result = run(pytester, monkeypatch)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["test_some.py : no numpy"])


@pytest.mark.parametrize(
    "body",
    [
        '@pytest.mark.xfail(run=False, reason="later")\ndef test_no(): assert False\n',
        'def test_no():\n    pytest.xfail("later")\n    assert False\n',
    ],
)
def test_what_is_expected_to_fail_and_does_not_run_counts(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    pytester.makepyfile(test_some=f"import pytest\n\ndef test_yes(): pass\n\n{body}")

    result = run(pytester, monkeypatch)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["test_some.py::test_no : *later*"])


@pytest.mark.parametrize("options", [("--collect-only",), ("-k", "nothing_is_called_so"), ("--setup-only",)])
def test_a_run_without_a_test_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(test_some="def test_yes(): pass\n")

    result = run(pytester, monkeypatch, *options)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no test ran: nothing was shown*"])


def test_a_run_of_allowed_skips_alone_fails(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some="import pytest\n\n@pytest.mark.skip(reason='no GPU')\ndef test_gpu(): pass\n")
    allow(pytester, "test_some.py::* : no GPU here")

    assert run(pytester, monkeypatch).ret == pytest.ExitCode.TESTS_FAILED


def test_a_failing_run_stays_one(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some="def test_no(): assert False\n")

    assert run(pytester, monkeypatch).ret == pytest.ExitCode.TESTS_FAILED


def test_an_entry_without_a_reason_is_refused(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(test_some="def test_yes(): pass\n")
    allow(pytester, "", "test_some.py::test_yes")

    result = run(pytester, monkeypatch)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*allowed_skips.txt:2: not of the form `nodeid-glob : reason`: test_some.py::test_yes"]
    )


def test_an_entry_may_be_a_node_id_with_brackets() -> None:
    allowed = AllowedSkips(("tests/a.py::test_b[0.9.1]",))

    assert allowed.allows("tests/a.py::test_b[0.9.1]")
    assert not allowed.allows("tests/a.py::test_b[0.9.2]")


def test_the_repositorys_own_list_is_valid_and_names_tests_that_exist() -> None:
    allowed = AllowedSkips.read(REPOSITORY / "tests" / "allowed_skips.txt")

    for glob in some(allowed.globs):
        file, _, test = glob.partition("::")
        assert (REPOSITORY / file).is_file(), glob
        names = re.findall(r"^def (test_\w+)", (REPOSITORY / file).read_text(), re.MULTILINE)
        name = test.partition("[")[0]
        assert [found for found in names if fnmatchcase(found, name)], glob


def test_what_ci_leaves_out_is_listed() -> None:
    """By collecting alone: CI would say so after most of an hour."""
    share = re.search(r"RELEASES:-([^}]+)}", (REPOSITORY / ".ci" / "run").read_text())
    assert share is not None

    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/releases"],
        cwd=REPOSITORY,
        env=os.environ | {"CI": "true", "RELEASES": share[1]},
        capture_output=True,
        text=True,
        check=False,
    ).stdout

    assert "test_what_has_no_conflict_compiles[ahead]\n" in collected, collected
    assert "not listed" not in collected, collected
