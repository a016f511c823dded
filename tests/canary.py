"""A folder outside of a tree that nobody has any business with: whoever reads or writes in it is found out."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SECRET = b"-----BEGIN SECRET KEY-----\n"
LONG_AGO = 1_000_000_000
"""Seconds since 1970 of the last reading. It lies before that of the last change, so that Linux notes the next one."""

Trace = dict[str, tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class Canary:
    """Files and folders with their contents and times."""

    root: Path
    before: Trace

    @classmethod
    def plant(cls, root: Path) -> Canary:
        """A new folder with what attacks are after: keys, an empty folder, one named as a phase, one that is deep."""
        for name in ("id_rsa", "0", "new/0", "old/0", "7/lib.rs", "before/0/lib.rs", "deep/er/still/x.rs"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(SECRET + name.encode())
        (root / "empty" / "e1").mkdir(parents=True)
        for path in (root, *root.rglob("*")):
            os.utime(path, (LONG_AGO, LONG_AGO + 1_000))
        return cls(root, _trace(root))

    def forget(self) -> None:
        """Takes what was read so far for not read: an attack may have to look where its links lead."""
        for name, (_, _, written, read) in self.before.items():
            os.utime(self.root / name, ns=(read, written))

    def touched(self) -> list[str]:
        """What was read, written, made or deleted since, with the way in which it shows."""
        now = _trace(self.root)
        # Contents last: this reads them.
        found = [f"{name}: gone" for name in sorted(self.before.keys() - now.keys())]
        found += [f"{name}: new" for name in sorted(now.keys() - self.before.keys())]
        for name in sorted(self.before.keys() & now.keys()):
            kinds = ("mode", "links", "written", "read")
            old, new = self.before[name], now[name]
            found += [f"{name}: {kind}" for kind, was, is_ in zip(kinds, old, new, strict=True) if was != is_]
            if stat.S_ISREG(new[0]):
                path = self.root / name
                if path.read_bytes() != SECRET + name.encode():
                    found.append(f"{name}: content")
                os.utime(path, ns=(new[3], new[2]))  # as if we had not read it
        return found


def _trace(root: Path) -> Trace:
    """Kind and bits, number of links, times of the last change and reading of everything, without reading a byte."""
    found: Trace = {}
    pending = [root]
    while pending:
        path = pending.pop()
        status = path.lstat()
        name = path.relative_to(root).as_posix()
        found[name] = (status.st_mode, status.st_nlink, status.st_mtime_ns, status.st_atime_ns)
        if stat.S_ISDIR(status.st_mode):
            with os.scandir(path) as entries:
                pending += [path / entry.name for entry in entries]
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as if we had not looked
    return found
