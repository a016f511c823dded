"""A library in place of CUDA's driver: it writes down each call, and answers as a test wants."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.paths import repository_root
from hip_on_nvidia.libraries import run_with

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = "nvidia/cuda/src/lib.rs"
ENTERING = ("cuInit", "cuDeviceGetCount", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent")
"""What the first call of a thread makes besides its own."""

START = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Writes a call and the first arguments down; FAKE_DRIVER_FAILS is a function's name, FAKE_DRIVER_CODE what it returns.
static unsigned called(const char *name, unsigned long a, unsigned long b, unsigned long c) {
  std::FILE *calls = std::fopen(std::getenv("FAKE_DRIVER_CALLS"), "a");
  std::fprintf(calls, "%s %lu %lu %lu\n", name, a, b, c);
  std::fclose(calls);
  const char *fails = std::getenv("FAKE_DRIVER_FAILS");
  return fails && !std::strcmp(fails, name) ? std::atoi(std::getenv("FAKE_DRIVER_CODE")) : 0;
}

extern "C" unsigned cuDeviceGetCount(int *count) {
  *count = 1;
  return called("cuDeviceGetCount", 0, 0, 0);
}
"""
FUNCTION = """
extern "C" unsigned {0}(unsigned long a, unsigned long b, unsigned long c) {{ return called("{0}", a, b, c); }}
"""


@dataclass(frozen=True, slots=True)
class FakeDriver:
    """A folder with libcuda.so.1, which finds itself one device."""

    folder: Path

    @classmethod
    def build(cls, folder: Path) -> FakeDriver:
        """With every function that HIP on NVIDIA opens."""
        declared = (repository_root() / DECLARED).read_text(encoding="utf-8")
        names = sorted({*re.findall(r': "(cu[A-Z]\w+)" \(', declared)} - {"cuDeviceGetCount"})
        assert len(names) > 40
        source = folder / "driver.cpp"
        source.write_text(START + "".join(map(FUNCTION.format, names)), encoding="utf-8")
        command = ["g++", "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(source)]
        subprocess.run(command, check=True)
        return cls(folder)

    def calls_of(self, program: str, *, fails: str = "", code: int = 0) -> tuple[list[list[str]], list[str]]:
        """The driver's calls that a program makes, with their first three arguments, and what it prints."""
        calls = self.folder / "calls"
        calls.unlink(missing_ok=True)
        done = run_with(
            "amdhip64",
            program,
            LD_LIBRARY_PATH=str(self.folder),
            FAKE_DRIVER_CALLS=str(calls),
            FAKE_DRIVER_FAILS=fails,
            FAKE_DRIVER_CODE=str(code),
        )
        lines = [line.split() for line in calls.read_text(encoding="utf-8").splitlines()] if calls.exists() else []
        return [line for line in lines if line[0] not in ENTERING], done.stdout.split()
