"""docs/providers.md is what specs/providers.yaml and its template render now."""

from __future__ import annotations

from codegen.paths import repository_root
from codegen.render.environment import render
from codegen.spec.providers import DOCUMENTED, PROVIDERS, parse_providers


def test_the_table_of_providers_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    root = repository_root()
    spec = parse_providers((root / PROVIDERS).read_bytes())
    wanted = render("docs/providers.md.j2", {"spec": spec})
    if update_goldens:
        (root / DOCUMENTED).write_text(wanted, encoding="utf-8")

    assert (root / DOCUMENTED).read_text(encoding="utf-8") == wanted, "run `make regen` and review the difference"
