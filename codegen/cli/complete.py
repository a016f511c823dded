"""What a shell offers for an argument when the user asks for it (`candle-rocm completion`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from codegen.errors import CandleRocmError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

Offered = list[CompletionItem]


def folders(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """Folders, which the shell itself finds."""
    return [CompletionItem(begun, type="dir")]


def releases(context: click.Context, parameter: click.Parameter, begun: str) -> Offered:
    """The tested releases; folders as soon as the word cannot be a version any more."""
    from codegen.cli.versions import known_releases

    if begun and not begun[0].isdigit():
        return folders(context, parameter, begun)
    try:
        return _beginning(known_releases(), begun)
    except CandleRocmError:  # specs that are being written
        return []


def steps(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """The steps of `verify`."""
    from codegen.verify.steps import STEPS

    return _beginning((step.id for step in STEPS), begun)


def crates(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """The crates that steps of `verify` are about."""
    from codegen.verify.steps import STEPS

    return _beginning(sorted({crate for step in STEPS for crate in step.crates}), begun)


def targets(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """What `verify --target` takes."""
    from codegen.amdgpu.topology import CARDS
    from codegen.verify.steps import Target

    return _beginning((*Target, *(f"{Target.MODEL}:{card}" for card in CARDS)), begun)


def rows(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """The families of the rows of `bench`: the first word of each name."""
    from codegen.bench.rows import rows as all_rows

    return _beginning(dict.fromkeys(row.name.split()[0] for row in all_rows()), begun)


def families(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """The families of kernels."""
    from codegen.kernels.loader import load_families

    try:
        return _beginning((loaded.name for loaded in load_families()), begun)
    except CandleRocmError:
        return []


def architectures(_context: click.Context, _parameter: click.Parameter, begun: str) -> Offered:
    """AMD's architectures, for the last name of a list with commas."""
    from codegen.kernels.architectures import ARCHITECTURES

    before, comma, last = begun.rpartition(",")
    return [CompletionItem(f"{before}{comma}{each.name}") for each in ARCHITECTURES if each.name.startswith(last)]


def _beginning(words: Iterable[str], begun: str) -> Offered:
    return [CompletionItem(word) for word in words if word.startswith(begun)]
