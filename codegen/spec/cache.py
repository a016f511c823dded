"""The validated specs as JSON in a cache folder, so that an unchanged spec is not parsed again."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from codegen import __version__
from codegen.spec.loaded import LoadedSpecs

if TYPE_CHECKING:
    from collections.abc import Iterable

FILE_NAME = "specs.json"
"""One file: the newest specs replace the ones before."""


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
        stored_key, lines, specs = (folder / FILE_NAME).read_bytes().split(b"\n", 2)
        if stored_key != key.encode():
            return None
        index = json.loads(lines)
        if not isinstance(index, dict):
            return None
        from codegen.spec.model import Specs

        return LoadedSpecs(Specs.model_validate_json(specs), MappingProxyType(index))
    except (OSError, ValueError):  # pydantic's and json's errors are ValueErrors
        return None


def remember(folder: Path, key: str, loaded: LoadedSpecs) -> None:
    """Stores the specs under this key. A folder that cannot be written to costs time only, so it is no error."""
    import tempfile

    index = json.dumps(dict(loaded.lines), sort_keys=True)
    content = f"{key}\n{index}\n{loaded.specs.model_dump_json()}\n"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=FILE_NAME, dir=folder)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content)
            Path(name).replace(folder / FILE_NAME)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
