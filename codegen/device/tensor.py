"""Tensors on a device: a buffer and a view of it, made from and read back as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from codegen.kernels.dtypes import DTYPES, WIDTHS, DType, dtype
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from codegen.device.hip import Buffer, Device

_LETTERS = {"u": "uint", "i": "int", "f": "float", "b": "uint"}
"""How numpy calls the types whose names begin so and go on with their number of bits."""
_OTHERS: dict[str, np.dtype[Any]] = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
_NUMPY: dict[str, np.dtype[Any]] = {
    element.name: _OTHERS.get(element.name) or np.dtype(f"{_LETTERS[element.name[0]]}{8 * element.size}")
    for element in (*DTYPES, *WIDTHS)
}


def numpy_type(element: DType) -> np.dtype[Any]:
    """The numpy type of an element type; bf16 and f8e4m3 are ml_dtypes'."""
    return _NUMPY[element.name]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A view of device memory."""

    device: Device
    buffer: Buffer
    dtype: DType
    view: View

    @classmethod
    def from_numpy(cls, device: Device, array: np.ndarray[Any, Any], element: DType | None = None) -> Tensor:
        """A contiguous copy of an array on the device."""
        element = element or element_type(array)
        data = np.ascontiguousarray(array, dtype=numpy_type(element))
        return cls(device, device.upload(data.tobytes()), element, View.contiguous(array.shape))

    @classmethod
    def empty(cls, device: Device, shape: tuple[int, ...], element: DType) -> Tensor:
        """A contiguous tensor whose memory nobody has written."""
        view = View.contiguous(shape)
        return cls(device, device.allocate(view.count * element.size), element, view)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost dimension first."""
        return self.view.shape

    @property
    def address(self) -> int:
        """Of the view's first element."""
        return self.buffer.address + self.view.offset * self.dtype.size

    @property
    def start(self) -> int:
        """Address of the buffer, from which layouts count their offsets."""
        return self.buffer.address

    def numpy(self) -> np.ndarray[Any, Any]:
        """The view's elements, once all work before has run."""
        flat = np.frombuffer(self.device.download(self.buffer), dtype=numpy_type(self.dtype))
        strides = tuple(stride * self.dtype.size for stride in self.view.strides)
        return np.lib.stride_tricks.as_strided(flat[self.view.offset :], self.view.shape, strides).copy()

    def transpose(self, *axes: int) -> Tensor:
        """The dimensions in another order."""
        shape = tuple(self.view.shape[a] for a in axes)
        return self._viewed(shape, tuple(self.view.strides[a] for a in axes), self.view.offset)

    def narrow(self, axis: int, start: int, length: int) -> Tensor:
        """`length` entries of a dimension, from `start`."""
        shape = (*self.view.shape[:axis], length, *self.view.shape[axis + 1 :])
        return self._viewed(shape, self.view.strides, self.view.offset + start * self.view.strides[axis])

    def broadcast(self, *shape: int) -> Tensor:
        """The view repeated to a larger shape, without copying."""
        missing = len(shape) - len(self.view.shape)
        strides = [0] * missing
        for size, own, stride in zip(shape[missing:], self.view.shape, self.view.strides, strict=True):
            strides.append(stride if size == own else 0)
        return self._viewed(shape, tuple(strides), self.view.offset)

    def reshaped(self, *shape: int) -> Tensor:
        """The elements of a contiguous view in another shape."""
        assert self.view.is_contiguous
        return self._viewed(shape, View.contiguous(shape).strides, self.view.offset)

    def _viewed(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
        return replace(self, view=View(shape, strides, offset))


def element_type(array: np.ndarray[Any, Any]) -> DType:
    """Candle's element type for an array's. Raises KeyError if it has none."""
    return next(dtype(name) for name, kind in _NUMPY.items() if kind == array.dtype)
