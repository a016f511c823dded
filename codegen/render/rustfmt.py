"""rustfmt over standard input, several files at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError, Location, Problem, TemplateInvalid, ToolchainMissing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

REMEDY = "install it with `rustup component add rustfmt`"


def format_rust(texts: Mapping[str, str], *, edition: str = "2021", config: Path | None = None) -> dict[str, str]:
    """The texts as rustfmt would have them, by path; `config` is the rustfmt.toml that counts, and no other does.

    Raises `ToolchainMissing` without rustfmt, and `TemplateInvalid` naming file and line for text that is not Rust.
    """
    if not texts:
        return {}
    program = shutil.which("rustfmt")
    if program is None:
        raise ToolchainMissing("rustfmt is not installed", remedy=REMEDY)
    from concurrent.futures import ThreadPoolExecutor

    # Without --config-path, a rustfmt.toml above the working directory or in the user's home would change the result.
    command = [program, "--edition", edition, "--quiet", "--emit", "stdout", "--config-path", str(config or os.devnull)]

    def run(item: tuple[str, str]) -> tuple[str, str]:
        path, text = item
        try:
            done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        except OSError as error:
            raise InputOutputError(f"cannot run rustfmt: {error.strerror}", remedy=REMEDY) from error
        if done.returncode != 0:
            raise _failure(path, text, done.stderr.decode(errors="replace"))
        return path, done.stdout.decode()

    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(pool.map(run, texts.items()))


def _failure(path: str, text: str, message: str) -> TemplateInvalid | ToolchainMissing:
    if "is not installed" in message or "not applicable" in message:
        return ToolchainMissing("rustfmt is not installed for this toolchain", remedy=REMEDY)
    first = next((line for line in message.splitlines() if line.startswith("error")), message.strip())
    place = re.search(r"<stdin>:(\d+):(\d+)", message)
    where = Location.in_text(path, text, int(place[1]), int(place[2])) if place else None
    return TemplateInvalid(
        Problem(f"rustfmt refuses the generated text: {first}", where), remedy="correct the template"
    )
