"""Bad input gets a clear error with its own exit code, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY
from loopback_registry import LoopbackRegistry
from made_up import CORE_MANIFEST, DEVICE, LIB, STORAGE, candle_tree, replace_in, tree_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from in_process import CommandLine, Result

NOTES = "candle-core/src/notes.rs"
ODD_SITE = """\
pub fn odd(storage: &crate::Storage) -> usize {
    let mut count = 0;
    while let crate::Storage::Cuda(_) = storage {
        count += 1;
    }
    count
}
"""
EXPORTS = "templates/rust/edits/exports.rs.j2"


def check_refused(result: Result, code: int, *lines: str) -> None:
    """The command exits with `code`, says nothing on stdout, and stderr has the lines in this order."""
    assert (result.code, result.stdout) == (code, ""), result.stderr
    position = -1
    found = result.stderr.splitlines()
    for line in lines:
        assert line in found[position + 1 :], f"no line {line!r} in\n{result.stderr}"
        position = found.index(line, position + 1)
    assert "Traceback" not in result.stderr


def line_of(path: Path, text: str) -> int:
    """Number of the first line that holds `text`."""
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


# --- versions ----------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackRegistry]:
    """A registry with Candle 0.9.1 and a yanked 0.9.2, an empty cache, and cargo pointed at both."""
    with LoopbackRegistry() as server:
        server.configure(monkeypatch, tmp_path)
        server.publish_candle("0.9.1")
        server.publish("candle-core", "0.9.2", b"", yanked=True)
        yield server


@pytest.mark.parametrize("command", ["scan", "generate", "diff"])
def test_no_network_and_an_empty_cache(registry: LoopbackRegistry, candle_rocm: CommandLine, command: str) -> None:
    registry.stop()

    refused = candle_rocm(command, "0.9.1")

    assert (refused.code, refused.stdout) == (6, "")
    assert refused.stderr.startswith(f"crate registry unreachable: {registry.url}/index/config.json: ")
    assert "clone Candle's git repository at the release wanted and give its folder" in refused.stderr


def test_offline_and_an_empty_cache(registry: LoopbackRegistry, candle_rocm: CommandLine, tmp_path: Path) -> None:
    check_refused(
        candle_rocm("scan", "0.9.1", "--offline"),
        6,
        "crate registry unreachable: Candle 0.9.1 was not fetched yet, and this is an offline run",
        f"  = help: fetch it once with a network (the cache is {tmp_path}/cache), or clone Candle's git repository at "
        "the release wanted and give its folder instead of the version",
    )


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.9.3", "is not in the registry"),
        ("0.9.2", "was yanked from the registry"),
        ("0.9", "is not a full version such as 0.11.1"),
    ],
)
def test_versions_that_cannot_be_had(
    registry: LoopbackRegistry, candle_rocm: CommandLine, version: str, why: str
) -> None:
    check_refused(
        candle_rocm("scan", version),
        2,
        f"unknown Candle release: `{version}` {why}",
        "  = help: take one of the nearest releases: 0.9.1; or clone Candle's git repository at the release wanted and "
        "give its folder instead of the version",
    )


@pytest.mark.parametrize("command", ["apply", "revert"])
def test_the_cached_tree_of_a_version_is_not_written_to(candle_rocm: CommandLine, command: str) -> None:
    check_refused(
        candle_rocm(command, "0.11.1"),
        2,
        "usage error: the tree of release 0.11.1 in the cache must not be changed",
        "  = help: make your own copy: candle-rocm fetch 0.11.1 --to DIR",
    )


# --- trees -------------------------------------------------------------------------------------------------------

COMMANDS = ("scan", "generate", "diff", "apply", "check", "status", "revert")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_is_not_candle(candle_rocm: CommandLine, tmp_path: Path, command: str) -> None:
    wanted = "  = help: give the root folder of a Candle checkout, or a version such as 0.11.1 to fetch one"
    help_line = f"{wanted}; `scan` and `diff` take the folder of a program that depends on Candle, too"
    nowhere, empty, other = tmp_path / "nowhere", tmp_path / "empty", tmp_path / "other"
    empty.mkdir()
    (other / "crates").mkdir(parents=True)
    (other / "Cargo.toml").write_text('[workspace]\nmembers = ["crates"]\n')

    check_refused(candle_rocm(command, nowhere), 2, f"not a Candle tree: the folder {nowhere} does not exist", wanted)
    check_refused(candle_rocm(command, empty), 2, f"not a Candle tree: {empty} has no Cargo.toml", help_line)
    check_refused(
        candle_rocm(command, other),
        2,
        f"not a Candle tree: {other} is a cargo workspace without the crate candle-core",
        help_line,
    )
    check_refused(
        candle_rocm(command, other / "Cargo.toml"),
        2,
        f"not a Candle tree: the folder {other}/Cargo.toml is a file",
        wanted,
    )


def test_a_broken_manifest(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / CORE_MANIFEST).write_text("[package]\nname = \n")

    check_refused(
        candle_rocm("scan", candle),
        2,
        f"not a Candle tree: {CORE_MANIFEST}:2:8: broken TOML: Invalid value",
        "  2 | name = ",
        "    |        ^",
    )


def test_a_rust_file_that_is_not_utf_8(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / NOTES).write_bytes(b"// cuda\n// caf\xe9\n")

    check_refused(candle_rocm("scan", candle), 2, f"not a Candle tree: {NOTES}:2:1: the file is not UTF-8")


@pytest.mark.parametrize("command", ["scan", "generate", "diff", "apply", "check"])
def test_a_renamed_enum(candle: Path, candle_rocm: CommandLine, command: str) -> None:
    replace_in(candle / STORAGE, "enum Storage", "enum Store")
    replace_in(candle / STORAGE, "impl Storage", "impl Store")
    pristine = tree_hash(candle)

    refused = candle_rocm(command, candle)

    assert refused.code == 4
    line = line_of(candle / STORAGE, "match self {")
    assert f"{STORAGE}:{line}:9: specs/candle.yaml knows no enum Store (match in Store::device)" in refused.stderr
    assert "Candle 0.11.1 has no `enum Storage` with a Cuda variant in candle-core (renamed, or moved?)" in (
        refused.stderr
    )
    assert "correct the enum's entry in specs/candle.yaml" in refused.stderr
    assert tree_hash(candle) == pristine


@pytest.mark.parametrize("command", ["generate", "diff", "apply", "check"])
def test_an_arm_whose_shape_no_rule_knows(candle: Path, candle_rocm: CommandLine, command: str) -> None:
    (candle / NOTES).write_text(ODD_SITE)
    pristine = tree_hash(candle)

    check_refused(
        candle_rocm(command, candle),
        4,
        f"unhandled backend site: {NOTES}:3:5: no rule handles this site and no spec leaves it alone (if-let in odd)",
        "  3 |     while let crate::Storage::Cuda(_) = storage {",
        "    |     ^",
        "  = help: decide each site in candle-rocm.yaml at the root of the tree "
        "(`candle-rocm scan CANDLE --suggest` writes a draft), or leave them for later: `apply --leave-unknown`",
    )
    assert tree_hash(candle) == pristine


def test_the_same_site_left_alone_by_a_spec_passes(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    (candle / NOTES).write_text(ODD_SITE)
    scanned = candle_rocm("scan", candle)
    assert scanned.code == 4
    assert f"{NOTES}:3:5: no rule handles this site" in scanned.stderr

    rule = (
        f"  - id: examples.odd\n    sites: {{kind: if-let, path: {NOTES}}}\n    verb: leave\n"
        "    reason: nobody ever calls it\n"
    )
    replace_in(home / "specs" / "phases" / "7-examples.yaml", "\nrules:\n", f"\nrules:\n{rule}")

    document = candle_rocm.ok("scan", candle, "--json").document
    site = next(site for site in document["sites"] if site["path"] == NOTES)
    assert (site["state"], site["rule"], site["reason"]) == ("left alone", "examples.odd", "nobody ever calls it")
    candle_rocm.ok("apply", candle)


def test_an_arm_that_uses_cudas_own_api(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / DEVICE, "Self::Cuda(device) => device.location(),", "Self::Cuda(d) => cudarc::place(d),")
    pristine = tree_hash(candle)

    line = line_of(candle / DEVICE, "fn location") + 1
    check_refused(
        candle_rocm("apply", candle),
        4,
        f"unhandled backend site: {DEVICE}:{line}:9: rule core.dispatch cannot mirror this match: it uses CUDA's own "
        "API (cudarc), which has no ROCm namesake",
        f"  {line} |         match self {{",
        "  = help: override the site, or leave it with a reason: in candle-rocm.yaml of the tree, "
        "where `instead_of` names a rule of candle-rocm's that is wrong there",
    )
    assert tree_hash(candle) == pristine


def test_a_trait_method_that_no_template_can_answer(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / "candle-core/src/backend.rs", "fn dtype", "fn rank(&self) -> usize;\n    fn dtype")

    check_refused(
        candle_rocm("apply", candle),
        4,
        "unhandled backend site: candle-core/src/backend.rs:6:5: no template for BackendStorage::rank",
        "  6 |     fn rank(&self) -> usize;",
    )


BACKENDS = [
    ("candle-core/src/rocm_backend/mod.rs", "", "candle-core/src/rocm_backend/mod.rs"),
    ("candle-core/src/rocm_backend.rs", "", "candle-core/src/rocm_backend.rs"),
    (CORE_MANIFEST, "metal = []\nrocm = []\n", CORE_MANIFEST),
    (DEVICE, "Metal(crate::MetalDevice),\n    Rocm(crate::RocmDevice),\n", DEVICE),
]


@pytest.mark.parametrize(("path", "text", "named"), BACKENDS)
@pytest.mark.parametrize("command", ["apply", "diff"])
def test_a_rocm_backend_of_other_origin(
    candle: Path, candle_rocm: CommandLine, path: str, text: str, named: str, command: str
) -> None:
    if text:
        replace_in(candle / path, text.splitlines()[0].strip() + "\n", text)
    else:
        (candle / path).parent.mkdir(exist_ok=True)
        (candle / path).write_text("// somebody's\n")
    before = tree_hash(candle)

    check_refused(
        candle_rocm(command, candle),
        5,
        f"ROCm backend of other origin: the tree has a ROCm backend that candle-rocm has no record of: {named}",
        "  = help: if candle-rocm wrote it, restore .candle-rocm/record.json, which belongs to these files "
        "(git log .candle-rocm/record.json); else start from a tree without it, for example a clean checkout of the "
        "release",
    )
    assert tree_hash(candle) == before


def test_a_file_of_other_origin_where_one_of_ours_belongs(candle: Path, candle_rocm: CommandLine) -> None:
    (candle / "candle-core" / "build.rs").write_text("fn main() {}\n")

    check_refused(
        candle_rocm("apply", candle, "--runtime", "rocm-rs"),
        5,
        "ROCm backend of other origin: candle-core/build.rs exists already, and candle-rocm did not write it",
    )
    assert (candle / "candle-core" / "build.rs").read_text() == "fn main() {}\n"


def test_a_dependency_of_other_origin(candle: Path, candle_rocm: CommandLine) -> None:
    replace_in(candle / "Cargo.toml", 'rand = "0.9"\n', 'rand = "0.9"\nlibloading = "0.7"\n')

    line = line_of(candle / "Cargo.toml", "libloading")
    check_refused(
        candle_rocm("apply", candle),
        5,
        f'conflict: Cargo.toml:{line}:1: `libloading` is in [workspace.dependencies] with another value: "0.7"',
        f'  {line} | libloading = "0.7"',
    )


# --- specs and templates -----------------------------------------------------------------------------------------

WITH_SPECS = ("scan", "generate", "diff", "apply", "check", "status")


@pytest.mark.parametrize("command", WITH_SPECS)
def test_invalid_specs(candle: Path, candle_rocm: CommandLine, home: Path, command: str) -> None:
    spec = home / "specs" / "phases" / "1-core.yaml"
    replace_in(spec, "summary: Device", "sumary: Device")
    replace_in(spec, "template: rust/edits/exports.rs.j2", "template: rust/edits/export.rs.j2")
    lines = spec.read_text().splitlines()
    summary = next(i for i, line in enumerate(lines, 1) if line.startswith("sumary"))
    template, text = next((i, line) for i, line in enumerate(lines, 1) if line.endswith("export.rs.j2"))

    check_refused(
        candle_rocm(command, candle),
        3,
        f"  {summary} | {lines[summary - 1]}",
        f"  {template} | {text}",
        "  = help: correct the spec; `candle-rocm spec schema` prints what editors need to complete and check it",
    )
    message = candle_rocm(command, candle).stderr
    assert message.startswith("invalid spec: specs/phases/1-core.yaml")
    assert f"specs/phases/1-core.yaml:{summary}:1: unknown key 'sumary'" in message
    assert f"specs/phases/1-core.yaml:{template}:15: there is no template 'rust/edits/export.rs.j2'" in message


def test_what_is_applied_can_be_taken_back_with_invalid_specs(
    candle: Path, candle_rocm: CommandLine, home: Path
) -> None:
    pristine = tree_hash(candle)
    candle_rocm.ok("apply", candle)
    (home / "specs" / "candle.yaml").write_text("}")

    candle_rocm.ok("revert", candle)

    assert tree_hash(candle) == pristine


@pytest.mark.parametrize("template", [EXPORTS, "templates/candle/3-tensors/candle-core/src/rocm_backend/element.rs.j2"])
def test_a_template_that_uses_an_undefined_name(
    candle: Path, candle_rocm: CommandLine, home: Path, template: str
) -> None:
    (home / template).write_text((home / template).read_text() + "// «velocity»\n")
    line = len((home / template).read_text().splitlines())
    pristine = tree_hash(candle)

    check_refused(
        candle_rocm("apply", candle),
        3,
        f"invalid template: {template}:{line}:1: 'velocity' is undefined",
        f"  {line} | // «velocity»",
    )
    assert tree_hash(candle) == pristine


def test_a_template_with_a_syntax_error(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    (home / EXPORTS).write_text("{% if cfg %}\npub use rocm;\n")

    refused = candle_rocm("diff", candle)

    assert (refused.code, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"invalid template: {EXPORTS}:2:1: Unexpected end of template.")


def test_a_template_that_includes_one_that_does_not_exist(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    (home / EXPORTS).write_text('{% include "rust/edits/gone.rs.j2" %}\n')

    check_refused(
        candle_rocm("diff", candle),
        3,
        f"invalid template: there is no template templates/rust/edits/gone.rs.j2 (used by {EXPORTS})",
    )


def test_an_override_that_is_no_rust(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    (home / EXPORTS).write_text("pub use rocm::{;\n")
    refused = candle_rocm("diff", candle)
    assert (refused.code, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"invalid template: {LIB}:")
    assert "the edits of core.exports would leave text that does not parse" in refused.stderr
    assert " | pub use rocm::{;" in refused.stderr


def test_a_new_file_that_is_no_rust(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    file = "templates/candle/1-core/candle-core/src/rocm_backend/event.rs"
    (home / file).write_text((home / file).read_text() + "\nfn half( {\n")
    refused = candle_rocm("diff", candle)
    assert (refused.code, refused.stdout) == (3, "")
    assert refused.stderr.startswith("invalid template: candle-core/src/rocm_backend/event.rs:")
    assert (
        "the edits of core.candle-core-src-rocm-backend-event-rs would leave text that does not parse" in refused.stderr
    )


def test_a_table_of_hip_functions_that_is_not_there(candle: Path, candle_rocm: CommandLine, home: Path) -> None:
    (home / "specs" / "hip_api.yaml").unlink()

    check_refused(
        candle_rocm("diff", candle),
        6,
        "input/output error: cannot read specs/hip_api.yaml: No such file or directory",
        "  = help: restore it from candle-rocm's repository",
    )


# --- programs ----------------------------------------------------------------------------------------------------


def test_rustfmt_missing(
    candle: Path, candle_rocm: CommandLine, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pristine = tree_hash(candle)

    for command in ("diff", "apply", "generate", "check"):
        check_refused(
            candle_rocm(command, candle),
            7,
            "missing toolchain: rustfmt is not installed",
            "  = help: install it with `rustup component add rustfmt`",
        )
    assert tree_hash(candle) == pristine


@pytest.mark.parametrize("arguments", [("verify",), ("scan", "--oracle")])
def test_cargo_missing(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    refused = candle_rocm(arguments[0], candle, *arguments[1:])

    assert refused.code == 7
    assert refused.stderr.startswith("missing toolchain: `cargo`, `rustc`")
    assert "  = help: install Rust with rustup" in refused.stderr


# --- our own bugs ------------------------------------------------------------------------------------------------


def test_an_internal_error(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr("codegen.spec.loader.load_specs", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    failed = candle_rocm("status", candle)

    (report,) = tmp_path.glob("candle-rocm-*.txt")
    assert (failed.code, failed.stdout) == (70, "")
    assert failed.stderr == (
        "internal error: ZeroDivisionError: secret of the house\n"
        f"  = help: this is a bug of candle-rocm; please report {report}\n"
    )
    assert "Traceback" in report.read_text()
    assert "in broken" in report.read_text()


def test_an_internal_error_and_no_disk_for_its_report(
    candle: Path, candle_rocm: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codegen.spec.loader.load_specs", lambda **_: 1 / 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    failed = candle_rocm("status", candle)

    assert failed.code == 70
    assert failed.stderr.startswith("internal error: ZeroDivisionError: division by zero\n")
    assert "Traceback" in failed.stderr


def test_an_interruption(candle: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("codegen.spec.loader.load_specs", interrupted)

    stopped = candle_rocm("status", candle)

    assert (stopped.code, stopped.stderr.strip()) == (130, "interrupted")


def test_output_that_nobody_takes(candle: Path, candle_rocm: CommandLine) -> None:
    """In a process of its own: standard output is a full disk, then a pipe whose reader is gone."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "codegen", "diff", str(candle)]
    candle_rocm.ok("diff", candle)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY)
    assert (done.returncode, done.stderr) == (
        6,
        (
            "input/output error: cannot write the output: No space left on device\n"
            "  = help: free space at the destination of the output, or send it elsewhere\n"
        ),
    )

    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_made_up_trees_with_spaces_and_umlauts_in_their_path(candle_rocm: CommandLine, tmp_path: Path) -> None:
    candle = candle_tree(tmp_path / "Kerze für 'AMD'")

    candle_rocm.ok("apply", candle)
    candle_rocm.ok("check", candle)
