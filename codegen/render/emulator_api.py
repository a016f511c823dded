"""The crate `emulator/api`: types, constants and signatures of ROCm's C libraries, from the API table.

One Rust module a library, in the form that the newest ROCm release of the table gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.render.c_library import CLibrary
from codegen.render.environment import render
from codegen.render.imports import use_declarations
from codegen.render.rustfmt import format_rust

if TYPE_CHECKING:
    from pathlib import Path

    from codegen.spec.hip_api import HipApi

FOLDER = "emulator/api/src"
TEMPLATE = "emulator/api.rs.j2"
RUSTFMT = "emulator/rustfmt.toml"


def emulator_api(api: HipApi, root: Path) -> dict[str, str]:
    """Text by path, relative to the repository `root`, of every module. Raises as `render` and `format_rust`."""
    texts = {}
    for each in api.libraries:
        library = CLibrary.of(api, each)
        context = {"api": library, "uses": _uses(api, library)}
        texts[f"{FOLDER}/{library.module}.rs"] = render(TEMPLATE, context, root=root / "templates")
    return format_rust(texts, edition="2024", config=(root / RUSTFMT).read_bytes())


def _uses(api: HipApi, library: CLibrary) -> tuple[str, ...]:
    paths = {"std::ffi::CStr"}
    if any(struct.fields for struct in library.structs):
        paths.add("std::mem::offset_of")
    for name, owner in library.foreign_names(api):
        paths.add(f"crate::{owner.name.lower()}::{name}" if owner is not None else f"std::ffi::{name}")
    return use_declarations(paths)
