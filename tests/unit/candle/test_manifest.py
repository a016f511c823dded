from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.candle.manifest import (
    add_feature,
    add_optional_dependency,
    add_target,
    add_workspace_dependency,
    set_config,
)
from codegen.errors import Conflict, ExitCode, NotACandleTree

if TYPE_CHECKING:
    from collections.abc import Callable

GIT_ROOT = """\
[workspace]
members = [
    "candle-core", # first
]
resolver = "2"

[workspace.package]
version = "0.9.1"

[profile.release-with-debug]
inherits = "release"

[workspace.dependencies]
anyhow = { version = "1", features = ["backtrace"] }
cudarc = { version = "0.16", features = [
    "std",
    "cublas",
], default-features = false }
rand = "0.9.0"
rayon = "1.7.0"
safetensors = "0.4.1"

# Kept for the examples.
tracing = "0.1.37"
"""
CORE = """\
[package]
name = "candle-core" # the core

[dependencies]
byteorder = { workspace = true }
cudarc   = { workspace = true, optional = true }   # CUDA
gemm = { workspace = true }

[target.'cfg(not(target_arch = "wasm32"))'.dependencies]
ug = { workspace = true }

[dev-dependencies]
anyhow = { workspace = true }

[features]
default = []
cuda = [
    "cudarc",
    "dep:candle-kernels",
]
# And cuDNN.
cudnn = ["cuda"]

[[example]]
name = "cuda_basics"
required-features = ["cuda"]

[[bench]]
name = "bench_main"
harness = false
"""


def inserted(before: str, after: str) -> str:
    """The one piece of text that `after` has more than `before`; fails when anything else differs."""
    assert len(after) > len(before)
    start = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    piece = after[start : start + len(after) - len(before)]
    assert before[:start] + piece + before[start:] == after
    return piece


def line_before(text: str, line: str) -> str:
    lines = text.splitlines()
    return lines[lines.index(line) - 1]


def test_feature_stands_after_its_sibling() -> None:
    changed = add_feature(CORE, "rocm", ["dep:rocm-rs", "candle-ug?/rocm"])
    line = 'rocm = ["dep:rocm-rs", "candle-ug?/rocm"]'
    assert changed == CORE.replace("# And cuDNN.", f"{line}\n# And cuDNN.")
    assert add_feature(changed, "rocm", ["dep:rocm-rs", "candle-ug?/rocm"]) == changed


def test_feature_without_sibling_stands_in_sorted_place() -> None:
    changed = add_feature(CORE, "debug-rocm", [], after="none")
    assert line_before(changed, "debug-rocm = []") == 'cudnn = ["cuda"]'
    text = "[features]\nb = []\n"  # and where nothing is smaller, first
    assert add_feature(text, "a", []) == "[features]\na = []\nb = []\n"


def test_feature_in_a_manifest_without_features() -> None:
    text = '[package]\nname = "x"\n'
    assert add_feature(text, "rocm", ["candle/rocm"]) == text + '\n[features]\nrocm = ["candle/rocm"]\n'


def test_feature_in_an_empty_table() -> None:
    assert add_feature("[features]\n\n[lib]\n", "rocm", []) == "[features]\nrocm = []\n\n[lib]\n"


def test_last_line_without_line_end_stays_so() -> None:
    assert add_feature("[features]\ncuda = []", "rocm", []) == "[features]\ncuda = []\nrocm = []"
    assert add_feature("[lib]\na = 1", "rocm", []) == "[lib]\na = 1\n\n[features]\nrocm = []\n"
    assert add_target("[[example]]\nname = 'a'", "b", ["rocm"]) == (
        '[[example]]\nname = \'a\'\n\n[[example]]\nname = "b"\nrequired-features = ["rocm"]'
    )


def test_line_ends_of_the_file_are_kept() -> None:
    text = CORE.replace("\n", "\r\n")
    changed = add_target(
        add_optional_dependency(add_feature(text, "rocm", ["dep:rocm-rs"]), "rocm-rs"), "rocm_basics", ["rocm"]
    )
    assert changed.count("\n") == changed.count("\r\n")
    assert "\r\nrocm-rs = { workspace = true, optional = true }\r\n" in changed


@pytest.mark.parametrize(
    "text",
    [
        '[features]\ncuda = []\nx = [\n["y"],\n]\nz = 1\n[package]\n',  # a row of an array looks like a header
        "[features]\ncuda = []\n[features.more]\nx = []\n[package]\n",
        'a = """\n[features]\ncuda = 1\n[b]\n"""\n[features]\ncuda = []\n[package]\n',  # a text looks like a table
        '[features] # what there is\ncuda = []\n\n# A package.\n[package]\nname = "a"\n',
    ],
)
def test_table_whose_lines_are_hard_to_tell(text: str) -> None:
    head, tail = text.rsplit("cuda = []\n", 1)

    assert add_feature(text, "rocm", ["r"]) == f'{head}cuda = []\nrocm = ["r"]\n{tail}'


