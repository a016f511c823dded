"""JSON schema (draft 2020-12) of the document that `scan --json` prints."""

from __future__ import annotations

from typing import Any

from codegen.plan.model import State
from codegen.report.json_document import SCHEMA_VERSION
from codegen.spec.kinds import SiteKind, Verb

Schema = dict[str, Any]

_COUNT: Schema = {"type": "integer", "minimum": 0}
_POSITION: Schema = {"type": "integer", "minimum": 1}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_PHASE: Schema = {"type": "integer", "minimum": 0, "maximum": 7}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    """An object with exactly these properties."""
    properties = {**required, **(optional or {})}
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_SITE = _object(
    {
        "path": _TEXT,
        "start": _COUNT,
        "end": _COUNT,
        "line": _POSITION,
        "column": _POSITION,
        "end_line": _POSITION,
        "end_column": _POSITION,
        "crate": _TEXT,
        "kind": {"enum": [kind.value for kind in SiteKind]},
        "item": _TEXT,
        "name": _TEXT,
        "snippet": _TEXT,
        "enums": _list(_TEXT),
        "gate": _TEXT,
        "exhaustive": _FLAG,
        "metal_only": _FLAG,
        "within": _or_null(_COUNT),
        "state": {"enum": [state.value for state in State]},
        "rule": _or_null(_TEXT),
        "spec": _or_null(_TEXT),
        "phase": _or_null(_PHASE),
        "lands": _or_null(_PHASE),
        "stand_in": _or_null(_PHASE),
        "verb": _or_null({"enum": [verb.value for verb in Verb]}),
        "reason": _or_null(_TEXT),
        "fallback": _FLAG,
        "review": _or_null(_TEXT),
    }
)
_SUMMARY = _object(
    {
        "total": _COUNT,
        "states": _object({state.value: _COUNT for state in State}),
        "phases": _list(
            _object(
                {
                    "phase": _PHASE,
                    "name": _TEXT,
                    State.HANDLED.value: _COUNT,
                    State.PENDING.value: _COUNT,
                    "stand_ins": _COUNT,
                }
            )
        ),
        "crates": _list(
            _object(
                {
                    "crate": _TEXT,
                    "phases": {
                        "type": "object",
                        "patternProperties": {"^[0-7]$": _COUNT},
                        "additionalProperties": False,
                    },
                    State.LEFT.value: _COUNT,
                    State.UNKNOWN.value: _COUNT,
                }
            )
        ),
        "left_alone": _list(_object({"rule": _TEXT, "reason": _TEXT, "count": _COUNT})),
    }
)
_PROBLEM = _object(
    {
        "message": _TEXT,
        "path": _or_null(_TEXT),
        "line": _or_null(_POSITION),
        "column": _or_null(_POSITION),
        "source_line": _or_null(_TEXT),
    }
)
_PLACE = _object({"path": _TEXT, "line": _POSITION})
_ORACLE = _object(
    {
        "rustc": _COUNT,
        "scan": _COUNT,
        "expected": _or_null(_COUNT),
        "agrees": _FLAG,
        "only_rustc": _list(_PLACE),
        "only_scan": _list(_PLACE),
    }
)

SCAN_SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "candle-rocm scan",
    **_object(
        {
            "schema_version": {"const": SCHEMA_VERSION},
            "command": {"const": "scan"},
            "tool": _object({"name": {"const": "candle-rocm"}, "version": _TEXT}),
            "candle": _object({"release": _TEXT, "tried": _FLAG}),
            "summary": _SUMMARY,
            "problems": _list(_PROBLEM),
            "sites": _list(_SITE),
        },
        {"oracle": _ORACLE},
    ),
}
