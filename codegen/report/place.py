"""`FILE:LINE` as a user writes it, and the file of the tree that it means."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.errors import UsageError
from codegen.paths import specs_dir, templates_dir

if TYPE_CHECKING:
    from collections.abc import Collection

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::\d+)?")


def is_place(text: str) -> bool:
    """Whether a text is `FILE:LINE`."""
    return _PLACE.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Place:
    """A file as written, and a line from 1."""

    file: str
    line: int

    @classmethod
    def parse(cls, text: str) -> Place:
        """Parse `FILE:LINE` or `FILE:LINE:COLUMN`. Raises `UsageError` for anything else."""
        match = _PLACE.fullmatch(text)
        if match is None or int(match["line"]) == 0:
            raise UsageError(
                f"'{text}' is not FILE:LINE", remedy="write it like candle-core/src/device.rs:10; lines count from 1"
            )
        return cls(match["file"], int(match["line"]))

    def in_sources(self) -> str | None:
        """`templates/...` or `specs/...`, where the file is one of candle-rocm's; given as `in_tree` takes it."""
        written = Path(self.file.replace("\\", "/"))
        folders = {"templates": templates_dir().resolve(), "specs": specs_dir().resolve()}
        for base in (folders["templates"].parent, Path.cwd()):
            path = Path(os.path.normpath(base / written))
            for name, folder in folders.items():
                if path.is_relative_to(folder) and path.is_file():
                    return f"{name}/{path.relative_to(folder).as_posix()}"
        return None

    def in_tree(self, root: Path, known: Collection[str]) -> str:
        """The path, relative to the tree, of the one of the `known` files that is meant.

        The file may be given relative to the tree, relative to the current folder, or absolute. Raises `UsageError`
        naming similar files.
        """
        written = self.file.replace("\\", "/").removeprefix("./")
        if written in known:
            return written
        here = Path(self.file).absolute().resolve()
        base = root.absolute().resolve()
        if here.is_relative_to(base) and (inside := here.relative_to(base).as_posix()) in known:
            return inside
        raise UsageError(f"the tree has no file {self.file}", remedy=_similar(written, known))


def _similar(written: str, known: Collection[str]) -> str:
    ends = sorted(path for path in known if path.endswith(f"/{written}"))
    close = ends or difflib.get_close_matches(written, list(known), n=3)
    return f"did you mean {', '.join(close[:5])}?" if close else "name a file by its path in the tree"
