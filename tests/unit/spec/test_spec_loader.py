"""Loading: valid specs with their places, and each way an entry can be wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from spec_repository import CANDLE, CORE, HEAD, Repository, check_rejected, check_valid

from codegen.errors import ExitCode, InputOutputError
from codegen.spec.kinds import SiteKind, Verb
from codegen.spec.loader import load_specs
from codegen.spec.model import PhaseSpec

if TYPE_CHECKING:
    from pathlib import Path


PHASE_KEYS = "known keys: " + ", ".join(PhaseSpec.model_fields)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def rule(text: str) -> str:
    """A phase file with one rule whose lines after the id are `text`."""
    lines = "".join(f"    {line}\n" for line in text.strip("\n").splitlines())
    return f"{HEAD}rules:\n  - id: core.a\n{lines}"


def test_valid_specs(repository: Repository) -> None:
    loaded = load_specs(repository.root)
    assert [phase.phase for phase in loaded.phases] == [0, 1]
    assert [crate.name for crate in loaded.candle.crates] == ["candle-core", "candle-nn", "candle-lab"]
    dispatch = loaded.phases[1].rules[0]
    assert (dispatch.id, dispatch.verb, dispatch.sites.kind) == ("core.dispatch", Verb.MIRROR, (SiteKind.MATCH,))
    assert loaded.phases[0].cargo.features[0].extra == {"candle-core": ("rocm-rs",)}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("core.dispatch", "specs/phases/1-core.yaml:6"),
        ("core.available", "specs/phases/1-core.yaml:9"),
        ("core.module", "specs/phases/1-core.yaml:15"),
        ("core.dummy", "specs/phases/1-core.yaml:19"),
        ("setup.bindings", "specs/phases/0-setup.yaml:6"),
        ("setup.feature", "specs/phases/0-setup.yaml:8"),
        ("foreign[0]", "specs/candle.yaml:12"),
        ("crates[1]", "specs/candle.yaml:6"),
    ],
)
def test_where_an_entry_begins(repository: Repository, name: str, place: str) -> None:
    assert load_specs(repository.root).where(name) == place


def test_where_of_an_unknown_id(repository: Repository) -> None:
    with pytest.raises(KeyError, match=r"core\.nothing"):
        load_specs(repository.root).where("core.nothing")


def test_phases_are_in_ascending_order_whatever_the_names(repository: Repository) -> None:
    repository.write("specs/phases/00-later.yaml", CORE.replace("phase: 1", "phase: 7").replace("core.", "late."))
    repository.remove("specs/phases/0-setup.yaml")
    messages = [problem.message for problem in repository.rejection().problems]
    assert "phase 7, but the file's name is '00-later.yaml'" in messages


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        pytest.param(HEAD + "‸tepmlates: []\n", ["unknown key 'tepmlates'; " + PHASE_KEYS], id="unknown-key"),
        pytest.param(rule("sites: {kind: fn}\nverb: mirror\n‸reasn: because it is so"),
            ["unknown key 'reasn'; did you mean 'reason'?"], id="unknown-key-in-rule"),
        pytest.param(rule("sites: {kind: fn, ‸itm: a}\nverb: mirror"),
            ["unknown key 'itm'; did you mean 'item'?"], id="unknown-key-in-selector"),
        pytest.param("‸phase: 1\nname: core\n", ["missing key 'summary'"], id="missing-key"),
        pytest.param(HEAD + "rules:\n  - ‸id: core.a\n    sites: {kind: fn}\n", ["missing key 'verb'"],
            id="missing-key-in-rule"),
        pytest.param("phase: 1\nname: ‸1\nsummary: s\n", ["expected text, got the number 1; quote it"],
            id="number-for-text"),
        pytest.param("phase: 1\nname: ‸true\nsummary: s\n", ["expected text, got true; quote it"],
            id="boolean-for-text"),
        pytest.param("phase: 1\n‸name:\nsummary: s\n", ["expected text, got nothing"], id="nothing-for-text"),
        pytest.param("phase: 1\nname: ‸[a]\nsummary: s\n", ["expected text, got a list"], id="list-for-text"),
        pytest.param("phase: 1\nname: core\nsummary:\n  ‸a: b\n", ["expected text, got a mapping"],
            id="mapping-for-text"),
        pytest.param(rule("sites: {kind: fn}\nverb: mirror\nsince: ‸0.9"),
            ["expected text, got the number 0.9; quote it"], id="number-for-version"),
        pytest.param("phase: ‸'1'\nname: core\nsummary: s\n",
            ["expected a whole number, got the text '1'; remove the quotes"], id="quoted-number"),
        pytest.param("phase: ‸one\nname: core\nsummary: s\n", ["expected a whole number, got the text 'one'"],
            id="text-for-number"),
        pytest.param("phase: ‸1.5\nname: core\nsummary: s\n", ["expected a whole number, got the number 1.5"],
            id="fraction"),
        pytest.param("phase: ‸true\nname: core\nsummary: s\n", ["expected a whole number, got true"],
            id="boolean-for-number"),
        pytest.param("‸phase:\nname: core\nsummary: s\n", ["expected a whole number, got nothing"],
            id="nothing-for-number"),
        pytest.param(HEAD + "applied: ‸yes\n", ["expected true or false, got the text 'yes'; write true"], id="yes"),
        pytest.param(HEAD + "applied: ‸off\n", ["expected true or false, got the text 'off'; write false"], id="off"),
        pytest.param(HEAD + "applied: ‸perhaps\n", ["expected true or false, got the text 'perhaps'"],
            id="text-for-boolean"),
        pytest.param(HEAD + "applied: ‸1\n", ["expected true or false, got the number 1"], id="number-for-boolean"),
        pytest.param(HEAD + "requires: ‸0\n", ["expected a list, got the number 0"], id="number-for-list"),
        pytest.param(HEAD + "rules: ‸{}\n", ["expected a list, got a mapping"], id="mapping-for-list"),
        pytest.param(HEAD + "rules:\n  - ‸core.a\n", ["expected a mapping, got the text 'core.a'"],
            id="text-for-mapping"),
        pytest.param("‸- a\n", ["expected a mapping, got a list"], id="list-for-file"),
        pytest.param(rule("sites: {path: ‸1}\nverb: mirror"),
            ["expected text or a list of texts, got the number 1; quote it"], id="number-for-one-or-more"),
        pytest.param(rule("sites: {path: [a, ‸1]}\nverb: mirror"),
            ["expected text, got the number 1; quote it"], id="number-in-list-of-texts"),
        pytest.param(rule("sites: {kind: ‸macth}\nverb: mirror"), [
            "the text 'macth' is not one of " + ", ".join(SiteKind) + "; did you mean 'match'?"], id="unknown-kind"),
        pytest.param(rule("sites: {kind: [fn, ‸zzz]}\nverb: mirror"), [
            "the text 'zzz' is not one of " + ", ".join(SiteKind)], id="unknown-kind-in-list"),
        pytest.param(rule("sites: {kind: fn}\nverb: ‸overide\nreason: because it is so"), [
            "the text 'overide' is not one of " + ", ".join(Verb) + "; did you mean 'override'?"], id="unknown-verb"),
        pytest.param(rule("sites: {kind: fn}\nverb: ‸[mirror]"), [
            "a list is not one of " + ", ".join(Verb)], id="list-for-verb"),
        pytest.param(rule("sites: {text: ‸'a('}\nverb: mirror"), [
            "'a(' is not a regular expression: missing ), unterminated subpattern at position 1"], id="bad-regex"),
        pytest.param(rule("sites: {kind: fn}\nverb: mirror\nsince: ‸1.x"), [
            "'1.x' is not a version such as 0.9.1 or 0.9.2-alpha.1"], id="bad-version"),
        pytest.param(rule("sites: {kind: fn}\nverb: leave\nreason: ‸short"), [
            "expected at least 10 characters, got the text 'short'"], id="short-reason"),
        pytest.param(HEAD + "rules:\n  - id: ‸Core\n    sites: {kind: fn}\n    verb: mirror\n", [
            "the text 'Core' is not an id such as core.dispatch (lower case, digits, '-', one dot)"], id="bad-id"),
        pytest.param(rule("sites: {kind: fn}\nverb: mirror\nreplace: {a: ‸1}"), [
            "expected text, got the number 1; quote it"], id="number-for-replacement"),
    ],
)  # fmt: skip
def test_wrong_entry(repository: Repository, text: str, messages: list[str]) -> None:
    check_rejected(repository, text, *messages)


@pytest.mark.parametrize(("phase", "message"), [(-1, "expected 0 or more"), (8, "expected 7 or less")])
def test_phase_out_of_range(repository: Repository, phase: int, message: str) -> None:
    repository.write(f"specs/phases/{phase}-more.yaml", f"phase: {phase}\nname: more\nsummary: s\n")
    assert f"{message}, got the number {phase}" in [problem.message for problem in repository.rejection().problems]


def test_control_characters_and_long_texts_are_shown_safely(repository: Repository) -> None:
    repository.write(
        "specs/phases/1-core.yaml", rule('sites: {kind: fn}\nverb: "\\e[31m' + "x" * 70 + '"').replace("‸", "")
    )

    error = repository.rejection()

    assert [problem.message for problem in error.problems] == [
        "the character U+001B has no place in a spec, nor has an escape for it",
        "the text '?[31m" + "x" * 55 + "…' is not one of " + ", ".join(Verb),
    ]
    assert "\x1b" not in str(error)


def test_all_errors_of_all_files_at_once_in_order(repository: Repository) -> None:
    repository.write("specs/candle.yaml", CANDLE + "foreigns: []\n")
    repository.write("specs/phases/0-setup.yaml", "phase: zero\nname: setup\n")
    repository.write("specs/phases/1-core.yaml", CORE + "requires: [0]\nfoo: 1\n")
    assert [str(problem).splitlines()[0] for problem in repository.rejection().problems] == [
        "specs/candle.yaml:14:1: unknown key 'foreigns'; did you mean 'foreign'?",
        "specs/phases/0-setup.yaml:1:1: missing key 'summary'",
        "specs/phases/0-setup.yaml:1:8: expected a whole number, got the text 'zero'",
        "specs/phases/1-core.yaml:22:1: the key 'requires' is already on line 4",
        "specs/phases/1-core.yaml:23:1: unknown key 'foo'; " + PHASE_KEYS,
    ]


def test_regular_expression_that_the_compiler_chokes_on_is_no_traceback(repository: Repository) -> None:
    repository.write("specs/phases/1-core.yaml", rule("sites: {text: 'a{99999999999999}'}\nverb: mirror"))
    (problem,) = repository.rejection().problems
    assert "the repetition number is too large" in problem.message
    assert problem.location is not None
    assert problem.location.file == "specs/phases/1-core.yaml"


def test_missing_candle_file(repository: Repository) -> None:
    repository.remove("specs/candle.yaml")
    assert [str(problem) for problem in repository.rejection().problems] == ["specs/candle.yaml does not exist"]


def test_no_phases(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.remove("specs/phases/0-setup.yaml")
    repository.remove("specs/phases/1-core.yaml")
    assert "specs/phases has no phase, such as 0-setup.yaml" in [str(p) for p in repository.rejection().problems]


def test_file_with_the_wrong_ending_is_not_skipped_in_silence(repository: Repository) -> None:
    repository.write("specs/phases/2-more.yml", "phase: 2\n")
    (problem,) = repository.rejection().problems
    assert str(problem) == "specs/phases/2-more.yml is not read: spec files end in .yaml"


def test_hidden_files_are_ignored(repository: Repository) -> None:
    repository.write("specs/phases/.1-core.yaml.swp", b"\xff")
    repository.write("specs/phases/.1-core.yaml", b"\xff")
    assert len(load_specs(repository.root).phases) == 2


@pytest.mark.skipif(os.name == "nt", reason="a folder opens differently there")
def test_file_that_cannot_be_read(repository: Repository) -> None:
    repository.remove("specs/phases/1-core.yaml")
    (repository.root / "specs/phases/1-core.yaml").mkdir()
    with pytest.raises(InputOutputError, match=r"cannot read specs/phases/1-core\.yaml: Is a directory") as caught:
        load_specs(repository.root)
    assert caught.value.exit_code is ExitCode.IO


def test_one_text_stands_for_a_list(repository: Repository) -> None:
    loaded = check_valid(repository, rule("sites: {path: a/*.rs, kind: [fn, fwd]}\nverb: mirror"))
    sites = loaded.phases[1].rules[0].sites
    assert (sites.path, sites.kind) == (("a/*.rs",), (SiteKind.FN, SiteKind.FWD))
