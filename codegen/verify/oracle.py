"""rustc as the oracle of the scan: one more variant in each backend enum, and every match that then lacks an arm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.errors import Problem, UnknownSite, VerificationFailed
from codegen.verify.cargo import cargo_environment, run_cargo
from codegen.verify.pins import hold
from codegen.verify.scratch import CARGO_LOCK, ScratchTree, tree_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codegen.spec.model import Pin
    from codegen.verify.diagnostics import Diagnostic

CRATE = "candle-core"
BACKEND_ENUMS = ("Storage", "Device", "DeviceLocation", "QStorage")
PROBE = "CandleRocmProbe"
NON_EXHAUSTIVE = "E0004"


@dataclass(frozen=True, slots=True, order=True)
class RustcSite:
    """The matched expression of an exhaustive match, as rustc points at it."""

    file: str
    """Relative to the tree, with forward slashes."""
    line: int
    """From 1."""
    column: int
    """From 1, in characters (tree-sitter counts bytes from 0)."""
    patterns: str
    """rustc's own words about what is not covered."""


def exhaustive_matches(
    tree_root: Path,
    *,
    scratch: Path,
    target_dir: Path,
    log: Path | None = None,
    enums: Sequence[str] = BACKEND_ENUMS,
    pins: Sequence[Pin] = (),
    on_message: Callable[[str], None] = lambda _line: None,
    on_note: Callable[[str], None] = lambda _line: None,
) -> tuple[RustcSite, ...]:
    """Every exhaustive match over a backend enum in candle-core's library, sorted and each once.

    `tree_root` is an unpatched Candle tree; it is only read. A match in the body of a macro is reported where its text
    stands, once, however often the macro is used, unless what it matches is an argument of the macro: rustc then points
    at that argument, at each use. Code behind features that are off (CUDA, Metal) is not seen. `on_note` is told which
    of the `pins` the tree was built with.

    Raises UnknownSite when an enum is not found, VerificationFailed when the tree does not compile for another reason
    or when rustc finds nothing.
    """
    tree = ScratchTree(scratch, target_dir)
    with tree.exclusive(on_message):
        tree.sync(tree_root, probed_files(tree_root, enums))
        environment = cargo_environment(target_dir)
        own_lock = (tree_root / CARGO_LOCK).exists()
        for pinned in hold(scratch, pins, environment=environment, own_lock=own_lock, on_message=on_message):
            on_note(str(pinned))
        run = run_cargo(
            scratch,
            ["check", "-p", CRATE, "--lib"],
            log=log or target_dir / "oracle.log",
            environment=environment,
            on_message=on_message,
        )
    strangers = [error for error in run.errors if error.code != NON_EXHAUSTIVE]
    if strangers or run.ok or not run.errors:
        found = strangers[0].rendered if strangers else run.complaint or "rustc reported no E0004"
        raise VerificationFailed(
            f"the oracle cannot judge {CRATE}: {found}",
            remedy=f"see {run.log}; the tree must compile before candle-rocm changes it",
        )
    return tuple(sorted({_site(error) for error in run.errors}))


def probed_files(tree_root: Path, enums: Sequence[str] = BACKEND_ENUMS) -> dict[str, bytes]:
    """candle-core's files that define the enums, with one unit variant added to each enum.

    Raises UnknownSite naming every enum that is not defined exactly once.
    """
    texts = {path: (tree_root / path).read_bytes().decode() for path in _sources(tree_root)}
    changed: dict[str, str] = {}
    problems = []
    for enum in enums:
        head = _definition(enum)
        defining = [path for path, text in texts.items() if head.search(text)]
        if len(defining) != 1:
            where = ", ".join(defining) or "no file"
            problems.append(Problem(f"`pub enum {enum}` must be defined once below {CRATE}/src; found in {where}"))
            continue
        (path,) = defining
        changed[path] = head.sub(lambda match: f"{match[0]} {PROBE},", changed.get(path, texts[path]), count=1)
    if problems:
        raise UnknownSite(
            problems, remedy="if Candle renamed or moved the enum, name the new one under `enums` in specs/candle.yaml"
        )
    return {path: text.encode() for path, text in changed.items()}


def _sources(tree_root: Path) -> list[str]:
    base = tree_root / CRATE / "src"
    return [f"{CRATE}/src/{path}" for path in tree_files(base) if path.endswith(".rs")]


def _definition(enum: str) -> re.Pattern[str]:
    """The head of the enum up to its opening brace, on one line or several, at the start of a line."""
    return re.compile(rf"^[ \t]*pub\s+enum\s+{re.escape(enum)}\s*\{{", re.MULTILINE)


def _site(error: Diagnostic) -> RustcSite:
    span = error.expanded_from or error.span
    assert span is not None, "rustc gives E0004 a primary span"
    return RustcSite(span.file, span.first_line, span.first_column, error.message)
