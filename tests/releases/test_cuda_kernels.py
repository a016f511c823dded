"""The CUDA kernels that real Candle names for quantized tensors: each release has exactly those that were reviewed."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest
from in_process import REPOSITORY
from made_up import replace_in
from some import some

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode
from codegen.lint.repository import CUDA_KERNELS
from codegen.plan.cuda_kernels import QUANTIZED, KernelBook, kernels_named, may_name_kernels
from codegen.plan.decide import scan_tree
from codegen.plan.model import State
from codegen.spec.kinds import SiteKind
from codegen.spec.loader import load_specs
from codegen.syntax.source import Source
from releases.command_line import candle_rocm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codegen.candle.tree import CandleTree

pytestmark = [pytest.mark.network]

SPECS = load_specs()
TRIED = tuple(release.version for release in SPECS.candle.releases)
WITHOUT_ROCM = {crate.name for crate in SPECS.candle.crates if not crate.rocm}
BINDINGS = "candle-kernels/src/ffi.rs"
HEAD = (
    "# CUDA kernels that Candle names, and the first and the last release that does; `make regen` writes this list.\n"
)


class Named(NamedTuple):
    """What a release names."""

    tree: CandleTree
    kernels: Mapping[str, tuple[str, ...]]
    """The files that name each."""


def named_by(version: str) -> Named:
    tree = open_tree(version)
    found: dict[str, tuple[str, ...]] = {}
    for path in tree.rust_files():
        crate = tree.crate_of(path)
        text = tree.read(path)
        if (crate is None or crate.name not in WITHOUT_ROCM) and may_name_kernels(path, text):
            for symbol in kernels_named(Source.parse(path, text)):
                found[symbol.name] = (*found.get(symbol.name, ()), path)
    return Named(tree, found)


@pytest.fixture(scope="module")
def releases() -> tuple[Named, ...]:
    return tuple(map(named_by, TRIED))


def test_the_list_of_kernels_is_that_of_the_releases(releases: tuple[Named, ...], update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    lines = []
    for symbol in sorted({symbol for release in releases for symbol in release.kernels}):
        having = [release.tree.release for release in releases if symbol in release.kernels]
        first, last = TRIED.index(having[0]), TRIED.index(having[-1])
        assert having == list(TRIED[first : last + 1]), symbol
        lines.append(f"{symbol} {having[0]} {having[-1]}\n")
    golden = REPOSITORY / CUDA_KERNELS
    text = HEAD + "".join(lines)
    if update_goldens:
        golden.write_text(text, encoding="utf-8")

    assert len(lines) > 100
    assert golden.read_text(encoding="utf-8") == text, "run `make regen` and review the difference"


def test_every_kernel_is_accounted_for(releases: tuple[Named, ...]) -> None:
    book = KernelBook.of(SPECS.candle.cuda_kernels)
    for release in some(releases):
        assert "" not in release.kernels, release.tree.release
        assert [symbol for symbol in release.kernels if book.entry_of(symbol) is None] == [], release.tree.release


def test_every_name_of_the_specs_is_used_by_a_release(releases: tuple[Named, ...]) -> None:
    symbols = {symbol for release in releases for symbol in release.kernels}
    for entry in some(SPECS.candle.cuda_kernels):
        for name in entry.symbol:
            book = KernelBook.of([entry.model_copy(update={"symbol": (name,)})])
            assert any(book.entry_of(symbol) for symbol in symbols), name


def test_the_scan_reads_all_of_them_and_shows_those_that_are_left(releases: tuple[Named, ...]) -> None:
    book = KernelBook.of(SPECS.candle.cuda_kernels)
    for release in some(releases):
        scan = scan_tree(release.tree, SPECS)
        left = {d.site.name: d.reason for d in scan.decisions if d.site.kind == SiteKind.CUDA_KERNEL}
        wanted = {name: entry.reason for name in release.kernels if (entry := book.entry_of(name)) and entry.reason}
        print(f"{release.tree.release}: {scan.kernels} named, {sorted(left)} left")

        assert scan.kernels == sum(map(len, release.kernels.values()))
        assert left == wanted
        assert scan.of_state(State.UNKNOWN) == ()


def test_strings_that_look_like_kernels_are_those_that_were_found(releases: tuple[Named, ...]) -> None:
    """Another way to find them: words with an underscore in quotes, in the files that load kernels by name."""
    for release in some(releases):
        text = release.tree.read(f"{QUANTIZED}cuda.rs").decode()
        words = set(re.findall(r'"(\w+_\w+)"', text))
        print(f"{release.tree.release}: {len(words)} words")
        found = {symbol.rstrip("*") for symbol, paths in release.kernels.items() if f"{QUANTIZED}cuda.rs" in paths}

        assert len(words) > 50
        assert words == found


def test_functions_that_candle_kernels_declares_are_those_that_were_found(releases: tuple[Named, ...]) -> None:
    """Another way to find them: from the side of the C bindings."""
    with_bindings = [release for release in releases if release.tree.exists(BINDINGS)]
    assert len(with_bindings) > 3
    for release in some(with_bindings):
        declared = set(re.findall(r"\bfn (\w+)\(", release.tree.read(BINDINGS).decode()))
        loaded = {symbol for symbol, paths in release.kernels.items() if paths == (f"{QUANTIZED}cuda.rs",)}

        assert declared == release.kernels.keys() - loaded, release.tree.release


@pytest.mark.parametrize("version", TRIED)
def test_a_kernel_and_a_format_that_are_new_in_a_release(version: str, tmp_path: Path) -> None:
    folder = tmp_path / "candle"
    shutil.copytree(open_tree(version).root, folder, ignore=shutil.ignore_patterns("*.cu", "*.metal", "*.metallib"))
    replace_in(folder / f"{QUANTIZED}cuda.rs", '"dequantize_block_q8_K_f32"', '"dequantize_block_iq4_xs_f32"', count=1)
    replace_in(folder / f"{QUANTIZED}mod.rs", "    Q8K,\n}\n", "    Q8K,\n    IQ4XS,\n}\n", count=1)
    refused = candle_rocm("scan", str(folder))

    assert refused.code == ExitCode.UNKNOWN_SITE
    for file, text, reason in (
        ("cuda.rs", "dequantize_block_iq4_xs_f32", "names the CUDA kernel dequantize_block_iq4_xs_f32"),
        ("mod.rs", "IQ4XS", "specs/blocks.yaml has no format GgmlDType::IQ4XS"),
    ):
        line = (folder / QUANTIZED / file).read_text(encoding="utf-8").split(text)[0].count("\n") + 1
        assert re.search(rf"{re.escape(QUANTIZED + file)}:{line}:\d+: [^\n]*{re.escape(reason)}", refused.stderr), file
