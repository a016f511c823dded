from __future__ import annotations

import tomllib
from typing import Any

from codegen.candle.workspace import root_manifest

INHERITED = {"workspace": True}


def workspace_of(originals: dict[str, Any], normalised: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    text, unresolved = root_manifest(originals, normalised)
    return tomllib.loads(text)["workspace"], unresolved


def test_members_are_the_crates_that_inherit_in_the_order_of_git() -> None:
    package = {"package": {"version": INHERITED}}
    own = {"package": {"version": "0.9.1"}}
    originals = {
        "candle-ug": package,
        "candle-kernels": own,
        "candle-nn": {"package": {}, "dependencies": {"half": INHERITED}},
        "candle-core": package,
        "candle-flash-attn": own,
    }
    workspace, _ = workspace_of(originals, dict.fromkeys(originals, own))
    assert workspace["members"] == ["candle-core", "candle-nn", "candle-ug"]
    assert workspace["exclude"] == ["candle-flash-attn", "candle-kernels"]


def test_features_of_the_workspace_are_those_no_member_added() -> None:
    originals = {
        "candle-core": {"dependencies": {"half": {**INHERITED, "features": ["a"]}}},
        "candle-nn": {"dev-dependencies": {"half": {**INHERITED, "features": ["b"]}}},
    }
    normalised = {
        "candle-core": {"dependencies": {"half": {"version": "2", "features": ["w", "a"]}}},
        "candle-nn": {"dev-dependencies": {"half": {"version": "2", "features": ["w", "a", "b"]}}},
    }
    workspace, _ = workspace_of(originals, normalised)
    assert workspace["dependencies"] == {"half": {"version": "2", "features": ["a", "w"]}}


def test_default_features_that_a_member_switched_off_itself_are_its_own() -> None:
    switched_off = {"version": "1", "default-features": False}
    originals = {"candle-core": {"dependencies": {"zip": {**INHERITED, "default-features": False}, "image": INHERITED}}}
    normalised = {"candle-core": {"dependencies": {"zip": switched_off, "image": switched_off}}}
    workspace, _ = workspace_of(originals, normalised)
    assert workspace["dependencies"] == {"image": {"version": "1", "default-features": False}, "zip": "1"}


def test_dependency_found_in_another_section_of_the_published_manifest() -> None:
    originals = {"candle-core": {"target": {"cfg( unix )": {"dependencies": {"libc": INHERITED}}}}}
    normalised = {"candle-core": {"target": {"cfg(unix)": {"dependencies": {"libc": "0.2"}}}}}
    workspace, unresolved = workspace_of(originals, normalised)
    assert workspace["dependencies"] == {"libc": "0.2"}
    assert unresolved == ()


def test_dependency_that_was_not_published_is_said_to_be_unresolved() -> None:
    originals = {"candle-core": {"dev-dependencies": {"lost": INHERITED, "candle-core": INHERITED}}}
    workspace, unresolved = workspace_of(originals, {"candle-core": {}})
    assert workspace["dependencies"] == {"lost": "*", "candle-core": {"path": "./candle-core"}}
    assert unresolved == ("lost",)


def test_package_and_lints_come_from_the_published_manifests() -> None:
    originals = {
        "candle-core": {"package": {"edition": INHERITED, "name": "candle-core"}, "lints": INHERITED},
        "candle-nn": {"package": {"edition": INHERITED, "license": INHERITED, "keywords": INHERITED}},
    }
    normalised = {
        "candle-core": {"package": {"edition": "2021", "name": "x"}, "lints": {"clippy": {"all": "warn"}}},
        "candle-nn": {"package": {"edition": "2018", "license": "MIT", "keywords": ['a "b"', "ü"]}},
    }
    workspace, _ = workspace_of(originals, normalised)
    assert workspace["package"] == {"edition": "2021", "license": "MIT", "keywords": ['a "b"', "ü"]}
    assert workspace["lints"] == {"clippy": {"all": "warn"}}


def test_same_input_gives_the_same_text() -> None:
    originals: dict[str, Any] = {
        "candle-nn": {"dependencies": {"b": INHERITED, "a": INHERITED}},
        "candle-core": {"package": {}},
    }
    normalised: dict[str, Any] = {
        "candle-nn": {"dependencies": {"b": "1", "a": {"version": "2", "optional": True}}},
        "candle-core": {},
    }
    backwards = dict(reversed(originals.items()))
    assert root_manifest(originals, normalised) == root_manifest(backwards, normalised)
