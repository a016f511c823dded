"""Stand-ins for cargo: a program on PATH that prints what a test wants, and rustc messages as cargo relays them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def span(file: str, line: int, column: int = 1, *, primary: bool = True, **more: Any) -> dict[str, Any]:
    """A span of rustc's JSON output, five characters long."""
    return {
        "file_name": file,
        "line_start": line,
        "line_end": line,
        "column_start": column,
        "column_end": column + 5,
        "is_primary": primary,
        "expansion": None,
        **more,
    }


def message(
    text: str, *spans: dict[str, Any], level: str = "error", code: str | None = None, **more: Any
) -> dict[str, Any]:
    """A diagnostic of rustc's JSON output."""
    return {
        "message": text,
        "level": level,
        "code": {"code": code, "explanation": None} if code else None,
        "spans": list(spans),
        "children": [],
        "rendered": f"{level}: {text}\n",
        **more,
    }


def relayed(inner: dict[str, Any]) -> str:
    """The line on cargo's stdout that carries a diagnostic."""
    return json.dumps({"reason": "compiler-message", "package_id": "p", "target": {}, "message": inner})


def artifact(
    package: str, target: str = "", kind: str = "lib", executable: str | None = None, *, test: bool = True
) -> str:
    """The line on cargo's stdout that says that something of a package was made."""
    return json.dumps(
        {
            "reason": "compiler-artifact",
            "package_id": package if "#" in package else f"path+file:///tree/core#{package}@1.2.3",
            "manifest_path": "/tree/core/Cargo.toml",
            "target": {"kind": [kind], "name": target},
            "profile": {"test": test},
            "executable": executable,
        }
    )


def install(folder: Path, name: str, body: str) -> Path:
    """A Python program `name` in `folder`; put the folder on PATH to use it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!{sys.executable}\nimport sys, os\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def printing(stdout: list[str], stderr: list[str], returncode: int = 0) -> str:
    """The body of a program that prints the lines and ends."""
    return (
        f"for line in {stdout!r}: print(line)\n"
        f"for line in {stderr!r}: print(line, file=sys.stderr)\n"
        f"sys.exit({returncode})"
    )
