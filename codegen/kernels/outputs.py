"""The files that kernel specs make: sources and the backend's table below generated/kernels, and docs/kernels.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.kernels.coverage import table
from codegen.kernels.dtypes import DTYPES
from codegen.kernels.loader import load_families
from codegen.kernels.render import render_sources
from codegen.kernels.rust_table import KernelTable
from codegen.render.environment import render
from codegen.render.rustfmt import format_rust

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "generated/kernels"
"""Below the repository: what is reviewed, and what a patched Candle gets."""

RUST_FILES = {f"{FOLDER}/table.rs": "rust/kernel_table.rs.j2", f"{FOLDER}/sources.rs": "rust/kernel_sources.rs.j2"}
"""Which kernels there are, and their sources, for the backend: path and template."""

TABLE = "docs/kernels.md"


def rendered_files() -> dict[str, str]:
    """Text of every file, by path below the repository."""
    families = load_families()
    rows = table(families)
    context = {
        "dtypes": DTYPES,
        "families": [loaded.family for loaded in families],
        "kernels": sum(row.kernels for row in rows),
        "rows": rows,
    }
    sources = render_sources(families)
    files = {f"{FOLDER}/{source.path}": source.text for source in sources.all}
    headers = [source.path.rsplit("/", 1)[1] for source in sources.headers]
    rust = KernelTable.of(families, headers)
    unformatted = {path: render(template, {"table": rust}) for path, template in RUST_FILES.items()}
    files |= format_rust(unformatted, edition="2021", config=None)
    return {**files, TABLE: render("docs/kernels.md.j2", context)}


def committed_files(root: Path) -> set[str]:
    """Paths of what is there now, below `root`."""
    sources = {path.relative_to(root).as_posix() for path in (root / FOLDER).rglob("*") if path.is_file()}
    return sources | ({TABLE} if (root / TABLE).exists() else set())


def write_files(root: Path, files: Mapping[str, str]) -> int:
    """Writes what differs, takes away sources that are made no more, and returns how many files changed."""
    stale = committed_files(root) - set(files) if TABLE in files else set()
    for path in stale:
        (root / path).unlink()
    changed = len(stale)
    for path, text in files.items():
        target = root / path
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            changed += 1
    return changed
