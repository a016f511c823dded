"""ROCm devices in Python: their names, tensors on them, and moves from device to device.

Without an AMD GPU, or in a build without the feature `rocm`, the tests that compute are skipped.
"""

import struct

import candle
import candle.functional
import candle.typing
import pytest
from candle import Tensor
from candle.nn import Linear
from candle.testing import assert_almost_equal, assert_equal
from candle.utils import load_ggml, load_gguf, rocm_is_available, save_gguf

on_rocm = pytest.mark.skipif(not rocm_is_available(), reason="ROCm is not available")
MATRIX = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
FORMATS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2k", "q3k", "q4k", "q5k", "q6k", "q8k", "f16", "f32"]


def second_gpu() -> str:
    try:
        candle.zeros((1,), device="rocm:1")
    except ValueError:
        pytest.skip("one GPU only")
    return "rocm:1"


def test_the_type_hints_name_rocm():
    names = [hint.__forward_arg__ for hint in candle.typing.Device.__constraints__]
    assert candle.typing.ROCM in names
    assert candle.typing.ROCM == "rocm"


@pytest.mark.parametrize(
    "name", ["roc", "ROCM", "rocm1", "rocm:", "rocm:x", "rocm:-1", "rocm:+1", "rocm: 1", "rocm:1:2", f"rocm:{2**64}"]
)
def test_other_names_are_no_devices(name):
    with pytest.raises(TypeError, match="invalid device"):
        Tensor(1.0).to_device(name)
    with pytest.raises(TypeError, match="invalid device"):
        candle.ones(2, 3, device=name)


def test_a_gpu_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match=r"(?i)rocm"):
        Tensor(1.0).to_device("rocm:4096")


@pytest.mark.skipif(rocm_is_available(), reason="there is a GPU")
def test_without_rocm_a_move_is_an_error():
    with pytest.raises(ValueError, match=r"(?i)rocm"):
        Tensor(1.0).to_device("rocm")


@on_rocm
def test_tensors_are_made_on_the_device():
    for made in (candle.zeros, candle.ones):
        tensor = made(2, 3, device="rocm")
        assert (tensor.device, tensor.shape) == ("rocm", (2, 3))
        assert_equal(tensor.to_device("cpu"), made(2, 3))
    for drawn in (candle.rand, candle.randn):
        tensor = drawn(16, 16, device="rocm")
        values = [value for row in tensor.values() for value in row]
        assert tensor.device == "rocm"
        assert len(set(values)) > 200
        if drawn is candle.rand:
            assert all(0.0 <= value < 1.0 for value in values)


