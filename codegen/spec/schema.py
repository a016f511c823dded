"""JSON schemas of the spec files, for editors that complete and check YAML."""

from __future__ import annotations

import ast
import inspect
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

from codegen.spec import model, tree_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Kind(StrEnum):
    """Which file a schema describes."""

    CANDLE = "candle"
    PHASE = "phase"
    TREE = "tree"
    """candle-rocm.yaml at the root of a tree."""


def schema_text(kind: Kind) -> str:
    """The schema as JSON with sorted keys; the same text on every run."""
    roots: dict[Kind, type[model.Model]] = {
        Kind.CANDLE: model.CandleSpec,
        Kind.PHASE: model.PhaseSpec,
        Kind.TREE: tree_model.TreeSpec,
    }
    root = roots[kind]
    schema = root.model_json_schema(schema_generator=_Generator)
    documentation = _attribute_docstrings()
    for name, definition in (*schema.get("$defs", {}).items(), (root.__name__, schema)):
        for key, described in definition.get("properties", {}).items():
            text = next((text for each in _ancestors(name) if (text := documentation.get((each, key)))), None)
            if text:
                described["description"] = text
    return json.dumps({"$schema": DIALECT, **schema}, indent=2, sort_keys=True) + "\n"


def _ancestors(name: str) -> Iterator[str]:
    """The model and those that it inherits attributes from."""
    found = next((getattr(module, name) for module in (tree_model, model) if hasattr(module, name)), None)
    return (each.__name__ for each in (found.__mro__ if isinstance(found, type) else ()))


class _Generator(GenerateJsonSchema):
    """Knows that every validator of the model that runs before pydantic's own turns one text into a list of one."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> dict[str, Any]:
        several = super().function_before_schema(schema)
        return {"anyOf": [several["items"], several]} if several.get("type") == "array" else several


def _attribute_docstrings() -> dict[tuple[str, str], str]:
    """Class and attribute -> the string literal below the attribute, from the model's source."""
    found: dict[tuple[str, str], str] = {}
    for node in (node for module in (model, tree_model) for node in ast.parse(inspect.getsource(module)).body):
        if not isinstance(node, ast.ClassDef):
            continue
        for attribute, following in zip(node.body, node.body[1:], strict=False):
            match attribute, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.name, name] = inspect.cleandoc(text)
    return found
