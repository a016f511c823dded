"""candle-pyo3 as a Python package: laid out beside its library, and tested with pytest on the Python that runs us."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from codegen.verify.cargo import CargoRun

CRATE = "candle-pyo3"
MANIFEST = "candle-pyo3/Cargo.toml"
PACKAGE = "candle-pyo3/py_src/candle"
TESTS = "candle-pyo3/tests"
NO_PYTEST = "pytest is not installed for the Python that runs candle-rocm"
NO_PACKAGE = "candle-pyo3 has no Python package in this tree"
NOT_AVAILABLE = "ROCm is not available"
"""Why a test that needs ROCm says that it was skipped."""
TWO_GPUS = {"CANDLE_ROCM_EMULATOR_DEVICES": "gfx1100,gfx1100"}
"""For the emulated device: Python can name the second one."""
OVERFLOW = re.compile(r"PanicException: attempt to \w+ with overflow")
OVERFLOWS = "arithmetic that overflows, which a debug build refuses"
REPORT = "report.xml"
_ABI = re.compile(rb"abi3-py3(\d+)")
_LIBRARIES = {"darwin": "libcandle.dylib", "win32": "candle.dll"}


@dataclass(frozen=True, slots=True)
class _Case:
    """One test as pytest's report has it."""

    name: str
    failure: str | None = None
    skipped: str | None = None


def obstacle(root: Path) -> str | None:
    """Why candle-pyo3 of the tree cannot be tested in Python, or None if it can be."""
    if not _has_pytest():
        return NO_PYTEST
    return None if (root / PACKAGE).is_dir() and (root / TESTS).is_dir() else NO_PACKAGE


def _has_pytest() -> bool:
    try:
        return importlib.util.find_spec("pytest") is not None
    except ValueError:  # it is imported already, without a specification
        return False


def manifest_for(manifest: bytes, minor: int = sys.version_info.minor) -> bytes:
    """The manifest with pyo3's stable ABI of no later Python than `3.minor`, which lacks functions of a later one's."""
    return _ABI.sub(lambda found: found[0] if int(found[1]) <= minor else b"abi3-py3%d" % minor, manifest)


def library_name() -> str:
    """What cargo calls the library on this system."""
    return _LIBRARIES.get(sys.platform, "libcandle.so")


def run_python_tests(
    root: Path,
    built: CargoRun,
    *,
    target_dir: Path,
    folder: Path,
    environment: Mapping[str, str],
    rocm: bool,
    timeout: float | None,
) -> CargoRun:
    """Test what cargo built, and return its run with the tests' results as libtest would give them.

    `folder` gets the package and the tests, and is emptied before. With `rocm`, a test that is skipped because ROCm is
    not available fails; without it, one has to be skipped. A test that ends with arithmetic that overflows is one of
    Candle's that only a release build passes: it counts as skipped.

    Raises InputOutputError when the package cannot be laid out.
    """
    started = time.monotonic()
    try:
        _lay_out(root, target_dir / "debug" / library_name(), folder)
    except OSError as error:
        raise InputOutputError(
            f"cannot lay out the Python package in {folder}: {error}", remedy="choose a writable folder with --work"
        ) from error
    try:
        done = _pytest(folder, environment, timeout)
    except subprocess.TimeoutExpired:
        return replace(built, timed_out=True, seconds=built.seconds + time.monotonic() - started)
    with built.log.open("a", encoding="utf-8") as log:
        log.write(f"$ python {' '.join(done.args[1:])}\n{done.stdout}{done.stderr}\n")
    report = folder / REPORT
    cases = tuple(_cases(report)) if report.exists() else ()
    run = judged(built, cases, code=done.returncode, rocm=rocm)
    complaint = "" if cases else f"pytest ended with {done.returncode}: {done.stderr.strip()[-500:]}"
    return replace(run, complaint=complaint, seconds=built.seconds + time.monotonic() - started)


def _pytest(folder: Path, environment: Mapping[str, str], timeout: float | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={REPORT}", "tests"]
    variables = {**os.environ, **environment, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    variables.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=timeout
    )


def judged(built: CargoRun, cases: tuple[_Case, ...], *, code: int, rocm: bool) -> CargoRun:
    """cargo's run with the results of the tests; `code` is what pytest ended with."""
    overflows = [case.name for case in cases if _overflows(case)]
    failures = {case.name: case.failure for case in cases if case.failure is not None and case.name not in overflows}
    without = [case.name for case in cases if NOT_AVAILABLE in (case.skipped or "")]
    if rocm:
        failures |= dict.fromkeys(without, f"skipped: {NOT_AVAILABLE}")
    elif not without:
        failures["rocm_is_available"] = "true in a build without the feature"
    if cases and (code not in (0, 1) or (code and not failures and not overflows)):
        failures["pytest"] = f"ended with {code} after its tests"
    ignored = [case.name for case in cases if case.skipped is not None and case.name not in failures]
    passed = len(cases) - len(ignored) - len(failures.keys() & {case.name for case in cases})
    counts = f"{passed} passed; {len(failures)} failed; {len(ignored)} ignored"
    return replace(
        built,
        returncode=1 if failures or not cases else 0,
        test_results=(f"test result: {'FAILED' if failures else 'ok'}. {counts}",) if cases else (),
        failed_tests=tuple(failures),
        failures=failures,
        skipped_tests=tuple(f"{name}: {OVERFLOWS}" for name in overflows),
    )


def _overflows(case: _Case) -> bool:
    """Whether a test that is not about ROCm failed because only a release build lets its arithmetic overflow."""
    return case.failure is not None and "rocm" not in case.name and OVERFLOW.search(case.failure) is not None


def _lay_out(root: Path, library: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / PACKAGE, folder / "candle")
    shutil.copytree(root / TESTS, folder / "tests")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # or pytest takes what lies in a folder above
    name = "candle.pyd" if sys.platform == "win32" else "candle.abi3.so"
    shutil.copyfile(library, folder / "candle" / name)


def _cases(report: Path) -> Iterator[_Case]:
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        found = next((case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None)
        skipped = case.find("skipped")
        yield _Case(
            name,
            failure=None if found is None else f"{found.get('message', '')}\n{found.text or ''}",
            skipped=None if skipped is None else skipped.get("message", ""),
        )
