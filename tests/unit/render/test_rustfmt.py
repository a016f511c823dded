"""rustfmt as a function: nothing of the machine decides how the text looks, and every failure says what to do."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from codegen.errors import ExitCode, InputOutputError, TemplateInvalid, ToolchainMissing
from codegen.render.rustfmt import format_rust, rustfmt_beside

if TYPE_CHECKING:
    from pathlib import Path

UGLY = "fn  a( ){ b( ) }\n"
PLAIN = "fn a() {\n    b()\n}\n"


def fake_rustfmt(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A program named rustfmt, alone on the PATH."""
    program = folder / "bin" / "rustfmt"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_several_files_at_once() -> None:
    texts = {f"{number}.rs": f"fn  a{number}( ) {{}}\n" for number in range(9)}

    assert format_rust(texts) == {f"{number}.rs": f"fn a{number}() {{}}\n" for number in range(9)}


def test_nothing_needs_no_rustfmt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    assert format_rust({}) == {}


def test_characters_that_are_not_ascii() -> None:
    assert format_rust({"a.rs": 'const  A : &str = "ü→";\n'}) == {"a.rs": 'const A: &str = "ü→";\n'}


def test_configuration_around_the_user_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rustfmt.toml").write_text("tab_spaces = 2\n")
    monkeypatch.chdir(tmp_path)
    assert format_rust({"a.rs": UGLY}) == {"a.rs": PLAIN}

    assert format_rust({"a.rs": UGLY}, config=b"tab_spaces = 2\n") == {"a.rs": "fn a() {\n  b()\n}\n"}


def test_text_that_is_not_rust() -> None:
    with pytest.raises(TemplateInvalid) as caught:
        format_rust({"good.rs": PLAIN, "candle-core/src/bad.rs": "fn a() {}\nfn b( {}\n"})

    assert caught.value.exit_code is ExitCode.SPEC_INVALID
    message = str(caught.value)
    assert message.startswith("invalid template: candle-core/src/bad.rs:2:")
    assert ": rustfmt refuses the generated text: error: " in message
    assert "  2 | fn b( {}\n" in message
    assert message.endswith("\n  = help: correct the template")


def test_text_with_modules_that_is_not_rust() -> None:
    with pytest.raises(TemplateInvalid, match=r"mod\.rs:2:"):
        format_rust({"good.rs": PLAIN, "mod.rs": "mod b;\nfn c( {}\n"})


@pytest.mark.parametrize(
    "modules",
    [
        "mod b;",
        "pub(crate) mod b;",
        "mod r#b;",
        "mod b;\nmod c;",
        '#[path = "elsewhere/b.rs"]\nmod b;',
        "mod a {\n    pub mod b;\n}",
    ],
)
def test_modules_in_other_files_are_not_looked_for(modules: str) -> None:
    assert format_rust({"mod.rs": f"{modules}\n{UGLY}", "a.rs": UGLY}) == {
        "mod.rs": f"{modules}\n{PLAIN}",
        "a.rs": PLAIN,
    }


@pytest.mark.parametrize(("last", "processes"), [("mod b;\n", 1), ("mod a {\n    mod b;\n}\n", 11)])
def test_one_process_formats_many_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, processes: int
) -> None:
    rustfmt = shutil.which("rustfmt")
    fake_rustfmt(tmp_path, monkeypatch, f'echo run >> {tmp_path}/runs\nexec {rustfmt} "$@"')

    format_rust({f"{number}.rs": PLAIN for number in range(9)} | {"mod.rs": last})

    assert (tmp_path / "runs").read_text() == "run\n" * processes


def test_what_rustfmt_prints_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fake_rustfmt(tmp_path, monkeypatch, "echo hello; echo careful >&2")

    assert format_rust({"a.rs": UGLY}) == {"a.rs": UGLY}
    assert capfd.readouterr() == ("", "")


def test_work_that_nobody_waits_for_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_rustfmt(tmp_path, monkeypatch, "exec sleep 30")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")

    start = time.monotonic()
    with pytest.raises(KeyError), rustfmt_beside([("a.rs", UGLY)]):
        raise KeyError
    assert time.monotonic() - start < 20


def test_no_folder_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    with pytest.raises(InputOutputError, match=r"handing texts to rustfmt: .*No such file or directory") as caught:
        format_rust({"a.rs": PLAIN})

    assert "TMPDIR" in str(caught.value)


def test_no_rustfmt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ToolchainMissing) as caught:
        format_rust({"a.rs": PLAIN})

    assert caught.value.exit_code is ExitCode.TOOLCHAIN_MISSING
    assert str(caught.value) == (
        "missing toolchain: rustfmt is not installed\n  = help: install it with `rustup component add rustfmt`"
    )


@pytest.mark.parametrize(
    "message",
    [
        "error: 'rustfmt' is not installed for the toolchain 'stable-x86_64-unknown-linux-gnu'.",
        "error: the 'rustfmt' component which provides the command 'rustfmt' is not applicable",
    ],
)
def test_rustups_stand_in_without_the_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str) -> None:
    fake_rustfmt(tmp_path, monkeypatch, f'echo "{message}" >&2\nexit 1')

    with pytest.raises(ToolchainMissing, match="rustfmt is not installed for this toolchain"):
        format_rust({"a.rs": PLAIN})


def test_a_failure_without_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_rustfmt(tmp_path, monkeypatch, "echo 'out of cheese' >&2\nexit 101")

    with pytest.raises(TemplateInvalid, match="rustfmt refuses the generated text: out of cheese"):
        format_rust({"a.rs": PLAIN})


def test_a_program_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_rustfmt(tmp_path, monkeypatch, "")
    (tmp_path / "bin" / "rustfmt").write_bytes(b"#!/nowhere/at/all\n")

    with pytest.raises(InputOutputError, match="cannot run rustfmt: No such file or directory"):
        format_rust({"a.rs": PLAIN})


@pytest.mark.parametrize(
    "modules",
    [
        '#[path = "{victim}"]\nmod b;',
        '#[path = "{victim}"]\nmod\nb;',
        '#[cfg_attr(all(), path = "{victim}")]\nmod b;',
        '#[path/* ] */ = "{victim}"]\nmod/* a */b;',
        '#[path = "{victim}"]\nmod r#b;',
        'mod a {{\n    #[path = "{victim}"]\n    mod b;\n}}',
    ],
)
def test_a_file_elsewhere_is_not_written(tmp_path: Path, modules: str) -> None:
    """rustfmt formats the modules of a file as well, wherever a `path` says that they are."""
    victim = tmp_path / "victim.rs"
    victim.write_text(UGLY)

    formatted = format_rust({"mod.rs": f"{modules.format(victim=victim)}\n{UGLY}", "a.rs": UGLY})

    assert victim.read_text() == UGLY
    assert formatted["mod.rs"].endswith(PLAIN)
    assert formatted["a.rs"] == PLAIN
