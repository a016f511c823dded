from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from made_up import replace_in

from codegen.candle.tree import open_tree
from codegen.errors import InputOutputError, NotACandleTree
from codegen.plan.rust_style import rust_edition, rustfmt_settings

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_that_format_reach_rustfmt_and_no_others(candle: Path) -> None:
    (candle / "rustfmt.toml").write_text(
        'max_width = 90\nhard_tabs = true\nnewline_style = "Unix"\ntab_spaces = 100000000\nignore = ["/"]\n'
        'license_template_path = "x"\nrequired_version = "9"\nunstable_features = true\n"a b" = 1\ncomment_width = -1\n'
        'edition = "a b"\n[table]\nx = 1\n'
    )
    settings = rustfmt_settings(open_tree(candle))
    assert settings == b'max_width = 90\nhard_tabs = true\nnewline_style = "Unix"\n'


def test_a_tree_without_settings_and_one_with_a_link(candle: Path, tmp_path: Path) -> None:
    assert rustfmt_settings(open_tree(candle)) is None
    (tmp_path / "secret").write_text("max_width = 90\n")
    (candle / ".rustfmt.toml").symlink_to(tmp_path / "secret")
    with pytest.raises(InputOutputError, match="is a symbolic link"):
        rustfmt_settings(open_tree(candle))


def test_settings_that_are_no_toml_are_named(candle: Path) -> None:
    (candle / "rustfmt.toml").write_text("[" * 100_000)
    with pytest.raises(NotACandleTree, match=r"rustfmt\.toml:1:") as caught:
        rustfmt_settings(open_tree(candle))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("edition", ['"2021 --config-path=x"', '"--help"', "{ a = 1 }", "2021", '""'])
def test_an_edition_that_is_none(candle: Path, edition: str) -> None:
    replace_in(candle / "Cargo.toml", 'edition = "2021"', f"edition = {edition}")
    with pytest.raises(NotACandleTree, match="`edition` is none of 2015, 2018, 2021, 2024"):
        rust_edition(open_tree(candle))
