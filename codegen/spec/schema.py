"""JSON schemas of the spec files, for editors that complete and check YAML."""

from __future__ import annotations

import ast
import inspect
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

from codegen.spec import model

if TYPE_CHECKING:
    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Kind(StrEnum):
    """Which file a schema describes."""

    CANDLE = "candle"
    PHASE = "phase"


def schema_text(kind: Kind) -> str:
    """The schema as JSON with sorted keys; the same text on every run."""
    root = model.CandleSpec if kind is Kind.CANDLE else model.PhaseSpec
    schema = root.model_json_schema(schema_generator=_Generator)
    documentation = _attribute_docstrings()
    for name, definition in (*schema.get("$defs", {}).items(), (root.__name__, schema)):
        for key, described in definition.get("properties", {}).items():
            if text := documentation.get((name, key)):
                described["description"] = text
    return json.dumps({"$schema": DIALECT, **schema}, indent=2, sort_keys=True) + "\n"


class _Generator(GenerateJsonSchema):
    """Knows that every validator of the model that runs before pydantic's own turns one text into a list of one."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> dict[str, Any]:
        several = super().function_before_schema(schema)
        return {"anyOf": [several["items"], several]} if several.get("type") == "array" else several


def _attribute_docstrings() -> dict[tuple[str, str], str]:
    """Class and attribute -> the string literal below the attribute, from the model's source."""
    found: dict[tuple[str, str], str] = {}
    for node in ast.parse(inspect.getsource(model)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for attribute, following in zip(node.body, node.body[1:], strict=False):
            match attribute, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.name, name] = inspect.cleandoc(text)
    return found
