"""docs/use-in-your-program.md names every environment variable that a user can set, and none that nothing reads."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "use-in-your-program.md"
OURS = re.compile(r"\bCANDLE_ROCM_[A-Z]+(?:_[A-Z]+)*\b(?!_)")
SUFFIXES = {".rs", ".j2", ".py"}
INTERNAL = {
    "CANDLE_ROCM_ALONE": "a generated test asks itself whether it is the process that it started",
    "CANDLE_ROCM_PLANNER": "tests/mutants names the planner's library with mutants in it",
    "CANDLE_ROCM_PROCESS_TREE": "verify marks what it starts with it",
    "CANDLE_ROCM_WORK": "the tests' own work folder",
}


def read() -> set[str]:
    """The variables that our sources name."""
    found: set[str] = set()
    for folder in ("codegen", "templates", "emulator", "nvidia", "planner"):
        for path in (REPOSITORY / folder).rglob("*"):
            if path.suffix in SUFFIXES:
                found |= set(OURS.findall(path.read_text(encoding="utf-8")))
    return found


def test_the_table_has_every_variable_that_the_sources_read() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    known = read()

    assert len(known) > 20
    assert INTERNAL.keys() <= known
    assert {name for name in listed if name.startswith("CANDLE_ROCM_")} == known - INTERNAL.keys()


def test_variables_of_others_in_the_table_are_read_too() -> None:
    rows = re.findall(r"^\| (`.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    others = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row) if not name.startswith("CANDLE_ROCM_")}
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("codegen", "templates", "emulator")
        for path in sorted((REPOSITORY / folder).rglob("*"))
        if path.suffix in SUFFIXES
    )
    assert others == {
        "ROCM_PATH",
        "HIP_PATH",
        "ROCBLAS_USE_HIPBLASLT",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "SKIP_BINDGEN",
        "XDG_CACHE_HOME",
    }
    assert [name for name in sorted(others) if name not in sources] == []
