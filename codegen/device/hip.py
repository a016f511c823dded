"""A HIP device, its memory and its modules, through ctypes. Every error code becomes an exception."""

from __future__ import annotations

import ctypes
import re
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codegen.device.libraries import Libraries, find_libraries

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

HOST_TO_DEVICE: Final = 1
DEVICE_TO_HOST: Final = 2

_WARP_SIZE: Final = 87
_MULTIPROCESSORS: Final = 63
"""Of hipDeviceAttribute_t since ROCm 6.0 (specs/hip_api.yaml)."""
_GCN_ARCH_NAME: Final = 1160
"""Where hipDeviceProp_tR0600 has gcnArchName."""


class HipError(Exception):
    """A HIP or hipRTC function that did not return success."""

    def __init__(self, function: str, code: int, text: str) -> None:
        self.function = function
        self.code = code
        super().__init__(f"{function}: {text} ({code})")


@dataclass(frozen=True, slots=True)
class Buffer:
    """Device memory; freed when `free` is called or its device is closed."""

    address: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: all that the host decides."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[bytes, ...]
    """Each as its bytes; pointers and sizes are 8 bytes."""
    lds: int = 0
    """Bytes of dynamic LDS."""


class Device:
    """One HIP device, made current for every call. Not safe for several threads."""

    def __init__(self, index: int = 0, libraries: Libraries | None = None) -> None:
        self.libraries = libraries or find_libraries()
        self.index = index
        self.stream = c_void_p(0)
        """Where launches are enqueued: the default stream unless changed."""
        self._call("hipSetDevice", c_int(index))
        properties = (ctypes.c_char * 4096)()
        self._call("hipGetDevicePropertiesR0600", properties, c_int(index))
        self.architecture = _architecture(bytes(properties))
        self.wave_size = self._attribute(_WARP_SIZE)
        self.multiprocessors = self._attribute(_MULTIPROCESSORS)

    @property
    def target(self) -> str:
        """`amd`, `model`, `emulator` or `nvidia`."""
        return self.libraries.target

    def _attribute(self, attribute: int) -> int:
        value = c_int()
        self._call("hipDeviceGetAttribute", byref(value), c_int(attribute), c_int(self.index))
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self.libraries.hip, function)(*arguments)
        if code != 0:
            self.libraries.hip.hipGetErrorString.restype = c_char_p
            text = self.libraries.hip.hipGetErrorString(c_int(code)).decode()
            raise HipError(function, code, text + self.report())

    def call(self, function: str, *arguments: object) -> None:
        """Any function of libamdhip64 on this device. Raises HipError."""
        self.libraries.hip.hipSetDevice(c_int(self.index))
        self._call(function, *arguments)

    def report(self) -> str:
        """What the emulated device says of the last fault; empty on a GPU."""
        if self.target != "emulator":
            return ""
        last = self.libraries.hip.candle_rocm_emulator_last_report
        last.restype = c_char_p
        text = (last() or b"").decode()
        return f"\n{text}" if text else ""

    @contextmanager
    def only_blocks(self, numbers: Collection[int]) -> Iterator[None]:
        """In the block, launches run only these blocks of their grids, at least one: x counts fastest, then y.

        Kernels see the whole grid. The emulated device only can do this; it is for tests.
        """
        assert numbers, "no number would mean all blocks"
        choose = self.libraries.hip.candle_rocm_emulator_only_blocks
        choose((c_uint64 * len(numbers))(*numbers), c_size_t(len(numbers)))
        try:
            yield
        finally:
            choose(None, c_size_t(0))

    def allocate(self, size: int) -> Buffer:
        """Fresh memory of `size` bytes, at least one."""
        address = c_void_p()
        self.call("hipMalloc", byref(address), c_size_t(max(size, 1)))
        return Buffer(address.value or 0, size)

    def zeros(self, size: int) -> Buffer:
        """Fresh memory of `size` bytes, all of them 0."""
        return self.upload(bytes(size))

    def free(self, buffer: Buffer) -> None:
        """Gives memory back."""
        self.call("hipFree", c_void_p(buffer.address))

    def upload(self, data: bytes) -> Buffer:
        """Fresh memory with these bytes."""
        buffer = self.allocate(len(data))
        if data:
            self.call("hipMemcpy", c_void_p(buffer.address), data, c_size_t(len(data)), c_int(HOST_TO_DEVICE))
        return buffer

    def download(self, buffer: Buffer) -> bytes:
        """The memory's bytes, once all work before has run."""
        data = ctypes.create_string_buffer(max(buffer.size, 1))
        if buffer.size:
            self.call("hipMemcpy", data, c_void_p(buffer.address), c_size_t(buffer.size), c_int(DEVICE_TO_HOST))
        return data.raw[: buffer.size]

    def synchronize(self) -> None:
        """Waits for all work. Raises HipError if a kernel failed."""
        self.call("hipDeviceSynchronize")

    def module(self, code: bytes) -> Module:
        """A loaded code object."""
        return Module(self, code)


