"""renameat2: renaming that exchanges two files, or that refuses to replace one. Python has no name for it."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from typing import TYPE_CHECKING

from codegen.folders import Descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from codegen.folders import Folder

NO_REPLACE = 1
EXCHANGE = 2
_NOT_TO_BE_HAD = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def rename(folder: Folder, name: str, to: Folder, new_name: str, how: int) -> bool:
    """Renames relative to two open folders; False where the system or the file system cannot do it in this way.

    Raises `OSError`: EEXIST for `NO_REPLACE` where something is, ENOENT where nothing is to be renamed or exchanged.
    """
    call = _renameat2()
    if call is None or not (isinstance(folder, Descriptor) and isinstance(to, Descriptor)):
        return False
    if call(folder.number, os.fsencode(name), to.number, os.fsencode(new_name), how) == 0:
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
    except (OSError, AttributeError, TypeError):  # the last is Windows' word for a library without a name
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    call.restype = ctypes.c_int
    return call
