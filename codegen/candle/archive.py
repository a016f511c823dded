""".crate files: gzipped tar archives with one folder `NAME-VERSION/`."""

from __future__ import annotations

import io
import tarfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_UNPACKED_BYTES = 1 << 30


def unpack(content: bytes, crate: str, version: str, folder: Path) -> None:
    """Write the files of a crate below `folder`, without the archive's top folder.

    Files are 0644, or 0755 where the archive says executable; times are those of the unpacking.

    Raises:
        InputOutputError: the archive is broken, or holds anything but plain files and folders inside its top folder.
        OSError: writing failed.
    """
    top = f"{crate}-{version}"
    folder.mkdir()
    made = {folder}
    remaining = MAX_UNPACKED_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            for member in archive:
                path = _path_inside(member, top)
                remaining -= member.size
                if path is None or remaining < 0:
                    raise _refused(top, f"`{member.name}` is not a plain file of a sensible size inside `{top}/`")
                target = folder / path
                parent = target if member.isdir() else target.parent
                if parent not in made:
                    parent.mkdir(parents=True, exist_ok=True)
                    made.add(parent)
                if not member.isdir():
                    source = archive.extractfile(member)
                    assert source is not None, "a regular file has content"
                    target.write_bytes(source.read())
                    if member.mode & 0o100:
                        target.chmod(0o755)
    except (tarfile.TarError, EOFError, ValueError) as cause:
        raise _refused(top, f"not a .crate file: {cause}") from cause
    except OSError as cause:
        if cause.errno is None:  # gzip's own complaints
            raise _refused(top, f"not a .crate file: {cause}") from cause
        raise


def _path_inside(member: tarfile.TarInfo, top: str) -> PurePosixPath | None:
    """The member's path below the top folder, or None where it must not be written."""
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or not path.parts or path.parts[0] != top:
        return None
    if ".." in path.parts or "\\" in member.name or (member.isreg() and len(path.parts) == 1):
        return None
    return PurePosixPath(*path.parts[1:])


def _refused(top: str, message: str) -> InputOutputError:
    return InputOutputError(
        f"{top}.crate: {message}", remedy="delete the file from the cache and fetch the release again"
    )
