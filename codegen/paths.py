"""Where the specs, templates and sources that ship with candle-rocm are, and where what it makes of them goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from codegen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME_VARIABLE = "CANDLE_ROCM_HOME"
"""Environment variable that names another repository root."""

COMPILED = "__pycache__"
"""What Python, or pip when it installs a wheel, makes of sources: beside the sources of Python that ship, too."""

_PACKAGE = Path(__file__).resolve().parent
_SHIPPED = _PACKAGE / "shipped"
"""In a wheel, what a checkout has beside this package (hatch_build.py)."""
_OWN_ROOT = _SHIPPED if _SHIPPED.is_dir() else _PACKAGE.parent


def repository_root() -> Path:
    """The folder that holds `specs/`, `templates/` and `emulator/`: `$CANDLE_ROCM_HOME`, or what came along.

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


def is_checkout() -> bool:
    """Whether `repository_root` is a checkout, in which we may write, and not what a wheel holds."""
    return repository_root() != _SHIPPED


def checkout(what: str) -> Path:
    """`repository_root`, for what only makes sense in a checkout. Raises `UsageError` in an installed candle-rocm."""
    if not is_checkout():
        raise UsageError(f"{what}, and this candle-rocm was installed", remedy=f"set {HOME_VARIABLE} to a checkout")
    return repository_root()


def build_folder() -> Path:
    """Where libraries, code objects and unpacked packages go: `build/` of a checkout, else the user's cache."""
    return repository_root() / "build" if is_checkout() else default_cache() / "build"


def default_cache(environ: Mapping[str, str] | None = None) -> Path:
    """CANDLE_ROCM_FETCH_DIR, else `candle-rocm` in XDG_CACHE_HOME or `~/.cache`."""
    environ = os.environ if environ is None else environ
    if environ.get("CANDLE_ROCM_FETCH_DIR"):
        return Path(environ["CANDLE_ROCM_FETCH_DIR"]).expanduser()
    base = environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "candle-rocm"


def specs_dir() -> Path:
    """`specs/` of `repository_root`."""
    return repository_root() / "specs"


def templates_dir() -> Path:
    """`templates/` of `repository_root`."""
    return repository_root() / "templates"
