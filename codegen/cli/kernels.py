"""`candle-rocm kernels`: list, render and compile the HIP kernels, and show what they use of a GPU."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import click

from codegen import terminal
from codegen.cli import complete, options
from codegen.cli.options import as_json, note

if TYPE_CHECKING:
    from codegen.kernels.compile import CodeObject
    from codegen.kernels.loader import LoadedFamily
    from codegen.rocm.toolchain import Toolchain
    from codegen.watch import Verbosity

SCHEMA_VERSION = 1


@click.group("kernels")
def command() -> None:
    """List, render and compile the HIP kernels, and show the resources they use."""


@command.command("list")
@as_json
def list_ops(*, as_json: bool) -> None:
    """List every op with the element types of its kernels."""
    from codegen.kernels.coverage import table
    from codegen.kernels.dtypes import DTYPES
    from codegen.kernels.loader import load_families

    families = load_families()
    rows = table(families)
    if as_json:
        _print_json(
            "kernels list",
            dtypes=[t.name for t in DTYPES],
            ops=[
                {"family": row.family, "op": row.op, "kernels": row.kernels, "types": list(row.cells)} for row in rows
            ],
        )
        return
    width = max(len(row.op) for row in rows)
    for row in rows:
        types = [t.name for t, cell in zip(DTYPES, row.cells, strict=True) if cell in ("yes", "more")]
        terminal.say(f"{row.family:<10} {row.op:<{width}} {row.kernels:>4}  {' '.join(types)}")
    terminal.say(f"{len(families)} families, {len(rows)} ops, {sum(row.kernels for row in rows)} kernels")


@command.command("render")
@click.option(
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the sources instead of generated/kernels; docs/kernels.md is then not written.",
)
@as_json
def render(*, folder: Path | None, as_json: bool) -> None:
    """Write every kernel source and the table docs/kernels.md."""
    from codegen.kernels.outputs import rendered_files, write_files
    from codegen.paths import checkout

    root = folder or checkout("generated/kernels and docs/kernels.md are a checkout's; name a folder with --to")
    files = rendered_files()
    if folder is not None:
        files = {path.removeprefix("generated/kernels/"): text for path, text in files.items() if path.startswith("g")}
    changed = write_files(root, files)
    if as_json:
        _print_json("kernels render", files=sorted(files), changed=changed)
    else:
        terminal.say(f"{len(files)} files, {changed} changed")


_architectures = click.option(
    "--arch",
    "names",
    default="all",
    shell_complete=complete.architectures,
    help="Architectures, such as gfx906,gfx1100. Default: all supported ones.",
)


@command.command("build")
@_architectures
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), help="Output folder instead of build/kernels."
)
@options.quiet
@options.verbose
@as_json
def build(*, names: str, folder: Path | None, quiet: bool, verbose: bool, as_json: bool) -> None:
    """Compile every kernel to code objects, DIR/<arch>/<family>.hsaco, and check them against their specs.

    No kernel may spill or exceed its budget. Those that need dot or matrix instructions must have them where the
    architecture does; this takes llvm-objdump, and is left out without it.

    A patched Candle loads them if the environment variable CANDLE_ROCM_KERNELS_DIR names the folder.
    """
    import time

    from codegen.kernels.instructions import check_instructions, needing, read_instructions
    from codegen.kernels.resources import check_resources, read_resources

    started = time.monotonic()
    families, toolchain, objects = _compiled(names, folder, options.verbosity(quiet=quiet, verbose=verbose))
    found = read_resources(objects)
    check_resources(found, families)
    disassembler = _disassembler(toolchain)
    if disassembler is not None:
        of_them = needing(families)
        check_instructions(read_instructions([o for o in objects if o.family in of_them], disassembler), families)
    if as_json:
        rows = [
            {"architecture": each.architecture, "family": each.family, "path": str(each.path), "seconds": each.seconds}
            for each in objects
        ]
        checked = disassembler is not None
        _print_json("kernels build", kernels=len(found), instructions_checked=checked, code_objects=rows)
        return
    architectures = len({each.architecture for each in objects})
    terminal.say(
        f"{len(found)} kernels in {len(objects)} code objects for {architectures} architectures: "
        f"no spills, within their budgets, instructions {'as needed' if disassembler else 'not checked'} "
        f"({time.monotonic() - started:.0f} s)"
    )


@command.command("resources")
@_architectures
@click.option("--family", shell_complete=complete.families, help="Show only this family.")
@options.quiet
@options.verbose
@as_json
def resources(*, names: str, family: str | None, quiet: bool, verbose: bool, as_json: bool) -> None:
    """Show registers, LDS, spills and occupancy of every kernel on every architecture.

    Behind them come its dot and matrix instructions and how often its code has each.
    """
    from codegen.kernels.instructions import read_instructions
    from codegen.kernels.resources import read_resources

    _, toolchain, objects = _compiled(names, None, options.verbosity(quiet=quiet, verbose=verbose))
    shown = [each for each in objects if family in (None, each.family)]
    found = read_resources(shown)
    disassembler = _disassembler(toolchain)
    counts = {
        (each.architecture, symbol): count
        for each in (read_instructions(shown, disassembler) if disassembler else ())
        for symbol, count in each.kernels.items()
        if count
    }
    if as_json:
        rows = [
            {
                "family": each.family,
                "kernel": each.kernel.symbol,
                "architecture": each.architecture.name,
                "vgprs": each.vgprs,
                "sgprs": each.kernel.sgprs,
                "lds": each.kernel.lds,
                "spills": each.spills,
                "occupancy": each.occupancy,
                **(
                    {"instructions": dict(count)}
                    if (count := counts.get((each.architecture, each.kernel.symbol)))
                    else {}
                ),
            }
            for each in found
        ]
        _print_json("kernels resources", instructions_read=disassembler is not None, kernels=rows)
        return
    width = max((len(each.kernel.symbol) for each in found), default=6)
    last = "  dot and matrix instructions" if counts else ""
    terminal.say(f"{'kernel':<{width}}  arch      VGPRs  SGPRs    LDS  spills  waves/SIMD{last}")
    for each in found:
        count = counts.get((each.architecture, each.kernel.symbol), {})
        last = "".join(f"  {number} {name}" for name, number in count.items())
        terminal.say(
            f"{each.kernel.symbol:<{width}}  {each.architecture.name:<8}  {each.vgprs:>5}  {each.kernel.sgprs:>5}  "
            f"{each.kernel.lds:>5}  {each.spills:>6}  {each.occupancy:>10}{last}"
        )


def _disassembler(toolchain: Toolchain) -> Path | None:
    """llvm-objdump, or None after saying that instructions are not looked at."""
    from codegen.errors import ToolchainMissing
    from codegen.rocm.disassembler import find_disassembler

    try:
        return find_disassembler(toolchain)
    except ToolchainMissing as missing:
        note(f"dot and matrix instructions are not looked at: {missing}")
        return None


def _compiled(
    names: str, folder: Path | None, told: Verbosity
) -> tuple[tuple[LoadedFamily, ...], Toolchain, tuple[CodeObject, ...]]:
    """Code objects of all families for the named architectures, and what compiled them."""
    from codegen.kernels.architectures import parse_architectures
    from codegen.kernels.compile import compile_kernels
    from codegen.kernels.loader import load_families
    from codegen.kernels.render import render_sources
    from codegen.rocm.toolchain import find_toolchain
    from codegen.watch import watching

    families = load_families()
    chosen = [each.name for each in parse_architectures(names)]
    toolchain = find_toolchain()
    note(f"compiling with {toolchain}")
    turn = Lock()

    def tell(made: CodeObject) -> None:
        with turn:
            watch.ended(f"{made.family} for {made.architecture}", "compiled", made.seconds)

    with watching(len(families) * len(chosen), told) as watch:
        objects = compile_kernels(render_sources(families), chosen, toolchain, folder, progress=tell)
    return families, toolchain, objects


def _print_json(name: str, **content: object) -> None:
    import json

    terminal.say(json.dumps({"schema_version": SCHEMA_VERSION, "command": name, **content}, indent=2))
