"""A pytest plugin: in CI, a test that is skipped without being listed fails the run.

A test that could not run proves nothing, so each skip that CI may see is written down with its reason in
tests/allowed_skips.txt: `nodeid-glob : reason` per line, `#` starts a comment. A test that is expected to fail and
does not run counts as skipped, and a run without any test fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import pytest
from surroundings import in_ci

if TYPE_CHECKING:
    from pathlib import Path

LIST = "tests/allowed_skips.txt"
"""Relative to pytest's root folder."""


@dataclass(frozen=True, slots=True)
class AllowedSkips:
    """The list, as globs over node ids."""

    globs: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> AllowedSkips:
        """The list in a file; an absent file allows nothing. Raises `pytest.UsageError` naming file and line."""
        globs = []
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            entry = line.split("#", 1)[0].strip()
            if not entry:
                continue
            glob, separator, reason = entry.partition(" : ")
            if not separator or not reason.strip():
                raise pytest.UsageError(f"{path}:{number}: not of the form `nodeid-glob : reason`: {entry}")
            globs.append(glob.strip())
        return cls(tuple(globs))

    def allows(self, nodeid: str) -> bool:
        """Whether an entry names the test; an entry may also be the node id itself, brackets and all."""
        return any(glob == nodeid or fnmatchcase(nodeid, glob) for glob in self.globs)


@dataclass(eq=False)
class SkipGuard:
    """Collects the skips of a run that nobody allowed."""

    allowed: AllowedSkips
    unlisted: dict[str, str] = field(default_factory=dict)
    """Reason by node id."""
    ran: int = 0
    """Tests that came to their end."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Notes marks that skip, so that collecting is enough to see what a whole run would end with."""
        for item in items:
            for mark in item.iter_markers("skipif"):
                if mark.args[:1] == (True,) and not self.allowed.allows(item.nodeid):
                    self.unlisted[item.nodeid] = mark.kwargs["reason"]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reason = getattr(report, "wasxfail", None)
        # Neither `xfail(run=False)` nor `pytest.xfail()` lets the test come to its end; only the mark by itself does.
        ran = reason is not None and "xfail" in report.keywords and not reason.startswith("[NOTRUN]")
        self._note(report, expected=ran)
        self.ran += report.when == "call" and (ran or not report.skipped)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report, expected=False)

    def _note(self, report: pytest.TestReport | pytest.CollectReport, *, expected: bool) -> None:
        if report.skipped and not expected and not self.allowed.allows(report.nodeid):
            longrepr = getattr(report, "wasxfail", None) or report.longrepr
            reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
            self.unlisted[report.nodeid] = reason.removeprefix("Skipped: ")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if passed and (self.unlisted or not self.ran):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unlisted:
            terminalreporter.section(f"skipped, and not listed in {LIST}", red=True)
            for nodeid, reason in sorted(self.unlisted.items()):
                terminalreporter.line(f"{nodeid} : {reason}")
        if not self.ran:
            terminalreporter.section("no test ran: nothing was shown", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Guard the run; with pytest-xdist only the process that gathers the reports."""
    if in_ci() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipGuard(AllowedSkips.read(config.rootpath / LIST)), "skip-guard")
