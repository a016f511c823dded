"""renameat2: renaming that exchanges two files, or that refuses to replace one. Python has no name for it."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NO_REPLACE = 1
EXCHANGE = 2
_NOT_TO_BE_HAD = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def rename(folder: int, name: str, to: int, new_name: str, how: int) -> bool:
    """Renames relative to two open folders; False where the system or the file system cannot do it in this way.

    Raises `OSError`: EEXIST for `NO_REPLACE` where something is, ENOENT where nothing is to be renamed or exchanged.
    """
    call = _renameat2()
    if call is None:
        return False
    if call(folder, os.fsencode(name), to, os.fsencode(new_name), how) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NOT_TO_BE_HAD:
        return False
    raise OSError(code, os.strerror(code), new_name)


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The C library's function (glibc 2.28); None where it has none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call
