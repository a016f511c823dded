"""Files that are written with care for what cargo and earlier runs know of them."""

from __future__ import annotations

import os
from pathlib import Path

MUTATED = Path(__file__).parent / "mutated.rs"
"""What asks the environment which mutant is in force, for no mutants."""


def write_if_changed(path: Path, content: bytes) -> None:
    """Leaves a file alone that is as wanted, so that cargo does not compile it anew."""
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def linked(path: Path, link: Path) -> Path:
    """A second name of a file that cargo has made, and will replace rather than write into."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    os.link(path, link)
    return link
