"""The page for reviewers, from plans made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import ORIGIN, change, decision, scan_of, specs

from codegen.errors import ExitCode, InputOutputError
from codegen.patch.changes import FileChange, PhaseChanges, Region
from codegen.plan.model import Plan, State
from codegen.report.html import html_report, write_page


def page(*changes: FileChange) -> str:
    plan = Plan("0.11.1", "dummy", "rocm-rs", (PhaseChanges(1, "core", "The <arms>.", changes),))
    return html_report(scan_of(decision(), decision(State.LEFT)), specs(), plan)


def test_a_file_with_whitespace_changes_has_both_views() -> None:
    text = page(change("if a {\nb();\n}\n", "if a {\n    b();\n    c();\n}\n", Region(2, 3, ORIGIN)))
    assert "(1 file differs)" in text
    assert text.count('class="scroll loud"') == text.count('class="scroll quiet"') == 1
    quiet = text[text.index('class="scroll quiet"') :]
    assert quiet.count('<tr class="add">') == 1
    assert "core.dispatch" in quiet


def test_a_file_with_nothing_but_whitespace_changes_says_so() -> None:
    text = page(change("a\n", "  a\n"))
    assert "<p>whitespace only</p>" in text[text.index('class="scroll quiet"') :]


def test_lines_of_one_origin_share_a_label() -> None:
    text = page(change("a\nb\nc\n", "a\nx\nb\ny\nc\n", Region(2, 2, ORIGIN), Region(4, 4, ORIGIN)))
    assert text.count('<div class="origin">') == 1
    assert '<span class="lines">2, 4</span> <b>core.dispatch</b>' in text


def test_new_files_are_folded_and_edits_open() -> None:
    text = page(change(None, "a\n", path="new.rs"), change("a\n", "b\n", path="old.rs"))
    assert '<details class="file" id="phase-1-file-1">' in text
    assert '<details class="file" id="phase-1-file-2" open>' in text


def test_texts_of_specs_are_escaped() -> None:
    assert "<p>The &lt;arms&gt;.</p>" in page()


def test_a_site_links_to_its_diff_and_others_do_not() -> None:
    text = page(change("a\n", "b\n"))
    assert text.count('<a href="#phase-1-file-1">candle-core/src/device.rs:2:5</a>') == 1
    assert text.count('<td data-name="Place">candle-core/src/device.rs:2:5 <a') == 1


def test_an_untried_release_is_marked() -> None:
    text = html_report(scan_of(decision()), specs(tried="0.9.1"), None)
    assert "<strong>not tested</strong>" in text
    assert "<strong>not tested</strong>" not in page()


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")
    assert write_page(out, "é") == 2
    assert out.read_text(encoding="utf-8") == "é"
    assert list(tmp_path.iterdir()) == [out]


def test_a_page_that_cannot_replace_the_old_one_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.html"
    out.write_text("old")

    def refuse(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InputOutputError, match=r"cannot write .*: No space left on device") as caught:
        write_page(out, "new")
    assert caught.value.exit_code is ExitCode.IO
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_a_comparison_names_the_rules_that_write_other_lines() -> None:
    """What a rule wrote before and what it writes now; a rule that writes the same is counted only."""
    other = replace(ORIGIN, rule="core.same")
    before = change("a\n", "a\nold\nsame\n", Region(2, 2, ORIGIN), Region(3, 3, other))
    now = change("a\n", "a\nnew\nmore\nsame\n", Region(2, 3, ORIGIN), Region(4, 4, other))
    old, new = (
        Plan(release, "dummy", "dynamic", (PhaseChanges(1, "core", "The arms.", (each,)),))
        for release, each in (("0.10.2", before), ("0.11.1", now))
    )
    text = html_report(scan_of(decision()), specs(), new, old=old)
    section = text[text.index('<section id="compared">') :].partition("</section>")[0]
    assert "<h2>Compared with 0.10.2</h2>" in section
    assert "<p>1 rule writes other lines, 1 the same.</p>" in section
    assert f"<code>{ORIGIN.rule}</code> <small>1 lines before, 2 now, in 1 file</small>" in section
    assert section.count('<tr class="del">') == 1
    assert section.count('<tr class="add">') == 2
    assert "core.same" not in section
    assert 'id="compared"' not in html_report(scan_of(decision()), specs(), new)
