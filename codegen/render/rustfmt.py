"""rustfmt over texts that need not lie in a tree."""

from __future__ import annotations

import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codegen import programs
from codegen.candle.cache import io_errors
from codegen.errors import QUOTED, InputOutputError, Location, Problem, TemplateInvalid, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from subprocess import Popen

REMEDY = "install it with `rustup component add rustfmt`"

RustText = tuple[str, str]
"""The path that messages name, and the text."""

_MODULE_FILE = re.compile(r"\bmod\s+(\w+)\s*;")
"""A module that has a file of its own."""
_LEADS_AWAY = (re.compile(r"\bmod\b"), re.compile(r"\bpath\b"))
"""Words without which no `#[path = "..."] mod b;` is written: rustfmt would format that file where it is."""
_LIMIT_SECONDS = 120.0


def format_rust(texts: Mapping[str, str], *, edition: str = "2021", config: bytes | None = None) -> dict[str, str]:
    """The texts as rustfmt would have them, by path. Raises as `rustfmt_beside`."""
    with rustfmt_beside(texts.items(), edition=edition, config=config) as result:
        return {path: formatted for (path, _), formatted in result().items()}


@contextmanager
def rustfmt_beside(
    texts: Iterable[RustText], *, edition: str = "2021", config: bytes | None = None
) -> Iterator[Callable[[], dict[RustText, str]]]:
    """rustfmt at work beside us; what this gives waits for the texts as rustfmt would have them.

    `config` is the text of the rustfmt.toml that counts, and no other does. Starting rustfmt takes longer than most
    files do, so one process formats all texts but those that may name files elsewhere. Those get a process each, which
    reads the text from its standard input and goes nowhere else; so do all where it refuses one or misses a module.

    Raises `ToolchainMissing` without rustfmt, and `TemplateInvalid` naming file and line for text that is not Rust.
    """
    texts = tuple(texts)
    if not texts:
        yield dict
        return
    program = programs.find("rustfmt")
    if program is None:
        raise ToolchainMissing("rustfmt is not installed", remedy=REMEDY)
    apart = {text for text in texts if all(word.search(text[1]) for word in _LEADS_AWAY)}
    together = [text for text in texts if text not in apart]
    with ExitStack() as stack:
        room = "free space for temporary files, or choose another folder with TMPDIR"
        with io_errors("handing texts to rustfmt", remedy=room):
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            files = [_lay_out(Path(scratch, str(number)), text) for number, (_, text) in enumerate(together)]
            settings = Path(scratch, "rustfmt.toml")
            settings.write_bytes(config or b"")
        # Without --config-path, a rustfmt.toml above a file or in the user's home would change the result.
        command = [program, "--edition", edition, "--quiet", "--config-path", str(settings)]
        process = stack.enter_context(_started([*command, *map(str, files)])) if files else None
        beside = ThreadPoolExecutor(1)
        stack.callback(beside.shutdown, cancel_futures=True)
        alone = {each: beside.submit(_format_alone, command, *each) for each in apart}

        def result() -> dict[RustText, str]:
            done = {each: formatted.result() for each, formatted in alone.items()}
            if process is not None and _ended(process) != 0:
                return done | {each: _format_alone(command, *each) for each in together}
            return done | {each: file.read_bytes().decode() for each, file in zip(together, files, strict=True)}

        yield result


def _lay_out(folder: Path, text: str) -> Path:
    """The text as a file, beside empty files for its modules, into which rustfmt goes on."""
    folder.mkdir()
    for module in _MODULE_FILE.findall(text):
        (folder / f"{module}.rs").touch()
    file = folder / "the text.rs"  # no name of a module
    file.write_bytes(text.encode())
    return file


def _format_alone(command: Sequence[str], path: str, text: str) -> str:
    """One text over standard input, from which rustfmt looks for no modules."""
    with _start_errors():
        done = programs.run([*command, "--emit", "stdout"], given=text, seconds=_LIMIT_SECONDS)
    if done.returncode != 0:
        raise _failure(path, text, programs.complains(done))
    return done.stdout.decode()


@contextmanager
def _started(command: Sequence[str]) -> Iterator[Popen[bytes]]:
    """The program at work; it is ended with the block, whether it has finished or not."""
    with _start_errors():
        process = programs.start(command)
    with process:
        try:
            yield process
        finally:
            process.kill()


def _ended(process: Popen[bytes]) -> int:
    with _start_errors():
        return process.wait(_LIMIT_SECONDS)


@contextmanager
def _start_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputOutputError(f"cannot run rustfmt: {error.strerror}", remedy=REMEDY) from error
    except programs.TookTooLong as error:
        raise programs.hangs("rustfmt", error) from error


def _failure(path: str, text: str, message: str) -> TemplateInvalid | ToolchainMissing:
    if "is not installed" in message or "not applicable" in message:
        return ToolchainMissing("rustfmt is not installed for this toolchain", remedy=REMEDY)
    first = next((line for line in message.splitlines() if line.startswith("error")), message.strip())
    place = re.search(r"<stdin>:(\d+):(\d+)", message)
    where = Location.in_text(path, text, int(place[1]), int(place[2])) if place else None
    return TemplateInvalid(
        Problem(f"rustfmt refuses the generated text: {first[:QUOTED]}", where), remedy="correct the template"
    )
