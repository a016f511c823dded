"""rustfmt over texts that need not lie in a tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.candle.cache import io_errors
from codegen.errors import InputOutputError, Location, Problem, TemplateInvalid, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REMEDY = "install it with `rustup component add rustfmt`"
STDIN = "<stdin>"
"""What rustfmt calls its standard input."""

_MODULE_FILE = re.compile(r"\bmod\s+(r#)?\w+\s*;")
"""A module that has a file of its own."""
_ERROR = re.compile(r"^(?P<error>error.*)\n\s*--> (?P<file>.+):(?P<line>\d+):(?P<column>\d+)$", re.MULTILINE)


def format_rust(texts: Mapping[str, str], *, edition: str = "2021", config: Path | None = None) -> dict[str, str]:
    """The texts as rustfmt would have them, by path; `config` is the rustfmt.toml that counts, and no other does.

    Starting rustfmt takes longer than formatting most files, so one process formats many. From a file it goes on into
    the files of the file's modules, but not from standard input: texts that declare such modules are read from there.

    Raises `ToolchainMissing` without rustfmt, and `TemplateInvalid` naming file and line for text that is not Rust.
    """
    if not texts:
        return {}
    program = shutil.which("rustfmt")
    if program is None:
        raise ToolchainMissing("rustfmt is not installed", remedy=REMEDY)
    # Without --config-path, a rustfmt.toml above the working directory or in the user's home would change the result.
    command = [program, "--edition", edition, "--quiet", "--config-path", str(config or os.devnull)]
    roots = {path: text for path, text in texts.items() if _MODULE_FILE.search(text)}
    made = _format_files(command, {path: text for path, text in texts.items() if path not in roots})
    for path, text in roots.items():
        made[path] = _run([*command, "--emit", "stdout"], {STDIN: path}, texts, given=text)
    return made


def _format_files(command: Sequence[str], texts: Mapping[str, str]) -> dict[str, str]:
    """Texts without modules in other files, formatted by one process."""
    if not texts:
        return {}
    where = "make room where temporary files lie, or choose another folder with TMPDIR"
    with io_errors("handing texts to rustfmt", remedy=where), tempfile.TemporaryDirectory() as folder:
        files = {path: Path(folder) / f"{number}.rs" for number, path in enumerate(texts)}
        for path, file in files.items():
            file.write_bytes(texts[path].encode())
        _run([*command, *map(str, files.values())], {str(file): path for path, file in files.items()}, texts)
        return {path: file.read_bytes().decode() for path, file in files.items()}


def _run(command: Sequence[str], names: Mapping[str, str], texts: Mapping[str, str], given: str = "") -> str:
    """What the command prints; `names` are paths by what rustfmt calls their texts."""
    try:
        done = subprocess.run(command, input=given.encode(), capture_output=True, check=False)
    except OSError as error:
        raise InputOutputError(f"cannot run rustfmt: {error.strerror}", remedy=REMEDY) from error
    if done.returncode != 0:
        raise _failure(done.stderr.decode(errors="replace"), names, texts)
    return done.stdout.decode()


def _failure(message: str, names: Mapping[str, str], texts: Mapping[str, str]) -> TemplateInvalid | ToolchainMissing:
    if "is not installed" in message or "not applicable" in message:
        return ToolchainMissing("rustfmt is not installed for this toolchain", remedy=REMEDY)
    problems = []
    for found in _ERROR.finditer(message):
        path = names.get(found["file"])
        if path is not None:
            where = Location.in_text(path, texts[path], int(found["line"]), int(found["column"]))
            problems.append(Problem(f"rustfmt refuses the generated text: {found['error']}", where))
    if not problems:
        first = next((line for line in message.splitlines() if line.startswith("error")), message.strip())
        problems.append(Problem(f"rustfmt refuses the generated text: {first}"))
    return TemplateInvalid(problems, remedy="correct the template")
