"""Which templates the specs use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spec_repository import Repository

from codegen.spec.loader import load_specs, template_names
from codegen.spec.usage import referenced_templates, unused_templates

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def unused(repository: Repository, *also: str) -> tuple[str, ...]:
    return unused_templates(load_specs(repository.root).specs, repository.root / "templates", also=also)


def test_all_used(repository: Repository) -> None:
    assert unused(repository) == ()
    assert referenced_templates(load_specs(repository.root).specs) == ("rust/available.rs",)


def test_template_that_nothing_names_is_unused(repository: Repository) -> None:
    repository.write("templates/rust/forgotten.rs", "")
    repository.write("templates/hip/forgotten.hip", "")
    assert unused(repository) == ("hip/forgotten.hip", "rust/forgotten.rs")
    assert unused(repository, "rust/forgotten.rs") == ("hip/forgotten.hip",)


def test_included_templates_are_used_at_any_depth(repository: Repository) -> None:
    repository.write("templates/rust/available.rs", '<% include "rust/a.rs" %>')
    repository.write("templates/rust/a.rs", "<%- from 'b.rs' import c -%> include rust/not_quoted.rs")
    repository.write("templates/b.rs", '<% extends "rust/a.rs" %><% import "gone.rs" as gone %>')
    repository.write("templates/rust/not_quoted.rs", "")
    assert unused(repository) == ("rust/not_quoted.rs",)


def test_documentation_and_hidden_files_are_no_templates(repository: Repository) -> None:
    repository.write("templates/README.md", "")
    repository.write("templates/.cache/x.rs", "")
    repository.write("templates/candle/__pycache__/x.cpython-311.pyc", b"\xff")
    repository.write("templates/rust/.x.rs.swp", b"\xff")
    assert unused(repository) == ()


def test_names_are_sorted_with_forward_slashes(repository: Repository) -> None:
    repository.write("templates/hip/deep/x.hip", "")
    repository.write("templates/a.rs", "")
    assert template_names(repository.root / "templates") == ("a.rs", "hip/deep/x.hip", "rust/available.rs")
    assert template_names(repository.root / "nowhere") == ()
