"""Whether a `cfg` predicate holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.syntax.test_items import split_at_commas

if TYPE_CHECKING:
    from collections.abc import Collection


def holds(predicate: str, options: Collection[str]) -> bool:
    """What rustc says to `predicate` when `options` are set.

    They are written as `rustc --print cfg` does: `unix`, `target_os="linux"`, `feature="rocm"`. What is not among them
    is off, as in rustc.
    """
    text = predicate.strip()
    name, bracket, rest = text.partition("(")
    if not bracket:
        return "".join(text.split()) in options or text == "true"
    parts = split_at_commas(rest[: rest.rindex(")")])
    match name.strip():
        case "all":
            return all(holds(part, options) for part in parts)
        case "any":
            return any(holds(part, options) for part in parts)
        case "not":
            return not any(holds(part, options) for part in parts)
    return False