@pytest.mark.parametrize("text", ["features.cuda = []\n", "features = { cuda = [] }\n"])
def test_table_in_a_form_that_is_not_edited(text: str) -> None:
    with pytest.raises(Conflict) as caught:
        add_feature(text, "rocm", [], file="candle-nn/Cargo.toml")
    assert "[features] is written in a form that candle-rocm does not edit" in str(caught.value)
    assert str(caught.value).startswith("conflict: candle-nn/Cargo.toml:1:1: ")


def test_feature_of_other_origin_is_a_conflict() -> None:
    text = '[features]\ncuda = []\nrocm = ["mine"]\n'
    with pytest.raises(Conflict) as caught:
        add_feature(text, "rocm", ["dep:rocm-rs"], file="candle-core/Cargo.toml")
    assert str(caught.value) == (
        'conflict: candle-core/Cargo.toml:3:1: `rocm` is in [features] with another value: ["mine"]\n'
        '  3 | rocm = ["mine"]\n    | ^\n'
        "  = help: remove it, or start from pristine Candle"
    )
    assert caught.value.exit_code == ExitCode.CONFLICT


def test_workspace_dependency_in_sorted_place() -> None:
    changed = add_workspace_dependency(GIT_ROOT, "rocm-rs", "0.5.2", default_features=False, features=["macros"])
    line = 'rocm-rs = { version = "0.5.2", default-features = false, features = ["macros"] }'
    assert inserted(GIT_ROOT, changed).strip() == line
    assert line_before(changed, line) == 'rayon = "1.7.0"'
    again = add_workspace_dependency(changed, "rocm-rs", "0.5.2", default_features=False, features=["macros"])
    assert again == changed


def test_workspace_dependency_after_a_sibling_and_as_plain_version() -> None:
    changed = add_workspace_dependency(GIT_ROOT, "rocm-rs", "0.5.2", after="cudarc")
    assert line_before(changed, 'rocm-rs = "0.5.2"') == "], default-features = false }"


def test_workspace_dependency_in_the_synthesised_root() -> None:
    root = '[workspace]\nmembers = []\n\n[workspace.package]\nversion = "1"\n\n[workspace.dependencies]\nzip = "1"\n'
    changed = add_workspace_dependency(root, "rocm-rs", "0.5.2")
    assert inserted(root, changed).strip() == 'rocm-rs = "0.5.2"'
    assert line_before(changed, 'rocm-rs = "0.5.2"') == "[workspace.dependencies]"


def test_workspace_dependency_of_another_version_is_a_conflict() -> None:
    root = GIT_ROOT + 'rocm-rs = { version = "0.4", features = ["x"] }\n'
    with pytest.raises(Conflict) as caught:
        add_workspace_dependency(root, "rocm-rs", "0.5.2")
    assert "`rocm-rs` is in [workspace.dependencies] with another value: " in str(caught.value)
    assert '{ version = "0.4", features = ["x"] }' in str(caught.value)
    assert f"Cargo.toml:{len(root.splitlines())}:1" in str(caught.value)


def test_optional_dependency_stands_after_cudarc() -> None:
    changed = add_optional_dependency(CORE, "rocm-rs")
    line = "rocm-rs = { workspace = true, optional = true }"
    assert inserted(CORE, changed).strip() == line
    assert line_before(changed, line).startswith("cudarc   =")
    assert add_optional_dependency(changed, "rocm-rs") == changed


def test_target_stands_after_its_sibling() -> None:
    changed = add_target(CORE, "rocm_basics", ["rocm"], after="cuda_basics")
    block = '[[example]]\nname = "rocm_basics"\nrequired-features = ["rocm"]\n\n'
    assert changed == CORE.replace("[[bench]]", f"{block}[[bench]]")
    assert add_target(changed, "rocm_basics", ["rocm"]) == changed


def test_target_between_others_at_the_end_and_alone() -> None:
    text = "[[test]]\nname = 'a'\n\n[[test]]\nname = 'b'\n"
    new = '[[test]]\nname = "c"\nrequired-features = ["rocm"]\n'
    assert add_target(text, "c", ["rocm"], kind="test", after="a") == text.replace("\n\n", f"\n\n{new}\n")
    assert add_target(text, "c", ["rocm"], kind="test") == f"{text}\n{new}"
    assert add_target("[lib]\n", "c", ["rocm"], kind="test") == f"[lib]\n\n{new}"


def test_targets_that_stand_apart() -> None:
    text = "[[example]]\nname = 'a'\n\n[lib]\n\n[[bench]]\nname = 'b'\n"
    changed = add_target(text, "c", ["rocm"])
    assert [each["name"] for each in tomllib.loads(changed)["example"]] == ["a", "c"]
    inserted(text, changed)


