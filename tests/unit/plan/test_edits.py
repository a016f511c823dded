"""From decisions to edits: every verb on the made-up tree, and the edits that are refused."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from made_up import DEVICE, LIB, STORAGE, candle_tree
from some import some

from codegen.candle.tree import open_tree
from codegen.errors import Conflict, UnknownSite
from codegen.plan.build import plan_tree
from codegen.plan.decide import scan_tree
from codegen.plan.edits import plan_edits
from codegen.spec.kinds import DEFAULT_RUNTIME, Gating, Runtime
from codegen.spec.loaded import LoadedSpecs
from codegen.spec.loader import load_specs
from codegen.spec.model import ModuleRule, Rule, Specs
from codegen.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codegen.patch.changes import Edit

QUANTIZED = "candle-core/src/quantized/mod.rs"
PYO3 = "candle-pyo3/src/lib.rs"
PYTHON = "candle-pyo3/py_src/candle/module.py"


@pytest.fixture(scope="module")
def specs() -> LoadedSpecs:
    return load_specs()


def planned(
    root: Path,
    specs: LoadedSpecs,
    *,
    phases: tuple[int, ...] = (0, 1),
    gating: Gating = Gating.DUMMY,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> dict[str, tuple[Edit, ...]]:
    scan = scan_tree(open_tree(root), specs, gating=gating)
    return plan_edits(scan, specs, phases=phases, gating=gating, runtime=runtime)


def text_of(edits: dict[str, tuple[Edit, ...]], path: str, rule: str) -> str:
    """What a rule writes into a file, all of its edits."""
    return "".join(edit.text for edit in edits[path] if edit.origin.rule == rule)


def with_rules(specs: LoadedSpecs, *rules: Mapping[str, object], modules: tuple[ModuleRule, ...] = ()) -> LoadedSpecs:
    """The real specs with more rules in phase 1, asked before its own."""
    more = tuple(Rule.model_validate(rule) for rule in rules)
    phases = tuple(
        phase.model_copy(update={"rules": (*more, *phase.rules), "modules": (*phase.modules, *modules)})
        if phase.phase == 1
        else phase
        for phase in specs.phases
    )
    ids = [*(rule.id for rule in more), *(module.id for module in modules)]
    lines = {**specs.lines, **dict.fromkeys(ids, "specs/test.yaml:1")}
    return LoadedSpecs(Specs(candle=specs.candle, phases=phases), lines)


# --- verbs -------------------------------------------------------------------------------------------------------


def test_mirror(pristine: Path, specs: LoadedSpecs) -> None:
    edits = planned(pristine, specs)

    assert "Rocm(RocmStorage)," in text_of(edits, STORAGE, "core.variant")
    assert "Self::Rocm(storage) => Device::Rocm(storage.device().clone())," in text_of(edits, STORAGE, "core.dispatch")


def test_swap(pristine: Path, specs: LoadedSpecs) -> None:
    text = text_of(planned(pristine, specs), DEVICE, "core.downcast")

    assert 'Self::Rocm(_) => Err(Error::Shapes("cuda".into(), "rocm".into())),' in text
    assert "pub fn as_rocm_device(&self) -> Result<&crate::RocmDevice> {" in text


def test_or_in(pristine: Path, specs: LoadedSpecs) -> None:
    assert text_of(planned(pristine, specs), STORAGE, "core.same-device") == " || self.device().is_rocm()"


def test_override(pristine: Path, specs: LoadedSpecs) -> None:
    (edit,) = (e for e in planned(pristine, specs)["candle-core/src/error.rs"] if e.origin.rule == "core.error-variant")

    assert "Rocm(crate::RocmError)" in edit.text
    assert edit.origin.template == "rust/edits/error_variant.rs"
    assert edit.origin.spec.startswith("specs/phases/1-core.yaml:")


def test_stand_in(pristine: Path, specs: LoadedSpecs) -> None:
    """The phase that brings the real arm, and candle-core as it is called there, are named."""
    edits = planned(pristine, specs)

    edit, *_ = (edit for edit in edits[QUANTIZED] if edit.origin.rule == "quant.device-match")
    assert edit.text.strip() == 'Device::Rocm(_) => crate::rocm::not_generated("Device::quantized_zeros", 2),'
    assert (edit.origin.rule, edit.origin.phase, edit.origin.template) == ("quant.device-match", 1, None)
    test = text_of(edits, "candle-core/tests/quantized_tests.rs", "quant.expected-numbers")
    assert test.strip() == 'Device::Rocm(_) => candle_core::rocm::not_generated("rows", 2)?,'


def test_python_files(pristine: Path, specs: LoadedSpecs) -> None:
    """The same in both gatings: Python has no features."""
    for gating in Gating:
        edits = planned(pristine, specs, phases=(0, 1, 6), gating=gating)
        mirrored = text_of(edits, PYTHON, "python.files")
        assert ", rocm_is_available" in mirrored
        assert 'ROCM: str = "rocm"' in mirrored
        assert ', "rocm"' in mirrored
        assert '    def rocm(self):\n        return self.to("rocm")' in mirrored
        assert text_of(edits, PYTHON, "python.condition") == ' or name == "rocm"'
        assert "cfg" not in "".join(edit.text for edit in edits[PYTHON])
    assert PYTHON not in planned(pristine, specs)


def test_a_verb_that_has_no_meaning_in_python(pristine: Path, specs: LoadedSpecs) -> None:
    rule = {"id": "core.chain", "sites": {"kind": "py-condition"}, "verb": "chain"}

    with pytest.raises(
        UnknownSite, match=rf"{PYTHON}:19:12: rule core\.chain cannot chain this py-condition: the verb"
    ):
        planned(pristine, with_rules(specs, rule))


def test_what_is_ungated_is_in_every_build(pristine: Path, specs: LoadedSpecs) -> None:
    cfg = planned(pristine, specs, phases=(0, 1, 6), gating=Gating.CFG)

    assert "cfg" not in text_of(cfg, PYO3, "python.availability")
    assert '#[cfg(feature = "rocm")]' in text_of(cfg, PYO3, "python.device")


@pytest.mark.parametrize(
    ("gating", "rule", "other"),
    [
        (Gating.DUMMY, "core.python-module", "core.python-module-gated"),
        (Gating.CFG, "core.python-module-gated", "core.python-module"),
    ],
)
def test_a_module_of_one_gating(pristine: Path, specs: LoadedSpecs, gating: Gating, rule: str, other: str) -> None:
    edits = planned(pristine, specs, gating=gating)

    assert "mod rocm;" in text_of(edits, PYO3, rule)
    assert text_of(edits, PYO3, other) == ""


def test_a_module_of_a_crate_that_the_tree_does_not_have(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    shutil.rmtree(root / "candle-pyo3")

    assert PYO3 not in planned(root, specs)
    assert not any(c.path.startswith("candle-pyo3") for c in plan_tree(open_tree(root), specs, phases=[0, 1]).changes)


def test_imports_follow_what_is_used(pristine: Path, specs: LoadedSpecs) -> None:
    assert "RocmStorage" in text_of(planned(pristine, specs), STORAGE, "core.import")
    assert "core.import" not in {edit.origin.rule for edit in planned(pristine, specs, phases=(0,)).get(STORAGE, ())}


def test_a_site_inside_another_is_edited_once(pristine: Path, specs: LoadedSpecs) -> None:
    arms = [edit for edit in planned(pristine, specs)[DEVICE] if "as_cuda_device" in edit.text]

    assert arms == []
    assert text_of(planned(pristine, specs), DEVICE, "core.downcast").count("Self::Rocm(_) =>") == 1


def test_a_reason_that_reads_like_one_of_ours_changes_nothing(pristine: Path, specs: LoadedSpecs) -> None:
    """Whether a site lies in another one is known, not read from the text of its reason."""
    rule = {
        "id": "core.place",
        "sites": {"kind": "match", "path": "candle-nn/src/place.rs"},
        "verb": "mirror",
        "reason": "inside the place, mirrored",
    }

    edits = planned(pristine, with_rules(specs, rule))

    assert "Rocm" in text_of(edits, "candle-nn/src/place.rs", "core.place")


def test_phases_are_edited_apart(pristine: Path, specs: LoadedSpecs) -> None:
    setup, core = (planned(pristine, specs, phases=(phase,), runtime=Runtime.ROCM_RS) for phase in (0, 1))

    assert {edit.origin.phase for own in setup.values() for edit in own} == {0}
    assert {edit.origin.phase for own in core.values() for edit in own} == {1}
    assert set(setup) == {LIB}


@pytest.mark.parametrize("gating", Gating)
def test_edits_are_sorted_and_stay_inside_their_files(pristine: Path, specs: LoadedSpecs, gating: Gating) -> None:
    for path, edits in some(planned(pristine, specs, gating=gating).items()):
        size = (pristine / path).stat().st_size
        assert all(0 <= edit.start <= edit.end <= size and edit.path == path for edit in edits)
        assert all(one.end <= two.start for one, two in pairwise(edits))


def test_cfg_gating_puts_every_branch_behind_the_feature(pristine: Path, specs: LoadedSpecs) -> None:
    edits = planned(pristine, specs, gating=Gating.CFG)

    assert '#[cfg(feature = "rocm")]\n' in text_of(edits, STORAGE, "core.dispatch")
    assert "use crate::RocmStorage;" in text_of(edits, STORAGE, "core.import")


# --- what is refused ---------------------------------------------------------------------------------------------


def test_edits_that_overlap(pristine: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch) -> None:
    from codegen.syntax import verbs
    from codegen.syntax.verbs import TextEdit

    def greedy(*_: object) -> list[TextEdit]:
        return [TextEdit(20, 40, "one"), TextEdit(39, 50, "two")]

    monkeypatch.setattr(verbs, "or_in_condition", greedy)

    with pytest.raises(Conflict) as caught:
        planned(pristine, specs)

    assert str(caught.value) == (
        f"conflict: {STORAGE}: edits of core.same-device and core.same-device overlap at byte 39\n"
        "  = help: narrow the selector of one of the two rules"
    )


@pytest.mark.parametrize(
    ("second", "refused"),
    [((40, 50), False), ((40, 40), False), ((20, 20), False), ((39, 39), True), ((20, 21), True), ((0, 21), True)],
)
def test_where_an_overlap_begins(
    pristine: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch, second: tuple[int, int], *, refused: bool
) -> None:
    """Edits may touch one another, and insertions may share a place."""
    from codegen.syntax import verbs
    from codegen.syntax.verbs import TextEdit

    tree = scan_tree(open_tree(pristine), specs)
    own = [d for d in tree.decisions if d.rule == "core.same-device"]
    scan = type(tree)(tree.tree, tuple(own), tree.sources, tree.rules)
    monkeypatch.setattr(verbs, "or_in_condition", lambda *_: [TextEdit(20, 40, "one"), TextEdit(*second, "two")])

    if refused:
        with pytest.raises(Conflict):
            plan_edits(scan, specs, phases=[1], gating=Gating.DUMMY)
    else:
        assert len(plan_edits(scan, specs, phases=[1], gating=Gating.DUMMY)[STORAGE]) == 2


UNPARSABLE = "fn odd() { let a = b @@@ c; }\n"
"""Nothing that the grammar knows."""


def test_text_that_the_grammar_cannot_parse_is_tolerated_elsewhere(candle: Path, specs: LoadedSpecs) -> None:
    with (candle / STORAGE).open("a") as file:
        file.write(UNPARSABLE)

    assert "core.dispatch" in {edit.origin.rule for edit in planned(candle, specs)[STORAGE]}


@pytest.mark.parametrize(("where", "refused"), [("before", False), ("inside", True), ("behind", False), ("over", True)])
def test_text_that_the_grammar_cannot_parse_is_not_edited(
    candle: Path, specs: LoadedSpecs, monkeypatch: pytest.MonkeyPatch, where: str, *, refused: bool
) -> None:
    from codegen.syntax import verbs
    from codegen.syntax.verbs import TextEdit

    with (candle / STORAGE).open("a") as file:
        file.write(UNPARSABLE)
    content = (candle / STORAGE).read_bytes()
    (start, end), *_ = Source.parse(STORAGE, content).error_ranges()
    assert end - start > 1
    place = {"before": (start, start), "inside": (start + 1, start + 1), "behind": (end, end), "over": (start - 1, end)}
    monkeypatch.setattr(verbs, "or_in_condition", lambda *_: [TextEdit(*place[where], "new")])

    if not refused:
        planned(candle, specs)
        return
    with pytest.raises(UnknownSite) as caught:
        planned(candle, specs)
    line = content[:start].count(b"\n") + 1
    message = str(caught.value)
    assert message.startswith(f"unhandled backend site: {STORAGE}:{line}:")
    assert "rule core.same-device would edit text that the Rust grammar cannot parse" in message
    assert f"  {line} | {UNPARSABLE}" in message
    assert "leave the site alone with a reason, or update tree-sitter-rust" in message


def test_a_verb_that_does_not_fit(pristine: Path, specs: LoadedSpecs) -> None:
    """All of them are named at once, each with its line."""
    rules = [
        {"id": "core.one", "sites": {"kind": "match", "path": "candle-nn/src/place.rs"}, "verb": "or-in"},
        {"id": "core.two", "sites": {"kind": "fn", "path": DEVICE, "name": "is_cuda"}, "verb": "chain"},
    ]

    with pytest.raises(UnknownSite) as caught:
        planned(pristine, with_rules(specs, *rules))

    message = str(caught.value)
    assert "candle-nn/src/place.rs:2:5: rule core.one cannot or-in this match: " in message
    assert "rule core.two cannot chain this fn: " in message
    assert "override the site, or leave it with a reason" in message


def test_a_module_in_a_file_without_modules(pristine: Path, specs: LoadedSpecs) -> None:
    module = ModuleRule(id="core.lost", path="candle-core/src/utils.rs", declaration="mod lost;")

    with pytest.raises(
        UnknownSite, match=r"candle-core/src/utils\.rs:1:1: rule core\.lost: the file declares no modules"
    ):
        planned(pristine, with_rules(specs, modules=(module,)))


def test_statements_in_functions_that_name_no_backend(pristine: Path, specs: LoadedSpecs) -> None:
    """Each comes with its phase, to the trees that have its place."""
    phase, of_tensors, _ = [phase for phase in specs.phases if phase.statements]
    path = "candle-core/src/quantized/gguf_file.rs"
    assert path not in planned(pristine, specs)
    edits = planned(pristine, specs, phases=(0, 1, phase.phase))
    for rule in phase.statements:
        assert text_of(edits, rule.path[0], rule.id).split() == rule.statement.split()
    functions = (rule.function.removeprefix("Tensor::") for rule in of_tensors.statements)
    body = "(&self, groups: usize) -> usize {\n        if groups == 1 { 3 } else { 3 * groups }\n    }"
    methods = "\n".join(f"    fn {function}{body}" for function in functions)
    (pristine / "candle-core/src/conv.rs").write_text(f"impl Tensor {{\n{methods}\n}}\n")
    edits = planned(pristine, specs, phases=(0, 1, phase.phase, of_tensors.phase))
    for rule in of_tensors.statements:
        assert text_of(edits, rule.path[0], rule.id).split() == rule.statement.split()

    source = pristine / path
    others = source.read_text().replace("tensor_info.read(", "tensor_info.load(")
    for text, left in ((others, ["quant.gguf-blocks"]), (others.replace("let mut raw_data", "let raw_data"), [])):
        source.write_text(text)
        edits = planned(pristine, specs, phases=(0, 1, phase.phase))
        assert [edit.origin.rule for edit in edits.get(path, ())] == left
    source.unlink()
    assert path not in planned(pristine, specs, phases=(0, 1, phase.phase))


def test_a_tree_without_sites_needs_no_edits(tmp_path: Path, specs: LoadedSpecs) -> None:
    root = candle_tree(tmp_path)
    scan = scan_tree(open_tree(root), specs)

    nothing = plan_edits(type(scan)(scan.tree, (), {}, scan.rules), specs, phases=[6], gating=Gating.DUMMY)
    assert nothing == {}
