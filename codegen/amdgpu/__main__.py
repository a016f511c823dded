"""`python -m codegen.amdgpu FOLDER` writes the tables of all instruction sets there, as Rust."""

from __future__ import annotations

import sys
from pathlib import Path

from codegen.amdgpu.instruction_set import INSTRUCTION_SETS, load
from codegen.amdgpu.rust import rendered


def main() -> None:
    """Writes a file for each instruction set; one that is right is left alone, so that cargo builds nothing."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in INSTRUCTION_SETS:
        path, text = folder / f"{name}.rs", rendered(load(name))
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
