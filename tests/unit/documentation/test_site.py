"""The site builds without a warning, asks nobody for anything, and has a page for all that users look up."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import click
import pytest
from in_process import REPOSITORY
from some import some

from codegen.cli.main import COMMANDS, cli
from codegen.report.messages import explained
from documentation.pages import made_pages, without_links_outside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))
BLOCK = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COLUMN = 44
"""Where README says what a command does."""
ALTERNATIVES = ("status | revert", "list | render", "build | resources", "doctor | versions", "bash | zsh")


class Asked(HTMLParser):
    """What a browser loads for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes what a tag loads."""
        given = dict(attrs)
        loads = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
        if (key := loads.get(tag)) and given.get(key) and given.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(str(given[key]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_each_document_and_each_command_has_a_page(site: Path) -> None:
    wanted = [path.relative_to(REPOSITORY / "docs").with_suffix(".html").as_posix() for path in PAGES]
    wanted += [f"commands/{name}.html" for name in COMMANDS]
    missing = [page for page in some(wanted) if not (site / page).is_file()]
    assert missing == []
    assert "--leave-unknown" in (site / "commands/apply.html").read_text(encoding="utf-8")
    assert "candle-rocm kernels build" in (site / "commands/kernels.html").read_text(encoding="utf-8")


def test_no_page_asks_another_server_for_anything(site: Path) -> None:
    foreign = []
    for page in some(sorted(site.rglob("*.html"))):
        asked = Asked()
        asked.feed(page.read_text(encoding="utf-8"))
        foreign += [(page.name, address) for address in asked.found if "//" in address]
    assert foreign == []


def test_what_one_looks_for_is_found(site: Path) -> None:
    """The index of the search, which needs no server of its own."""
    places = json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]
    titles = {place["location"] for place in places}
    for kind in explained():
        assert f"troubleshooting.html#{kind.advice.code}" in titles
    assert any("HSA_OVERRIDE_GFX_VERSION" in place["text"] for place in places)


def test_links_out_of_the_site_are_words() -> None:
    text = (
        "[a page](git.md#edits), [a spec](../specs/candle.yaml), [itself](#here), [web](https://x.org), [up](../git.md)"
    )
    assert without_links_outside(text, "decisions/0001.md", frozenset({"git.md"})) == (
        "a page, a spec, [itself](#here), [web](https://x.org), [up](../git.md)"
    )
    assert (
        without_links_outside("[a page](git.md#edits)", "forks.md", frozenset({"git.md"})) == "[a page](git.md#edits)"
    )


def commands() -> Iterator[tuple[str, str]]:
    """Each command line of ours in a block of a document, and where."""
    pages = {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}
    pages["README.md"] = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for name, text in pages.items():
        for block in BLOCK.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.strip().removeprefix("$ ")
                if name == "README.md" and command[COLUMN - 1 : COLUMN] == " ":
                    command = command[:COLUMN]
                if command.startswith("candle-rocm ") and not any(each in command for each in ALTERNATIVES):
                    yield name, re.split(r"  +|\s#\s| && | \| |;|>", command)[0].strip()


EACH = [pytest.param(where, line, id=f"{where}: {line}") for where, line in dict.fromkeys(commands())]


@pytest.mark.parametrize(("where", "line"), EACH)
def test_every_command_line_in_the_documents_makes_sense(where: str, line: str) -> None:
    """click takes its words: the command is there, and each option, with values that it has."""
    words = [word.strip("[]") for word in shlex.split(line)[1:] if word not in ("[COMMAND]", "...")]
    words = [{"N": "1", "CANDLE": "."}.get(word, word.removesuffix("...")) for word in words]
    context = click.Context(cli, info_name="candle-rocm")
    name, command, rest = cli.resolve_command(context, words)
    assert command is not None, (where, name)
    while isinstance(command, click.Group):
        inner = click.Context(command, info_name=name, parent=context)
        name, found, rest = command.resolve_command(inner, rest)
        assert found is not None, where
        command, context = found, inner
    if not any("|" in word for word in rest):
        command.make_context(name, rest, parent=context)


def test_the_pages_that_are_made_say_what_they_are_about() -> None:
    pages = made_pages()
    assert pages["index.md"].startswith("# candle-rocm\n")
    assert "](docs/" not in pages["index.md"]
    assert "| `site` |" not in pages["specs.md"]
    assert "### TreeRule (tree)" in pages["specs.md"]
