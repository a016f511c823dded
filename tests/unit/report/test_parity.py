"""Public items of a made-up release and of what was planned for it: their states, and what is wrong with answers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import pytest

from codegen.candle.tree import open_tree
from codegen.errors import ExitCode, SpecInvalid, UnansweredItem
from codegen.patch.changes import FileChange, PhaseChanges
from codegen.plan.model import Plan
from codegen.report.parity import Compared, State, compare, error_of
from codegen.report.parity_page import merged, parity_lines, parity_page, release_document, releases_document
from codegen.spec.parity import parse_parity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RELEASE = "0.11.1"
HEAD = """\
crates: [{name: candle-core}, {name: candle-flash-attn, whole: true}]
names: [cuda, cudnn]
features: {cuda: [cuda, cudnn], rocm: rocm}
"""
LIB = "candle-core/src/lib.rs"
CUDA_LIB = """\
#[cfg(feature = "cuda")]
pub mod cuda_backend;
#[cfg(feature = "cuda")]
pub use cuda_backend as cuda;
pub use cuda::CudaDevice;
pub mod moe;
pub fn neutral() {}
"""
BACKEND = "candle-core/src/cuda_backend.rs"
CUDA = """\
pub struct CudaDevice;
impl CudaDevice {
    pub fn new(ordinal: usize) -> crate::Result<Self> { todo() }
    pub fn stream(&self) -> CudaStream { todo() }
}
"""
ROCM_BACKEND = "candle-core/src/rocm_backend.rs"
ROCM = """\
pub struct RocmDevice;
impl RocmDevice {
    pub fn new(number: usize) -> Result<Self> { todo() }
    pub fn stream(&self) -> RocmStream { todo() }
}
"""
ROCM_LIB = (
    CUDA_LIB
    + """\
#[cfg(feature = "rocm")]
pub mod rocm_backend;
#[cfg(feature = "rocm")]
pub use rocm_backend as rocm;
pub use rocm::RocmDevice;
"""
)
MOE = "candle-core/src/moe.rs"


@pytest.fixture
def comparing(tmp_path: Path) -> Callable[..., Compared]:
    """Compares a tree whose files of CUDA's and ROCm's side are the usual ones, but for those that are given."""

    def compared(
        answers: str = "",
        *,
        cuda: str = CUDA,
        rocm: str = ROCM,
        rocm_lib: str = ROCM_LIB,
        moe: str = "",
        moe_after: str | None = None,
        release: str = RELEASE,
        exact: bool = True,
    ) -> Compared:
        root = tmp_path / release
        files = {
            "Cargo.toml": f'[workspace]\nmembers = ["candle-core"]\n[workspace.package]\nversion = "{release}"\n',
            "candle-core/Cargo.toml": '[package]\nname = "candle-core"\nversion.workspace = true\n',
            LIB: CUDA_LIB,
            BACKEND: cuda,
            MOE: moe,
        }
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        after = {LIB: rocm_lib, ROCM_BACKEND: rocm, MOE: moe if moe_after is None else moe_after}
        changes = tuple(FileChange(path, None, text.encode()) for path, text in after.items())
        plan = Plan(release, "dummy", "dynamic", (PhaseChanges(1, "core", "All of it.", changes),))
        parity = parse_parity((HEAD + textwrap.dedent(answers)).encode())
        return compare(open_tree(root), plan, parity, exact=exact)

    return compared


def states(compared: Compared) -> dict[str, str]:
    return {row.item.path.removeprefix("candle_core::"): row.state.value for row in compared.rows}


def complaints(compared: Compared) -> list[str]:
    return [f"{problem.location}: {problem.message}" for problem in compared.stale]


def test_all_items_are_there_under_their_new_names(comparing: Callable[..., Compared]) -> None:
    compared = comparing()

    assert states(compared) == {
        "CudaDevice": "same",
        "CudaDevice::new": "same",
        "CudaDevice::stream": "same",
        "cuda": "same",
    }
    assert [row.counterparts for row in compared.rows][1] == ("candle_core::RocmDevice::new",)
    assert compared.error is None


def test_a_new_public_function_without_counterpart_and_reason(comparing: Callable[..., Compared]) -> None:
    compared = comparing(cuda=CUDA + "pub fn sync_cuda(a: u8) {}\n")

    assert states(compared)["cuda::sync_cuda"] == "unanswered"
    assert isinstance(compared.error, UnansweredItem)
    assert compared.error.exit_code == ExitCode.UNKNOWN_SITE
    assert str(compared.error) == (
        "public item without a counterpart or a reason: candle-core/src/cuda_backend.rs:6:1: "
        "candle_core::cuda::sync_cuda: ROCm's side has no candle_core::rocm::sync_rocm\n"
        "  6 | pub fn sync_cuda(a: u8) {}\n"
        "    | ^\n"
        "  = help: give the item its counterpart, or say in specs/parity.yaml what there is instead, and why"
    )


def test_a_new_type_is_one_problem_with_all_its_members(comparing: Callable[..., Compared]) -> None:
    compared = comparing(cuda=CUDA + "pub enum Kind { A, B(u8) }\n")

    assert [value for path, value in states(compared).items() if "Kind" in path] == ["unanswered"] * 3
    assert [problem.message for problem in compared.unanswered] == [
        "candle_core::cuda::Kind: ROCm's side has no candle_core::rocm::Kind"
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("number: usize", "number: u32", "is `fn(u32) -> Result<Self>` and not `fn(usize) -> Result<Self>`"),
        ("-> RocmStream", "-> Stream", "is `fn(&self) -> Stream` and not `fn(&self) -> RocmStream`"),
        ("pub fn stream", "pub unsafe fn stream", "is `unsafe fn(&self) -> RocmStream` and not"),
        ("pub fn new", "pub(crate) fn new", "ROCm's side has no candle_core::RocmDevice::new"),
        ("pub struct RocmDevice;", "pub enum RocmDevice {}", "candle_core::RocmDevice is of another kind, enum"),
    ],
)
def test_a_counterpart_that_differs(comparing: Callable[..., Compared], old: str, new: str, says: str) -> None:
    assert ROCM.count(old) == 1
    compared = comparing(rocm=ROCM.replace(old, new))

    assert [says in problem.message for problem in compared.unanswered] == [True]


def test_a_counterpart_that_is_not_reached_by_every_path(comparing: Callable[..., Compared]) -> None:
    compared = comparing(
        rocm_lib=ROCM_LIB.replace("pub use rocm_backend as rocm;", "pub(crate) use rocm_backend as rocm;")
    )

    assert next(problem.message for problem in compared.unanswered) == (
        "candle_core::CudaDevice: candle_core::RocmDevice is not candle_core::rocm::RocmDevice, too"
    )


MORE = CUDA + "pub enum Kind { A }\npub fn name() {}\npub use cudarc;\n"
ANSWERS = """\
answers:
  - {within: "candle_core::cuda", item: Kind, missing: typed memory comes first}
  - {within: "candle_core::cuda", item: name, form: "candle_core::RocmDevice::name", how: a method instead}
  - {within: "candle_core::cuda", item: cudarc, none: "another crate, of CUDA only"}
