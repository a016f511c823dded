"""Runs cargo: streams its messages, keeps the whole log, and returns what happened as data."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from codegen.errors import InputOutputError, ToolchainMissing
from codegen.programs import find as find_program
from codegen.verify.diagnostics import Diagnostic, read_diagnostic
from codegen.verify.process import run_watched
from codegen.verify.surroundings import inherited
from codegen.verify.testrun import TestBinary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codegen.verify.pins import Pinned
    from codegen.verify.process import Ended

STATUS = re.compile(
    r"^\s*(Checking|Compiling|Downloading|Downloaded|Running|Doc-tests|Updating|Locking|Blocking) (.+)$"
)
NOT_INSTALLED = re.compile(
    r"no such command: `(?P<command>[\w-]+)`|'cargo-(?P<component>[\w-]+)(?:\.exe)?' is not installed"
)
INSTALL = {
    "cargo": "install Rust with rustup (https://rustup.rs), or your system's package `cargo`",
    "rustc": "install Rust with rustup (https://rustup.rs), or your system's package `rustc`",
    "rustfmt": "run `rustup component add rustfmt`, or install your system's package `rustfmt`",
    "clippy": "run `rustup component add clippy`, or install your system's package `rust-clippy`",
}
STDERR_LINES_KEPT = 60
CRATES = ("core", "datasets", "examples", "nn", "pyo3", "transformers")
SETTINGS = tuple(f"profile.dev.package.candle-{crate}.opt-level=0" for crate in CRATES)
UNOPTIMISED = tuple(word for setting in SETTINGS for word in ("--config", setting))
"""Arguments of cargo: Candle's crates are compiled without optimisation, what they depend on with a little.

