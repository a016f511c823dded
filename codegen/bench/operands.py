"""Inputs of a row, held by PyTorch where it is installed, so that both sides read the same memory."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from codegen.device.hip import Buffer
from codegen.device.tensor import Tensor, numpy_type
from codegen.kernels.dtypes import dtype
from codegen.kernels.layout import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codegen.bench.model import Operand
    from codegen.device.hip import Device

_TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "u8": "uint8", "u32": "int32", "i64": "int64"}
_ARRAY = {"f32": "<f4", "f16": "<f2", "bf16": "<i2", "u8": "|u1", "u32": "<i4", "i64": "<i8"}
"""Types of the array interface, which has neither bf16 nor what PyTorch calls a u32."""


def torch_or_none() -> Any:
    """PyTorch if it is installed and sees a GPU."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    # Rows of f32 are computed in f32, as Candle does; by default, cuDNN rounds factors to 10 bits.
    torch.backends.cudnn.allow_tf32 = False
    return torch


def torch_input(torch: Any, operand: Operand, place: str) -> Any:
    """Made-up numbers in PyTorch's memory, `cuda`'s or `cpu`'s."""
    kind = getattr(torch, _TORCH[operand.dtype])
    if operand.fill == "normal":
        return torch.randn(operand.shape, device=place, dtype=torch.float32).to(kind)
    return torch.randint(0, _below(operand), operand.shape, device=place, dtype=kind)


def plain_input(device: Device, operand: Operand) -> Tensor:
    """The same without PyTorch."""
    random = np.random.default_rng(1)
    kind = numpy_type(dtype(operand.dtype))
    if operand.fill == "normal":
        values = random.standard_normal(operand.shape, dtype=np.float32).astype(kind)
    else:
        values = random.integers(0, _below(operand), operand.shape).astype(kind)
    return Tensor.from_numpy(device, values, dtype(operand.dtype))


def _below(operand: Operand) -> int:
    return 2 if operand.fill == "even" else int(operand.fill.removeprefix("below:"))


def _viewed(tensor: Any, operand: Operand, *, narrow: str, permute: str, broadcast: str) -> Any:
    """A tensor's view as the operand asks for it, made by the tensor's methods of these names."""
    ways = {"narrow": narrow, "permute": permute, "broadcast": broadcast}
    for view in operand.views:
        tensor = getattr(tensor, ways[view.way])(*view.numbers)
    return tensor


def torchs_view(held: Any, operand: Operand) -> Any:
    """Of a tensor of PyTorch's."""
    return _viewed(held, operand, narrow="narrow", permute="permute", broadcast="expand")


def our_view(tensor: Tensor, operand: Operand) -> Tensor:
    """Of a tensor of ours."""
    own: Tensor = _viewed(tensor, operand, narrow="narrow", permute="transpose", broadcast="broadcast")
    return own


def torch_graph(torch: Any, works: Sequence[Callable[[], None]], number: int) -> Callable[[], None]:
    """Enqueues `number` pieces of PyTorch's work, taken from `works` in turn, as one graph."""
    works[0]()  # PyTorch prepares some operations when they are first used, which a graph cannot hold
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in range(number):
            works[each % len(works)]()
    replay: Callable[[], None] = graph.replay
    return replay


def as_ours(device: Device, held: Any, kind: str) -> Tensor:
    """A contiguous tensor of PyTorch's as one of ours, in the same memory."""
    element = dtype(kind)
    buffer = Buffer(held.data_ptr(), held.numel() * element.size)
    return Tensor(device, buffer, element, View.contiguous(tuple(held.shape)))


def ours_of_cpu(device: Device, torch: Any, held: Any, kind: str) -> Tensor:
    """A copy on the device of a contiguous tensor in PyTorch's memory of the CPU."""
    data = held.flatten().view(torch.uint8).numpy().tobytes()
    return Tensor(device, device.upload(data), dtype(kind), View.contiguous(tuple(held.shape)))


def cpus(torch: Any, tensor: Tensor) -> Any:
    """A copy of a tensor of ours in PyTorch's memory of the CPU; u32 becomes i32."""
    data = bytearray(tensor.numpy().tobytes())
    return torch.frombuffer(data, dtype=getattr(torch, _TORCH[tensor.dtype.name])).reshape(tensor.shape)


def as_torchs(torch: Any, tensor: Tensor) -> Any:
    """A tensor of ours as one of PyTorch's, in the same memory; u32 becomes i32."""

    interface = {
        "version": 3,
        "shape": tensor.shape,
        "strides": tuple(stride * tensor.dtype.size for stride in tensor.view.strides),
        "typestr": _ARRAY[tensor.dtype.name],
        "data": (tensor.address, False),
    }
    held = torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")
    return held.view(torch.bfloat16) if tensor.dtype.name == "bf16" else held
