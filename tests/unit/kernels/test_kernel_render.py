"""Rendered sources: shared headers, formatted families, and the spec's line behind each of their lines."""

from __future__ import annotations

import re

from some import some

from codegen.kernels.loader import load_families
from codegen.kernels.render import render_sources
from codegen.paths import templates_dir
from codegen.render.clang_format import format_hip


def test_every_kernel_is_defined_once_and_known_to_come_from_its_op() -> None:
    families = load_families()
    sources = render_sources(families)
    for loaded in some(families):
        source = sources.family(loaded.name)
        lines = source.text.splitlines()
        defined = {
            match[1]: number
            for number, line in enumerate(lines, 1)
            if (match := re.match(r"CANDLE_KERNEL\w*\([\w, ]+\)\s*(\w+)\(", line + [*lines, ""][number]))
        }
        assert set(defined) == {kernel.symbol for kernel in loaded.kernels}, loaded.name
        for kernel in loaded.kernels:
            origin = source.origin(defined[kernel.symbol])
            assert origin is not None, kernel.symbol
            assert (origin.file, origin.line) == (loaded.file, kernel.line), kernel.symbol


def test_nothing_of_the_marks_and_no_undefined_include_is_left() -> None:
    sources = render_sources()
    known = {source.path for source in sources.headers}
    for source in some(sources.all):
        assert "//@" not in source.text
        assert "«" not in source.text
        included = set(re.findall(r'#include "([^"]+)"', source.text))
        assert included <= known, source.path


def test_every_template_and_every_header_is_used() -> None:
    sources = render_sources()
    families = {f"{loaded.name}.hip.j2" for loaded in load_families()}
    assert {path.name for path in (templates_dir() / "hip").glob("*.hip.j2")} == families
    included = {name for source in sources.all for name in re.findall(r'#include "([^"]+)"', source.text)}
    assert included == {source.path for source in sources.headers}


def test_sources_are_as_clang_format_leaves_them() -> None:
    texts = {source.path: source.text for source in render_sources().all}
    assert format_hip(texts) == texts
