"""Convolutions, activations and pooling of the emulated libMIOpen against numpy."""

from __future__ import annotations

from ctypes import Structure, byref, c_bool, c_char_p, c_double, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from emulator.library import Array, Library, address, download, fail, fault_of, upload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codegen.device.hip import Buffer
    from emulator.machine import Emulator

BAD_PARAMETER, NOT_IMPLEMENTED, UNKNOWN_ERROR = 3, 6, 7
HALF, FLOAT, INT32, BFLOAT16, DOUBLE = 0, 1, 2, 5, 6
DTYPES: dict[int, Any] = {HALF: np.float16, FLOAT: np.float32, BFLOAT16: ml_dtypes.bfloat16, DOUBLE: np.float64}
STEPS = {HALF: 2.0**-10, FLOAT: 2.0**-23, BFLOAT16: 2.0**-7, DOUBLE: 2.0**-52}
"""Between one and the next number."""

CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}
CONVOLUTION, TRANSPOSE = 0, 1
GEMM, DIRECT, FFT = 0, 1, 2
ONE, ZERO = byref(c_float(1)), byref(c_float(0))
YES, NO = c_bool(1), c_bool(0)
MAX, AVERAGE, AVERAGE_INCLUSIVE = 0, 1, 2


class Performance(Structure):
    """miopenConvAlgoPerf_t"""

    _fields_ = (("algorithm", c_uint), ("time", c_float), ("memory", c_size_t))


class Solution(Structure):
    """miopenConvSolution_t"""

    _fields_ = (("time", c_float), ("workspace", c_size_t), ("id", c_uint64), ("algorithm", c_uint))


@dataclass(frozen=True)
class Tensor:
    """A tensor on the device with its descriptor."""

    descriptor: c_void_p
    buffer: Buffer
    like: Array


