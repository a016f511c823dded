"""Public items of real releases: each has its counterpart on ROCm or a reason, and the page and the list are fresh."""

from __future__ import annotations

import shutil
from functools import cache
from typing import TYPE_CHECKING

import pytest
from in_process import REPOSITORY, CommandLine, copy_of_home
from made_up import replace_in

from codegen.candle.tree import open_tree
from codegen.lint.repository import PUBLIC_ITEMS
from codegen.report.parity import Compared, State, compare, error_of
from codegen.report.parity_page import DOCUMENTED, parity_page
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating
from codegen.spec.loader import load_specs
from codegen.spec.parity import PARITY, load_parity
from codegen.workspace.analysis import analyse
from codegen.workspace.workspace import open_workspace

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.network]

SPECS = load_specs()
TRIED = tuple(release.version for release in SPECS.candle.releases)
HEAD = (
    "# Public items of CUDA's side, and the first and the last release that has them; `make regen` writes this list.\n"
)


@cache
def compared() -> tuple[Compared, ...]:
    """All tested releases, in ascending order; plans that were made before are taken from the cache."""
    parity = load_parity()
    found = []
    for version in TRIED:
        workspace = open_workspace(version)
        plan = analyse(workspace, gating=Gating.DUMMY, runtime=DEFAULT_RUNTIME).plan
        found.append(compare(workspace.tree, plan, parity))
    return tuple(found)


@pytest.fixture
def candle_rocm(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line with the user's cache, which has the releases."""
    return CommandLine(capsys)


def test_every_item_has_a_counterpart_or_a_reason() -> None:
    error = error_of(compared())

    assert error is None, str(error)
    for each in compared():
        print(each.release, {state.value: each.count(state) for state in State})
        assert each.count(State.SAME) > 40


def test_the_page_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    page = REPOSITORY / DOCUMENTED
    wanted = parity_page(compared())
    if update_goldens:
        page.write_text(wanted, encoding="utf-8")

    assert page.read_text(encoding="utf-8") == wanted, "run `make regen` and review the difference"


def test_the_list_of_items_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    having: dict[str, list[str]] = {}
    for each in compared():
        for path in dict.fromkeys(row.item.path for row in each.rows):
            having.setdefault(path, []).append(each.release)
    for path, releases in having.items():
        first, last = TRIED.index(releases[0]), TRIED.index(releases[-1])
        assert releases == list(TRIED[first : last + 1]), path
    text = HEAD + "".join(f"{path} {releases[0]} {releases[-1]}\n" for path, releases in sorted(having.items()))
    golden = REPOSITORY / PUBLIC_ITEMS
    if update_goldens:
        golden.write_text(text, encoding="utf-8")

    assert len(having) > 200
    assert golden.read_text(encoding="utf-8") == text, "run `make regen` and review the difference"


def test_what_two_programs_use_is_there_or_waits() -> None:
    used = [row for each in compared() for row in each.rows if row.uses > 1]

    assert len(used) > 200
    assert [row.item.path for row in used if row.state is State.NONE] == []


def planted(folder: Path, path: str, old: str, new: str) -> Path:
    """A copy of the newest release with an edit."""
    root = shutil.copytree(
        open_tree(TRIED[-1]).root, folder / "candle", ignore=shutil.ignore_patterns("*.cu", "*.metal", "*.metallib")
    )
    replace_in(root / path, old, new, count=1)
    return root


DEVICE = "candle-core/src/cuda_backend/device.rs"
IMPL = "impl CudaDevice {\n"


def test_a_function_that_is_new_in_a_release(tmp_path: Path, candle_rocm: CommandLine) -> None:
    root = planted(tmp_path, DEVICE, IMPL, f"{IMPL}    pub fn planted(&self) {{}}\n")

    refused = candle_rocm("parity", root, "--state", "unanswered")

    line = (root / DEVICE).read_text().splitlines().index("    pub fn planted(&self) {}") + 1
    assert refused.code == 4
    assert (
        f"{DEVICE}:{line}:5: candle_core::CudaDevice::planted: ROCm's side has no candle_core::RocmDevice::planted"
        in (refused.stderr)
    )
    assert refused.stdout.startswith("candle_core::CudaDevice::planted: unanswered: ROCm's side has no")
    document = candle_rocm("parity", root, "--json", "--state", "unanswered")
    assert document.code == 4
    assert [item["item"] for item in document.document["items"]] == ["candle_core::CudaDevice::planted"]


def test_a_function_whose_arguments_a_release_changes(tmp_path: Path, candle_rocm: CommandLine) -> None:
    root = planted(
        tmp_path,
        "candle-core/src/cuda_backend/mod.rs",
        "fn set_gemm_reduced_precision_f32(b: bool)",
        "fn set_gemm_reduced_precision_f32(b: u8)",
    )

    refused = candle_rocm("parity", root)

    assert refused.code == 4
    assert "rocm::set_gemm_reduced_precision_f32 is `fn(bool)` and not `fn(u8)`" in refused.stderr


def test_an_answer_that_is_gone_and_one_that_answers_nothing(
    tmp_path: Path, candle_rocm: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = copy_of_home(tmp_path / "home", monkeypatch) / PARITY
    text = spec.read_text(encoding="utf-8")
    spec.write_text(text.replace("item: [fast_mmq, fast_mmvq]", "item: [fast_mmq]"), encoding="utf-8")
    refused = candle_rocm("parity", TRIED[-1])
    assert refused.code == 4
    assert "candle_core::quantized::fast_mmvq: ROCm's side has no" in refused.stderr

    more = "  - {item: candle_core::Device::new_cuda, none: there is nothing alike}\n"
    spec.write_text(text + more, encoding="utf-8")
    refused = candle_rocm("parity", TRIED[-1])
    line = text.count("\n") + 1
    assert refused.code == 3
    assert f"{PARITY}:{line}:12: candle_core::Device::new_cuda has its counterpart, candle_core::Device::new_rocm" in (
        refused.stderr
    )