def _architecture(properties: bytes) -> str:
    """`gfx1100`, from the bytes of hipDeviceProp_tR0600 (gcnArchName; features such as `:xnack-` are cut off).

    HIP on NVIDIA has `sm_90` there.
    """
    name = re.search(rb"(gfx|sm_)[0-9a-z]+", properties[_GCN_ARCH_NAME:])
    assert name, "libamdhip64 names no architecture"
    return name[0].decode()


class Module:
    """A code object on a device; functions are looked up once."""

    def __init__(self, device: Device, code: bytes) -> None:
        self._device = device
        self._code = code  # HIP keeps no copy until it has loaded lazily
        self._functions: dict[str, c_void_p] = {}
        self._module = c_void_p()
        device.call("hipModuleLoadData", byref(self._module), c_char_p(code))

    def launch(self, launch: Launch) -> None:
        """Enqueues a kernel on the device's stream. Raises HipError for an unknown symbol or a refused launch."""
        self.prepared(launch)()

    def prepared(self, launch: Launch) -> PreparedLaunch:
        """The launch, to be enqueued any number of times. Raises HipError for an unknown symbol."""
        function = self._functions.get(launch.symbol)
        if function is None:
            function = c_void_p()
            self._device.call("hipModuleGetFunction", byref(function), self._module, launch.symbol.encode())
            self._functions[launch.symbol] = function
        return PreparedLaunch(self._device, function, launch)

    def unload(self) -> None:
        """Gives the module back."""
        self._device.call("hipModuleUnload", self._module)


class PreparedLaunch:
    """A launch whose arguments are in memory, so that enqueueing it is one call."""

    def __init__(self, device: Device, function: c_void_p, launch: Launch) -> None:
        self._device = device
        self._values = [ctypes.create_string_buffer(argument, len(argument)) for argument in launch.arguments]
        pointers = (c_void_p * len(self._values))(*(ctypes.addressof(value) for value in self._values))
        sizes = [c_uint(n) for n in (*launch.grid, *launch.block, launch.lds)]
        self._before = (function, *sizes)
        self._after = (pointers, c_void_p(0))

    def __call__(self) -> None:
        """Enqueues it on the device's stream. Raises HipError for a refused launch."""
        self._device.call("hipModuleLaunchKernel", *self._before, self._device.stream, *self._after)


def compile_source(
    libraries: Libraries, name: str, source: str, headers: Mapping[str, str], options: Sequence[str]
) -> bytes:
    """The code object that hipRTC makes of a source; `headers` are what it may include, by name.

    Raises HipError with the compiler's log.
    """
    rtc = libraries.hiprtc
    program = c_void_p()
    texts = (c_char_p * len(headers))(*(text.encode() for text in headers.values()))
    names = (c_char_p * len(headers))(*(header.encode() for header in headers))
    _rtc(rtc, "hiprtcCreateProgram", byref(program), source.encode(), name.encode(), c_int(len(headers)), texts, names)
    try:
        flags = (c_char_p * len(options))(*(option.encode() for option in options))
        code = rtc.hiprtcCompileProgram(program, c_int(len(options)), flags)
        if code != 0:
            raise HipError("hiprtcCompileProgram", code, _log(rtc, program))
        size = c_size_t()
        _rtc(rtc, "hiprtcGetCodeSize", program, byref(size))
        data = ctypes.create_string_buffer(size.value)
        _rtc(rtc, "hiprtcGetCode", program, data)
        return data.raw
    finally:
        rtc.hiprtcDestroyProgram(byref(program))


def _rtc(rtc: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(rtc, function)(*arguments)
    if code != 0:
        rtc.hiprtcGetErrorString.restype = c_char_p
        raise HipError(function, code, rtc.hiprtcGetErrorString(c_int(code)).decode())


def _log(rtc: ctypes.CDLL, program: c_void_p) -> str:
    size = c_size_t()
    _rtc(rtc, "hiprtcGetProgramLogSize", program, byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    _rtc(rtc, "hiprtcGetProgramLog", program, text)
    return text.value.decode(errors="replace")
