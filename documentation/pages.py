"""Pages that are made: of each command from its help, of the spec files from their schemas, the first from README."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from codegen.cli.main import COMMANDS, cli
from codegen.paths import repository_root
from codegen.spec.schema import Kind, schema_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIRST = "index.md"
CHANGES = "changelog.md"
SPECS = "specs.md"
SPEC_FILES = {
    Kind.TREE: ("candle-rocm.yaml", "The rules of a tree's own sites. [Forks](forks.md) explains it with an example."),
    Kind.PHASE: ("specs/phases/N-name.yaml", "What a phase adds, and which sites are its own."),
    Kind.CANDLE: ("specs/candle.yaml", "What a backend site looks like, on any release."),
}
_LINK = re.compile(r"(?P<label>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")


def made_pages() -> dict[str, str]:
    """Their texts by their paths on the site."""
    root = repository_root()
    pages = {
        FIRST: from_root((root / "README.md").read_text(encoding="utf-8")),
        CHANGES: from_root((root / "CHANGELOG.md").read_text(encoding="utf-8")),
        SPECS: spec_page(),
    }
    return pages | {command_page(name): command_text(name) for name in COMMANDS}


def command_page(name: str) -> str:
    """The path of a command's page."""
    return f"commands/{name}.md"


def command_text(name: str) -> str:
    """What `--help` says of a command and of those below it."""
    context = click.Context(cli, info_name="candle-rocm")
    command = cli.get_command(context, name)
    assert command is not None
    return "\n".join(_command(command, click.Context(command, info_name=name, parent=context), "#")) + "\n"


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    yield f"{heading} {context.command_path}"
    yield ""
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{context.command_path} {usage}", "```", "")
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    if options:
        yield from ("| option | meaning |", "|---|---|")
        for option in options:
            record = option.get_help_record(context)
            if record is not None:
                yield f"| {_cell(record[0], code=True)} | {_cell(record[1])} |"
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context), f"{heading}#")


def _cell(text: str, *, code: bool = False) -> str:
    escaped = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")
    return f"<code>{escaped}</code>" if code else escaped


def spec_page() -> str:
    """Every key of every kind of spec file."""
    lines = [
        "# The spec files",
        "",
        "`candle-rocm spec schema --kind tree` prints the same as a JSON schema for editors.",
    ]
    for kind, (file, what) in SPEC_FILES.items():
        schema = json.loads(schema_text(kind))
        lines += ["", f"## {file}", "", what]
        for name, model in [("", schema), *schema.get("$defs", {}).items()]:
            if "properties" in model:
                lines += ["", *_model(name, model, kind)]
    return "\n".join(lines) + "\n"


def _model(name: str, model: Mapping[str, Any], kind: Kind) -> Iterator[str]:
    if name:
        yield f"### {name} ({kind})"
        yield ""
    if description := model.get("description"):
        yield " ".join(description.split())
        yield ""
    needed = model.get("required", ())
    yield from ("| key | holds | needed | meaning |", "|---|---|---|---|")
    for key, value in model["properties"].items():
        meaning = _cell(value.get("description", ""))
        yield f"| `{key}` | {_cell(_type(value))} | {'yes' if key in needed else ''} | {meaning} |"


def _type(schema: Mapping[str, Any]) -> str:
    """A key's values in a few words."""
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if choices := schema.get("enum"):
        return " or ".join(map(str, choices))
    if "const" in schema:
        return str(schema["const"])
    if several := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_type(each) for each in several if each.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"mapping to {_type(inner)}" if isinstance(inner, dict) else "mapping"
    return {"string": "text", "integer": "number", "boolean": "true or false"}.get(str(schema.get("type")), "anything")


def from_root(text: str) -> str:
    """A document of the repository's root as a page: its links to docs/ lead to pages beside it."""

    def moved(link: re.Match[str]) -> str:
        target = link["target"]
        return f"{link['label']}({target.removeprefix('docs/')})" if target.startswith("docs/") else link[0]

    return _LINK.sub(moved, text)


def without_links_outside(text: str, here: str, pages: frozenset[str]) -> str:
    """A page whose links to files of the repository that are no pages are their labels, as they stand."""

    def kept(link: re.Match[str]) -> str:
        target = link["target"].partition("#")[0]
        if not target or "://" in target or link["label"].startswith("!"):
            return link[0]
        parts: list[str] = []
        for part in (*here.split("/")[:-1], *target.rstrip("/").split("/")):
            if part == ".." and parts:
                parts.pop()
            elif part != ".":
                parts.append(part)
        return link[0] if "/".join(parts) in pages else link["label"].strip("[]")

    return _LINK.sub(kept, text)
