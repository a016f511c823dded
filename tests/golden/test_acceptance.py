"""docs/acceptance.md is what specs/acceptance.yaml, its record and its template render now."""

from __future__ import annotations

from codegen.paths import repository_root
from codegen.verify.acceptance import ACCEPTANCE, parse_acceptance
from codegen.verify.account import DOCUMENTED, document
from codegen.verify.record import RECORD, read_record


def test_the_table_of_what_was_asked_for_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    """The record itself is renewed by `make acceptance` only, from what was run."""
    root = repository_root()
    spec = parse_acceptance((root / ACCEPTANCE).read_bytes())
    wanted = document(spec, read_record(root))
    if update_goldens:
        (root / DOCUMENTED).write_text(wanted, encoding="utf-8")

    assert (root / DOCUMENTED).read_text(encoding="utf-8") == wanted, "run `make regen` and review the difference"


def test_the_record_is_as_it_is_written_and_names_nothing_else() -> None:
    root = repository_root()
    spec, record = parse_acceptance((root / ACCEPTANCE).read_bytes()), read_record(root)

    assert (root / RECORD).read_text(encoding="utf-8") == record.text, "run `make acceptance`"
    assert {run.step for run in record.steps} <= set(spec.steps)
    assert {run.file for run in record.files} <= set(spec.files)
