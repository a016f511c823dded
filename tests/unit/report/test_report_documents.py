"""JSON, SARIF and GitHub annotations of a scan."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from report_samples import ORIGIN, PATH, PHASES, TEXT, change, decision, scan_of, site, specs

from codegen import __version__
from codegen.errors import Location, Problem, UnknownSite
from codegen.patch.changes import PhaseChanges, Region
from codegen.plan.model import Plan, State
from codegen.report.annotations import github_annotations
from codegen.report.diff_document import diff_document, stat_lines
from codegen.report.findings import findings
from codegen.report.json_document import SCHEMA_VERSION, dumps, origin_entry, problem_entry
from codegen.report.sarif import UNKNOWN_RULE, sarif_log
from codegen.report.scan_document import scan_document
from codegen.report.scan_schema import SCAN_SCHEMA
from codegen.report.span import Spans
from codegen.report.summary import summarise

ERROR = UnknownSite(
    [Problem("nobody knows: 100%, or so", Location(PATH, 2, 5, "    Cuda(u8),")), Problem("no enum\nat all")],
    remedy="say what to do",
)


def document(*states: State, tried: str = "0.11.1", **given: Any) -> dict[str, Any]:
    scan = scan_of(*map(decision, states))
    return scan_document(scan, specs(tried=tried), summarise(scan, PHASES), decisions=scan.decisions, **given)


def validate(found: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(SCAN_SCHEMA)
    jsonschema.Draft202012Validator(SCAN_SCHEMA).validate(found)


@pytest.mark.parametrize("states", [(), tuple(State), (State.LEFT,)])
def test_the_scan_document_follows_its_schema(states: tuple[State, ...]) -> None:
    validate(document(*states, problems=ERROR.problems))


def test_the_oracle_is_part_of_the_schema() -> None:
    place = {"path": PATH, "line": 2}
    oracle = {"rustc": 1, "scan": 0, "expected": None, "agrees": False, "only_rustc": [place], "only_scan": []}
    validate(document(State.HANDLED, oracle=oracle))


@pytest.mark.parametrize(
    "path", [("schema_version",), ("candle", "tried"), ("sites", 0, "state"), ("summary", "total")]
)
def test_the_schema_is_not_vacuous(path: tuple[str | int, ...]) -> None:
    found: Any = document(State.HANDLED)
    holder = found
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = "nonsense"
    with pytest.raises(jsonschema.ValidationError):
        validate(found)


def test_a_field_that_the_schema_does_not_know_is_refused() -> None:
    with pytest.raises(jsonschema.ValidationError):
        validate({**document(State.HANDLED), "more": 1})


def test_the_document_says_what_made_it() -> None:
    found = document(State.HANDLED)
    assert found["schema_version"] == SCHEMA_VERSION
    assert found["tool"] == {"name": "candle-rocm", "version": __version__}
    assert found["candle"] == {"release": "0.11.1", "tried": True}
    assert document(State.HANDLED, tried="0.9.1")["candle"]["tried"] is False


def test_sites_have_bytes_lines_and_their_decision() -> None:
    (found,) = document(State.HANDLED)["sites"]
    assert TEXT[found["start"] : found["end"]] == b"Cuda(u8)"
    assert (found["line"], found["column"], found["end_line"], found["end_column"]) == (2, 5, 2, 13)
    assert (found["state"], found["rule"], found["spec"]) == ("handled", "core.dispatch", "specs/phases/1-core.yaml:9")
    (unknown,) = document(State.UNKNOWN)["sites"]
    assert (unknown["rule"], unknown["spec"], unknown["verb"]) == (None, None, None)


def test_problems_keep_their_place() -> None:
    assert problem_entry(ERROR.problems[0])["source_line"] == "    Cuda(u8),"
    assert problem_entry(ERROR.problems[1]) == {
        "message": "no enum\nat all",
        "path": None,
        "line": None,
        "column": None,
        "source_line": None,
    }


def test_columns_count_characters_and_offsets_bytes() -> None:
    text = "é é\n\tlet ü = Cuda;\nend".encode()
    start = text.index(b"Cuda")
    span = Spans({"a.rs": text}.__getitem__).of(site(path="a.rs", start=start, end=start + 4))
    assert (span.line, span.column, span.end_column) == (2, 10, 14)


def test_a_cargo_feature_spans_its_line() -> None:
    text = b"[features]\ncuda = []\nlast = []"
    spans = Spans({"Cargo.toml": text}.__getitem__)
    for line, content in ((2, b"cuda = []"), (3, b"last = []")):
        span = spans.of(site(path="Cargo.toml", start=0, end=0, line=line, column=1))
        assert text[span.start : span.end] == content
        assert (span.line, span.column, span.end_line) == (line, 1, line)


def test_documents_are_readable_text() -> None:
    assert dumps({"a": "é"}) == '{\n  "a": "é"\n}'


# SARIF


def sarif(*states: State, error: UnknownSite | None = None) -> dict[str, Any]:
    scan = scan_of(*map(decision, states))
    return sarif_log(scan, scan.decisions, error)


SARIF_SUBSET = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {"type": "array", "uniqueItems": True, "items": {"required": ["id"]}}
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message", "ruleId", "ruleIndex"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"required": ["text"]},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "region": {
                                                        "properties": {
                                                            key: {"type": "integer", "minimum": minimum}
                                                            for key, minimum in {
                                                                "startLine": 1,
                                                                "startColumn": 1,
                                                                "endLine": 1,
                                                                "endColumn": 1,
                                                                "byteOffset": 0,
                                                                "byteLength": 0,
                                                            }.items()
                                                        }
                                                    }
                                                },
                                            }
                                        }
                                    }
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What section 3 of the standard asks of the parts that are used here."""