"""
WITH_NAME = ROCM.replace("impl RocmDevice {", "impl RocmDevice {\n    pub fn name(&self) {}")


def test_answers(comparing: Callable[..., Compared]) -> None:
    compared = comparing(ANSWERS, cuda=MORE, rocm=WITH_NAME)

    found = states(compared)
    assert found["cuda::Kind"] == found["cuda::Kind::A"] == "missing"
    assert (found["cuda::name"], found["cuda::cudarc"]) == ("other form", "none")
    rows = {row.item.path: row for row in compared.rows}
    assert rows["candle_core::cuda::Kind::A"].note == "typed memory comes first"
    assert rows["candle_core::cuda::name"].counterparts == ("candle_core::RocmDevice::name",)
    assert compared.error is None
    assert [compared.count(state) for state in State] == [4, 1, 1, 2, 0]


def test_an_answer_about_an_item_that_has_its_counterpart(comparing: Callable[..., Compared]) -> None:
    compared = comparing(ANSWERS, cuda=MORE, rocm=WITH_NAME + "pub enum Kind { A }\n")

    (complaint,) = complaints(compared)
    assert complaint.startswith("specs/parity.yaml:5:41: candle_core::cuda::Kind has its counterpart")
    assert complaint.endswith(", candle_core::rocm::Kind: the answer has to go")
    assert isinstance(compared.error, SpecInvalid)
    assert compared.error.exit_code == ExitCode.SPEC_INVALID


def test_a_counterpart_of_another_form_has_to_be_named(comparing: Callable[..., Compared]) -> None:
    compared = comparing(ANSWERS, cuda=MORE, rocm=WITH_NAME + "pub struct Kind;\npub fn name() -> u8 { 1 }\n")

    assert complaints(compared) == [
        f"specs/parity.yaml:{line}:41: candle_core::rocm::{name} is there: "
        "name it as `form`, and say in what it differs"
        for line, name in ((5, "Kind"), (6, "name"))
    ]


def test_a_form_that_does_not_exist(comparing: Callable[..., Compared]) -> None:
    compared = comparing(ANSWERS, cuda=MORE)

    assert complaints(compared) == [
        "specs/parity.yaml:6:41: ROCm's side has no public item candle_core::RocmDevice::name"
    ]


def test_an_answer_about_nothing(comparing: Callable[..., Compared]) -> None:
    answers = (
        ANSWERS
        + """\
  - {item: "candle_core::gone", none: there is nothing alike}
  - {item: "candle_core::later", since: 0.12.0, none: there is nothing alike}
