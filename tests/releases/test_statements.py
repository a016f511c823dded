"""Statements in functions that name no backend have their places in every release that they are for."""

from __future__ import annotations

import pytest

from codegen.candle.tree import open_tree
from codegen.release import in_range
from codegen.spec.loader import load_specs
from codegen.syntax.source import Source
from codegen.syntax.statements import statement_at, tail_digest

pytestmark = [pytest.mark.network]

RULES = [rule for phase in load_specs().phases for rule in phase.statements]


def test_every_statement_has_its_place(release: str) -> None:
    """And what follows is what it does the work of. A new text is to be read, and its digest to be listed then."""
    tree = open_tree(release)
    missing, found = [], 0
    for rule in RULES:
        for path in filter(tree.exists, rule.path) if in_range(release, rule.since, rule.until) else ():
            place = statement_at(Source.parse(path, tree.read(path)), rule.function, rule.before)
            if place is None:
                missing.append(f"{rule.id}: no such place in {path}")
            elif rule.tails and tail_digest(place) not in rule.tails:
                missing.append(f"{rule.id}: {path} has another text there, {tail_digest(place)}")
            else:
                found += 1
    print(f"{release}: {found} statements have their places")
    assert found > 0
    assert missing == []
