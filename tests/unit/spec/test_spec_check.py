"""What must hold between entries, and between the keys of one entry."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_repository import CANDLE, CORE, HEAD, SETUP, Repository, check_rejected, check_valid

from codegen.release import precedence

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def rule(text: str, sites: str = "{kind: fn}") -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f"{HEAD}requires: [0]\nrules:\n  - id: core.a\n    sites: {sites}\n{lines}"


def file(text: str) -> str:
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f"{HEAD}files:\n  - ‸id: core.f\n{lines}"


WRONG = [
    pytest.param(rule("verb: ‸override\nreason: because it is so"), ["verb 'override' needs a template"],
        id="override-without-template"),
    pytest.param(rule("verb: ‸override\ntemplate: rust/available.rs"), ["verb 'override' needs a reason"],
        id="override-without-reason"),
    pytest.param(rule("verb: ‸leave"), ["verb 'leave' needs a reason"], id="leave-without-reason"),
    pytest.param(rule("verb: mirror\n‸template: rust/available.rs"), ["verb 'mirror' takes no template"],
        id="template-with-mirror"),
    pytest.param(rule("verb: leave\nreason: because it is so\n‸template: rust/available.rs"),
        ["verb 'leave' takes no template"], id="template-with-leave"),
    pytest.param(rule("verb: leave\nreason: because it is so\n‸replace: {a: b}"),
        ["verb 'leave' mirrors no text that 'replace' could correct"], id="replace-with-leave"),
    pytest.param(rule("verb: mirror\nreplace: {‸'': b}"), ["an empty text cannot be replaced"], id="replace-empty"),
    pytest.param(rule("verb: override\nreason: because it is so\ntemplate: ‸rust/availabel.rs"),
        ["there is no template 'rust/availabel.rs' below templates/; did you mean 'rust/available.rs'?"],
        id="unknown-template"),
    pytest.param(rule("verb: override\nreason: because it is so\ntemplate: ‸zzz"),
        ["there is no template 'zzz' below templates/"], id="unknown-template-without-a-similar-one"),
    pytest.param(rule("verb: mirror\nsince: ‸0.9.2\nuntil: 0.9.2-alpha.1"),
        ["since 0.9.2 is later than until 0.9.2-alpha.1: no release is in between"], id="range"),
    pytest.param(rule("verb: mirror", sites="‸{}"), ["a selector without keys would select every site"],
        id="empty-selector"),
    pytest.param(rule("verb: mirror", sites="{crate: [candle-core, ‸candle-mm]}"),
        ["specs/candle.yaml lists no crate 'candle-mm'; did you mean 'candle-nn'?"], id="selector-crate"),
    pytest.param(rule("verb: mirror", sites="{crate: ‸zzz-*}"),
        ["specs/candle.yaml lists no crate 'zzz-*'; crates: candle-core, candle-lab, candle-nn"],
        id="selector-crate-glob"),
    pytest.param(rule("verb: mirror", sites="{enum: ‸Storag}"),
        ["specs/candle.yaml lists no backend enum 'Storag'; did you mean 'Storage'?"], id="selector-enum"),
    pytest.param(rule("verb: mirror\nlands_in: ‸1"), ["lands_in 1 is not earlier than the entry's own phase 1"],
        id="lands-late"),
    pytest.param(rule("verb: mirror\nlands_in: ‸4"), ["there is no phase 4; phases: 0, 1"], id="lands-nowhere"),
    pytest.param(HEAD + "requires: [0, ‸9]\n", ["there is no phase 9; phases: 0, 1"], id="requires-unknown"),
    pytest.param(HEAD + "requires: [‸1]\n", ["phase 1 can require earlier phases only, not 1"], id="requires-itself"),
    pytest.param(file("path: a.rs"), ["a file needs a 'template' or a 'mirror'"], id="file-from-nothing"),
    pytest.param(file("path: a.rs\ntemplate: rust/available.rs\n‸mirror: b.rs").replace("‸id", "id"),
        ["a file has a 'template' or a 'mirror', not both"], id="file-from-both"),
    pytest.param(file("path: ‸../a.rs\nmirror: ‸/b.rs").replace("‸id", "id"),
        ["'../a.rs' is not a path inside the Candle tree", "'/b.rs' is not a path inside the Candle tree"],
        id="file-outside"),
    pytest.param(file("path: ‸'a\\b.rs'\nmirror: ‸'C:/b.rs'").replace("‸id", "id"),
        ["'a\\b.rs' is not a path inside the Candle tree", "'C:/b.rs' is not a path inside the Candle tree"],
        id="file-windows"),
    pytest.param(file("path: ‸sub/.git/hooks/x\nmirror: ‸.candle-rocm/record.json").replace("‸id", "id"),
        ["'sub/.git/hooks/x' is not a path inside the Candle tree",
         "'.candle-rocm/record.json' is not a path inside the Candle tree"], id="file-guarded"),
    pytest.param(file("path: ‸a//b.rs\nmirror: ‸b/").replace("‸id", "id"),
        ["'a//b.rs' is not a path inside the Candle tree", "'b/' is not a path inside the Candle tree"],
        id="file-spelling"),
    pytest.param(HEAD + "copies:\n  - {id: core.copies, path: ‸../a, source: ‸/etc}\n",
        ["'../a' is not a path inside the Candle tree", "'/etc' is not a path inside candle-rocm's repository"],
        id="copy-outside"),
    pytest.param(file("path: a.rs\ntemplate: ‸rust/none.rs").replace("‸id", "id"),
        ["there is no template 'rust/none.rs' below templates/; did you mean 'rust/available.rs'?"],
        id="file-template"),
    pytest.param(CORE.replace("path: candle-core/src/lib.rs", "path: ‸/lib.rs"),
        ["'/lib.rs' is not a path inside the Candle tree"], id="module-path"),
    pytest.param(CORE.replace("path: candle-core/src/lib.rs", "path: a.rs\n    since: ‸0.9.2\n    until: 0.9.1"),
        ["since 0.9.2 is later than until 0.9.1: no release is in between"], id="module-range"),
    pytest.param(CORE.replace("core.module", "‸core.dispatch"),
        ["the id 'core.dispatch' is already used at specs/phases/1-core.yaml:6"], id="module-id"),
    pytest.param(CORE.replace("core.available", "‸core.dispatch"),
        ["the id 'core.dispatch' is already used at specs/phases/1-core.yaml:6"], id="id-twice"),
    pytest.param(CORE.replace("core.dummy", "‸setup.feature"),
        ["the id 'setup.feature' is already used at specs/phases/0-setup.yaml:8"], id="id-twice-across-files"),
    pytest.param(HEAD + "cargo:\n  targets:\n    - {id: core.t, crate: ‸candle, name: x, required_features: rocm}\n",
        ["specs/candle.yaml lists no crate 'candle'; did you mean 'candle-nn'?"], id="target-crate"),
    pytest.param(HEAD + "cargo:\n  features:\n    - {id: core.r, name: r, mirrors: c, extra: {‸zzz: a}}\n",
        ["specs/candle.yaml lists no crate 'zzz'; crates: candle-core, candle-lab, candle-nn"], id="feature-crate"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "messages"), WRONG)
def test_inconsistent_entry(repository: Repository, text: str, messages: list[str]) -> None:
    check_rejected(repository, text, *messages)


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("rules", "sites: {kind: fn, path: [a.rs, b.rs]}\n    verb: mirror"),
        ("files", "path: a.rs\n    template: rust/available.rs"),
    ],
)
def test_a_release_between_an_entry_and_the_next(repository: Repository, kind: str, subject: str) -> None:
    """0.9.2-alpha.1 is listed: 0.9.1 has a form of its own, and 0.9.2 the next."""
    entries = f"  - id: core.a\n    until: 0.9.1\n    {subject}\n  - id: core.b\n    since: ‸0.9.2\n    {subject}\n"
    text = f"{HEAD}{kind}:\n{entries}"
    what = subject.split(":", 1)[0]
    check_rejected(repository, text, f"0.9.2-alpha.1 is left out: an entry with the same {what} ends before it")
    check_valid(repository, text.replace("‸0.9.2", "0.9.2-alpha.1"))
    check_valid(repository, text.replace("until: 0.9.1", "until: 0.9.2-alpha.1").replace("‸", ""))
    check_valid(repository, text.replace("a.rs", "c.rs", 1).replace("‸", ""))
    check_valid(repository, f"{text}  - id: core.c\n    {subject}\n".replace("‸", ""))


def test_phase_described_twice(repository: Repository) -> None:
    check_rejected(
        repository,
        CORE.replace("phase: 1", "phase: ‸‸0").replace("requires: [0]", "requires: []"),
        "phase 0 is already described by specs/phases/0-setup.yaml",
        "phase 0, but the file's name is '1-core.yaml'",
    )


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param(CANDLE.replace("candle-nn", "‸candle-core"), ["'candle-core' is already listed on line 5"],
            id="crate-twice"),
        pytest.param(CANDLE.replace("0.9.2-alpha.1", "‸0.9.1"), ["'0.9.1' is already listed on line 2"],
            id="release-twice"),
        pytest.param(CANDLE.replace("name: Device", "name: ‸Storage"), ["'Storage' is already listed on line 9"],
            id="enum-twice"),
        pytest.param(CANDLE.replace("{name: candle-nn, rocm: true", "{name: candle-nn, rocm: ‸false"),
            ["a crate without ROCm needs a reason"], id="crate-without-reason"),
        pytest.param(CANDLE.replace("Device, crate: candle-core", "Device, crate: ‸candle-cor"),
            ["specs/candle.yaml lists no crate 'candle-cor'; did you mean 'candle-core'?"], id="enum-crate"),
        pytest.param(CANDLE.replace("Device, crate: candle-core, phase: 1", "Device, crate: candle-core, phase: ‸5"),
            ["there is no phase 5; phases: 0, 1"], id="enum-phase"),
    ],
)  # fmt: skip
def test_inconsistent_candle_file(repository: Repository, text: str, messages: list[str]) -> None:
    check_rejected(repository, text, *messages, file="specs/candle.yaml")


def test_same_enum_name_in_two_crates_is_no_duplicate(repository: Repository) -> None:
    text = CANDLE.replace("{name: Device, crate: candle-core", "{name: Storage, crate: candle-nn")
    check_valid(repository, text, file="specs/candle.yaml")


def test_phase_file_is_named_for_its_phase(repository: Repository) -> None:
    repository.remove("specs/phases/0-setup.yaml")
    check_rejected(
        repository,
        SETUP.replace("phase: 0", "phase: ‸0"),
        "phase 0, but the file's name is '3-setup.yaml'",
        file="specs/phases/3-setup.yaml",
    )


def test_override_of_a_phase_that_is_only_scanned_for_needs_no_template_yet(repository: Repository) -> None:
    text = rule("verb: override\nreason: because it is so")
    check_valid(repository, text.replace("rules:", "applied: false\nrules:"))


def test_fallback_rule_may_select_every_site(repository: Repository) -> None:
    check_valid(repository, rule("verb: mirror\nfallback: true", sites="{}"))


def test_reason_and_selector_globs_that_match_are_accepted(repository: Repository) -> None:
    check_valid(repository, rule("verb: mirror\nreason: because it is so", sites="{crate: candle-*, enum: [Dev*]}"))


def test_one_wrong_entry_does_not_hide_another(repository: Repository) -> None:
    text = f"""{HEAD}rules:
  - ‸id: core.a
    sites: {{kind: fn}}
    template: ‸nowhere
  - id: ‸core.a
    sites: {{}}
    verb: ‸7
  - id: core.b
    sites: ‸[]
    verb: ‸leave
