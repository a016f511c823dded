"""What of the environment a test run takes over: nothing that makes it prove less than its name says.

An emulated device without its checks, or of one card instead of two, turns kernel tests green that are not. So every
setting of candle-rocm's is cleared but those that say where things lie, and so are flags that quieten rustc. In CI,
options for pytest that do not stand on its command line are refused, and goldens are compared, never written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, MutableMapping

OWN = "CANDLE_ROCM_"
"""What the names of our settings begin with."""
PLACES = frozenset(
    f"{OWN}{name}"
    for name in ("DEBIAN_MIRROR", "EMULATOR_CACHE", "EMULATOR_CXX", "EMULATOR_SEED", "EMULATOR_TRACE", "FETCH_DIR")
) | {f"{OWN}HIP", f"{OWN}PLANNER", f"{OWN}WORK"}
"""Settings that tests take over: where things lie, who compiles, in which order the device works."""
SWITCHES = frozenset({f"{OWN}MUTANT", f"{OWN}REACHED"})
"""Taken over too: libraries with mutants in them ask for these, and no others do."""
FLAGS = (
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_ENCODED_RUSTDOCFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTC_WORKSPACE_WRAPPER",
)
"""What changes which warnings rustc gives."""
ADDED_OPTIONS = "PYTEST_ADDOPTS"


def cleared(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Takes out of the environment what tests may not depend on, and returns it."""
    ours = (name for name in [*environment] if name.startswith(OWN) and name not in PLACES | SWITCHES)
    return {name: environment.pop(name) for name in sorted([*ours, *(flag for flag in FLAGS if flag in environment)])}


CLEARED = cleared(os.environ)
"""What this process was given and does not use. Once for a process, so that forks keep what tests have set."""


def in_ci() -> bool:
    """Whether this is a CI run."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def refusal(environment: MutableMapping[str, str], *, writes_goldens: bool) -> str | None:
    """Why a run in CI would prove less than it should; None if nothing shows that."""
    if writes_goldens:
        return "--update-goldens writes what it should compare: not in CI"
    if added := environment.get(ADDED_OPTIONS, "").strip():
        return f"{ADDED_OPTIONS} is set in CI ({added}): name options on the command line, where they can be seen"
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Raises `pytest.UsageError` for a run that would prove less than it says."""
    if not __debug__:
        raise pytest.UsageError("PYTHONOPTIMIZE takes out the assertions that tests make with code of their own")
    if in_ci() and (reason := refusal(os.environ, writes_goldens=config.getoption("--update-goldens", default=False))):
        raise pytest.UsageError(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in report(CLEARED.items()):
        terminalreporter.line(line)


def report(given: Iterable[tuple[str, str]]) -> list[str]:
    """Lines about what was cleared, and about options that the command line does not show."""
    lines = [f"not passed on to the tests: {name}={value}" for name, value in given]
    if added := os.environ.get(ADDED_OPTIONS, "").strip():
        lines.append(f"{ADDED_OPTIONS}: {added}")
    return lines
