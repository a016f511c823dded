""".crate files: gzipped tar archives with one folder `NAME-VERSION/`."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Self

from codegen.errors import InputOutputError

if TYPE_CHECKING:
    from pathlib import Path

MAX_UNPACKED_BYTES = 256 << 20
"""Headers included, which can be made as large as files; the largest of Candle's crates has 10 MiB."""
MAX_MEMBERS = 20_000
"""Files and folders; the largest of Candle's crates has 700."""
MAX_HEADER_BYTES = 16 << 10
"""Of a member's further headers, such as a long name."""
MAX_DEPTH = 50
"""Folders in one another."""


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
    unpacked = _Bounded(gzip.GzipFile(fileobj=io.BytesIO(content)))
    try:
        with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Member) as archive:
            for count, member in enumerate(archive):
                path = _path_inside(member, top)
                if count >= MAX_MEMBERS:
                    raise _refused(top, f"it has more than {MAX_MEMBERS} files and folders")
                if path is None or len(path.parts) > MAX_DEPTH or member.size > MAX_UNPACKED_BYTES:
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
    except _TooLarge as cause:
        raise _refused(top, str(cause)) from cause
    except (tarfile.TarError, EOFError, ValueError, zlib.error, RecursionError) as cause:
        raise _refused(top, f"not a .crate file: {cause}") from cause
    except OSError as cause:
        if cause.errno is None:  # gzip's own complaints
            raise _refused(top, f"not a .crate file: {cause}") from cause
        raise


class _TooLarge(Exception):
    """More comes out of an archive than it may hold."""


class _Bounded(io.RawIOBase):
    """The first MAX_UNPACKED_BYTES of a stream."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._left = MAX_UNPACKED_BYTES

    def read(self, size: int = -1) -> bytes:
        """As of any stream. Raises `_TooLarge` where there is more than may be."""
        chunk = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(chunk)
        if self._left < 0:
            raise _TooLarge(f"it has more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked")
        return chunk


class _Member(tarfile.TarInfo):
    """A header. Those that lead to further headers are short and not in pax's form, which tarfile reads for hours."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """As tarfile's. Raises `_TooLarge` for a header of headers that is long."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE):
            raise _TooLarge("it has headers in pax's form, which cargo does not write")
        if member.type == tarfile.GNUTYPE_SPARSE:  # its holes are no bytes of the stream, which is what is counted
            raise _TooLarge(f"`{member.name}` is a file with holes, which cargo does not write")
        if member.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and member.size > MAX_HEADER_BYTES:
            raise _TooLarge(f"the header of `{member.name}` has more than {MAX_HEADER_BYTES >> 10} KiB")
        return member


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
