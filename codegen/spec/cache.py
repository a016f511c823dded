"""Validated specs as JSON in a cache folder, so that an unchanged spec is not parsed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from codegen import __version__, own_folder
from codegen.spec.loaded import LoadedSpecs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codegen.spec.hip_api import HipApi

FILE_NAME = "specs.json"
"""One file: the newest specs replace the ones before."""

HIP_API_FILE_NAME = "hip_api.json"
"""Likewise for the table of HIP functions."""


def fingerprint(sources: Iterable[tuple[str, bytes]], templates: Iterable[str]) -> str:
    """SHA-256 over all that the result of loading depends on: spec files, template names, this package, the version."""
    code = ((path.name, path.read_bytes()) for path in sorted(Path(__file__).parent.glob("*.py")))
    digest = hashlib.sha256(__version__.encode())
    for group in (sources, ((name, b"") for name in templates), code):
        digest.update(b"\0group")
        for name, content in group:
            digest.update(f"\0{len(name)} {len(content)} {name}\0".encode(errors="surrogateescape"))
            digest.update(content)
    return digest.hexdigest()


def recall(folder: Path, key: str) -> LoadedSpecs | None:
    """The specs stored under this key; None if there are none, or the file is damaged."""
    try:
        lines, specs = _stored(folder / FILE_NAME, key).split(b"\n", 1)
        index = json.loads(lines)
        if not isinstance(index, dict):
            return None
        from codegen.spec.model import Specs

        return LoadedSpecs(Specs.model_validate_json(specs), MappingProxyType(index))
    except (OSError, ValueError):  # pydantic's and json's errors are ValueErrors
        return None


def remember(folder: Path, key: str, loaded: LoadedSpecs) -> None:
    """Stores the specs under this key. A folder that cannot be written to costs time only, so it is no error."""
    index = json.dumps(dict(loaded.lines), sort_keys=True)
    _store(folder / FILE_NAME, key, f"{index}\n{loaded.specs.model_dump_json()}\n")


def recall_hip_api(folder: Path, key: str) -> HipApi | None:
    """The table of HIP functions stored under this key; None if there is none, or the file is damaged."""
    from codegen.spec.hip_api import HipApi

    try:
        return HipApi.model_validate_json(_stored(folder / HIP_API_FILE_NAME, key))
    except (OSError, ValueError):
        return None


def remember_hip_api(folder: Path, key: str, api: HipApi) -> None:
    """Stores the table under this key, if the folder can be written to."""
    _store(folder / HIP_API_FILE_NAME, key, api.model_dump_json())


def _stored(path: Path, key: str) -> bytes:
    """What a file keeps under this key. Raises OSError, and ValueError if it keeps something else."""
    stored_key, content = own_folder.read(path.parent, path.name).split(b"\n", 1)
    if stored_key != key.encode():
        raise ValueError(f"{path} keeps something else")
    return content


def _store(path: Path, key: str, content: str) -> None:
    with contextlib.suppress(OSError):
        own_folder.write(path.parent, path.name, f"{key}\n{content}".encode())
