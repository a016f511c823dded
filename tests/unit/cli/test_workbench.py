"""`make workbench`: a patched tree whose plain new files are links to their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.workbench import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from in_process import CommandLine

BLAS = "candle-core/src/rocm_backend/blas.rs"


def test_plain_sources_are_links_and_all_else_is_as_apply_leaves_it(
    candle: Path, candle_rocm: CommandLine, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = tmp_path / "bench"
    assert main([str(candle), str(bench)]) == 0
    assert "files are links to their sources below templates/candle" in capsys.readouterr().out

    source = home / "templates/candle/3-tensors" / BLAS
    assert (bench / BLAS).is_symlink()
    assert (bench / BLAS).resolve() == source.resolve()

    candle_rocm.ok("apply", candle)
    made = [path for path in candle.rglob("*.rs") if ".candle-rocm" not in path.parts]
    linked = [path for path in made if (bench / path.relative_to(candle)).is_symlink()]
    assert len(linked) > 50
    for path in made:
        there = bench / path.relative_to(candle)
        text = path.read_text(encoding="utf-8")
        assert there.read_text(encoding="utf-8") == (text.split("\n", 2)[2] if path in linked else text), path


def test_a_second_time_writes_through_no_link(candle: Path, home: Path, tmp_path: Path) -> None:
    bench, source = tmp_path / "bench", home / "templates/candle/3-tensors" / BLAS
    assert main([str(candle), str(bench)]) == 0
    (bench / BLAS).write_text("// edited in place\n", encoding="utf-8")
    assert main([str(candle), str(bench)]) == 0
    assert source.read_text(encoding="utf-8") == "// edited in place\n"
    assert (bench / BLAS).is_symlink()


def test_a_source_that_moved_is_not_written_where_it_was(candle: Path, home: Path, tmp_path: Path) -> None:
    bench, source = tmp_path / "bench", home / "templates/candle/3-tensors" / BLAS
    assert main([str(candle), str(bench)]) == 0
    moved = home / "templates/candle/4-custom-ops" / BLAS
    moved.parent.mkdir(parents=True, exist_ok=True)
    source.rename(moved)
    assert main([str(candle), str(bench)]) == 0
    assert not source.exists()
    assert (bench / BLAS).resolve() == moved.resolve()


def test_a_folder_of_somebody_else_is_left_alone(
    candle: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine", encoding="utf-8")
    assert main([str(candle), str(other)]) == 2
    assert "holds something that is no workbench" in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["notes.txt"]
