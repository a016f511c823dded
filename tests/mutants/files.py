"""Files that are kept between runs."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MUTATED = Path(__file__).parent / "mutated.rs"
"""What asks the environment which mutant is in force, for no mutants."""


def linked(path: Path, link: Path) -> Path:
    """A second name of a file that cargo has made, and will replace rather than write into."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    os.link(path, link)
    return link


def kept(path: Path, make: Callable[[], Any]) -> Any:
    """What a file of JSON says; made and written first if it is not there, or was cut off."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        write_json(path, make())
    return json.loads(path.read_text("utf-8"))


def write_json(path: Path, document: object) -> None:
    """Write a file of JSON, and the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def digest_of(files: Mapping[str, bytes | None], *words: str) -> str:
    """Of names and contents."""
    digest = hashlib.sha256("\n".join(words).encode())
    for path, content in sorted(files.items()):
        digest.update(f"{path} {hashlib.sha256(content or b'').hexdigest()}\n".encode())
    return digest.hexdigest()[:16]
