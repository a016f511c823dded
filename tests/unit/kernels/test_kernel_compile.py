"""Code objects: made once, from what decides them, by as many compilers as there are processors."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rocm_toolchain import real_toolchain
from small_kernels import BROKEN, HEADER, TWICE, source, sources

from codegen.errors import ExitCode, InputOutputError, KernelRejected
from codegen.kernels.compile import CodeObject, compile_kernels
from codegen.rocm.toolchain import Toolchain

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.kernels.render import Sources

# "Compiles" by joining its last source and the precompiled header's name; a source with BAD is refused.
COMPILER = r"""#!/bin/sh
echo "$@" >> {log}
while [ $# -gt 0 ]; do
    case "$1" in
    -o) shift; [ "$1" = -Xclang ] && shift; output=$1 ;;
    *.pch) header=$1 ;;
    *.hip) input=$1 ;;
    esac
    shift
done
if grep -q BAD "$input"; then
    echo "$input:3:1: error: BAD"
    exit 1
fi
cat "$input" > "$output"
echo "$header" >> "$output"
"""


@pytest.fixture
def fake(tmp_path: Path) -> Toolchain:
    """A compiler that notes how it is called."""
    compiler = tmp_path / "clang"
    compiler.write_text(COMPILER.replace("{log}", str(tmp_path / "log")), encoding="utf-8")
    compiler.chmod(0o755)
    return Toolchain(
        compiler=compiler,
        flags=("--device-only",),
        origin="a test's",
        hip="7.2.0",
        version="clang version 0",
        identity="fake 1",
        precompiles_headers=True,
        hiprtc=None,
    )


def calls(tmp_path: Path) -> list[str]:
    """The compilations so far; those of headers are not counted."""
    log = tmp_path / "log"
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [line for line in lines if "-emit-pch" not in line]


def two() -> Sources:
    return sources(source(TWICE, name="one"), source(TWICE, name="two"))


def test_every_family_for_every_architecture(fake: Toolchain, tmp_path: Path) -> None:
    made = compile_kernels(two(), ["gfx90a", "gfx1100"], fake, tmp_path / "out")
    assert [(code.family, code.architecture) for code in made] == [
        ("one", "gfx90a"),
        ("one", "gfx1100"),
        ("two", "gfx90a"),
        ("two", "gfx1100"),
    ]
    places = [code.path.relative_to(tmp_path / "out").as_posix() for code in made]
    assert places == ["gfx90a/one.hsaco", "gfx1100/one.hsaco", "gfx90a/two.hsaco", "gfx1100/two.hsaco"]
    assert all(code.path.read_text(encoding="utf-8").startswith(TWICE) for code in made)


def test_the_compiler_gets_the_options(fake: Toolchain, tmp_path: Path) -> None:
    compile_kernels(sources(source(TWICE)), ["gfx90a"], fake, tmp_path / "out")
    (call,) = calls(tmp_path)
    for option in ("--device-only", "--offload-arch=gfx90a", "-O3", "-std=c++17", "-Wall", "-Wextra", "-Werror"):
        assert option in call.split()


def test_nothing_changed_compiles_nothing(fake: Toolchain, tmp_path: Path) -> None:
    compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out")
    before = len(calls(tmp_path))
    made = compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out")
    assert len(calls(tmp_path)) == before == 2
    assert [code.seconds for code in made] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "compiled"),
    [
        pytest.param(lambda s, t: (sources(source(TWICE + "\n", name="one"), s.families[1]), t), 1, id="a source"),
        pytest.param(lambda s, t: (sources(*s.families, header=HEADER + "\n"), t), 2, id="a header"),
        pytest.param(lambda s, t: (s, replace(t, identity="fake 2")), 2, id="the compiler"),
        pytest.param(lambda s, t: (s, replace(t, flags=("--device-only", "-g"))), 2, id="a flag"),
    ],
)
def test_what_changed_is_compiled(fake: Toolchain, tmp_path: Path, change: object, compiled: int) -> None:
    assert callable(change)
    compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out")
    before = len(calls(tmp_path))
    changed, toolchain = change(two(), fake)
    compile_kernels(changed, ["gfx90a"], toolchain, tmp_path / "out")
    assert len(calls(tmp_path)) - before == compiled


@pytest.mark.parametrize("suffix", [".hsaco", ".origin", ".key"])
def test_a_lost_file_is_made_again(fake: Toolchain, tmp_path: Path, suffix: str) -> None:
    (made,) = compile_kernels(sources(source(TWICE)), ["gfx90a"], fake, tmp_path / "out")
    lost = made.path.with_suffix(suffix)
    lost.unlink()
    compile_kernels(sources(source(TWICE)), ["gfx90a"], fake, tmp_path / "out")
    assert lost.exists()


def test_the_loader_is_told_of_sources_and_length(fake: Toolchain, tmp_path: Path) -> None:
    def origin(folder: str, text: str, header: str) -> tuple[str, int, int]:
        (made,) = compile_kernels(sources(source(text), header=header), ["gfx90a"], fake, tmp_path / folder)
        hashed, length = made.path.with_suffix(".origin").read_text(encoding="ascii").split()
        return hashed, int(length), made.path.stat().st_size

    hashed, told, length = origin("out", TWICE, HEADER)
    assert (len(hashed), told) == (32, length)
    assert origin("other", TWICE, HEADER)[0] == hashed, "whatever the folder"
    changed = {origin("out", TWICE + "\n", HEADER)[0], origin("out", TWICE, HEADER + "\n")[0]}
    assert len(changed) == 2
    assert hashed not in changed


def test_a_refused_source_leaves_no_code_object(fake: Toolchain, tmp_path: Path) -> None:
    good, bad = source(TWICE), source("// BAD\n")
    (made,) = compile_kernels(sources(good), ["gfx90a"], fake, tmp_path / "out")
    with pytest.raises(KernelRejected) as raised:
        compile_kernels(sources(bad), ["gfx90a", "gfx1100"], fake, tmp_path / "out")
    assert raised.value.exit_code is ExitCode.VERIFICATION_FAILED
    (problem,) = raised.value.problems
    assert str(problem).startswith("specs/kernels/small.yaml:17:1: BAD [gfx90a, gfx1100]")
    assert made.path.read_text(encoding="utf-8").startswith(TWICE), "the old one stays"
    assert not list((tmp_path / "out").glob("*/.*"))
    compile_kernels(sources(good), ["gfx90a"], fake, tmp_path / "out")
    assert len(calls(tmp_path)) == 3, "and is still current"


def test_families_share_a_precompiled_header_for_each_architecture(fake: Toolchain, tmp_path: Path) -> None:
    made = compile_kernels(two(), ["gfx90a", "gfx1100"], fake, tmp_path / "out")
    for code in made:
        header = tmp_path / f"out/pch/{code.architecture}.pch"
        assert code.path.read_text(encoding="utf-8").splitlines()[-1] == str(header)
    assert (tmp_path / "log").read_text(encoding="utf-8").count("-emit-pch") == 2


def test_one_family_is_not_worth_a_precompiled_header(fake: Toolchain, tmp_path: Path) -> None:
    compile_kernels(sources(source(TWICE)), ["gfx90a"], fake, tmp_path / "out")
    assert not (tmp_path / "out/pch").exists()


def test_hipcc_gets_no_precompiled_header(fake: Toolchain, tmp_path: Path) -> None:
    compile_kernels(two(), ["gfx90a"], replace(fake, precompiles_headers=False), tmp_path / "out")
    assert not (tmp_path / "out/pch").exists()


def test_a_compiler_that_precompiles_nothing_still_compiles(fake: Toolchain, tmp_path: Path) -> None:
    script = fake.compiler.read_text(encoding="utf-8")
    fake.compiler.write_text(
        script.replace("while", 'case "$*" in *-emit-pch*) exit 1;; esac\nwhile'), encoding="utf-8"
    )
    made = compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out")
    assert len(made) == 2
    assert not (tmp_path / "out/pch/gfx90a.pch").exists()


def test_progress_is_told_of_each(fake: Toolchain, tmp_path: Path) -> None:
    told: list[CodeObject] = []
    lock = threading.Lock()

    def progress(code: CodeObject) -> None:
        with lock:
            told.append(code)

    made = compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out", progress=progress)
    assert sorted(told, key=lambda code: code.family) == list(made)


def test_a_compiler_that_vanished(fake: Toolchain, tmp_path: Path) -> None:
    fake.compiler.unlink()
    with pytest.raises(InputOutputError, match=r"compiling kernels: .*clang: No such file"):
        compile_kernels(two(), ["gfx90a"], fake, tmp_path / "out")


# From here on with the machine's own compiler.


def test_neither_folder_nor_precompiled_header_changes_the_code(tmp_path: Path) -> None:
    toolchain = real_toolchain()
    first, _ = compile_kernels(two(), ["gfx1100"], toolchain, tmp_path / "with")
    (other,) = compile_kernels(sources(source(TWICE, name="one")), ["gfx1100"], toolchain, tmp_path / "without")
    assert (tmp_path / "with/pch/gfx1100.pch").exists() == toolchain.precompiles_headers
    assert not (tmp_path / "without/pch").exists()
    assert first.path.read_bytes()[:4] == b"\x7fELF"
    assert first.path.read_bytes() == other.path.read_bytes()


def test_real_errors_are_at_the_specs_line(tmp_path: Path) -> None:
    with pytest.raises(KernelRejected) as raised:
        compile_kernels(sources(source(BROKEN)), ["gfx90a"], real_toolchain(), tmp_path / "out")
    undeclared, operands = sorted(map(str, raised.value.problems), reverse=True)
    assert undeclared.startswith("specs/kernels/small.yaml:17:1: use of undeclared identifier 'undeclared' [gfx90a]")
    assert operands.startswith("specs/kernels/small.yaml:17:1: invalid operands to binary expression")
    assert "candle_rocm/twice.h:7:12: error" in operands


def test_a_warning_is_an_error(tmp_path: Path) -> None:
    text = TWICE.replace("unsigned i =", "int unused = 0;\n  unsigned i =")
    with pytest.raises(KernelRejected, match="unused variable 'unused'"):
        compile_kernels(sources(source(text)), ["gfx1100"], real_toolchain(), tmp_path / "out")