@dataclass(frozen=True)
class MIOpen:
    """The library with a handle."""

    library: Library
    handle: c_void_p

    @property
    def device(self) -> Emulator:
        return self.library.device

    def call(self, function: str, *arguments: object) -> None:
        self.library.call(f"miopen{function}", self.handle, *arguments)

    def status(self, function: str, *arguments: object) -> int:
        return self.library.status(f"miopen{function}", self.handle, *arguments)

    def descriptor(self, array: Array) -> c_void_p:
        descriptor = self.library.handle("miopenCreateTensorDescriptor")
        rank = array.ndim
        dims = (c_int * rank)(*array.shape)
        strides = (c_int * rank)(*(stride // array.itemsize for stride in array.strides))
        self.library.call("miopenSetTensorDescriptor", descriptor, CODES[array.dtype], rank, dims, strides)
        return descriptor

    def tensor(self, array: Array) -> Tensor:
        return Tensor(self.descriptor(array), upload(self.device, array), array)

    def empty(self, shape: Sequence[int], dtype: Any) -> Tensor:
        like = np.zeros(shape, dtype)
        return Tensor(self.descriptor(like), self.device.allocate(like.nbytes), like)

    def download(self, tensor: Tensor) -> Array:
        return download(self.device, tensor.buffer, tensor.like)

    def convolution(self, geometry: Geometry, mode: int = CONVOLUTION) -> c_void_p:
        descriptor = self.library.handle("miopenCreateConvolutionDescriptor")
        rank = len(geometry.pad)
        pad, stride, dilation = ((c_int * rank)(*sizes) for sizes in (geometry.pad, geometry.stride, geometry.dilation))
        self.library.call("miopenInitConvolutionNdDescriptor", descriptor, rank, pad, stride, dilation, mode)
        self.library.call("miopenSetConvolutionGroupCount", descriptor, geometry.groups)
        return descriptor


@pytest.fixture
def miopen(device: Emulator) -> Iterator[MIOpen]:
    library = Library(device, "MIOpen")
    handle = library.handle("miopenCreate")
    yield MIOpen(library, handle)
    library.call("miopenDestroy", handle)


@dataclass(frozen=True)
class Geometry:
    """A convolution and its tensors' sizes."""

    input: tuple[int, ...]
    weights: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    @property
    def output(self) -> tuple[int, ...]:
        spatial = zip(self.input[2:], self.weights[2:], self.pad, self.stride, self.dilation, strict=True)
        sizes = ((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, p, s, d in spatial)
        return (self.input[0], self.weights[0], *sizes)


LEFT_OVER = Geometry((1, 2, 8), (3, 2, 3), (0,), (2,), (1,))
"""The stride leaves the last element out: the transpose of this makes a shorter tensor."""

GEOMETRIES = [
    Geometry((2, 3, 7, 5), (4, 3, 3, 2), (0, 0), (1, 1), (1, 1)),
    Geometry((1, 4, 9, 8), (6, 2, 3, 3), (1, 2), (2, 3), (2, 1), groups=2),
    Geometry((2, 3, 6, 6), (3, 1, 3, 3), (1, 1), (1, 1), (1, 1), groups=3),
    Geometry((2, 2, 11), (3, 2, 4), (3,), (2,), (2,)),
    Geometry((1, 2, 4, 5, 3), (2, 2, 2, 3, 2), (1, 0, 1), (1, 2, 1), (1, 1, 1)),
    LEFT_OVER,
]
SAMPLE = GEOMETRIES[0]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Array:
    """Small integers: their products and sums are exact in every type."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def convolve(x: Array, w: Array, geometry: Geometry) -> Array:
    """The convolution, position by position."""
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *((p, p) for p in geometry.pad)])
    y = np.zeros(geometry.output)
    per_group = y.shape[1] // geometry.groups
    channels = w.shape[1]
    for filter_, place in product(range(y.shape[1]), np.ndindex(*y.shape[2:])):
        first = filter_ // per_group * channels
        window = tuple(
            slice(index * s, index * s + d * (k - 1) + 1, d)
            for index, s, d, k in zip(place, geometry.stride, geometry.dilation, w.shape[2:], strict=True)
        )
        seen = padded[(slice(None), slice(first, first + channels), *window)]
        y[(slice(None), filter_, *place)] = (seen * w[filter_].astype(float)).reshape(len(y), -1).sum(axis=1)
    return y


def transpose(y: Array, w: Array, geometry: Geometry) -> Array:
    """The transpose, from the convolution of each unit: <convolve(e), y> is the element of e."""
    x = np.zeros(geometry.input)
    for place in np.ndindex(*geometry.input[1:]):
        unit = np.zeros((1, *geometry.input[1:]))
        unit[(0, *place)] = 1
        image = convolve(unit, w, Geometry((1, *geometry.input[1:]), *_rest(geometry)))
        x[(slice(None), *place)] = (image * y.astype(float)).reshape(len(y), -1).sum(axis=1)
    return x


def _rest(geometry: Geometry) -> tuple[Any, ...]:
    return geometry.weights, geometry.pad, geometry.stride, geometry.dilation, geometry.groups


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("algorithm", [DIRECT, GEMM])
def test_forward_after_a_search(miopen: MIOpen, geometry: Geometry, algorithm: int) -> None:
    x, w = numbers(geometry.input, seed=1), numbers(geometry.weights, seed=2)
    tensors = miopen.tensor(x), miopen.tensor(w)
    y = miopen.empty(geometry.output, np.float32)
    convolution = miopen.convolution(geometry)
    found, count = (Performance * 4)(), c_int()
    operands = [argument for t in tensors for argument in (t.descriptor, address(t.buffer))]
    output = [y.descriptor, address(y.buffer)]
    most = c_size_t()
    descriptors = [tensors[1].descriptor, tensors[0].descriptor, convolution, y.descriptor]
    miopen.call("ConvolutionForwardGetWorkSpaceSize", *descriptors, byref(most))
    room = miopen.device.allocate(most.value)
    search = [*operands, convolution, *output, 4, byref(count), found]
    miopen.call("FindConvolutionForwardAlgorithm", *search, address(room), most, NO)
    assert [found[index].algorithm for index in range(count.value)] == [DIRECT, GEMM]
    if most.value:
        miopen.call("FindConvolutionForwardAlgorithm", *search, None, c_size_t(0), NO)
        assert [found[index].algorithm for index in range(count.value)] == [DIRECT], "what needs no room"

    size = next(entry.memory for entry in found if entry.algorithm == algorithm)
    workspace = miopen.device.allocate(size)
    scratch = [address(workspace) if size else None, c_size_t(size)]
    miopen.call("ConvolutionForward", ONE, *operands, convolution, algorithm, ZERO, *output, *scratch)
    np.testing.assert_array_equal(miopen.download(y), convolve(x, w, geometry))


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("code", DTYPES)
def test_forward_without_a_search(miopen: MIOpen, geometry: Geometry, code: int) -> None:
    x, w = numbers(geometry.input, DTYPES[code], 1), numbers(geometry.weights, DTYPES[code], 2)
    tensors = miopen.tensor(x), miopen.tensor(w)
    y = miopen.empty(geometry.output, DTYPES[code])
    convolution = miopen.convolution(geometry)
    descriptors = [tensors[1].descriptor, tensors[0].descriptor, convolution, y.descriptor]
    count, solutions = c_size_t(), (Solution * 2)()
    miopen.call("ConvolutionForwardGetSolutionCount", *descriptors, byref(count))
    miopen.call("ConvolutionForwardGetSolution", *descriptors, count, byref(count), solutions)
    assert count.value == 2
    for solution in solutions:
        miopen.call("ConvolutionForwardCompileSolution", *descriptors, c_uint64(solution.id))
        size = c_size_t()
        miopen.call("ConvolutionForwardGetSolutionWorkspaceSize", *descriptors, c_uint64(solution.id), byref(size))
        assert size.value == solution.workspace
        workspace = miopen.device.allocate(size.value)
        miopen.call(
            "ConvolutionForwardImmediate", tensors[1].descriptor, address(tensors[1].buffer), tensors[0].descriptor,
            address(tensors[0].buffer), convolution, y.descriptor, address(y.buffer), address(workspace), size,
            c_uint64(solution.id),
        )  # fmt: skip
        np.testing.assert_array_equal(miopen.download(y).astype(float), convolve(x, w, geometry))


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["backward data", "forward of a transpose"])
def test_transpose(miopen: MIOpen, geometry: Geometry, transposed: bool) -> None:  # noqa: FBT001 - a parameter
    """The gradient of a convolution's input is the transposed convolution."""
    y, w = numbers(geometry.output, seed=1), numbers(geometry.weights, seed=2)
    tensors = miopen.tensor(y), miopen.tensor(w)
    x = miopen.empty(geometry.input, np.float32)
    convolution = miopen.convolution(geometry, TRANSPOSE if transposed else CONVOLUTION)
    direct = c_uint64(2)
    if transposed:
        operands = [tensors[1], tensors[0]]
        function = "ConvolutionForwardImmediate"
    else:
        operands = [tensors[0], tensors[1]]
        function = "ConvolutionBackwardDataImmediate"
    inputs = [argument for t in operands for argument in (t.descriptor, address(t.buffer))]
    arguments = [*inputs, convolution, x.descriptor, address(x.buffer), None, c_size_t(0), direct]
    if transposed and geometry == LEFT_OVER:
        assert miopen.status(function, *arguments) == BAD_PARAMETER
        return
    miopen.call(function, *arguments)
    np.testing.assert_array_equal(miopen.download(x), transpose(y, w, geometry))


def test_backward_data_after_a_search(miopen: MIOpen) -> None:
    y, w = numbers(SAMPLE.output, seed=1), numbers(SAMPLE.weights, seed=2)
    tensors = miopen.tensor(y), miopen.tensor(w)
    x = miopen.empty(SAMPLE.input, np.float32)
    convolution = miopen.convolution(SAMPLE)
    operands = [argument for t in tensors for argument in (t.descriptor, address(t.buffer))]
    output = [x.descriptor, address(x.buffer)]
    size = c_size_t()
    miopen.call(
        "ConvolutionBackwardDataGetWorkSpaceSize", tensors[0].descriptor, tensors[1].descriptor, convolution,
        x.descriptor, byref(size),
    )  # fmt: skip
    scratch = [address(miopen.device.allocate(size.value)), size]
    run = ["ConvolutionBackwardData", ONE, *operands, convolution, GEMM, ZERO, *output, *scratch]
    assert miopen.status(str(run[0]), *run[1:]) == UNKNOWN_ERROR
    found, count = (Performance * 1)(), c_int()
    search = [*operands, convolution, *output, 1, byref(count), found, *scratch, NO]
    miopen.call("FindConvolutionBackwardDataAlgorithm", *search)
    assert count.value == 1
    miopen.call(str(run[0]), *run[1:])
    np.testing.assert_array_equal(miopen.download(x), transpose(y, w, SAMPLE))


@pytest.fixture
def forward(miopen: MIOpen) -> list[object]:
    """Arguments of a right miopenConvolutionForwardImmediate."""
    x, w = miopen.tensor(numbers(SAMPLE.input)), miopen.tensor(numbers(SAMPLE.weights))
    y = miopen.empty(SAMPLE.output, np.float32)
    tensors = [argument for t in (w, x) for argument in (t.descriptor, address(t.buffer))]
    output = [y.descriptor, address(y.buffer)]
    return [*tensors, miopen.convolution(SAMPLE), *output, None, c_size_t(0), c_uint64(2)]


def test_wrong_arguments(miopen: MIOpen, forward: list[object]) -> None:
    assert miopen.status("ConvolutionForwardImmediate", *forward) == 0
    gemm = c_uint64(1)
    other = miopen.descriptor(np.zeros((2, 3, 7, 6), np.float32))
    half = miopen.descriptor(np.zeros(SAMPLE.input, np.float16))
    changes = {0: forward[4], 1: None, 2: other, 4: None, 5: other, 9: c_uint64(3)}
    for index, value in [*changes.items(), (2, half), (9, gemm)]:
        wrong = [value if place == index else argument for place, argument in enumerate(forward)]
        assert miopen.status("ConvolutionForwardImmediate", *wrong) == BAD_PARAMETER, index
    assert miopen.library.status("miopenConvolutionForwardImmediate", None, *forward) == BAD_PARAMETER


def test_an_algorithm_that_no_search_found(miopen: MIOpen, forward: list[object]) -> None:
    w, w_data, x, x_data, convolution, y, y_data, *_ = forward
    run = [ONE, x, x_data, w, w_data, convolution, DIRECT, ZERO, y, y_data, None, c_size_t(0)]
    assert miopen.status("ConvolutionForward", *run) == UNKNOWN_ERROR
    assert "miopenConvolutionForward: no search for an algorithm found this one" in miopen.device.report()


def test_factors_that_old_releases_lack(miopen: MIOpen, forward: list[object]) -> None:
    w, w_data, x, x_data, convolution, y, y_data, *_ = forward
    run = [x, x_data, w, w_data, convolution, DIRECT]
    tail = [y, y_data, None, c_size_t(0)]
    two = byref(c_float(2))
    for alpha, beta in [(two, ZERO), (ONE, ONE)]:
        assert miopen.status("ConvolutionForward", alpha, *run, beta, *tail) == NOT_IMPLEMENTED


def test_memory_is_checked(miopen: MIOpen, forward: list[object]) -> None:
    function = "miopenConvolutionForwardImmediate"
    short = miopen.device.upload(bytes(4 * 3 * 3 * 2 * 4 - 4))
    wrong = [*forward[:1], address(short), *forward[2:]]
    miopen.call("ConvolutionForwardImmediate", *wrong)
    assert f"{function}, tensor w: invalid read of 288 bytes" in fault_of(miopen.device)
    fresh = miopen.device.allocate(4 * 3 * 3 * 2 * 4)
    miopen.call("ConvolutionForwardImmediate", *forward[:1], address(fresh), *forward[2:])
    assert f"{function}, tensor w: uninitialised read of 288 bytes" in fault_of(miopen.device)


def test_the_nth_call_can_be_made_to_fail(miopen: MIOpen, forward: list[object]) -> None:
    fail(miopen.device, "miopenConvolutionForwardImmediate", 2, UNKNOWN_ERROR)
    statuses = [miopen.status("ConvolutionForwardImmediate", *forward) for _ in range(3)]
    assert statuses == [0, UNKNOWN_ERROR, 0]


def test_output_dimensions(miopen: MIOpen) -> None:
    geometry = GEOMETRIES[1]
    sizes = [c_int() for _ in range(4)]
    x, w = (miopen.descriptor(np.zeros(shape, np.float32)) for shape in (geometry.input, geometry.weights))
    convolution = miopen.convolution(geometry)
    pointers = [byref(size) for size in sizes]
    miopen.library.call("miopenGetConvolutionForwardOutputDim", convolution, x, w, *pointers)
    assert tuple(size.value for size in sizes) == geometry.output


@pytest.mark.parametrize("code", DTYPES)
def test_tensor_descriptors(miopen: MIOpen, code: int) -> None:
    descriptor = miopen.library.handle("miopenCreateTensorDescriptor")
    get = "miopenGet4dTensorDescriptor"
    values = [c_int() for _ in range(9)]
    pointers = [byref(value) for value in values]
    assert miopen.library.status(get, descriptor, *pointers) == BAD_PARAMETER
    miopen.library.call("miopenSet4dTensorDescriptor", descriptor, code, 2, 3, 4, 5)
    miopen.library.call(get, descriptor, *pointers)
    assert [value.value for value in values] == [code, 2, 3, 4, 5, 60, 20, 5, 1]
    miopen.library.call("miopenSet4dTensorDescriptorEx", descriptor, code, 2, 3, 4, 5, 60, 1, 15, 3)
    dims, strides, rank = (c_int * 4)(), (c_int * 4)(), c_int()
    miopen.library.call("miopenGetTensorDescriptor", descriptor, None, dims, strides)
    miopen.library.call("miopenGetTensorDescriptorSize", descriptor, byref(rank))
    assert (list(dims), list(strides), rank.value) == ([2, 3, 4, 5], [60, 1, 15, 3], 4)
    assert miopen.library.status("miopenSet4dTensorDescriptor", descriptor, code, 2, 0, 4, 5) == BAD_PARAMETER
    miopen.library.call("miopenDestroyTensorDescriptor", descriptor)
    assert miopen.library.status("miopenDestroyTensorDescriptor", descriptor) == BAD_PARAMETER


def test_a_tensor_with_channels_last(miopen: MIOpen) -> None:
    """The same convolution of a tensor whose strides are those of NHWC."""
    x, w = numbers(SAMPLE.input, seed=1), numbers(SAMPLE.weights, seed=2)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    seen = last.transpose(0, 3, 1, 2)
    x_tensor = Tensor(miopen.descriptor(seen), upload(miopen.device, last), seen)
    w_tensor, y = miopen.tensor(w), miopen.empty(SAMPLE.output, np.float32)
    tensors = [argument for t in (w_tensor, x_tensor) for argument in (t.descriptor, address(t.buffer))]
    output = [y.descriptor, address(y.buffer)]
    rest = [None, c_size_t(0), c_uint64(2)]
    miopen.call("ConvolutionForwardImmediate", *tensors, miopen.convolution(SAMPLE), *output, *rest)
    np.testing.assert_array_equal(miopen.download(y), convolve(x, w, SAMPLE))


def softplus(x: Array) -> Array:
    return np.logaddexp(0, x)


ACTIVATIONS: dict[int, Any] = {
    0: lambda x: x,
    1: lambda x: 1 / (1 + np.exp(-x)),
    2: lambda x: 1.5 * np.tanh(0.5 * x),
    3: lambda x: np.maximum(x, 0),
    4: softplus,
    5: np.abs,
    6: lambda x: (0.5 + 1.5 * x) ** 2,
    7: lambda x: np.minimum(np.maximum(x, 0), 0.5),
    8: lambda x: np.where(x > 0, x, 0.5 * x),
    9: lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)),
    10: lambda x: np.clip(x, 0.5, 1.5),
}


@pytest.mark.parametrize("code", [BFLOAT16, DOUBLE])
def test_activations_are_of_f16_and_f32_alone(miopen: MIOpen, code: int) -> None:
    """As AMD's library answers."""
    x = numbers((1, 3, 3, 3), seed=1).astype(DTYPES[code])
    descriptor = miopen.library.handle("miopenCreateActivationDescriptor")
    miopen.library.call("miopenSetActivationDescriptor", descriptor, 3, *[c_double(0)] * 3)
    source, target = miopen.tensor(x), miopen.empty(x.shape, x.dtype)
    given = (ONE, source.descriptor, address(source.buffer), ZERO, target.descriptor, address(target.buffer))
    assert miopen.status("ActivationForward", descriptor, *given) == NOT_IMPLEMENTED


@pytest.mark.parametrize("mode", ACTIVATIONS)
@pytest.mark.parametrize("code", [HALF, FLOAT])
def test_activation(miopen: MIOpen, mode: int, code: int) -> None:
    x = np.concatenate([np.linspace(-5, 5, 23), [0, -0.0, 30, -30]]).reshape(1, 3, 3, 3).astype(DTYPES[code])
    descriptor = miopen.library.handle("miopenCreateActivationDescriptor")
    factors = [c_double(value) for value in (0.5, 1.5, 2.0)]
    miopen.library.call("miopenSetActivationDescriptor", descriptor, mode, *factors)
    source, target = miopen.tensor(x), miopen.empty(x.shape, x.dtype)
    miopen.call(
        "ActivationForward", descriptor, ONE, source.descriptor, address(source.buffer), ZERO, target.descriptor,
        address(target.buffer),
    )  # fmt: skip
    exact = ACTIVATIONS[mode](x.astype(np.float64))
    # Half a step of the type, and as much again for the functions of the C library.
    np.testing.assert_allclose(miopen.download(target).astype(np.float64), exact, rtol=STEPS[code], atol=1e-13)


@pytest.mark.parametrize("mode", [MAX, AVERAGE, AVERAGE_INCLUSIVE])
@pytest.mark.parametrize(
    ("window", "pad", "stride"), [((2, 2), (0, 0), (2, 2)), ((3, 2), (1, 0), (2, 1)), ((3, 3), (1, 1), (1, 1))]
)
def test_pooling(
    miopen: MIOpen, mode: int, window: tuple[int, int], pad: tuple[int, int], stride: tuple[int, int]
) -> None:
    x = numbers((2, 3, 7, 6), seed=1)
    descriptor = miopen.library.handle("miopenCreatePoolingDescriptor")
    miopen.library.call("miopenSet2dPoolingDescriptor", descriptor, mode, *window, *pad, *stride)
    source, sizes = miopen.tensor(x), [c_int() for _ in range(4)]
    pointers = [byref(size) for size in sizes]
    miopen.library.call("miopenGetPoolingForwardOutputDim", descriptor, source.descriptor, *pointers)
    target = miopen.empty([size.value for size in sizes], np.float32)
    arguments = [descriptor, ONE, source.descriptor, address(source.buffer), ZERO, target.descriptor]
    miopen.call("PoolingForward", *arguments, address(target.buffer), NO, None, c_size_t(0))

    expected = np.zeros(target.like.shape)
    for row, column in np.ndindex(*expected.shape[2:]):
        top, left = row * stride[0] - pad[0], column * stride[1] - pad[1]
        seen = x[:, :, max(top, 0) : top + window[0], max(left, 0) : left + window[1]].astype(float)
        whole = window[0] * window[1]
        expected[:, :, row, column] = {
            MAX: seen.max(axis=(2, 3)),
            AVERAGE: seen.mean(axis=(2, 3)),
            AVERAGE_INCLUSIVE: seen.sum(axis=(2, 3)) / whole,
        }[mode]
    np.testing.assert_array_equal(miopen.download(target), expected.astype(np.float32))

    backward = [*arguments, address(target.buffer), YES, None, c_size_t(0)]
    assert miopen.status("PoolingForward", *backward) == NOT_IMPLEMENTED
    size = c_size_t()
    miopen.library.call("miopenPoolingGetWorkSpaceSizeV2", descriptor, target.descriptor, byref(size))
    assert size.value == (expected.size if mode == MAX else 0)


@pytest.mark.parametrize("operation", range(4))
@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_op_tensor(miopen: MIOpen, operation: int, beta: float) -> None:
    a, b, c = numbers((2, 3, 4, 5), seed=1), numbers((1, 3, 1, 5), seed=2), numbers((2, 3, 4, 5), seed=3)
    tensors = [miopen.tensor(array) for array in (a, b, c)]
    factors = [byref(c_float(value)) for value in (2, -1, beta)]
    arguments = [
        argument
        for factor, tensor in zip(factors, tensors, strict=True)
        for argument in (factor, tensor.descriptor, address(tensor.buffer))
    ]
    miopen.call("OpTensor", operation, *arguments)
    function = [np.add, np.multiply, np.minimum, np.maximum][operation]
    np.testing.assert_array_equal(miopen.download(tensors[2]), function(2 * a, -b) + beta * c)


def test_bias(miopen: MIOpen) -> None:
    y, bias = numbers((2, 3, 4, 5), seed=1), numbers((1, 3, 1, 1), seed=2)
    target, source = miopen.tensor(y), miopen.tensor(bias)
    arguments = [ONE, source.descriptor, address(source.buffer), ZERO, target.descriptor, address(target.buffer)]
    miopen.call("ConvolutionForwardBias", *arguments)
    np.testing.assert_array_equal(miopen.download(target), y + bias)


def test_convolution_with_bias_and_activation(miopen: MIOpen) -> None:
    x, w = numbers(SAMPLE.input, seed=1), numbers(SAMPLE.weights, seed=2)
    z, bias = numbers(SAMPLE.output, seed=3), numbers((1, SAMPLE.output[1], 1, 1), seed=4)
    x_part, w_part, z_part, bias_part = (
        [tensor.descriptor, address(tensor.buffer)] for tensor in map(miopen.tensor, (x, w, z, bias))
    )
    y = miopen.empty(SAMPLE.output, np.float32)
    relu = miopen.library.handle("miopenCreateActivationDescriptor")
    miopen.library.call("miopenSetActivationDescriptor", relu, 3, c_double(0), c_double(0), c_double(0))
    two = byref(c_float(2))
    miopen.call(
        "ConvolutionBiasActivationForward", ONE, *x_part, *w_part, miopen.convolution(SAMPLE), DIRECT, None,
        c_size_t(0), two, *z_part, *bias_part, relu, y.descriptor, address(y.buffer),
    )  # fmt: skip
    np.testing.assert_array_equal(miopen.download(y), np.maximum(convolve(x, w, SAMPLE) + 2 * z + bias, 0))


def test_handles_and_names(miopen: MIOpen) -> None:
    functions = miopen.library.functions
    functions.miopenGetErrorString.restype = c_char_p
    assert functions.miopenGetErrorString(BAD_PARAMETER) == b"miopenStatusBadParm"
    version = [c_size_t() for _ in range(3)]
    miopen.library.call("miopenGetVersion", *(byref(number) for number in version))
    assert [number.value for number in version] == [3, 5, 1]
    stream, known = c_void_p(), c_void_p()
    miopen.device.call("hipStreamCreate", byref(stream))
    handle = miopen.library.handle("miopenCreateWithStream", stream)
    miopen.library.call("miopenGetStream", handle, byref(known))
    assert known.value == stream.value
    miopen.library.call("miopenSetStream", handle, None)
    miopen.library.call("miopenGetStream", handle, byref(known))
    assert known.value is None
    miopen.library.call("miopenSetAllocator", handle, None, None, None)
    miopen.library.call("miopenDestroy", handle)
    assert miopen.library.status("miopenDestroy", handle) == BAD_PARAMETER
    miopen.device.call("hipStreamDestroy", stream)


def test_convolution_descriptors(miopen: MIOpen) -> None:
    library, descriptor = miopen.library, miopen.library.handle("miopenCreateConvolutionDescriptor")
    assert library.status("miopenSetConvolutionAttribute", descriptor, 1, 1) == BAD_PARAMETER
    library.call("miopenInitConvolutionDescriptor", descriptor, CONVOLUTION, 0, 0, 1, 1, 1, 1)
    library.call("miopenSetConvolutionAttribute", descriptor, 1, 1)
    assert library.status("miopenSetConvolutionAttribute", descriptor, 9, 1) == BAD_PARAMETER
    for wrong in [(7, 0, 0, 1, 1, 1, 1), (0, -1, 0, 1, 1, 1, 1), (0, 0, 0, 1, 0, 1, 1), (0, 0, 0, 1, 1, 0, 1)]:
        assert library.status("miopenInitConvolutionDescriptor", descriptor, *wrong) == BAD_PARAMETER
    assert library.status("miopenSetConvolutionGroupCount", descriptor, 0) == BAD_PARAMETER
    library.call("miopenDestroyConvolutionDescriptor", descriptor)
    assert library.status("miopenDestroyConvolutionDescriptor", descriptor) == BAD_PARAMETER
