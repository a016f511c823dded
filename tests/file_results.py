"""A pytest plugin: writes down, for each file with tests that ran as a whole, what came of it and on what.

The lines go to build/pytest-results.jsonl, from which `make acceptance` takes what docs/acceptance.md says. What a run
ran on is asked of the devices in the tests' fixtures, which have it from the libraries that were loaded.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

PROPERTY = "ran_on"
NARROWING = ("keyword", "markexpr", "deselect", "lf", "failedfirst", "stepwise", "collectonly", "kernel_sources")
"""pytest's options, and ours, with which not all of a file is run, or on something else."""
SHARE = "RELEASES"
"""Set, it leaves less to run in tests/releases."""


@runtime_checkable
class RunsPrograms(Protocol):
    """A fixture that starts programs on a device."""

    ran_on: set[str]
    """What their libraries said that they are, since it was cleared."""


@dataclass(eq=False)
class FileResults:
    """What came of the tests of a run, by file."""

    ends: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    devices: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unwritten: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        if report.failed:
            self.ends[file]["failed"] += 1
        elif report.skipped:
            self.ends[file]["skipped"] += 1
        elif report.when == "call":
            self.ends[file]["passed"] += 1
            self.devices[file] |= {str(value) for name, value in report.user_properties if name == PROPERTY}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.ends[report.nodeid.partition("::")[0]]["failed" if report.failed else "skipped"] += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        from codegen.paths import repository_root
        from codegen.verify.results import OF_PYTEST, FileRun, FoundByPytest, append, now

        if not _ended(session, exitstatus):
            return
        at = now()
        lines = [
            FoundByPytest(
                root=str(session.config.rootpath),
                found=FileRun(
                    file=file,
                    at=at,
                    passed=ends["passed"],
                    failed=ends["failed"],
                    skipped=ends["skipped"],
                    ran_on=tuple(sorted(self.devices[file])),
                ),
            )
            for file, ends in sorted(self.ends.items())
            if _whole(file, session.config)
        ]
        if lines and session.config.rootpath == repository_root():
            self.unwritten = append(session.config.rootpath / "build" / OF_PYTEST, lines)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unwritten is not None:
            terminalreporter.line(self.unwritten)


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run; with pytest-xdist only the process that gathers the reports."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileResults(), "file-results")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Adds to a test's report what it ran on."""
    values = getattr(item, "funcargs", {}).values()
    programs = [value for value in values if isinstance(value, RunsPrograms)]
    for each in programs:
        each.ran_on.clear()
    result = yield
    item.user_properties += [(PROPERTY, name) for each in programs for name in sorted(each.ran_on)]
    item.user_properties += [(PROPERTY, name) for name in sorted({*_devices(values)})]
    return result


def _devices(values: Iterable[object]) -> Iterator[str]:
    """The devices among fixtures, and those that fixtures compute on, by the names that results carry."""
    from codegen.device.hip import Device

    named = {"amd": "ROCm", "nvidia": "HIP on NVIDIA"}
    for value in values:
        device = value if isinstance(value, Device) else getattr(value, "device", None)
        if isinstance(device, Device):
            yield f"{named.get(device.target, device.target)} ({device.architecture})"


def _ended(session: pytest.Session, exitstatus: int) -> bool:
    """Whether every test that was to run had its turn."""
    stopped = bool(session.shouldstop or session.shouldfail)
    return exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not stopped


def _whole(file: str, config: pytest.Config) -> bool:
    """Whether all tests of a file were to run."""
    narrowed = any(config.getoption(name, default=None) for name in NARROWING)
    chosen = any(argument.partition("::")[0].endswith(file) for argument in config.args if "::" in argument)
    share = SHARE in os.environ and file.startswith("tests/releases/")
    return not (narrowed or chosen or share)
