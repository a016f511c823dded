"""Where the specs and templates that ship with candle-rocm are."""

from __future__ import annotations

import os
from pathlib import Path

from codegen.errors import UsageError

HOME_VARIABLE = "CANDLE_ROCM_HOME"
"""Environment variable that names another repository root."""

_OWN_ROOT = Path(__file__).resolve().parent.parent


def repository_root() -> Path:
    """The folder that holds `specs/` and `templates/`: `$CANDLE_ROCM_HOME`, or the one this package lies in.

    Raises `UsageError` if that folder has no `specs/`.
    """
    named = os.environ.get(HOME_VARIABLE)
    root = Path(named) if named else _OWN_ROOT
    if not (root / "specs").is_dir():
        raise UsageError(
            f"{root} has no folder 'specs'" + (f" ({HOME_VARIABLE} names it)" if named else ""),
            remedy=f"set {HOME_VARIABLE} to a checkout of candle-rocm",
        )
    return root


def specs_dir() -> Path:
    """`specs/` of `repository_root`."""
    return repository_root() / "specs"


def templates_dir() -> Path:
    """`templates/` of `repository_root`."""
    return repository_root() / "templates"
