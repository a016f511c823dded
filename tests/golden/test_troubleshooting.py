"""docs/troubleshooting.md lists what the code says now."""

from __future__ import annotations

from codegen.paths import repository_root
from codegen.report.messages import page


def test_the_page_of_messages_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    file = repository_root() / "docs/troubleshooting.md"
    if update_goldens:
        file.write_text(page(), encoding="utf-8")

    assert file.read_text(encoding="utf-8") == page(), "run `make regen` and review the difference"
