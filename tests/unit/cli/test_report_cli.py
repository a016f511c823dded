"""`candle-rocm report --html`."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from made_up import NEWEST, OLDEST, candle_tree
from mini_candle import DEVICE, NOTES, UNDECIDED, Mini, make_mini

from codegen import __version__

if TYPE_CHECKING:
    from pathlib import Path

    from in_process import CommandLine

VOID = frozenset({"meta", "input", "br", "link", "img"})


class Page(HTMLParser):
    """A page's tags, ids, links, classes and text; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, key: str) -> list[str]:
        return [attributes[key] for _, attributes in self.tags if key in attributes]


@pytest.fixture
def mini(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mini:
    return make_mini(tmp_path, capsys, monkeypatch)


def page_of(mini: Mini, *arguments: str) -> tuple[str, Page]:
    out = mini.root.parent / "report.html"
    answer = mini.call("report", str(mini.root), "--html", str(out), *arguments)
    assert (answer.code, answer.err, answer.out) == (0, "", f"{out}\n")
    text = out.read_text(encoding="utf-8")
    return text, Page(text)


def test_the_page_is_whole_and_needs_nothing_else(mini: Mini) -> None:
    text, page = page_of(mini)
    assert text.startswith("<!DOCTYPE html>")
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe"}
    assert page.values("src") == []
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert "default-src 'none'" in page.values("content")[-1]
    targets = {href.removeprefix("#") for href in page.values("href")}
    assert all(href.startswith("#") for href in page.values("href"))
    assert targets <= set(page.values("id"))
    assert len(page.values("id")) == len(set(page.values("id")))


def test_the_page_shows_sites_diffs_and_origins(mini: Mini) -> None:
    _, page = page_of(mini)
    text = " ".join(" ".join(page.text).split())
    assert "handled 3" in text
    assert f"{DEVICE}:8:9" in text
    assert "a laboratory without AMD cards" in text
    assert "Phase 1 core 1 file, +2 -0" in text
    assert "9 core.dispatch" not in text
    assert "12 core.dispatch specs/phases/1-core.yaml:9 mirrored from CUDA" in text
    assert "Rocm(u8)" in "".join(page.text)
    assert [a["data-state"] for _, a in page.tags if "data-state" in a].count("handled") == 3


def test_candles_text_is_escaped(mini: Mini) -> None:
    hostile = '</script><script>alert("x")</script>'
    source = (mini.root / DEVICE).read_text().replace("cuda <card> & co", hostile.replace('"', "'"))
    mini.write(DEVICE, source)
    mini.write("candle-lab/src/lib.rs", f"pub fn cuda_lab() {{}} // <img src=x onerror=alert(1)> {hostile}\n")
    text, page = page_of(mini)
    assert "<script>alert" not in text
    assert "<img" not in text
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "</script><script>alert('x')</script>" in "".join(page.text)


def test_a_hunk_without_whitespace_changes_is_offered_where_it_differs(mini: Mini) -> None:
    text, page = page_of(mini)
    assert "(0 files differ)" in text
    assert "scroll quiet" not in page.values("class")


def test_only_the_phases_asked_for(mini: Mini) -> None:
    _, page = page_of(mini, "--phase", "0")
    assert "phase-0" in page.values("id")
    assert "phase-1" not in page.values("id")


def test_the_page_is_the_same_each_time(mini: Mini) -> None:
    assert page_of(mini)[0] == page_of(mini)[0]


def test_unknown_sites_are_on_top_and_exit_4(mini: Mini) -> None:
    mini.write(NOTES, UNDECIDED)
    out = mini.root.parent / "report.html"
    answer = mini.call("report", str(mini.root), "--html", str(out))
    assert answer.code == 4
    assert answer.err.startswith("unhandled backend site: candle-core/src/notes.rs:3:5")
    page = Page(out.read_text(encoding="utf-8"))
    assert "error" in page.values("class")
    assert "    if let Device::Cuda(_) = device {" in "".join(page.text)
    assert "phase-0" not in page.values("id")


def test_json_names_the_file(mini: Mini) -> None:
    out = mini.root.parent / "report.html"
    document = mini.call("report", str(mini.root), "--html", str(out), "--json").json
    assert (document["command"], document["html"], document["bytes"]) == ("report", str(out), out.stat().st_size)


def test_a_file_that_cannot_be_written_exits_6_and_leaves_nothing(mini: Mini, tmp_path: Path) -> None:
    out = tmp_path / "missing" / "report.html"
    answer = mini.call("report", str(mini.root), "--html", str(out))
    assert answer.code == 6
    assert answer.err.startswith(f"input/output error: cannot write {out}: No such file or directory\n")
    assert not out.parent.exists()


def test_the_file_must_be_named(mini: Mini) -> None:
    answer = mini.call("report", str(mini.root))
    assert answer.code == 2
    assert "--html" in answer.err


def test_a_release_is_compared_with_another(tmp_path: Path, candle_rocm: CommandLine) -> None:
    old, new = (candle_tree(tmp_path / release, release) for release in (OLDEST, NEWEST))
    out = tmp_path / "report.html"

    candle_rocm.ok("report", new, "--html", out, "--compare", old)

    text = out.read_text(encoding="utf-8")
    section = text[text.index('<section id="compared">') :].partition("</section>")[0]
    assert f"<h2>Compared with {OLDEST}</h2>" in section
    assert " rules write other lines, " in section
    candle_rocm.ok("report", new, "--html", out, "--compare", new)
    assert "<p>0 rules write other lines, " in out.read_text(encoding="utf-8")


@pytest.fixture
def generated(tmp_path: Path, candle_rocm: CommandLine) -> tuple[Path, Path]:
    """A tree, and what `generate` wrote for it, as an older candle-rocm's."""
    tree, folder = candle_tree(tmp_path / "candle", NEWEST), tmp_path / "generated"
    candle_rocm.ok("generate", tree, "--out", folder)
    report = folder / "report.json"
    report.write_text(report.read_text().replace(f'"version": "{__version__}"', '"version": "0.0.9"'))
    return tree, folder


def comparison(tree: Path, folder: Path, out: Path, candle_rocm: CommandLine) -> str:
    """The page's section that compares the tree with what was generated."""
    candle_rocm.ok("report", tree, "--html", out, "--compare", folder)
    text = out.read_text(encoding="utf-8")
    return text[text.index('<section id="compared">') :].partition("</section>")[0]


def test_an_earlier_generation_is_compared(
    tmp_path: Path, generated: tuple[Path, Path], candle_rocm: CommandLine
) -> None:
    tree, folder = generated
    section = comparison(tree, folder, tmp_path / "report.html", candle_rocm)
    assert f"<h2>Compared with {NEWEST} as candle-rocm 0.0.9 generated it</h2>" in section
    assert "<p>0 rules write other lines, " in section

    patch = folder / "patches" / "0001-core.patch"
    text = patch.read_text()
    lines = text.splitlines(keepends=True)
    (first, *_) = [number for number, line in enumerate(lines) if line.startswith("+    Rocm(")]
    patch.write_text("".join([*lines[:first], "+    Rocm(u8),\n", *lines[first + 1 :]]))
    section = comparison(tree, folder, tmp_path / "report.html", candle_rocm)
    assert "<p>1 rule writes other lines, " in section
    assert "Rocm(" in section


def test_a_patch_that_does_not_fit_is_named(
    tmp_path: Path, generated: tuple[Path, Path], candle_rocm: CommandLine
) -> None:
    tree, folder = generated
    patch = folder / "patches" / "0000-setup.patch"
    patch.write_text(patch.read_text().replace("\n ", "\n other "))
    out = tmp_path / "report.html"

    answer = candle_rocm("report", tree, "--html", out, "--compare", folder)

    assert answer.code == 5
    assert answer.stderr.startswith(f"conflict: {patch} does not fit Candle {NEWEST}\n")
    assert not out.exists()


@pytest.mark.parametrize(
    ("old", "new"), [('"phases": [', '"phases": 1, "x": ['), ('"path": "Cargo.toml"', '"path": "../Cargo.toml"')]
)
def test_a_report_that_is_none_is_named(
    tmp_path: Path, generated: tuple[Path, Path], candle_rocm: CommandLine, old: str, new: str
) -> None:
    tree, folder = generated
    report = folder / "report.json"
    assert old in report.read_text()
    report.write_text(report.read_text().replace(old, new))

    answer = candle_rocm("report", tree, "--html", tmp_path / "report.html", "--compare", folder)

    assert answer.code == 2
    assert answer.stderr.startswith(f"usage error: {report} is no report of `candle-rocm generate`\n")
