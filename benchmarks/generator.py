"""How long the generator takes on a real Candle release; run by `make bench`.

Goals (this class of machine, 2 cores): scan, plan and render of everything in 1.5 s, a second run with nothing changed
in 0.3 s, `--help` in 0.15 s.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7
COLD = ("plans", "specs", "templates")
"""What the cache folder has besides Candle's releases: none of it in a first run."""


def main() -> None:
    """Print a table of wall times (best and median of several processes) and the memory peak."""
    release = sys.argv[1] if len(sys.argv) > 1 else "0.11.1"
    program = Path(sys.executable).with_name("candle-rocm")
    subprocess.run([program, "fetch", release], check=True, stdout=subprocess.DEVNULL)
    _describe(release)
    with tempfile.TemporaryDirectory() as folder:
        out = ["--out", f"{folder}/out"]
        rows: list[tuple[str, float, list[str | Path], tuple[str, ...]]] = [
            ("first run (scan, plan, render, write)", 1.5, [program, "generate", release, *out], COLD),
            ("the same tree once more, specs known", 1.5, [program, "generate", release, *out], ("plans",)),
            ("second run, nothing changed", 0.3, [program, "generate", release, *out], ()),
            ("--help", 0.15, [program, "--help"], ()),
        ]
        # Afterwards the user's cache knows the specs, as all runs but the first row's expect.
        subprocess.run([program, "generate", release, *out], check=True, stdout=subprocess.DEVNULL)
        print(f"{'':40} {'goal s':>7} {'best s':>7} {'median':>7}")
        for title, goal, command, without in rows:
            times = [_time(command, Path(folder) / "cache", without=without) for _ in range(RUNS)]
            print(f"{title:40} {goal:7.2f} {min(times):7.2f} {statistics.median(times):7.2f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"memory peak of the largest process: {peak:.0f} MiB")


def _describe(release: str) -> None:
    from codegen.candle.tree import open_tree

    tree = open_tree(release)
    files = tree.rust_files()
    size = sum(len(tree.read(path)) for path in files)
    print(f"Candle {release}: {len(files)} Rust files, {size / 1e6:.1f} MB")


def _time(command: list[str | Path], cache: Path, *, without: tuple[str, ...]) -> float:
    """Wall seconds of one process, whose cache folder lacks these entries."""
    from codegen.paths import default_cache

    environment = dict(os.environ)
    if without:
        with tempfile.TemporaryDirectory(dir=cache.parent) as empty:
            (Path(empty) / "releases").parent.mkdir(exist_ok=True)
            for entry in default_cache().iterdir():
                if entry.name not in without:
                    (Path(empty) / entry.name).symlink_to(entry)
            environment["CANDLE_ROCM_FETCH_DIR"] = empty
            return _run(command, environment)
    return _run(command, environment)


def _run(command: list[str | Path], environment: dict[str, str]) -> float:
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every run compiles candle-rocm's own modules again
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
