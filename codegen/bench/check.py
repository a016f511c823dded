"""Compares results of rows with PyTorch's on the CPU, on any device: a modelled GPU, say. Nothing is timed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from codegen.bench.clock import TimedDevice
from codegen.bench.error import relative_error
from codegen.bench.model import Checked
from codegen.bench.operands import cpus, our_view, ours_of_cpu, torch_input, torchs_view
from codegen.device.kernels import Kernels
from codegen.errors import ToolchainMissing

if TYPE_CHECKING:
    from codegen.bench.model import Row


class Check:
    """One device, whichever answers, and PyTorch's CPU."""

    def __init__(self) -> None:
        """Raises ToolchainMissing without PyTorch, or a device."""
        try:
            self.torch: Any = import_module("torch")
        except ImportError:
            raise ToolchainMissing("PyTorch is not installed", remedy="pip install torch") from None
        self.device = TimedDevice()
        self._kernels = Kernels(self.device)

    def checked(self, row: Row) -> Checked:
        """How far the row's result is from PyTorch's. Raises HipError where a kernel fails."""
        if row.theirs is None:
            return Checked(row, None)
        torch = self.torch
        torch.manual_seed(1)
        with self.device.released():
            memory = [torch_input(torch, own, "cpu") for own in row.inputs]
            pairs = list(zip(memory, row.inputs, strict=True))
            tensors = [our_view(ours_of_cpu(self.device, torch, held, own.dtype), own) for held, own in pairs]
            held = [torchs_view(each, own) for each, own in pairs]
            result = cpus(torch, row.ours(self._kernels, tensors))
            expected = row.theirs(torch, [each.clone() for each in held])
            return Checked(row, relative_error(torch, row, held, expected, result))
