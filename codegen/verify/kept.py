"""Steps that passed in a run that was interrupted: the same command goes on behind them.

A step is not done again only where nothing that it depends on has changed: the tree with the plan's changes laid over
it, its Cargo.lock, the step itself, cargo, rustc, the device and its libraries, the variables that reach programs, and
candle-rocm's own code and specs. Only steps whose verdict needs no other build are kept.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from codegen.plan.cache import own_files
from codegen.spec.model import Model
from codegen.verify.document import step_document
from codegen.verify.expected_failures import WaitingTest
from codegen.verify.feature_examples import LeftOut
from codegen.verify.judge import Earlier, StepResult, Verdict
from codegen.verify.pins import Pinned
from codegen.verify.results import Moment, now
from codegen.verify.scratch import CARGO_LOCK, tree_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codegen.verify.patched_tree import Subject
    from codegen.verify.steps import Step

FILE = "unfinished.jsonl"
"""Beside the logs of a release."""
REACHING = (
    "CARGO",
    "RUST",
    "CC",
    "CXX",
    "CFLAGS",
    "LD_",
    "ROCM",
    "HIP",
    "HSA",
    "ROCR",
    "CUDA",
    "CANDLE",
    "PYO3",
    "PYTHON",
)
"""How the names of variables begin that change what is built or run."""


class _Line(Model):
    """A line of the file."""

    key: str
    at: Moment
    document: dict[str, Any]
    """The step as `verify --json` shows it."""


class Kept:
    """The steps that an interrupted run left in `folder`, as far as they still hold."""

    def __init__(self, folder: Path, root: Path, state: str) -> None:
        """`state` names all that steps depend on (`state_of`) but the lock of the tree that is built in `root`."""
        self._file = folder / FILE
        self._lock = root / CARGO_LOCK
        self._state = state
        self._lines = {line.key: line for line in _read(self._file)}
        self._seen: set[str] = set()

    def find(self, step: Step) -> StepResult | None:
        """The result of a step that passed, and on which nothing was changed since."""
        line = self._lines.get(self._key(step))
        if line is None:
            return None
        self._seen.add(line.key)
        return _restored(step, line)

    def keep(self, result: StepResult) -> None:
        """Write a passed step down; what cannot be written is done again, and harms nothing."""
        key = self._key(result.step)
        self._seen.add(key)
        line = _Line(key=key, at=now(), document=step_document(result))
        _write(self._file, [*_read(self._file), line])

    def finish(self) -> None:
        """The run has come to its end: its steps are not kept for another one."""
        lines = _read(self._file)
        if lines:
            _write(self._file, [line for line in lines if line.key not in self._seen])

    def _key(self, step: Step) -> str:
        lock = self._lock.read_bytes() if self._lock.is_file() else b""
        return _digest([self._state.encode(), repr(step).encode(), lock])


def state_of(
    subject: Subject, *, programs: Mapping[str, str | None], variables: Mapping[str, str], more: Iterable[str]
) -> str:
    """Names all that the steps of a run depend on.

    `programs` says what cargo and rustc are, `variables` are those that reach programs, `more` is anything else.
    """
    return _digest(_pieces(subject, programs, variables, more))


def _pieces(
    subject: Subject, programs: Mapping[str, str | None], variables: Mapping[str, str], more: Iterable[str]
) -> Iterator[bytes]:
    yield repr(sorted(programs.items())).encode()
    yield from (each.encode() for each in more)
    yield from (f"{name}={variables[name]}".encode() for name in sorted(variables) if name.startswith(REACHING))
    yield from _contents(subject.root / path for path in tree_files(subject.root) if path not in subject.patched)
    for path, content in sorted(subject.patched.items()):
        yield path.encode()
        yield b"none" if content is None else content
    for name, content in own_files():
        yield name.encode()
        yield content
    if libraries := variables.get("ROCM_PATH"):
        yield from _contents((Path(libraries) / "lib").glob("*.so"))


def _contents(files: Iterable[Path]) -> Iterator[bytes]:
    for file in sorted(files):
        if file.is_file():
            yield str(file).encode()
            yield file.read_bytes()


def _digest(pieces: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _restored(step: Step, line: _Line) -> StepResult:
    document = line.document
    return StepResult(
        step,
        Verdict.PASSED,
        str(document["detail"]),
        seconds=float(document["seconds"]),
        ran_on=document["ran_on"],
        log=Path(document["log"]) if document["log"] else None,
        waiting=tuple(WaitingTest(each["test"], each["phase"], each["rule"]) for each in document["waiting"]),
        left_out=tuple(
            LeftOut(each["crate"], each["target"], tuple(each["features"]), each["reason"])
            for each in document["left_out"]
        ),
        pinned=tuple(Pinned(**each) for each in document["pinned"]),
        earlier=Earlier(line.at, document),
    )


def _read(file: Path) -> list[_Line]:
    """The lines of the file that can be read: one that a killed process has begun is as good as none."""
    found = []
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    for line in text.splitlines():
        try:
            found.append(_Line.model_validate_json(line))
        except ValidationError:
            continue
    return found


def _write(file: Path, lines: Iterable[_Line]) -> None:
    text = "".join(f"{line.model_dump_json()}\n" for line in lines)
    try:
        if not text:
            file.unlink(missing_ok=True)
            return
        new = file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(file)
    except OSError:
        return
