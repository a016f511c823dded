"""Build scripts that call nvcc."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.constructs import name_of
from codegen.syntax.edit import TextEdit, indent_at
from codegen.syntax.source import cfg_predicate, text_of

if TYPE_CHECKING:
    from codegen.syntax.source import Source

_NVCC = re.compile(rb"\bnvcc\b|bindgen_cuda|cudaforge|\bcudart\b|cuda_builder|\.cuda\(true\)|CUDA_PATH|CUDA_HOME")
_ASKS = re.compile(rb'CARGO_FEATURE_CUDA|feature\s*=\s*"cuda"')


def names_nvcc(source: Source) -> int | None:
    """The line of a build script that shows that it compiles for CUDA; None where none does."""
    found = _NVCC.search(source.text)
    return None if found is None else source.line_of(found.start())


def guarded_build(source: Source) -> TextEdit | None:
    """What ends a build script at once where the feature `cuda` is off; None where it asks for the feature itself."""
    if _ASKS.search(source.text):
        return None
    for node in source.root.children:
        if node.type != "function_item" or name_of(node) != "main" or cfg_predicate(node):
            continue
        body = node.child_by_field_name("body")
        if body is None or not body.named_children:
            return None
        result = node.child_by_field_name("return_type")
        answer = "return;" if result is None else "return Ok(());"
        if result is not None and "Result" not in text_of(result):
            return None
        first = body.named_children[0]
        indent = indent_at(source, first.start_byte)
        guard = f'if std::env::var_os("CARGO_FEATURE_CUDA").is_none() {{\n{indent}    {answer}\n{indent}}}\n{indent}'
        return TextEdit(first.start_byte, first.start_byte, guard)
    return None