candle-core takes 38 s of a core so, in place of 125, and its tests on the emulated device take as long as before. No
variable can say this (https://doc.rust-lang.org/cargo/reference/config.html#profilenamepackagename).
"""


@dataclass(frozen=True, slots=True)
class CargoRun:
    """One finished cargo process."""

    arguments: tuple[str, ...]
    returncode: int
    """cargo's own exit code; negative when a signal ended it."""
    diagnostics: tuple[Diagnostic, ...]
    """Each once, even where cargo compiles the same file for several targets."""
    complaint: str
    """What cargo itself wrote to stderr from its first `error:` on; empty when it only relayed rustc."""
    seconds: float
    log: Path
    timed_out: bool = False
    built: tuple[str, ...] = ()
    """The packages of which cargo made something, or had it ready."""
    binaries: tuple[TestBinary, ...] = ()
    """The test binaries among it."""
    pinned: tuple[Pinned, ...] = ()
    """The dependencies whose versions the specs name."""

    @property
    def ok(self) -> bool:
        """True when cargo ended by itself with exit code 0."""
        return self.returncode == 0 and not self.timed_out

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(one for one in self.diagnostics if one.is_error)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are warnings."""
        return tuple(one for one in self.diagnostics if one.level == "warning")


def cargo_environment(target_dir: Path, **extra: str) -> dict[str, str]:
    """Variables for every cargo run of ours: dependencies optimised a little, no debug info, one shared target folder.

    A cold check of candle-core and candle-nn takes 20-35 s and 370 MB on two cores; all releases share the folder.
    Without link-time optimisation among a crate's own units, candle-core's tests take a quarter less to build.
    """
    return {
        "CARGO_TARGET_DIR": str(target_dir.resolve()),
        "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
        "CARGO_PROFILE_DEV_DEBUG": "0",
        "CARGO_PROFILE_DEV_LTO": "off",
        "CARGO_TERM_COLOR": "never",
        "CARGO_TERM_PROGRESS_WHEN": "never",
        **extra,
    }


def write_settings(folder: Path) -> None:
    """Write `SETTINGS` where cargo finds them that a test in a tree below `folder` starts by itself.

    With others it would compile all of Candle once more. Raises InputOutputError when the file cannot be written.
    """
    file = folder / ".cargo" / "config.toml"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{setting}\n" for setting in SETTINGS), encoding="utf-8")
    except OSError as error:
        raise InputOutputError(
            f"cannot write {file}: {error.strerror}", remedy="choose a writable folder with --work"
        ) from error


def require_programs(programs: Iterable[str], *, which: Callable[[str], str | None] = find_program) -> None:
    """Check that the programs are on PATH.

    Raises ToolchainMissing naming every missing one and how to install it.
    """
    missing = [program for program in programs if which(program) is None]
    if missing:
        raise ToolchainMissing(
            f"{_listed(missing)} not found on PATH",
            remedy="; ".join(INSTALL.get(program, f"install `{program}`") for program in missing),
        )


def run_cargo(
    root: Path,
    arguments: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    on_message: Callable[[str], None] = lambda _line: None,
    timeout: float | None = None,
) -> CargoRun:
    """Run `cargo ARGUMENTS` in `root` and return what it said.

    `environment` is laid over the process's own; `on_message` receives short progress lines such as
    "checking candle-core 0.11.1"; `log` gets everything, rustc's messages in their readable form. On Ctrl-C, or after
    `timeout` seconds, cargo and everything it started are ended.

    Raises ToolchainMissing when cargo or the subcommand is not installed, InputOutputError when the log cannot be
    written.
    """
    require_programs(["cargo"])
    command = ["cargo", arguments[0], "--message-format=json", *UNOPTIMISED, *arguments[1:]]
    started = time.monotonic()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = log.open("w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InputOutputError(
            f"cannot write the log {log}: {error.strerror}", remedy="choose a writable folder with --work"
        ) from error
    with stream:
        stream.write(f"$ cargo {' '.join(arguments)}\n")
        transcript = _Transcript(str(root), stream, on_message)
        ended = run_watched(
            command,
            cwd=root,
            environment={**inherited(), **environment},
            on_stdout=transcript.stdout,
            on_stderr=transcript.stderr,
            watch=lambda: "took too long" if timeout is not None and time.monotonic() > started + timeout else None,
        )
    run = transcript.result(arguments, ended, log)
    _refuse_missing_component(run)
    return run


class _Transcript:
    """Collects what one cargo process says, while writing the log."""

    def __init__(self, root: str, log: IO[str], on_message: Callable[[str], None]) -> None:
        self._root = root
        self._log = log
        self._on_message = on_message
        self._diagnostics: dict[tuple[object, ...], Diagnostic] = {}
        self._built: dict[str, None] = {}
        self._binaries: list[TestBinary] = []
        self._complaint: list[str] = []

    def stdout(self, line: str) -> None:
        message = _json_object(line)
        if message is None:
            self._write(line)
        elif message.get("reason") == "compiler-message":
            self._compiler_message(message)
        elif message.get("reason") == "compiler-artifact":
            self._artifact(message)

    def stderr(self, line: str) -> None:
        self._write(line)
        if self._complaint or line.startswith("error"):
            if len(self._complaint) < STDERR_LINES_KEPT:
                self._complaint.append(line)
        elif (status := STATUS.match(line)) is not None:
            self._on_message(progress_line(status[1], status[2]))

    def _compiler_message(self, message: Mapping[str, object]) -> None:
        inner = message["message"]
        assert isinstance(inner, dict)
        diagnostic = read_diagnostic(inner, root=self._root)
        if diagnostic is None:
            return
        self._write(diagnostic.rendered)
        key = (diagnostic.level, diagnostic.code, diagnostic.message, diagnostic.span, diagnostic.expanded_from)
        self._diagnostics.setdefault(key, diagnostic)

    def _artifact(self, message: Mapping[str, Any]) -> None:
        package = _package(str(message["package_id"]))
        self._built[package] = None
        if message["executable"] is not None and message["profile"]["test"]:
            target, folder = message["target"], Path(message["manifest_path"]).parent
            binary = TestBinary(package, target["name"], target["kind"][0], Path(message["executable"]), folder)
            self._binaries.append(binary)

    def _write(self, text: str) -> None:
        self._log.write(text + "\n")

    def result(self, arguments: Sequence[str], ended: Ended, log: Path) -> CargoRun:
        return CargoRun(
            arguments=tuple(arguments),
            returncode=ended.returncode,
            diagnostics=tuple(self._diagnostics.values()),
            complaint="\n".join(self._complaint),
            seconds=ended.seconds,
            log=log,
            timed_out=ended.stopped is not None,
            built=tuple(self._built),
            binaries=tuple(sorted(self._binaries)),
        )


def _package(identifier: str) -> str:
    """The name in a package id, as `cargo help pkgid` describes it: behind `#`, or the last of the path before it."""
    source, _, fragment = identifier.rpartition("#")
    name = fragment.partition("@")[0]
    return name if "@" in fragment or not source else source.rpartition("/")[2]


def progress_line(verb: str, rest: str) -> str:
    """cargo's status line in lower case and without paths: "checking candle-core 0.11.1"."""
    words = re.sub(r" \([^()]*\)", "", rest)
    words = re.sub(r" v(?=\d)", " ", words)
    return f"{verb.lower()} {words}"


def _json_object(text: str) -> dict[str, object] | None:
    if not text.startswith('{"'):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "reason" in value else None


def _refuse_missing_component(run: CargoRun) -> None:
    found = NOT_INSTALLED.search(run.complaint) if run.returncode else None
    if found is not None:
        name = found["command"] or found["component"]
        raise ToolchainMissing(f"cargo has no subcommand `{name}`", remedy=INSTALL.get(name, f"install `cargo-{name}`"))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
