"""candle-pyo3 as a Python package: laid out beside its library, and tested with pytest on the Python that runs us."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from codegen.errors import InputOutputError
from codegen.verify.libtest import LIST_SECONDS
from codegen.verify.process import run_watched
from codegen.verify.testrun import Outcome, TestBinary, TestRun

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping

    from codegen.verify.process import Ended

CRATE = "candle-pyo3"
MANIFEST = "candle-pyo3/Cargo.toml"
PACKAGE = "candle-pyo3/py_src/candle"
TESTS = "candle-pyo3/tests"
NO_PYTEST = "pytest is not installed for the Python that runs candle-rocm"
NO_PACKAGE = "candle-pyo3 has no Python package in this tree"
NOT_AVAILABLE = "ROCm is not available"
"""Why a test that needs ROCm says that it was skipped."""
CLAIMS_ROCM = "has no test that misses ROCm, in a build without it"
OVERFLOW = re.compile(r"PanicException: attempt to \w+ with overflow")
OVERFLOWS = "arithmetic that overflows, which a debug build refuses"
REPORT = "report.xml"
PROGRAM = TestBinary(CRATE, "pytest", "test", Path(sys.executable), Path())
"""pytest, as one of the programs with tests."""
NODE = re.compile(r"^tests/\S+\.py::\S")
NODE_ENDED = re.compile(r"^(?P<node>tests/.+?) (?:PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)\b")
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
    *,
    target_dir: Path,
    folder: Path,
    environment: Mapping[str, str],
    limit: float,
    log: Callable[[str], None],
    choose: Callable[[str], bool],
    rocm: bool,
) -> TestRun:
    """Test the extension module that cargo built below `target_dir`, and return what each test did.

    `folder` gets the package and the tests, and is emptied before; `environment` are all of pytest's variables. A test
    may take `limit` seconds. A test that ends with arithmetic that overflows counts as skipped: only a release build
    passes some of Candle's, which specs/unrun_tests.yaml lists. Without `rocm`, some test has to say that ROCm is not
    available.

    Raises InputOutputError when the package cannot be laid out.
    """
    try:
        _lay_out(root, target_dir / "debug" / library_name(), folder)
    except OSError as error:
        raise InputOutputError(
            f"cannot lay out the Python package in {folder}: {error}", remedy="choose a writable folder with --work"
        ) from error
    pytest = _Pytest(folder, environment, log)
    ended = pytest.run("--collect-only", "-q", limit=max(limit, LIST_SECONDS))
    listed = {_name(line): line for line in pytest.lines if NODE.match(line)}
    if ended.returncode or ended.stopped or not listed:
        why = pytest.lines[-1] if pytest.lines else "it says nothing"
        return TestRun(PROGRAM, (), doubts=(f"{PROGRAM} does not list its tests: {why}",))
    selected = tuple(filter(choose, listed))
    ended = pytest.run("-v", f"--junitxml={REPORT}", *(listed[name] for name in selected), limit=limit)
    report = folder / REPORT
    cases = tuple(_cases(report)) if report.exists() else ()
    run = _run_of(selected, cases, ended)
    doubts = (
        *_doubts(run, ended, pytest.ended),
        *_lost(folder, run, everything=len(selected) == len(listed)),
        *(() if rocm or NOT_AVAILABLE in run.skipped.values() else (CLAIMS_ROCM,)),
    )
    return replace(run, doubts=tuple(f"{PROGRAM} {doubt}" for doubt in doubts))


class _Pytest:
    """Runs pytest, and knows which tests have ended."""

    def __init__(self, folder: Path, environment: Mapping[str, str], log: Callable[[str], None]) -> None:
        self._folder = folder
        self._environment = {**environment, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        self._log = log
        self._limit = 0.0
        self._last_end = 0.0
        self.lines: list[str] = []
        self.ended: set[str] = set()

    def run(self, *arguments: str, limit: float) -> Ended:
        """Run it on the tests in the folder; it is ended when none of them ends for `limit` seconds."""
        self.lines = []
        self._limit = limit
        self._last_end = time.monotonic()
        named = any("::" in each for each in arguments)
        words = ("-m", "pytest", "-p", "no:cacheprovider", *arguments, *(() if named else ("tests",)))
        self._log(f"$ python {' '.join(words)}")
        return run_watched(
            (sys.executable, *words),
            cwd=self._folder,
            environment=self._environment,
            on_stdout=self._take,
            on_stderr=self._log,
            watch=self._overdue,
        )

    def _take(self, line: str) -> None:
        self._log(line)
        if line.strip():
            self.lines.append(line.strip())
        if (found := NODE_ENDED.match(line)) is not None:
            self.ended.add(_name(found["node"]))
            self._last_end = time.monotonic()

    def _overdue(self) -> str | None:
        return f"no test ended for {self._limit:.0f} s" if time.monotonic() > self._last_end + self._limit else None


def _run_of(selected: tuple[str, ...], cases: tuple[_Case, ...], ended: Ended) -> TestRun:
    overflows = {case.name for case in cases if OVERFLOW.search(case.failure or "")}
    outcomes, skipped = {}, dict.fromkeys(overflows, OVERFLOWS)
    for case in cases:
        failed = case.failure is not None and case.name not in overflows
        outcomes[case.name] = Outcome.FAILED if failed else Outcome.PASSED
        if case.skipped is not None:
            skipped[case.name] = case.skipped
    return TestRun(
        PROGRAM,
        selected,
        returncode=ended.returncode,
        outcomes=outcomes,
        outputs={case.name: case.failure for case in cases if case.failure is not None},
        skipped=skipped,
        seconds=ended.seconds,
    )


def _doubts(run: TestRun, ended: Ended, seen: Container[str]) -> Iterator[str]:
    """What keeps pytest's run from being a proof: its tests run one after another, in the order of the list."""
    failures = run.named(Outcome.FAILED) or OVERFLOWS in run.skipped.values()
    if ended.stopped is not None:
        yield f"was ended: {ended.stopped}"
    elif ended.returncode != (1 if failures else 0):
        yield f"ended with {ended.how}"
    silent = [name for name in run.selected if name not in run.outcomes]
    if silent:
        began = next((name for name in run.selected if name not in seen), silent[0])
        yield f"does not say what came of {len(silent)} of {len(run.selected)} tests; {began} did not end"


def _lost(folder: Path, run: TestRun, *, everything: bool) -> Iterator[str]:
    """Test functions of the files that pytest does not list; a file that it skips as a whole is among them."""
    if not everything:
        return
    ran = {name.partition("[")[0] for name in run.selected}
    lost = [name for name in _functions(folder) if name not in ran]
    if lost:
        yield f"did not run {', '.join(lost[:5])}{f' and {len(lost) - 5} more' if len(lost) > 5 else ''}"


def _functions(folder: Path) -> Iterator[str]:
    """The test functions that stand in the files, in pytest's form, by reading them."""
    for file in sorted((folder / "tests").rglob("test_*.py")):
        module = ".".join(file.relative_to(folder).with_suffix("").parts)
        for node in ast.parse(file.read_bytes()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                yield f"{module}::{node.name}"


def _name(node: str) -> str:
    """A node id as the report has it: `tests/a/test_b.py::test_c[d]` is `tests.a.test_b::test_c[d]`."""
    plain, bracket, parameters = node.partition("[")
    path, *scopes, name = plain.split("::")
    module = path.removesuffix(".py").replace("/", ".")
    return f"{'.'.join((module, *scopes))}::{name}{bracket}{parameters}"


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
