"""docs/acceptance.md is what specs/acceptance.yaml and its template render now."""

from __future__ import annotations

from typing import get_args

from codegen.paths import repository_root
from codegen.render.environment import render
from codegen.verify.acceptance import ACCEPTANCE, DOCUMENTED, State, parse_acceptance


def test_the_table_of_what_was_asked_for_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    root = repository_root()
    spec = parse_acceptance((root / ACCEPTANCE).read_bytes())
    wanted = render("docs/acceptance.md.j2", {"spec": spec, "states": get_args(State)})
    if update_goldens:
        (root / DOCUMENTED).write_text(wanted, encoding="utf-8")

    assert (root / DOCUMENTED).read_text(encoding="utf-8") == wanted, "run `make regen` and review the difference"
