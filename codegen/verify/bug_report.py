"""What a bug report holds: what this machine is, and what runs said last, without secrets and names of people."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

LINES = 400
"""Of the end of each log."""
LOGS = 12
"""The newest ones."""
TIME = (1980, 1, 1, 0, 0, 0)
"""Of each file in an archive, so that the same content is the same archive."""
VARIABLES = (
    *("CANDLE_ROCM_*", "CANDLE_*", "CARGO_*", "RUST*", "CC", "CXX", "CFLAGS", "CXXFLAGS", "MAKEFLAGS"),
    *("ROCM_*", "ROCR_*", "ROCBLAS_*", "MIOPEN_*", "HIP_*", "HSA_*", "GPU_*", "AMD_*", "CUDA_*", "NCCL_*", "RCCL_*"),
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON*", "PYO3_*", "SKIP_BINDGEN", "LIBCLANG_PATH", "BINDGEN_*"),
    *("LANG", "LC_ALL", "TERM", "NO_COLOR", "CLICOLOR_FORCE", "CI"),
)
"""Patterns of the variables that are named with their values; of no other is even the name given."""
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE|APIKEY|API_KEY|ACCESS_KEY", re.IGNORECASE)
"""In the name of a variable whose value is never given."""
HIDDEN = "[left out]"
_SECRETS = (
    re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"),
    re.compile(r"(?<=://)[^/\s:@]{12,}(?=@)"),
    re.compile(r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox[abp]-|AKIA|ASIA|cio)[A-Za-z0-9_-]{12,}"),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    re.compile(r"(?i)(?<=bearer )\S+|(?<=basic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?i)(?:(?<=token=)|(?<=password=)|(?<=secret=)|(?<=api_key=))(?!\[left)[^\s&\"']+"),
)
"""Forms of passwords and tokens: in URLs, of well-known services, of HTTP, and named as such."""


@dataclass
class Scrubber:
    """Takes names of people and machines, and secrets, out of texts, and counts them."""

    names: Mapping[str, str]
    """What stands for each name: `~` for the home folder, `USER` for the user."""
    counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text without them."""
        for pattern in _SECRETS:
            text, found = pattern.subn(HIDDEN, text)
            self._count("secrets", found)
        for name, instead in sorted(self.names.items(), key=lambda pair: -len(pair[0])):
            pattern = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])" if name[0].isalnum() else re.escape(name))
            text, found = pattern.subn(instead, text)
            self._count(instead, found)
        return text

    def _count(self, what: str, found: int) -> None:
        if found:
            self.counts[what] = self.counts.get(what, 0) + found


def names_here(*, home: str, user: str, host: str) -> dict[str, str]:
    """What to put in the place of this user's home folder and name, and of the machine's name."""
    found = {home.rstrip("/"): "~", user: "USER", host: "HOST", host.partition(".")[0]: "HOST"}
    return {name: instead for name, instead in found.items() if len(name) > 1 and name not in ("root", "localhost")}


def variables_text(variables: Mapping[str, str]) -> str:
    """Those that change what is built or run, a line each; a secret has its name alone."""
    lines = [
        f"{name}={HIDDEN if SECRET.search(name) else variables[name]}"
        for name in sorted(variables)
        if any(fnmatchcase(name, pattern) for pattern in VARIABLES)
    ]
    return "".join(f"{line}\n" for line in lines)


def logs_below(folder: Path) -> dict[str, str]:
    """The ends of the newest logs of `verify` in its work folder, by what they are called in an archive."""
    files = sorted(folder.glob("logs/**/*.log"), key=lambda file: file.stat().st_mtime, reverse=True)[:LOGS]
    return {f"{file.relative_to(folder).as_posix()}": _end_of(file) for file in sorted(files)}


def _end_of(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    cut = [f"... {len(lines) - LINES} lines before"] if len(lines) > LINES else []
    return "".join(f"{line}\n" for line in (*cut, *lines[-LINES:]))


def archive(files: Mapping[str, str]) -> bytes:
    """A zip archive with these texts; the same texts make the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            packed.writestr(entry, files[name])
    return stream.getvalue()


def listing(files: Mapping[str, str], counts: Mapping[str, int]) -> Iterable[str]:
    """What an archive of these texts holds, and what was taken out of them."""
    for name in sorted(files):
        yield f"{len(files[name].encode()):>9}  {name}"
    taken = ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))
    yield f"taken out: {taken or 'nothing'}"
