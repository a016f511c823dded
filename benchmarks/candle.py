"""Candle's own benchmarks, patched, on the CPU and on the emulated HIP device; the second half of `make bench`.

For sanity only: it shows which of them run on ROCm, and that none takes absurdly long. The emulated device computes on
the CPU, with code that was compiled to find errors, so its times say nothing about a GPU.

    python -m benchmarks.candle [RELEASE [GROUP...]]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codegen.verify.cargo import CargoRun
    from codegen.verify.scratch import ScratchTree

CRATES = ("candle-core", "candle-nn")
MAIN = "{crate}/benches/bench_main.rs"
CHOSEN = "CANDLE_ROCM_BENCHMARKS"
"""Names the group that our bench_main.rs runs."""
ONE_GROUP = """\
mod benchmarks;

/// One group, so that another that panics does not keep it from running.
fn main() {{
    match std::env::var("{chosen}").as_deref() {{
{arms}
        other => panic!("no such group: {{other:?}}"),
    }}
    criterion::Criterion::default().configure_from_args().final_summary();
}}
"""
QUICKLY = ("--quick", "--noplot", "--measurement-time", "0.3", "--nresamples", "1000")
"""criterion's options: two to three measurements of each."""
PATIENCE = 300.0
"""Seconds for one group on one device."""
DISCLAIMER = """\
Both columns were measured on this machine's CPU, in a build that is hardly optimised: the emulated device is there to
find errors, and its times say nothing about a GPU. docs/performance.md has times of a GPU."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two devices that are compared."""

    title: str
    prefix: str
    """What Candle's benchmarks put before their names on it."""
    features: tuple[str, ...]


CPU = Side("CPU", "cpu_", ())
EMULATED = Side("emulated", "rocm_", ("rocm",))


@dataclass(frozen=True, slots=True)
class Failure:
    """A group of benchmarks that ended early on a device; what it had measured by then counts."""

    group: str
    side: str
    reason: str


Times = dict[str, dict[str, float]]
"""Seconds of each benchmark, by its group and its name."""


def main() -> None:
    """Run the groups on both devices and print the table."""
    from codegen.errors import CandleRocmError

    release = sys.argv[1] if len(sys.argv) > 1 else "0.11.1"
    try:
        cpu, emulated, failures = compare(release, sys.argv[2:])
    except CandleRocmError as error:
        sys.exit(str(error))
    print(f"Candle {release}, its own benchmarks")
    print(table(cpu, emulated, failures))


def compare(release: str, wanted: Sequence[str]) -> tuple[Times, Times, list[Failure]]:
    """Times on the CPU and on the emulated device, and the groups that ended early; `wanted` names groups."""
    from codegen.paths import default_cache
    from codegen.rocm.workspaces import EMULATED_DEVICE
    from codegen.verify.hip_libraries import prepare_libraries
    from codegen.verify.scratch import ScratchTree

    folder = default_cache() / "benchmarks"
    logs = folder / "logs" / release
    scratch = ScratchTree(folder / "trees" / release, folder / "target")
    emulator = prepare_libraries(EMULATED_DEVICE, variables=os.environ, log=logs / "emulator.log", on_message=_note)
    with scratch.exclusive(_note):
        groups = _patch(scratch, release)
        chosen = [(crate, group) for crate, names in groups.items() for group in names if not wanted or group in wanted]
        cpu, cpu_failures = _measured(scratch, chosen, CPU, {}, logs)
        emulated, failures = _measured(scratch, chosen, EMULATED, emulator, logs)
    return cpu, emulated, [*cpu_failures, *failures]


def _patch(scratch: ScratchTree, release: str) -> dict[str, tuple[str, ...]]:
    """Lay the patched release out, with a bench_main.rs of our own in each crate; returns the crates' groups."""
    from benchmarks.patched import patched

    tree, subject = patched(release)
    files = {crate: MAIN.format(crate=crate) for crate in CRATES}
    groups = {crate: groups_of(tree.read(file).decode()) for crate, file in files.items()}
    mains = {files[crate]: one_group(names).encode() for crate, names in groups.items()}
    scratch.sync(subject.root, {**subject.patched, **mains})
    return groups


