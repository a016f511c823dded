"""Takes the place of clang in `kernels build`: compiles for the emulated device, by its hipRTC.

It is started in the folder of the sources with clang's words, and takes note of the source, the output and the
architecture.
"""

from __future__ import annotations

import sys
from pathlib import Path

from codegen.device.hip import compile_source
from codegen.device.libraries import find_libraries
from codegen.kernels.render import HEADERS


def main(words: list[str]) -> None:
    """Write the code object."""
    source = next(Path(word) for word in words if word.endswith(".hip"))
    headers = {path.as_posix(): path.read_text(encoding="utf-8") for path in Path(HEADERS).glob("*.h")}
    options = [word for word in words if word.startswith(("--offload-arch=", "-O", "-std="))]
    code = compile_source(find_libraries(), source.name, source.read_text(encoding="utf-8"), headers, options)
    Path(words[words.index("-o") + 1]).write_bytes(code)


if __name__ == "__main__":
    main(sys.argv[1:])
