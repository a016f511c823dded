"""What a small operation costs the host in patched Candle, on this machine's device; `make bench-host`.

Builds candle-nn's example `rocm_overhead` with cargo's release profile, which takes minutes, and runs it. On the
emulated device "host" is what Candle and the backend take themselves, and "done" says nothing.

    python -m benchmarks.overhead [RELEASE [auto|amd|emulator|nvidia]]
"""

from __future__ import annotations

import sys

EXAMPLE = ("run", "--release", "-p", "candle-nn", "--features", "rocm", "--example", "rocm_overhead")
PATIENCE = 1800.0
"""Seconds for building and running it."""


def main() -> None:
    """Print the device, and what the example says."""
    from codegen.errors import CandleRocmError

    release = sys.argv[1] if len(sys.argv) > 1 else "0.11.1"
    target = sys.argv[2] if len(sys.argv) > 2 else "auto"
    try:
        label, table = measured(release, target)
    except CandleRocmError as error:
        sys.exit(str(error))
    print(f"Candle {release}, {label}")
    print(table, end="")


def measured(release: str, target: str) -> tuple[str, str]:
    """What the device is called, and the example's table.

    Raises ToolchainMissing without such a device, VerificationFailed if the example does not build or run.
    """
    from benchmarks.patched import patched
    from codegen.errors import ToolchainMissing, VerificationFailed
    from codegen.paths import default_cache
    from codegen.verify.cargo import cargo_environment, run_cargo
    from codegen.verify.hip_libraries import libraries_of
    from codegen.verify.machine import Machine
    from codegen.verify.scratch import ScratchTree
    from codegen.verify.steps import Target
    from codegen.verify.target import choose_device

    machine = Machine.here()
    device = choose_device(Target(target), machine)
    if device.label is None:
        raise ToolchainMissing(device.absence or "no device", remedy="see candle-rocm doctor")
    folder = default_cache() / "benchmarks"
    logs = folder / "logs" / release
    variables = libraries_of(device, machine, logs=logs, on_message=_note)
    scratch = ScratchTree(folder / "trees" / f"{release}-overhead", folder / "target")
    with scratch.exclusive(_note):
        _, subject = patched(release)
        scratch.sync(subject.root, subject.patched)
        _note("building candle-nn for release")
        environment = cargo_environment(scratch.target_dir, **variables)
        log = logs / "overhead.log"
        run = run_cargo(scratch.root, EXAMPLE, log=log, environment=environment, timeout=PATIENCE)
    if not run.ok:
        raise VerificationFailed(f"rocm_overhead: {run.complaint}", remedy=f"the whole output is in {log}")
    return device.label, table_of(log.read_text("utf-8"))


def table_of(output: str) -> str:
    """What the example prints, without what cargo says before it."""
    lines = output.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("microseconds"))
    return "".join(lines[first:])


def _note(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
