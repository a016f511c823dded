"""The text of a new file or an override: a template that is rendered, or a plain source as it stands.

In a new file, a header that names the source stands before it.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError
from codegen.paths import templates_dir
from codegen.render.environment import render
from codegen.spec.folders import is_plain

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.render.backend import FileContext

HEADED = "rust/headed.j2"
"""The template of a plain source: the header, then the text as it is."""
HEADER_LINES = 2
"""What stands before a plain source: line N of the source is line N + HEADER_LINES of the file."""
COMMENT_MARKS = {".py": "#"}
"""By the file's suffix, where it is not `//`."""


def new_file(source: str, context: FileContext, *, root: Path | None = None) -> str:
    """The text that `source`, a path below `root` (`templates/`), gives a new file.

    Raises `TemplateInvalid` as `render`, and `InputOutputError` for a plain source that cannot be read.
    """
    root = root or templates_dir()
    if not is_plain(source):
        return render(source, context, root=root)
    text = _plain_text(source, root)
    mark = COMMENT_MARKS.get(PurePosixPath(source).suffix, "//")
    return render(HEADED, {"header": context.header, "mark": mark, "text": text}, root=root)


def override_text(source: str, context: object, *, root: Path | None = None) -> str:
    """The text that `source`, a path below `root` (`templates/`), gives a site. Raises as `new_file`."""
    root = root or templates_dir()
    return _plain_text(source, root) if is_plain(source) else render(source, context, root=root)


def _plain_text(source: str, root: Path) -> str:
    try:
        return (root / source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InputOutputError(
            f"cannot read templates/{source}: {reason}", remedy="restore it from candle-rocm's repository"
        ) from error
