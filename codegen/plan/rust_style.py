"""How a tree wants its Rust formatted: its edition, and those settings of its rustfmt.toml that format and no more."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from codegen.candle.cargo_shape import load_manifest
from codegen.candle.toml_text import decode, load
from codegen.errors import Location, NotACandleTree, Problem

if TYPE_CHECKING:
    from codegen.candle.tree import CandleTree

RUSTFMT_CONFIGS = ("rustfmt.toml", ".rustfmt.toml")
"""Where a tree keeps its formatting rules."""
EDITIONS = ("2015", "2018", "2021", "2024")
WIDEST = 1000
"""Columns; a million spaces for each tab fill the memory."""
_OTHER = frozenset({"ignore", "license_template_path", "required_version", "skip_children", "unstable_features"})
"""Settings that name files, or decide whether rustfmt does anything."""
_NAME = re.compile(r"[a-z_]{1,60}")
_CHOICE = re.compile(r"[A-Za-z0-9_]{1,40}")


def rust_edition(tree: CandleTree) -> str:
    """The Rust edition of the workspace, 2021 where it names none; formatting depends on it.

    Raises:
        NotACandleTree: it is none that there is.
    """
    file = "Cargo.toml"
    text = tree.read(file).decode()
    edition = load_manifest(text, file).get("workspace", {}).get("package", {}).get("edition", "2021")
    if edition not in EDITIONS:
        problem = Problem(f"`edition` is none of {', '.join(EDITIONS)}", Location(file, 1))
        raise NotACandleTree(problem, remedy="write the edition that the release has")
    return str(edition)


def rustfmt_settings(tree: CandleTree) -> bytes | None:
    """The text of a rustfmt.toml with the tree's own settings as far as they format; None where it has none.

    Raises:
        NotACandleTree: the tree's file is no TOML.
        InputOutputError: it cannot be read.
    """
    file = next((name for name in RUSTFMT_CONFIGS if tree.exists(name)), None)
    if file is None:
        return None
    settings = load(decode(tree.read(file), file), file)
    return "".join(
        f"{name} = {json.dumps(value)}\n" for name, value in settings.items() if _formats(name, value)
    ).encode()


def _formats(name: str, value: Any) -> bool:
    if _NAME.fullmatch(name) is None or name in _OTHER:
        return False
    if isinstance(value, str):
        return _CHOICE.fullmatch(value) is not None
    return isinstance(value, int) and 0 <= value <= WIDEST
