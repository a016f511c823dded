"""What `generate` leaves in a folder: patches, new files, the report; and what it does not touch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from canary import Canary
from made_up import READY, tree_hash

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, InputOutputError
from codegen.plan.build import plan_tree
from codegen.plan.decide import scan_tree
from codegen.record.disk import Disk
from codegen.spec.loader import load_specs
from codegen.workspace.analysis import Analysis
from codegen.workspace.output import write_output


@pytest.fixture(scope="module")
def analysis(pristine: Path) -> Analysis:
    tree, specs = open_tree(pristine), load_specs()
    scan = scan_tree(tree, specs)
    return Analysis(plan_tree(tree, specs, scan=scan), scan.decisions)


def test_everything_is_written(analysis: Analysis, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"

    written = write_output(out, analysis)

    assert list(written) == sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    assert {"report.json", "patches/0000-setup.patch", "patches/0001-core.patch"} <= set(written)
    new = {change.path for change in analysis.plan.changes if change.before is None}
    for path, left in {change.path: change.after for change in analysis.plan.changes}.items():
        if path in new:
            assert (out / "files" / path).read_bytes() == left
        else:
            assert f"files/{path}" not in written


def test_the_report_says_why_every_line_is_there(analysis: Analysis, tmp_path: Path) -> None:
    write_output(tmp_path, analysis)

    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["schema_version"], report["tool"]["name"]) == (1, "candle-rocm")
    assert (report["candle"], report["gating"]) == ("0.11.1", "dummy")
    assert [phase["name"] for phase in report["phases"]] == list(READY.values())
    storage = next(file for file in report["phases"][1]["files"] if file["path"].endswith("/storage.rs"))
    assert {"first", "last", "rule", "spec", "phase", "template"} == set(storage["regions"][0])
    assert len(report["sites"]) == len(analysis.decisions)
    assert {site["state"] for site in report["sites"]} == {"handled", "left alone"}
    assert str(tmp_path) not in (tmp_path / "report.json").read_text()


def test_writing_twice_changes_nothing(analysis: Analysis, tmp_path: Path) -> None:
    write_output(tmp_path, analysis)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    write_output(tmp_path, analysis)

    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_what_an_earlier_run_left_is_replaced(analysis: Analysis, tmp_path: Path) -> None:
    write_output(tmp_path / "twice", analysis)
    write_output(tmp_path / "twice", analysis.only((1,)))
    write_output(tmp_path / "once", analysis.only((1,)))

    assert tree_hash(tmp_path / "twice") == tree_hash(tmp_path / "once")


def test_files_of_other_origin_stay(analysis: Analysis, tmp_path: Path) -> None:
    """Somebody may write into a folder that has folders of the same names."""
    for name in ("files/mine.txt", "patches/0009-mine.patch", "files/candle-core/src/rocm_backend/mine.rs"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("mine\n")

    write_output(tmp_path, analysis)
    write_output(tmp_path, analysis.only((0,)))

    assert (tmp_path / "files/mine.txt").read_text() == "mine\n"
    assert (tmp_path / "patches/0009-mine.patch").read_text() == "mine\n"
    assert [path.name for path in (tmp_path / "files/candle-core/src/rocm_backend").iterdir()] == ["mine.rs"]


@pytest.mark.parametrize(
    "report",
    [
        b"",
        b"not json",
        b"[]",
        b'{"tool": {"name": "another"}, "phases": []}',
        (
            b'{"tool": {"name": "candle-rocm"}, "phases": [{"phase": 0, "name": "x", "files": '
            b'[{"path": "../../mine.txt", "new": true}]}]}'
        ),
        b'{"tool": {"name": "candle-rocm"}, "phases": [{"phase": 0}]}',
        b'{"tool": {"name": "candle-rocm"}, "phases": [{"phase": "0", "name": "x", "files": []}]}',
    ],
)
def test_a_report_that_is_not_ours_deletes_nothing(analysis: Analysis, tmp_path: Path, report: bytes) -> None:
    out = tmp_path / "out"
    (out / "files").mkdir(parents=True)
    (out / "report.json").write_bytes(report)
    for mine in (tmp_path / "mine.txt", out / "files" / "mine.txt"):
        mine.write_text("mine\n")

    write_output(out, analysis)

    assert (tmp_path / "mine.txt").read_text() == "mine\n"
    assert (out / "files" / "mine.txt").read_text() == "mine\n"


def test_a_folder_that_cannot_be(analysis: Analysis, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way\n")

    with pytest.raises(InputOutputError) as caught:
        write_output(tmp_path / "file", analysis)

    assert caught.value.exit_code is ExitCode.IO
    assert str(caught.value).startswith(f"input/output error: cannot write {tmp_path / 'file'}: ")
    assert "choose another folder with --out" in str(caught.value)
    assert (tmp_path / "file").read_text() == "in the way\n"


def test_an_error_on_the_way_changes_nothing(
    analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_output(tmp_path, analysis.only((0,)))
    before = tree_hash(tmp_path)
    write = Disk.write

    def full(disk: Disk, path: Path, content: bytes) -> None:
        if path.name == "9":
            raise InputOutputError("", remedy="") from OSError(28, "No space left on device")
        write(disk, path, content)

    monkeypatch.setattr(Disk, "write", full)

    with pytest.raises(InputOutputError, match=rf"cannot write {tmp_path}: No space left on device"):
        write_output(tmp_path, analysis)
    assert tree_hash(tmp_path) == before


# --- folders that somebody else arranged ---------------------------------------------------------------------------


@pytest.fixture
def canary(tmp_path: Path) -> Canary:
    return Canary.plant(tmp_path / "outside")


def test_the_user_may_name_a_link(analysis: Analysis, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    write_output(tmp_path / "link", analysis)

    assert (tmp_path / "real" / "report.json").is_file()


@pytest.mark.parametrize("name", ["generated", "generated/0.11.1"])
def test_a_link_where_we_write_of_ourselves_is_not_followed(
    analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, canary: Canary, name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(canary.root)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InputOutputError, match=r"cannot write generated/0\.11\.1: .* is a symbolic link"):
        write_output(Path("generated/0.11.1"), analysis, named=False)

    assert canary.touched() == []


def test_an_earlier_report_deletes_nothing_behind_a_link(analysis: Analysis, tmp_path: Path, canary: Canary) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "files").symlink_to(canary.root)
    phases = [{"phase": 0, "name": "x", "files": [{"path": "id_rsa", "new": True}]}]
    (out / "report.json").write_text(json.dumps({"tool": {"name": "candle-rocm"}, "phases": phases}))

    with pytest.raises(InputOutputError, match=r"cannot write .*: files is a symbolic link"):
        write_output(out, analysis)

    assert canary.touched() == []


def test_a_report_that_is_a_link_is_not_read(analysis: Analysis, tmp_path: Path, canary: Canary) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").symlink_to(canary.root / "id_rsa")

    with pytest.raises(InputOutputError, match=r"cannot write .*: report\.json is a symbolic link"):
        write_output(tmp_path / "out", analysis)

    assert canary.touched() == []
