"""Manifests and cargo configuration: the feature, the dependency, the targets, the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.candle import manifest
from codegen.plan.model import Origin
from codegen.plan.text import EditedText, changed_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codegen.candle.tree import CandleTree, Crate
    from codegen.spec.loaded import LoadedSpecs
    from codegen.spec.model import CargoFeature, PhaseSpec

CONFIG = ".cargo/config.toml"


def manifests(
    tree: CandleTree, phase: PhaseSpec, specs: LoadedSpecs, state: Mapping[str, EditedText]
) -> dict[str, EditedText]:
    """Every manifest and configuration file that the phase changes; `state` is what earlier phases left.

    Raises `Conflict` where an entry is there already in another form.
    """
    made = dict(state)
    rocm = {crate.name for crate in specs.candle.crates if crate.rocm}
    crates = {crate.name: crate for crate in tree.crates if crate.name in rocm}

    def rewrite(path: str, rule: str, change: Callable[[str | None], str]) -> None:
        before = made[path].text if path in made else None
        pristine = tree.read(path).decode() if tree.exists(path) else None
        after = change(before if before is not None else pristine)
        origin = Origin(rule, specs.where(rule), phase.phase)
        regions = changed_lines(before if before is not None else pristine or "", after, origin)
        made[path] = EditedText(after, (*(made[path].regions if path in made else ()), *regions))

    for dependency in phase.cargo.dependencies:
        if dependency.crate not in crates:
            continue
        rewrite(
            "Cargo.toml",
            dependency.id,
            lambda text, d=dependency: manifest.add_workspace_dependency(  # type: ignore[misc]
                text or "", d.name, d.version, default_features=d.default_features, features=d.features
            ),
        )
        path = crates[dependency.crate].manifest
        rewrite(
            path,
            dependency.id,
            lambda text, d=dependency, p=path: manifest.add_optional_dependency(text or "", d.name, file=p),  # type: ignore[misc]
        )
    for feature in phase.cargo.features:
        for crate in crates.values():
            entries = feature_entries(feature, crate, crates)
            if entries is None:
                continue
            rewrite(
                crate.manifest,
                feature.id,
                lambda text, f=feature, c=crate, e=entries: manifest.add_feature(  # type: ignore[misc]
                    text or "", f.name, e, after=f.mirrors, file=c.manifest
                ),
            )
    for target in phase.cargo.targets:
        if target.crate in crates:
            path = crates[target.crate].manifest
            rewrite(
                path,
                target.id,
                lambda text, t=target, p=path: manifest.add_target(  # type: ignore[misc]
                    text or "", t.name, t.required_features, kind=t.kind, file=p
                ),
            )
    for entry in phase.cargo.config:
        rewrite(
            CONFIG,
            entry.id,
            lambda text, e=entry: manifest.set_config(text, e.table, e.key, e.value, comment=e.reason),  # type: ignore[misc]
        )
    return {path: text for path, text in made.items() if path not in state or text is not state[path]}


def feature_entries(feature: CargoFeature, crate: Crate, crates: Mapping[str, Crate]) -> list[str] | None:
    """What the mirrored feature switches on in a crate, or None where the crate has no CUDA sibling.

    Entries of other crates of the workspace that have a ROCm story are renamed; CUDA's own dependencies are dropped.
    """
    if feature.mirrors not in crate.features:
        return None
    names = {name.removeprefix("candle-") for name in crates}
    entries = list(feature.extra.get(crate.name, ()))
    for entry in crate.features[feature.mirrors]:
        dependency, slash, name = entry.partition("/")
        own = dependency == "candle" or (
            dependency.startswith("candle-") and dependency.removeprefix("candle-") in names
        )
        if slash and name == feature.mirrors and own:
            entries.append(f"{dependency}/{feature.name}")
    return entries
