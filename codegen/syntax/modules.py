"""Modules: where their files are, and declaring one that Candle does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.syntax.verbs import CannotMirror, TextEdit, insert_module

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from codegen.syntax.source import Source

_ROOTS = frozenset({"lib.rs", "main.rs", "mod.rs"})
_FOLDERS_OF_ROOTS = frozenset({"benches", "bin", "examples", "tests"})


def folder_of_modules(file: PurePosixPath) -> PurePosixPath:
    """Where the modules that a file declares have their files, if no attribute says otherwise."""
    is_root = file.name in _ROOTS or file.parent.name in _FOLDERS_OF_ROOTS
    return file.parent if is_root else file.with_suffix("")


def declare_module(source: Source, declaration: str) -> TextEdit:
    """Insert `declaration` (attributes and `mod name;`) where rustfmt would sort it among the file's modules.

    Raises `CannotMirror` for a file that declares no module in a file of its own.
    """
    for node in source.root.children:
        if node.type == "mod_item" and node.child_by_field_name("body") is None:
            return insert_module(source, node, declaration)
    raise CannotMirror("the file declares no modules to stand beside")
