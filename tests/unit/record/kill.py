"""Operations on a tree in processes that are killed at their n-th call of the system: `python kill.py REPOSITORY ...`.

Run with a folder to work in and, on standard input, a pickled list of (tree, operation, n); each is done in a copy of
the tree, `0`, `1` and so on, and n None means: to the end. Prints how many calls each made. The last call of a killed
process is half done where a file is written, and not done otherwise.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = (
    *("open", "close", "stat", "fstat", "mkdir", "rename", "unlink", "rmdir", "utime", "fchmod", "fchown", "scandir"),
    *("listxattr", "getxattr", "setxattr", "fsync", "access", "umask", "readlink", "lstat"),
)
"""Functions of `os` that call the system; writing and exchanging files are counted besides."""


class Count:
    """Ends the process at its n-th call."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.made = 0

    def is_last(self) -> bool:
        """Counts a call."""
        self.made += 1
        return self.made - 1 == self.at

    def wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, counted."""

        def counted(*arguments: Any, **named: Any) -> Any:
            if self.is_last():
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    def install(self) -> None:
        """From now on, every call counts."""
        from codegen.record import renames

        count = self

        class Written(io.FileIO):
            def write(self, content: Any, /) -> int:
                if count.is_last():
                    super().write(bytes(content)[: len(content) // 2])
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().write(content)

        plain = os.fdopen

        def opened(descriptor: int, mode: str = "r", buffering: int = -1) -> Any:
            return Written(descriptor, "w") if mode == "wb" and buffering == 0 else plain(descriptor, mode, buffering)

        for name in CALLS:
            setattr(os, name, self.wrapped(getattr(os, name)))
        os.fsync = self.wrapped(lambda descriptor: None)  # nobody waits for the medium here
        setattr(os, "fdopen", opened)  # noqa: B010 - the type of a plain assignment would have to be os.fdopen's
        renames.rename = self.wrapped(renames.rename)


def perform(root: Path, operation: tuple[str, tuple[Any, ...], dict[str, Any]]) -> None:
    """Does one operation of `codegen.record.transaction`."""
    from codegen.record import transaction

    name, arguments, options = operation
    getattr(transaction, name)(root, *arguments, **options)


def main() -> None:
    """See above."""
    sys.path.insert(0, sys.argv[1])
    scratch = Path(sys.argv[2])
    import difflib  # noqa: F401

    from codegen.patch import replacements  # noqa: F401 - not to be counted

    for number, (tree, operation, at) in enumerate(pickle.load(sys.stdin.buffer)):
        root = shutil.copytree(tree, scratch / str(number), copy_function=shutil.copy)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            count = Count(at)
            say = os.write
            end = os._exit
            count.install()
            perform(root, operation)
            say(writing, str(count.made).encode())
            end(0)
        os.close(writing)
        said = os.read(reading, 100)
        os.close(reading)
        status = os.waitpid(child, 0)[1]
        ended = f"{int(said)}" if os.WIFEXITED(status) and said else f"-{os.WTERMSIG(status) or os.WEXITSTATUS(status)}"
        print(ended)


if __name__ == "__main__":
    main()
