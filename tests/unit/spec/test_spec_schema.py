"""The JSON schemas agree with the loader."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from spec_repository import CANDLE, CORE, SETUP

from codegen.spec.schema import Kind, schema_text


def validator(kind: Kind) -> Draft202012Validator:
    schema = json.loads(schema_text(kind))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def parsed(text: str) -> Any:
    return yaml.safe_load(text)


@pytest.mark.parametrize("kind", Kind)
def test_text_is_the_same_every_time(kind: Kind) -> None:
    assert schema_text(kind) == schema_text(kind)
    assert schema_text(kind).endswith("}\n")


@pytest.mark.parametrize(("kind", "text"), [(Kind.CANDLE, CANDLE), (Kind.PHASE, SETUP), (Kind.PHASE, CORE)])
def test_valid_specs_are_valid(kind: Kind, text: str) -> None:
    assert list(validator(kind).iter_errors(parsed(text))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("verb: mirror", "verb: mirrored"),
        ("verb: mirror", "verp: mirror"),
        ("phase: 1", "phase: 9"),
        ("id: core.dispatch", "id: Core"),
        ("    verb: mirror\n", ""),
        ("kind: match", "kind: [match, 1]"),
    ],
)
def test_what_the_loader_refuses_is_refused(old: str, new: str) -> None:
    assert old in CORE
    assert list(validator(Kind.PHASE).iter_errors(parsed(CORE.replace(old, new))))


def test_one_text_may_stand_for_a_list_only_where_the_model_says_so() -> None:
    candle = json.loads(schema_text(Kind.CANDLE))
    assert [choice["type"] for choice in candle["$defs"]["Foreign"]["properties"]["path"]["anyOf"]] == [
        "string",
        "array",
    ]
    assert candle["properties"]["protected"]["type"] == "array"


def test_descriptions_come_from_the_model() -> None:
    phase = json.loads(schema_text(Kind.PHASE))
    assert phase["$defs"]["Rule"]["properties"]["template"]["description"].startswith("Below `templates/`")
    assert phase["properties"]["applied"]["description"].startswith("False while the phase")