def test_target_in_another_form_is_a_conflict() -> None:
    with pytest.raises(Conflict, match=r'\[\[example\]\] "cuda_basics" is there in another form'):
        add_target(CORE, "cuda_basics", ["rocm"])


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: add_feature(text, "rocm", [], file="candle-nn/Cargo.toml"),
        lambda text: add_workspace_dependency(text, "rocm-rs", "0.5.2", file="candle-nn/Cargo.toml"),
        lambda text: add_optional_dependency(text, "rocm-rs", file="candle-nn/Cargo.toml"),
        lambda text: add_target(text, "x", [], file="candle-nn/Cargo.toml"),
    ],
)
def test_broken_manifest_is_located(edit: Callable[[str], str]) -> None:
    with pytest.raises(NotACandleTree) as caught:
        edit("[features]\na = []\na = []\n")
    assert str(caught.value) == (
        "not a Candle tree: candle-nn/Cargo.toml:3:7: broken TOML: Cannot overwrite a value\n"
        "  3 | a = []\n    |       ^\n"
        "  = help: correct the file, or restore it from its release"
    )


def test_config_file_that_is_new() -> None:
    text = set_config(None, "env", "SKIP_BINDGEN", "1", comment="Use the bindings that come along.\nNo clang.")
    assert text == '[env]\n# Use the bindings that come along.\n# No clang.\nSKIP_BINDGEN = "1"\n'
    assert set_config(text, "env", "SKIP_BINDGEN", "1") == text


def test_config_file_that_is_there() -> None:
    text = '[build]\nrustflags = ["-C", "target-cpu=native"]\n\n[env]\nZ = "z"\n\n[target.wasm32]\nx = 1\n'
    changed = set_config(text, "env", "A", "a", comment="why")
    assert changed == text.replace('Z = "z"\n', 'Z = "z"\n# why\nA = "a"\n')
    text = '[build]\nrustflags = ["-C", "target-cpu=native"]\n'
    assert set_config(text, "env", "A", "a") == text + '\n[env]\nA = "a"\n'


def test_config_value_in_long_form_counts() -> None:
    text = '[env]\nA = { value = "a", force = true }\n'
    assert set_config(text, "env", "A", "a") == text


def test_config_value_of_the_user_is_a_conflict() -> None:
    with pytest.raises(Conflict) as caught:
        set_config('[env]\nA = "mine"\n', "env", "A", "a")
    assert 'conflict: .cargo/config.toml:2:1: `A` is in [env] with another value: "mine"' in str(caught.value)


def test_broken_config_is_located() -> None:
    with pytest.raises(Conflict, match=r"conflict: \.cargo/config\.toml:1:5: broken TOML: "):
        set_config("[env", "env", "A", "a")


tables = st.lists(
    st.sampled_from(
        [
            "[package]\nname = 'x' # c\n",
            "[dependencies]\nb = 1\n\n# next\ncudarc = { version = '1', features = [\n  'a', # f\n] }\nz = '1'\n",
            "[target.'cfg(unix)'.dependencies]\na = '1'\n",
            "[dev-dependencies.q]\nversion = '''\n[features]\n'''\n",
            "[features]\n\ncuda = [ 'a',\n'b' ]\t\n\n\n",
            "[workspace.dependencies]\nhalf = '1'\n[workspace.dependencies.image]\nversion = '1'\n",
            "[workspace]\nmembers = []\n",
            "[workspace.package]\nversion = '1'\n",
            "# the end\n",
        ]
    ),
    unique=True,
)
targets = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(
    lambda names: "".join(f"[[example]]\nname = '{name}'\n\n" for name in names)
)
edits: list[Callable[[str], str]] = [
    lambda text: add_feature(text, "rocm", ["x/rocm"]),
    lambda text: add_optional_dependency(text, "rocm-rs"),
    lambda text: add_workspace_dependency(text, "rocm-rs", "0.5.2", features=["macros"]),
    lambda text: add_target(text, "rocm", ["rocm"], after="b"),
    lambda text: set_config(text, "env", "K", "v", comment="why"),
]


@given(parts=tables, examples=targets, edit=st.sampled_from(edits), cut=st.booleans(), windows=st.booleans())
def test_every_edit_is_one_insertion_and_can_be_made_twice(
    *, parts: list[str], examples: str, edit: Callable[[str], str], cut: bool, windows: bool
) -> None:
    text = "\n".join(parts) + examples
    text = text.rstrip("\n") if cut else text
    text = text.replace("\n", "\r\n") if windows else text
    changed = edit(text)
    inserted(text, changed)
    assert edit(changed) == changed
    before, after = tomllib.loads(text), tomllib.loads(changed)
    assert before != after
    assert set(before) <= set(after)
