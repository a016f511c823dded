"""rustfmt over texts that need not lie in a tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.cache import io_errors
from codegen.errors import InputOutputError, Location, Problem, TemplateInvalid, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

REMEDY = "install it with `rustup component add rustfmt`"

RustText = tuple[str, str]
"""The path that messages name, and the text."""

_MODULE_FILE = re.compile(r"\bmod\s+(\w+)\s*;")
"""A module that has a file of its own."""


def format_rust(texts: Mapping[str, str], *, edition: str = "2021", config: Path | None = None) -> dict[str, str]:
    """The texts as rustfmt would have them, by path. Raises as `rustfmt_beside`."""
    with rustfmt_beside(texts.items(), edition=edition, config=config) as result:
        return {path: formatted for (path, _), formatted in result().items()}


@contextmanager
def rustfmt_beside(
    texts: Iterable[RustText], *, edition: str = "2021", config: Path | None = None
) -> Iterator[Callable[[], dict[RustText, str]]]:
    """rustfmt at work beside us; what this gives waits for the texts as rustfmt would have them.

    `config` is the rustfmt.toml that counts, and no other does. Starting rustfmt takes longer than most files do, so
    one process formats all texts. Where it refuses one, and where it looks for a module that we did not foresee, each
    gets a process of its own.

    Raises `ToolchainMissing` without rustfmt, and `TemplateInvalid` naming file and line for text that is not Rust.
    """
    texts = tuple(texts)
    if not texts:
        yield dict
        return
    program = shutil.which("rustfmt")
    if program is None:
        raise ToolchainMissing("rustfmt is not installed", remedy=REMEDY)
    # Without --config-path, a rustfmt.toml above the working directory or in the user's home would change the result.
    command = [program, "--edition", edition, "--quiet", "--config-path", str(config or os.devnull)]
    with ExitStack() as stack:
        room = "make room where temporary files lie, or choose another folder with TMPDIR"
        with io_errors("handing texts to rustfmt", remedy=room):
            scratch = stack.enter_context(tempfile.TemporaryDirectory())
            files = [_lay_out(Path(scratch, str(number)), text) for number, (_, text) in enumerate(texts)]
        with _start_errors():
            nothing = subprocess.DEVNULL
            process = stack.enter_context(
                subprocess.Popen([*command, *map(str, files)], stdin=nothing, stdout=nothing, stderr=nothing)
            )
        stack.callback(process.kill)

        def result() -> dict[RustText, str]:
            if process.wait() != 0:
                return {each: _format_alone(command, *each) for each in texts}
            return {each: file.read_bytes().decode() for each, file in zip(texts, files, strict=True)}

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
        done = subprocess.run([*command, "--emit", "stdout"], input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise _failure(path, text, done.stderr.decode(errors="replace"))
    return done.stdout.decode()


@contextmanager
def _start_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputOutputError(f"cannot run rustfmt: {error.strerror}", remedy=REMEDY) from error


def _failure(path: str, text: str, message: str) -> TemplateInvalid | ToolchainMissing:
    if "is not installed" in message or "not applicable" in message:
        return ToolchainMissing("rustfmt is not installed for this toolchain", remedy=REMEDY)
    first = next((line for line in message.splitlines() if line.startswith("error")), message.strip())
    place = re.search(r"<stdin>:(\d+):(\d+)", message)
    where = Location.in_text(path, text, int(place[1]), int(place[2])) if place else None
    return TemplateInvalid(
        Problem(f"rustfmt refuses the generated text: {first}", where), remedy="correct the template"
    )
