"""Takes from Python what it does not have on Windows, before anything else is imported (PYTHONPATH leads here).

Paths stay those of this system. Gone are descriptors of folders, owners, flock, extended attributes, renameat2 and the
signals that Windows does not know; a folder cannot be opened, and a file that is open cannot be renamed or removed.
"""

# mypy: ignore-errors
# ruff: noqa: PTH112, PTH113 - paths may be of any type here
import ctypes
import errno
import fcntl
import os
import signal
import subprocess  # noqa: F401 - it takes msvcrt for Windows itself
import sys
import types

_GONE = """O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_NOCTTY O_CLOEXEC O_PATH geteuid getuid getegid getgid fchown chown lchown
fchmod listxattr getxattr setxattr killpg setsid getpgid getsid sysconf sched_getaffinity uname mkfifo mknod fork"""
for _name in _GONE.split():
    if hasattr(os, _name):
        delattr(os, _name)
for _name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE"):
    delattr(signal, _name)
for _name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[_name] = None
os.supports_dir_fd = set()
os.supports_fd = set()
os.supports_follow_symlinks = set()


def _locking(descriptor: int, how: int, size: int) -> None:
    """msvcrt.locking, as far as it is used: an error with EACCES while another has the byte."""
    assert size == 1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN if how == msvcrt.LK_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PermissionError(errno.EACCES, "Permission denied") from error


msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_UNLCK, msvcrt.LK_NBLCK, msvcrt.locking = 0, 2, _locking
_CALLS = "open stat mkdir rename replace unlink remove rmdir utime access scandir"
_real = {name: getattr(os, name) for name in _CALLS.split()}


def _is_open(path: object) -> bool:
    """Whether this process has the file open."""
    wanted = os.path.realpath(path)
    with _real["scandir"]("/proc/self/fd") as entries:
        return any(os.path.realpath(entry.path) == wanted for entry in entries)


def _as_on_windows(name: str) -> object:
    call = _real[name]

    def called(path: object, *arguments: object, **options: object) -> object:
        if options.keys() & {"dir_fd", "src_dir_fd", "dst_dir_fd"} or (isinstance(path, int) and name != "stat"):
            raise NotImplementedError(f"{name} with a descriptor of a folder")
        if name == "utime" and options.get("follow_symlinks") is False:
            raise NotImplementedError("utime of a link")
        if name == "open" and os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        if name in ("rename", "replace", "unlink", "remove") and os.path.isfile(path) and _is_open(path):
            raise PermissionError(errno.EACCES, "The process cannot access the file", path)
        if name == "rename" and os.path.lexists(arguments[0]):
            raise FileExistsError(errno.EEXIST, "File exists", path)
        return call(path, *arguments, **options)

    return called


for _name in _real:
    setattr(os, _name, _as_on_windows(_name))
sys.modules["msvcrt"] = msvcrt


def _library(name: object = None, *arguments: object, **options: object) -> object:
    if name is None:
        raise TypeError("LoadLibrary() argument 1 must be str, not None")
    return _cdll(name, *arguments, **options)


_cdll = ctypes.CDLL
ctypes.CDLL = _library
print("as on Windows", file=sys.stderr)
