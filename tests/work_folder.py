"""Where tests that build patched releases keep their scratch trees, logs and cargo's target folder."""

from __future__ import annotations

import os
from pathlib import Path

from codegen.paths import repository_root


def work_folder(name: str) -> Path:
    """A folder below build/ or below the folder that CANDLE_ROCM_WORK names, kept between runs.

    Two runs of cargo with one target folder wait for each other, so what runs side by side has two names.
    """
    folder = Path(os.environ.get("CANDLE_ROCM_WORK") or repository_root() / "build") / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