def test_sarif_follows_the_standard() -> None:
    log = sarif(*State, error=ERROR)
    jsonschema.validate(log, SARIF_SUBSET)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


def test_sarif_has_errors_for_unknown_sites_and_notes_for_those_left_alone() -> None:
    results = sarif(*State)["runs"][0]["results"]
    assert [(result["level"], result["ruleId"]) for result in results] == [
        ("note", "core.left"),
        ("error", UNKNOWN_RULE),
    ]
    region = results[1]["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"], region["byteOffset"], region["byteLength"]) == (2, 5, 18, 8)


def test_sarif_keeps_findings_without_a_place() -> None:
    (result,) = sarif(error=ERROR)["runs"][0]["results"]
    assert result["message"]["text"] == "no enum\nat all"
    assert "locations" not in result


def test_sarif_uris_are_escaped() -> None:
    made = decision(State.UNKNOWN, at={"path": "a b/c#d.rs"})
    log = sarif_log(scan_of(made, files={"a b/c#d.rs": TEXT}), [made], None)
    location = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "a%20b/c%23d.rs", "uriBaseId": "%SRCROOT%"}


# GitHub


def test_annotations_are_one_escaped_line_each() -> None:
    first, second = github_annotations(ERROR)
    assert first == (
        "::error file=candle-core/src/device.rs,line=2,col=5,title=unhandled backend site"
        "::nobody knows: 100%25, or so (help: say what to do)"
    )
    assert second == "::error title=unhandled backend site::no enum%0Aat all (help: say what to do)"


def test_annotation_properties_escape_what_would_end_them() -> None:
    error = UnknownSite(Problem("x", Location("a,b:c.rs", 1)), remedy="y")
    assert github_annotations(error)[0].startswith("::error file=a%2Cb%3Ac.rs,line=1,")


# findings and diffs


def test_findings_are_those_that_planning_would_raise() -> None:
    assert findings(scan_of(decision()), specs()) is None
    error = findings(scan_of(decision(State.UNKNOWN)), specs())
    assert error is not None
    assert "candle-core/src/device.rs:2:5: no rule handles this site" in str(error)


def test_methods_without_a_template_are_findings_too() -> None:
    method = Problem("no template for the method fft", Location("candle-core/src/backend.rs", 7))
    alone = findings(scan_of(decision()), specs(), [method])
    assert alone is not None
    assert alone.problems == (method,)
    assert "specs/backend.yaml" in alone.remedy
    both = findings(scan_of(decision(State.UNKNOWN)), specs(), [method])
    assert both is not None
    assert len(both.problems) == 2


def test_a_diff_in_numbers() -> None:
    old, new = "a\nb\n", "a\nc\nd\n"
    changes = (change(old, new, Region(2, 3, ORIGIN)), change(None, "x\n", path="new.rs"))
    plan = Plan("0.11.1", "dummy", "rocm-rs", (PhaseChanges(1, "core", "The arms.", changes),))
    (phase,) = diff_document(plan, tried=True)["phases"]
    assert phase["files"][0] == {
        "path": PATH,
        "new": False,
        "added": 2,
        "removed": 1,
        "regions": [{"first": 2, "last": 3, **origin_entry(ORIGIN)}],
    }
    assert list(stat_lines(changes)) == [
        "candle-core/src/device.rs | +2 -1",
        "new.rs                    | +1 -0 (new)",
        "2 files changed (1 new), 3 lines added, 1 removed",
    ]
