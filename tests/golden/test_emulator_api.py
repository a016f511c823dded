"""emulator/api is what the API table and its template render now, and what it leaves out is in emulator/unsupported."""

from __future__ import annotations

import pytest
from some import some

from codegen.paths import repository_root
from codegen.render.emulator_api import FOLDER, emulator_api
from codegen.spec.hip_api import CURRENT_RELEASE, HIP_API, HipApi, parse_hip_api


def table() -> HipApi:
    return parse_hip_api((repository_root() / HIP_API).read_bytes()).api


def test_the_emulator_s_api_is_fresh(update_goldens: bool) -> None:  # noqa: FBT001 - a fixture
    root = repository_root()
    wanted = emulator_api(table(), root)
    assert len(wanted) == 6
    if update_goldens:
        for path, text in wanted.items():
            (root / path).write_text(text, encoding="utf-8")

    written_by_hand = {f"{FOLDER}/lib.rs", f"{FOLDER}/names.rs"}
    assert {path.relative_to(root).as_posix() for path in (root / FOLDER).iterdir()} == set(wanted) | written_by_hand
    for path, text in wanted.items():
        if (root / path).read_text(encoding="utf-8") != text:
            pytest.fail(f"{path} is not what its template renders: run `make regen` and review the difference")


def test_no_function_is_both_implemented_and_unsupported() -> None:
    api = table()
    for library in some(api.libraries):
        names = (repository_root() / "emulator/unsupported" / f"{library.name}.txt").read_text().split()
        assert names == sorted(set(names)), library.name
        assert not set(names) & {function.name for function in api.functions_of(library, CURRENT_RELEASE)}
