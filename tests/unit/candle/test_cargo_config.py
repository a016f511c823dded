from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from codegen.candle.cargo_config import DEFAULT_INDEX, Source, crates_io_source
from codegen.errors import CandleRocmError, ExitCode, RegistryUnreachable, UsageError

if TYPE_CHECKING:
    from pathlib import Path


def write(folder: Path, text: str, name: str = "config.toml") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def source(tmp_path: Path, **environ: str) -> Source:
    return crates_io_source(tmp_path / "a" / "b", {"CARGO_HOME": str(tmp_path / "home"), **environ})


def test_without_configuration_it_is_crates_io(tmp_path: Path) -> None:
    assert source(tmp_path) == Source(DEFAULT_INDEX.removeprefix("sparse+"))


def test_replacement_is_followed_to_a_source(tmp_path: Path) -> None:
    text = """
[source.crates-io]
replace-with = "one"
[source.one]
replace-with = "two"
[source.two]
registry = "sparse+https://two.example/index"
"""
    write(tmp_path / "home", text)
    assert source(tmp_path).index == "https://two.example/index/"


def test_replacement_is_followed_to_a_registry(tmp_path: Path) -> None:
    text = '[source.crates-io]\nreplace-with = "own-one"\n'
    write(tmp_path / "home", text + '[registries]\nown-one = { index = "sparse+https://r.example/" }\n')
    assert source(tmp_path).index == "https://r.example/"
    write(tmp_path / "home", text)
    assert (
        source(tmp_path, CARGO_REGISTRIES_OWN_ONE_INDEX="sparse+https://env.example/").index == "https://env.example/"
    )


def test_nearest_file_wins_key_by_key(tmp_path: Path) -> None:
    write(tmp_path / "home", '[source.crates-io]\nreplace-with = "x"\n[source.x]\nregistry = "sparse+https://far/"\n')
    write(tmp_path / "a" / ".cargo", '[source.x]\nregistry = "sparse+https://near/"\n')
    assert source(tmp_path).index == "https://near/"


@pytest.mark.parametrize("member", ["a", "a/b"])
def test_a_workspace_around_the_user_does_not_count(tmp_path: Path, member: str) -> None:
    """A tree with its own `.cargo/config.toml` would choose where Candle comes from, and with which certificates."""
    for folder in (tmp_path / "a", tmp_path / "a/b"):
        write(
            folder / ".cargo", '[source.crates-io]\nreplace-with = "x"\n[source.x]\nregistry = "sparse+https://evil/"\n'
        )
    (tmp_path / "a/Cargo.toml").write_text("[workspace]\n")
    (tmp_path / member / "Cargo.toml").write_text("[workspace]\n")
    write(tmp_path / ".cargo", '[http]\nproxy = "http://p:1"\n')

    assert source(tmp_path) == Source(DEFAULT_INDEX.removeprefix("sparse+"), "http://p:1")


def test_file_without_extension_hides_the_other(tmp_path: Path) -> None:
    text = '[source.crates-io]\nreplace-with = "x"\n[source.x]\nregistry = "sparse+https://%s/"\n'
    write(tmp_path / "home", text % "hidden")
    write(tmp_path / "home", text % "old", name="config")
    assert source(tmp_path).index == "https://old/"


def test_proxy_and_certificates(tmp_path: Path) -> None:
    write(tmp_path / "a" / ".cargo", '[http]\nproxy = "http://p:1"\ncainfo = "certs/own.pem"\n')
    found = source(tmp_path)
    assert (found.proxy, found.cainfo) == ("http://p:1", str(tmp_path / "a" / "certs" / "own.pem"))
    found = source(tmp_path, CARGO_HTTP_PROXY="http://q:2", CARGO_HTTP_CAINFO="/x.pem")
    assert (found.proxy, found.cainfo) == ("http://q:2", "/x.pem")


@pytest.mark.parametrize(
    ("definition", "what"),
    [
        ('directory = "vendor"', "the directory vendor"),
        ('local-registry = "mirror"', "the local-registry mirror"),
        ('git = "https://g.example/c"', "the git https://g.example/c"),
        ('registry = "https://g.example/index"', "https://g.example/index"),
        ('registry = "sparse+file:///i/"', "sparse+file:///i/"),
    ],
)
def test_source_that_is_no_sparse_index(tmp_path: Path, definition: str, what: str) -> None:
    write(tmp_path / "home", f'[source.crates-io]\nreplace-with = "x"\n[source.x]\n{definition}\n')
    with pytest.raises(RegistryUnreachable) as caught:
        source(tmp_path)
    assert str(caught.value) == (
        f"crate registry unreachable: cargo is configured to take crates.io from {what}, which is not a sparse index\n"
        "  = help: clone Candle's git repository at the release wanted and give its folder instead of the version"
    )
    assert caught.value.exit_code == ExitCode.IO


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[source.crates-io]\nreplace-with = "x"\n',
            (
                "usage error: cargo's configuration replaces crates.io with `x`, which it does not define\n"
                "  = help: add `[source.x]` or `[registries.x]` to cargo's configuration"
            ),
        ),
        (
            '[source.crates-io]\nreplace-with = "x"\n[source.x]\nreplace-with = "crates-io"\n',
            (
                "usage error: cargo's sources replace one another in a circle: crates-io -> x -> crates-io\n"
                "  = help: correct `replace-with` in cargo's configuration"
            ),
        ),
    ],
)
def test_replacement_that_leads_nowhere(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "home", text)
    with pytest.raises(UsageError) as caught:
        source(tmp_path)
    assert str(caught.value) == message
    assert caught.value.exit_code == ExitCode.USAGE


def test_broken_file_is_shown_with_its_line(tmp_path: Path) -> None:
    write(tmp_path / "home", "[http]\nproxy = \n")
    with pytest.raises(CandleRocmError) as caught:
        source(tmp_path)
    assert f"usage error: {tmp_path}/home/config.toml:2:9: broken TOML: Invalid value\n  2 | proxy = \n" in str(
        caught.value
    )
    assert caught.value.exit_code == ExitCode.USAGE
