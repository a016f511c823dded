"""A program that hands HIP sources to libhiprtc. Started by `hiprtc.py`, it may run under another C library.

So it uses nothing but the standard library, and is run as a file: `python -I -S hiprtc_program.py LIBRARY`. It reads
requests from standard input, one JSON object per line, and answers each with one line on standard output:

    {"name": "a.hip", "source": "...", "headers": {"x.h": "..."}, "options": ["-O3"], "code": "/path/to/write"}
    {"status": 0, "meaning": "HIPRTC_SUCCESS", "log": "", "seconds": 0.5}
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any


class HipRtcLibrary:
    """The functions of libhiprtc that compile (https://rocm.docs.amd.com/projects/HIP, "HIP RTC")."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.hiprtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile one request and write its code object if that succeeded."""
        started = time.monotonic()
        headers = [(text.encode(), name.encode()) for name, text in request["headers"].items()]
        texts = (ctypes.c_char_p * len(headers))(*(text for text, _ in headers))
        names = (ctypes.c_char_p * len(headers))(*(name for _, name in headers))
        program = ctypes.c_void_p()
        source, name = request["source"].encode(), request["name"].encode()
        created = self._library.hiprtcCreateProgram(ctypes.byref(program), source, name, len(headers), texts, names)
        if created != 0:
            return self._answer(created, "", started)
        try:
            options = [option.encode() for option in request["options"]]
            words = (ctypes.c_char_p * len(options))(*options)
            status = self._library.hiprtcCompileProgram(program, len(options), words)
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if status == 0:
                Path(request["code"]).write_bytes(self._bytes(program, "Code"))
            return self._answer(status, log, started)
        finally:
            self._library.hiprtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        """What hiprtcGet<what> gives, of the size that hiprtcGet<what>Size tells."""
        size = ctypes.c_size_t()
        self._require(getattr(self._library, f"hiprtcGet{what}Size")(program, ctypes.byref(size)))
        content = ctypes.create_string_buffer(max(size.value, 1))
        self._require(getattr(self._library, f"hiprtcGet{what}")(program, content))
        return content.raw[: size.value]

    def _require(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self._meaning(status))

    def _meaning(self, status: int) -> str:
        meaning = self._library.hiprtcGetErrorString(status)
        return meaning.decode() if isinstance(meaning, bytes) else str(status)

    def _answer(self, status: int, log: str, started: float) -> dict[str, Any]:
        return {"status": status, "meaning": self._meaning(status), "log": log, "seconds": time.monotonic() - started}


def main() -> None:
    """Answer requests until standard input ends."""
    library = HipRtcLibrary(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(library.compile(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