def _measured(
    scratch: ScratchTree, groups: Iterable[tuple[str, str]], side: Side, variables: Mapping[str, str], logs: Path
) -> tuple[Times, list[Failure]]:
    times, failures = {}, []
    for crate, group in groups:
        _note(f"{side.title}: {crate} {group}")
        results = logs / side.title / group
        shutil.rmtree(results, ignore_errors=True)
        run = _run(scratch, crate, group, side, {**variables, "CRITERION_HOME": str(results)}, logs)
        if not run.ok:
            failures.append(Failure(group, side.title, why(run)))
        times[group] = read_times(results, side.prefix)
    return times, failures


def _run(
    scratch: ScratchTree, crate: str, group: str, side: Side, variables: Mapping[str, str], logs: Path
) -> CargoRun:
    from codegen.verify.cargo import cargo_environment, run_cargo

    features = ("--features", ",".join(side.features)) if side.features else ()
    return run_cargo(
        scratch.root,
        ("bench", "-p", crate, "--bench", "bench_main", "--profile", "dev", *features, "--", *QUICKLY),
        log=logs / f"{group}-{side.title}.log",
        environment=cargo_environment(scratch.target_dir, **variables, **{CHOSEN: group}),
        timeout=PATIENCE,
    )


def groups_of(bench_main: str) -> tuple[str, ...]:
    """The groups that a bench_main.rs hands to criterion_main!, in order."""
    return tuple(re.findall(r"\bbenchmarks::(\w+)::benches\b", bench_main))


def one_group(groups: Iterable[str]) -> str:
    """A bench_main.rs that runs the group which the environment names."""
    arms = "\n".join(f'        Ok("{group}") => benchmarks::{group}::benches(),' for group in groups)
    return ONE_GROUP.format(chosen=CHOSEN, arms=arms)


def why(run: CargoRun) -> str:
    """The reason why a group ended: what it panicked with, or what cargo says."""
    if run.timed_out:
        return f"not done after {PATIENCE:.0f} s"
    lines = run.log.read_text("utf-8").splitlines()
    panics = [at for at, line in enumerate(lines) if " panicked at " in line]
    if panics and panics[0] + 1 < len(lines):
        return lines[panics[0] + 1]
    return next(iter(run.complaint.splitlines()), f"cargo ended with {run.returncode}")


def read_times(folder: Path, prefix: str) -> dict[str, float]:
    """Seconds of each benchmark, from criterion's estimates below `folder`, of those whose names begin with `prefix`.

    The slope over the counts of iterations where criterion made one, else the mean.
    """
    times = {}
    for file in sorted(folder.glob("**/new/estimates.json")):
        name = file.parent.parent.relative_to(folder).as_posix().removesuffix("/iter")
        if name.startswith(prefix):
            estimates = json.loads(file.read_text("utf-8"))
            typical = estimates.get("slope") or estimates["mean"]
            times[name.removeprefix(prefix)] = typical["point_estimate"] / 1e9
    return times


def table(cpu: Times, emulated: Times, failures: Sequence[Failure]) -> str:
    """One line for each benchmark that ran on either side, the groups that ended early, and what it all means.

    `none` stands where a group has no such benchmark on a side, such as one of a function that only the CPU has.
    """
    failed = {(each.side, each.group) for each in failures}

    def cell(side: Side, times: Times, group: str, name: str) -> str:
        seconds = times.get(group, {}).get(name)
        if seconds is not None:
            return duration(seconds)
        return "failed" if (side.title, group) in failed else "none"

    rows = [("", CPU.title, EMULATED.title)]
    for group in dict.fromkeys((*cpu, *emulated)):
        names = sorted({*cpu.get(group, ()), *emulated.get(group, ())}) or [group]
        rows += [(name, cell(CPU, cpu, group, name), cell(EMULATED, emulated, group, name)) for name in names]
    width = max(len(name) for name, _, _ in rows)
    lines = [f"{name:{width}} {left:>10} {right:>10}" for name, left, right in rows]
    lines += [f"{each.group} failed ({each.side}): {each.reason}" for each in failures]
    return "\n".join([*lines, "", DISCLAIMER])


def duration(seconds: float) -> str:
    """Three digits with a unit."""
    scale, unit = next(((s, u) for s, u in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")) if seconds < s), (1000.0, "s"))
    return f"{seconds / scale * 1000:.3g} {unit}"


def _note(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
