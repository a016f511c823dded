"""specs/providers.yaml: complete for the operations that the backend has, and refused where it contradicts itself."""

from __future__ import annotations

import pytest

from codegen.errors import SpecInvalid
from codegen.paths import repository_root
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits
from codegen.spec.hip_api import HIP_API, parse_hip_api
from codegen.spec.providers import PROVIDERS, Providers, parse_providers

VALID = """\
providers:
  own: {name: own kernels, reason: made for this purpose}
  fast: {name: Fast, library: fast, feature: with-fast, reason: faster than anything else}
  old: {name: Old, used: false, reason: nobody could use it}
operations:
  - trait: BackendStorage
    methods: [affine]
    by: [own]
    optional: [fast]
    reason: because we can do it
"""


def own() -> Providers:
    return parse_providers((repository_root() / PROVIDERS).read_bytes())


TRAITS = parse_backend_traits((repository_root() / BACKEND_TRAITS).read_bytes()).traits


@pytest.mark.parametrize("trait", sorted(TRAITS))
def test_every_operation_that_the_backend_computes_has_a_provider(trait: str) -> None:
    assert sorted(own().methods(trait)) == sorted(TRAITS[trait].operations) != []


def test_libraries_are_those_of_the_api_table() -> None:
    libraries = {library.name for library in parse_hip_api((repository_root() / HIP_API).read_bytes()).api.libraries}
    named = {provider.library for provider in own().providers.values() if provider.library}
    assert named <= libraries


def test_methods_and_names() -> None:
    spec = parse_providers(VALID.encode())
    assert spec.methods("BackendStorage") == ("affine",)
    assert spec.methods("BackendDevice") == ()
    assert spec.names(("fast", "own")) == "Fast, own kernels"


@pytest.mark.parametrize(
    ("before", "after", "message", "line"),
    [
        ("by: [own]", "by: [slow]", "there is no provider 'slow'", 6),
        ("by: [own]", "by: [old]", "provider 'old' is not used, as its own entry says", 6),
        ("by: [own]", "by: [fast]", "provider 'fast' is there only with the feature with-fast", 6),
        ("optional: [fast]", "optional: [own]", "provider 'own' has no feature, so it cannot be optional", 6),
        ("    optional: [fast]\n", "", "provider 'fast' computes nothing: say `used: false` and why", 3),
        ("methods: [affine]", "methods: [affine, affine]", "BackendStorage::affine is listed twice", 6),
        ("methods: [affine]", "methods: []", "", 7),
        ("reason: because we can do it", "reason: short", "expected at least 10 characters", 10),
        ("    methods:", "    method:", "unknown key 'method'", 7),
    ],
)
def test_contradictions_are_found_where_they_stand(before: str, after: str, message: str, line: int) -> None:
    assert VALID.count(before) == 1
    with pytest.raises(SpecInvalid) as raised:
        parse_providers(VALID.replace(before, after).encode())
    places = [(p.message, p.location.line) for p in raised.value.problems if p.location]
    assert any(message in text and at == line for text, at in places), places


def test_what_is_no_yaml_is_refused() -> None:
    with pytest.raises(SpecInvalid):
        parse_providers(b"providers: [")
