"""The specs of this repository."""

from __future__ import annotations

from codegen.paths import repository_root
from codegen.spec.loader import load_specs


def test_own_specs_are_valid_and_describe_all_phases() -> None:
    loaded = load_specs(repository_root())
    assert [phase.phase for phase in loaded.phases] == list(range(8))


def test_every_id_has_a_place_in_a_spec_file() -> None:
    loaded = load_specs(repository_root())
    rules = [rule.id for phase in loaded.phases for rule in phase.rules]
    files = [file.id for phase in loaded.phases for file in phase.files]
    assert all(loaded.where(name).startswith("specs/phases/") for name in (*rules, *files))
