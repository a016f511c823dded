"""generated/ holds what templates render on their own, for review: it is what they render now."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from codegen.paths import repository_root
from codegen.plan.files import BACKEND_FOLDER
from codegen.render.backend import Header
from codegen.render.environment import render, undeclared
from codegen.render.hip_api import HipCalls, bound_libraries, used_names
from codegen.render.rustfmt import format_rust
from codegen.spec.backend_traits import BACKEND_TRAITS, parse_backend_traits
from codegen.spec.folders import is_plain
from codegen.spec.hip_api import HIP_API, parse_hip_api
from codegen.spec.kinds import DEFAULT_RUNTIME, Runtime
from codegen.spec.loader import load_specs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OF_A_TREE = frozenset({"device", "dtypes", "storage", "storage_only_dtypes", "unused_index"})
"""Variables that hold signatures and element types of the Candle tree at hand."""

OF_A_RUNTIME = frozenset({"libraries", "runtime"})
"""Variables that differ between the runtimes."""


def independent_files() -> dict[str, str]:
    """Path below generated/ and text of every new file whose template needs nothing of a Candle tree.

    Plain sources are read where they lie, not here; they count for what the declarations of C are made of.

    The folders of another runtime than the default hold what is different with it, and those of releases up to one what
    they get in place of a newer file.
    """
    specs, root = load_specs(), repository_root()
    api = parse_hip_api((root / HIP_API).read_bytes(), file=HIP_API).api
    traits = parse_backend_traits((root / BACKEND_TRAITS).read_bytes())
    made: dict[str, str] = {}
    backend: dict[tuple[Runtime, str], str] = {}
    for phase, runtime in product(specs.phases, Runtime):
        usual = f"phase-{phase.phase}" if runtime is DEFAULT_RUNTIME else f"phase-{phase.phase}-{runtime}"
        # What has declarations comes last: it holds the names that the others use.
        for file in sorted(phase.files, key=lambda file: bool(file.declares)):
            if file.template is None or not file.is_for(runtime):
                continue
            if is_plain(file.template):
                if file.path.startswith(BACKEND_FOLDER):
                    backend[runtime, file.path] = (root / "templates" / file.template).read_text(encoding="utf-8")
                continue
            if undeclared(file.template) & OF_A_TREE:
                continue
            if runtime is not DEFAULT_RUNTIME and not undeclared(file.template) & OF_A_RUNTIME and not file.runtime:
                continue
            header = Header(phase.phase, file.template, specs.where(file.id).rsplit(":", 1)[0])
            context = {
                "header": header,
                "hip": HipCalls.of(api),
                "libraries": bound_libraries(api, file.declares, used_names(of_runtime(backend, runtime)), runtime),
                "ops_phase": traits.ops_phase,
                "runtime": runtime,
            }
            folder = usual if file.until is None else f"{usual}-until-{file.until}"
            path = f"{folder}/{file.path}"
            assert path not in made, f"{file.id} and another rule make {path}: one would hide the other"
            made[path] = render(file.template, context)
            if file.path.startswith(BACKEND_FOLDER):
                backend[runtime, file.path] = made[path]
    return made | format_rust({path: text for path, text in made.items() if path.endswith(".rs")})


def of_runtime(texts: Mapping[tuple[Runtime, str], str], runtime: Runtime) -> list[str]:
    return [text for (of, _), text in texts.items() if of is runtime]


def committed_files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.glob("phase-*/**/*") if path.is_file()}


def test_generated_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    folder, wanted = repository_root() / "generated", independent_files()
    assert len(wanted) > 5
    if update_goldens:
        for stale in committed_files(folder) - set(wanted):
            (folder / stale).unlink()
        for path, text in wanted.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")

    assert committed_files(folder) == set(wanted), "run `make regen`"
    for path, text in wanted.items():
        if (folder / path).read_text(encoding="utf-8") != text:
            pytest.fail(
                f"generated/{path} is not what its template renders: run `make regen` and review the difference"
            )