@on_rocm
def test_the_first_gpu_has_two_names():
    tensor = Tensor(MATRIX).to_device("rocm:0")
    assert tensor.device == "rocm"
    both = tensor + Tensor(MATRIX).to_device("rocm")
    assert_equal(both, Tensor([[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]).to_device("rocm"))


@on_rocm
@pytest.mark.parametrize("dtype", [candle.u8, candle.u32, candle.i64, candle.f16, candle.bf16, candle.f32, candle.f64])
def test_moves_keep_every_value(dtype):
    tensor = Tensor(MATRIX).to_dtype(dtype)
    moved = tensor.to_device("rocm")
    again = moved.to_device("rocm")
    back = again.to_device("cpu")
    assert [each.device for each in (tensor, moved, again, back)] == ["cpu", "rocm", "rocm", "cpu"]
    assert moved.values() == again.values() == back.values() == tensor.values() == MATRIX
    assert str(moved.dtype) == str(dtype)


@on_rocm
def test_moves_between_two_gpus():
    second = second_gpu()
    tensor = Tensor(MATRIX).to_device("rocm").to_device(second)
    assert tensor.device == second
    assert (tensor + tensor).device == second
    assert tensor.to_device("rocm").device == "rocm"
    assert tensor.to_device("rocm").values() == tensor.to_device("cpu").values() == MATRIX
    with pytest.raises(ValueError, match="device"):
        tensor + Tensor(MATRIX).to_device("rocm")


@on_rocm
def test_a_view_is_moved_as_it_is_seen():
    tensor = Tensor(MATRIX).to_device("rocm")
    assert tensor.t().to_device("cpu").values() == [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    assert tensor[1, 1:].to_device("cpu").values() == [5.0, 6.0]


@on_rocm
def test_results_are_those_of_the_cpu():
    operations = [
        lambda t: t + t,
        lambda t: (t - 3.0) * t / (t + 1.0),
        lambda t: t.matmul(t.t()),
        lambda t: t.broadcast_add(Tensor([1.0, -1.0, 0.5]).to_device(t.device)),
        lambda t: t.exp().log().sqrt(),
        lambda t: t.sum_keepdim(1),
        lambda t: t.sum_all(),
        lambda t: t.t().contiguous(),
        lambda t: t.index_select(Tensor([1, 0, 1]).to_dtype(candle.u32).to_device(t.device), 0),
        lambda t: candle.functional.softmax(t, 1),
        lambda t: candle.functional.silu(t),
        lambda t: candle.cat([t, t], 0),
    ]
    host = Tensor(MATRIX)
    for operation in operations:
        expected, actual = operation(host), operation(host.to_device("rocm"))
        assert actual.device == "rocm"
        assert actual.shape == expected.shape
        assert_almost_equal(actual.to_device("cpu"), expected, rtol=1e-5, atol=1e-6)


def numbers(rows, columns):
    """A matrix of both signs, whose rows differ."""
    return Tensor([[((7 * row + 13 * column) % 41 - 20) / 16 for column in range(columns)] for row in range(rows)])


def assert_product(found, rows, weights):
    """Rows are rounded to 8 bits: each number by at most 1/254 of the largest, which the weights multiply."""
    largest = max(abs(value) for row in rows.values() for value in row)
    exact = rows.matmul(weights.t()).values()
    for found_row, exact_row in zip(found.values(), exact, strict=True):
        for value, wanted, column in zip(found_row, exact_row, weights.values(), strict=True):
            assert abs(value - wanted) <= largest / 254 * sum(map(abs, column)) + 1e-4 * abs(wanted)


@on_rocm
@pytest.mark.parametrize("name", FORMATS)
def test_quantized_tensors_are_those_of_the_cpu(name):
    weights, rows = numbers(5, 512), numbers(3, 512)
    expected, actual = weights.quantize(name), weights.to_device("rocm").quantize(name)
    assert (actual.ggml_dtype, actual.shape, actual.rank) == (expected.ggml_dtype, (5, 512), 2)
    assert_equal(actual.dequantize(), expected.dequantize())
    product = actual.matmul_t(rows.to_device("rocm"))
    assert (product.device, product.shape) == ("rocm", (3, 5))
    assert_product(product, rows, expected.dequantize())


@on_rocm
def test_quantized_tensors_are_saved_and_loaded(tmp_path):
    path = str(tmp_path / "model.gguf")
    weights = numbers(5, 512).to_device("rocm")
    names = [name for name in FORMATS if name != "q8k"]  # of which Candle loads no file
    save_gguf(path, {name: weights.quantize(name) for name in names}, {"general.name": "a test"})
    on_host, metadata = load_gguf(path)
    assert metadata == {"general.name": "a test"}
    rows = numbers(3, 512)
    for device in ("rocm", "rocm:0"):
        loaded, metadata = load_gguf(path, device)
        assert metadata == {"general.name": "a test"}
        assert sorted(loaded) == sorted(names)
        for name, tensor in loaded.items():
            assert tensor.ggml_dtype == on_host[name].ggml_dtype
            assert_equal(tensor.dequantize(), on_host[name].dequantize())
            product = tensor.matmul_t(rows.to_device("rocm"))
            assert product.device == "rocm"
            assert_product(product, rows, on_host[name].dequantize())


@on_rocm
def test_a_ggml_file_is_loaded(tmp_path):
    path = tmp_path / "model.bin"
    numbers = [0.5, -2.0, 3.0]
    head = struct.pack("<2I7I", 0x67676A74, 3, *[0] * 7) + struct.pack("<4I", 1, 1, 0, len(numbers)) + b"t"
    path.write_bytes(head + bytes(-len(head) % 32) + struct.pack("<3f", *numbers))
    tensors, hparams, vocab = load_ggml(str(path), "rocm")
    assert (hparams["n_vocab"], vocab) == (0, [])
    assert tensors["t"].dequantize().values() == numbers


@on_rocm
def test_a_file_that_ends_too_early_names_what_it_lacks(tmp_path):
    path = tmp_path / "model.gguf"
    save_gguf(str(path), {"blk.7": numbers(5, 512).quantize("q4_0")}, {})
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(ValueError, match=r"blk\.7 at offset \d+: .* has 1440 bytes"):
        load_gguf(str(path), "rocm")


@on_rocm
def test_two_devices_do_not_mix():
    with pytest.raises(ValueError, match="device"):
        Tensor(MATRIX) + Tensor(MATRIX).to_device("rocm")


@on_rocm
def test_a_module_moves():
    module = Linear(3, 4)
    host = module(Tensor(MATRIX))
    for name in ("rocm", "rocm:0", "ROCM"):
        module.to(name)
        assert module.device() == "rocm"
        result = module(Tensor(MATRIX).to_device("rocm"))
        assert result.device == "rocm"
        assert_almost_equal(result.to_device("cpu"), host, rtol=1e-5, atol=1e-6)
        module.cpu()
        assert module.device() == "cpu"