"""
    check_rejected(
        repository,
        text.replace("sites: {}", "sites: ‸{}"),
        "missing key 'verb'",
        "there is no template 'nowhere' below templates/",
        "the id 'core.a' is already used at specs/phases/1-core.yaml:5",
        "a selector without keys would select every site",
        "the number 7 is not one of mirror, swap, foreign, or-in, chain, override, leave",
        "expected a mapping, got a list",
        "verb 'leave' needs a reason",
    )


def test_wrong_type_is_not_reported_as_missing_too(repository: Repository) -> None:
    text = rule("verb: override\nreason: ‸1\ntemplate: ‸2")
    check_rejected(
        repository,
        text,
        "expected text, got the number 1; quote it",
        "expected text, got the number 2; quote it",
    )


def test_broken_phase_file_is_no_unknown_phase_for_others(repository: Repository) -> None:
    repository.write("specs/phases/0-setup.yaml", "phase: [")
    (problem,) = repository.rejection().problems
    assert problem.message.startswith("not valid YAML")


def test_semver_example_is_in_order() -> None:
    """The example of semver.org, item 11."""
    ordered = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
               "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0"]  # fmt: skip
    keys = [precedence(version) for version in ordered]
    assert all(a < b for a, b in pairwise(keys))


@settings(deadline=None)
@given(st.tuples(*[st.integers(0, 10**8)] * 3), st.tuples(*[st.integers(0, 10**8)] * 3))
def test_release_order_is_number_order(a: tuple[int, int, int], b: tuple[int, int, int]) -> None:
    first, second = (precedence(".".join(map(str, version))) for version in (a, b))
    assert (first < second) == (a < b)