further: [{item: "candle_core::Ug", reason: its fields are of CUDA only}]
    """
    )
    compared = comparing(answers, cuda=MORE, rocm=WITH_NAME)

    assert complaints(compared) == [
        "specs/parity.yaml:8:12: CUDA's side of 0.11.1 has no public item candle_core::gone",
        "specs/parity.yaml:10:11: CUDA's side of 0.11.1 has no public item candle_core::Ug",
    ]
    assert comparing(answers, cuda=MORE, rocm=WITH_NAME, exact=False).error is None


def test_members_of_an_item_in_another_form_need_answers(comparing: Callable[..., Compared]) -> None:
    answers = """
        answers:
          - {item: "candle_core::cuda::Kind", form: "candle_core::RocmDevice", how: a device instead of it}
    """
    compared = comparing(answers, cuda=CUDA + "pub enum Kind { A }\n")

    assert [problem.message for problem in compared.unanswered] == [
        "candle_core::cuda::Kind::A: ROCm's side has no candle_core::rocm::Kind::A"
    ]


@pytest.mark.parametrize(("field", "unanswered"), [("a: u8", 0), ("b: u8", 1), ("a: u16", 1)])
def test_members_are_looked_for_in_the_form_of_their_item(
    comparing: Callable[..., Compared], field: str, unanswered: int
) -> None:
    answers = """
        answers:
          - {item: "candle_core::cuda::Kind", form: "candle_core::rocm::Sort", how: it has another name}
    """
    cuda, rocm = CUDA + "pub struct Kind { pub a: u8 }\n", ROCM + f"pub struct Sort {{ pub {field} }}\n"
    compared = comparing(answers, cuda=cuda, rocm=rocm)

    assert len(list(compared.unanswered)) == unanswered
    rows = {row.item.path: row.counterparts for row in compared.rows}
    moved = () if unanswered else ("candle_core::rocm::Sort::a",)
    assert rows["candle_core::cuda::Kind::a"] == moved


GATED = (
    '#[cfg(feature = "cuda")]\npub fn gemm(a: u8) {}\n#[cfg(not(feature = "cuda"))]\npub fn gemm(a: u8) { panic!() }\n'
)


def test_an_item_that_keeps_its_name_has_to_be_made_for_rocm(comparing: Callable[..., Compared]) -> None:
    made = 'pub fn gemm(a: u8) { panic!() }\n#[cfg(feature = "rocm")]\nmod inner { pub fn gemm(a: u8) {} }\n'

    assert states(comparing(moe=GATED))["moe::gemm"] == "unanswered"
    after = GATED.replace("pub fn gemm(a: u8) { panic!() }", "pub fn gemm(a: u8) { rocm() }")
    assert states(comparing(moe=GATED, moe_after=after))["moe::gemm"] == "same"
    after = made + '#[cfg(feature = "rocm")]\npub use inner::gemm;\n'
    assert (
        states(comparing(moe=GATED, moe_after=after.removeprefix("pub fn gemm(a: u8) { panic!() }\n")))["moe::gemm"]
        == "same"
    )


def test_an_item_is_cudas_by_its_signature_and_by_the_specs(comparing: Callable[..., Compared]) -> None:
    moe = "pub fn on(d: &CudaDevice) {}\npub fn off() { cuda() }\npub struct Ug;\nimpl Ug { pub fn new() {} }\n"
    further = 'further: [{item: "candle_core::moe::Ug", reason: its fields are of CUDA only}]\n'

    found = states(comparing(further, moe=moe))
    assert {path for path in found if path.startswith("moe::")} == {"moe::on", "moe::Ug", "moe::Ug::new"}
    assert {path for path in states(comparing(moe=moe)) if path.startswith("moe::")} == {"moe::on"}


def test_all_of_a_whole_crate_is_cudas(comparing: Callable[..., Compared], tmp_path: Path) -> None:
    comparing()
    lib = tmp_path / RELEASE / "candle-flash-attn" / "src" / "lib.rs"
    lib.parent.mkdir(parents=True)
    lib.write_text("pub fn flash(a: u8) {}\n")
    manifest = lib.parents[1] / "Cargo.toml"
    manifest.write_text('[package]\nname = "candle-flash-attn"\nversion = "0.11.1"\n')
    answers = "answers: [{item: candle_flash_attn, missing: flash attention for ROCm}]\n"
    parity = parse_parity((HEAD + answers).encode())
    root = tmp_path / RELEASE
    (root / "Cargo.toml").write_text((root / "Cargo.toml").read_text().replace('["candle-core"]', '["candle-*"]'))

    plan = Plan(RELEASE, "dummy", "dynamic", ())
    found = {row.item.path: row.state.value for row in compare(open_tree(root), plan, parity).rows}
    assert (found["candle_flash_attn"], found["candle_flash_attn::flash"]) == ("missing", "missing")


def test_numbers_of_programs(comparing: Callable[..., Compared]) -> None:
    uses = 'uses: {"candle_core::cuda::Kind": 2, "candle_core::cuda::Kind::A": 1, "candle_core::cuda::name": 5}\n'
    compared = comparing(uses + ANSWERS, cuda=MORE, rocm=WITH_NAME)

    assert [row.item.path for row in compared.missing_in_use] == ["candle_core::cuda::Kind"]


# --- What is printed ---------------------------------------------------------------------------------------------


def test_lines_of_one_release(comparing: Callable[..., Compared]) -> None:
    uses = 'uses: {"candle_core::cuda::Kind": 2}\n'
    compared = comparing(uses + ANSWERS, cuda=MORE, rocm=WITH_NAME)

    assert list(parity_lines([compared])) == [
        "candle_core::CudaDevice: same: candle_core::RocmDevice",
        "candle_core::CudaDevice::new: same: candle_core::RocmDevice::new",
        "candle_core::CudaDevice::stream: same: candle_core::RocmDevice::stream",
        "candle_core::cuda: same: candle_core::rocm",
        "candle_core::cuda::Kind: missing: typed memory comes first",
        "candle_core::cuda::Kind::A: missing: typed memory comes first",
        "candle_core::cuda::cudarc: none: another crate, of CUDA only",
        "candle_core::cuda::name: other form: candle_core::RocmDevice::name; a method instead",
        "Candle 0.11.1: 8 public items of CUDA's side: 4 same, 1 other form, 1 none, 2 missing (1 in use)",
    ]
    assert list(parity_lines([compared], {State.NONE}))[:-1] == [
        "candle_core::cuda::cudarc: none: another crate, of CUDA only"
    ]


def test_several_releases_are_merged(comparing: Callable[..., Compared]) -> None:
    releases = ["0.9.1", "0.10.0", "0.11.0", "0.11.1"]
    extra = {"0.9.1": "a b", "0.10.0": "a c", "0.11.0": "d c", "0.11.1": "d a"}
    found = []
    for release in releases:
        functions = "".join(f"pub fn {name}() {{}}\n" for name in extra[release].split())
        found.append(comparing(cuda=CUDA + functions, rocm=ROCM + functions, release=release))

    spans = {each.row.item.path.removeprefix("candle_core::"): each.releases for each in merged(found)}
    assert spans == {
        "CudaDevice": "",
        "CudaDevice::new": "",
        "CudaDevice::stream": "",
        "cuda": "",
        "cuda::a": "0.9.1, 0.10.0, 0.11.1",
        "cuda::b": "0.9.1",
        "cuda::c": "0.10.0 to 0.11.0",
        "cuda::d": "from 0.11.0",
    }
    assert merged(found[:3])[4].releases == "to 0.10.0"
    assert "candle_core::cuda::b (0.9.1): same: candle_core::rocm::b" in list(parity_lines(found))
    page = parity_page(found)
    assert "| `candle_core::cuda::c` | same | `candle_core::rocm::c` |  | 0.10.0 to 0.11.0 |  |\n" in page
    assert "| 0.11.1 | 6 | 6 | 0 | 0 | 0 | 0 |\n" in page


def test_one_error_for_several_releases(comparing: Callable[..., Compared]) -> None:
    found = [comparing(cuda=CUDA + "pub fn f() {}\n", release=release) for release in ("0.10.0", "0.11.1")]

    error = error_of(found)
    assert error is not None
    assert len(error.problems) == 1
    assert error_of([]) is None


def test_documents(comparing: Callable[..., Compared]) -> None:
    compared = comparing(cuda=CUDA + "pub fn f() {}\n")

    one = release_document(compared, {State.UNANSWERED}, tried=False)
    assert (one["schema_version"], one["command"], one["candle"]) == (1, "parity", {"release": RELEASE, "tried": False})
    assert one["counts"] == {"same": 4, "other form": 0, "none": 0, "missing": 0, "unanswered": 1}
    assert one["items"] == [
        {
            "item": "candle_core::cuda::f",
            "kind": "fn",
            "paths": ["candle_core::cuda::f", "candle_core::cuda_backend::f"],
            "signature": "fn()",
            "path": BACKEND,
            "line": 6,
            "state": "unanswered",
            "rocm": [],
            "note": "ROCm's side has no candle_core::rocm::f",
            "programs": 0,
        }
    ]
    assert [problem["line"] for problem in one["problems"]] == [6]
    every = releases_document([compared])
    assert (every["command"], [entry["release"] for entry in every["releases"]]) == ("parity", [RELEASE])
    assert len(every["releases"][0]["items"]) == 5
