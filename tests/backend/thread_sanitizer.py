"""`python -m backend.thread_sanitizer`: the probe program with Rust's ThreadSanitizer; run by `make tsan`.

The backend and everything below it in Rust is instrumented, the standard library too, which takes a nightly compiler
with rust-src. The emulated device's libraries are not: calls from inside them are left out, and what they do between
their own threads is not seen.
"""

from __future__ import annotations

import os
import subprocess
import sys

from work_folder import work_folder

from backend.conftest import PROBE_SOURCES, Program
from codegen.rocm.workspaces import EMULATED_DEVICE
from codegen.verify.hip_libraries import prepare_libraries
from codegen.verify.scratch import ScratchTree

TARGET = "x86_64-unknown-linux-gnu"
RUNS = (
    *(("stress", "8", "6", seed) for seed in ("1", "2", "3")),
    ("training", "20"),
    ("faults",),
)
DEVICES = "gfx1100,gfx90a,gfx1100"
LIBRARIES = ("libamdhip64.so", "libhiprtc.so", "librocblas.so")


def main() -> int:
    """Builds the program and runs it; 1 if a race was reported or a run failed."""
    work = work_folder("thread-sanitizer")
    emulator = prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=work / "emulator.log")
    probe = Program("candle-nn", "backend_probe", PROBE_SOURCES)
    scratch = ScratchTree(work / "tree", work / "target")
    with scratch.exclusive():
        probe.lay_out(scratch)
        flags = {"RUSTFLAGS": "-Zsanitizer=thread --cap-lints=warn", "CARGO_TARGET_DIR": str(scratch.target_dir)}
        build = ["build", "-Zbuild-std", "--target", TARGET, "-p", probe.crate, "--features", ",".join(probe.features)]
        command = ["cargo", "+nightly", *build, "--example", probe.name]
        subprocess.run(command, cwd=scratch.root, env={**os.environ, **emulator, **flags}, check=True)
    suppressions = work / "suppressions.txt"
    suppressions.write_text("".join(f"called_from_lib:{library}\n" for library in LIBRARIES), encoding="utf-8")
    environment = {
        **os.environ,
        **emulator,
        "CANDLE_ROCM_CACHE_DIR": str(work / "kernels"),
        "CANDLE_ROCM_EMULATOR_DEVICES": DEVICES,
        "TSAN_OPTIONS": f"suppressions={suppressions} exitcode=66",
    }
    program = scratch.target_dir / TARGET / "debug" / "examples" / probe.name
    failed = 0
    for run in RUNS:
        seed = {"CANDLE_ROCM_EMULATOR_SEED": run[-1]} if run[0] == "stress" else {}
        code = subprocess.run([program, *run], env={**environment, **seed}, check=False).returncode
        print(f"{' '.join(run)}: {'no race' if code == 0 else f'exit status {code}'}", flush=True)
        failed |= code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
