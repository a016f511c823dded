"""Products of matrices in the registers of a wave, with numbers whose products and sums are exact.

Where numbers lie is as AMD's documents and its matrix calculator have it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from some import some

from rocm.waves import Wave

FIRST, SECOND, THIRD, RESULT = 0, 8, 16, 24
VECTOR = 256
"""The first vector register among the numbers of sources."""


@dataclass(frozen=True)
class Matrices:
    """The matrices of an instruction."""

    set: str
    opcode: str
    kind: str
    """Of the elements."""
    side: int = 16
    depth: int = 16
    count: int = 1
    """Products at once."""
    sums: str = "f32"
    into: dict[str, int] | None = None
    """More fields."""

    @property
    def share(self) -> int:
        """Elements of a line that a lane has."""
        groups = {"rdna3": 1, "rdna4": 2}.get(self.set, 64 // self.side // self.count)
        return self.depth // groups

    def lane(self, product: int, line: int, element: int) -> int:
        """Which lane has an element of a row, or of a column."""
        if self.set == "rdna3":
            return line
        return line + self.side * (element // self.share * self.count + product)

    def of_sum(self, product: int, row: int, column: int) -> tuple[int, int]:
        """The lane of a sum, and which of its sums that is."""
        if self.set == "rdna3":
            return column + 16 * (row % 2), row // 2
        if self.set == "rdna4":
            return column + 16 * (row // 8), row % 8
        if self.sums == "f64":
            return (column + 16 * (row % 4), row // 4) if self.side == 16 else (column + 4 * product + 16 * row, 0)
        if self.side == 4:
            return column + 4 * product, row
        if self.side == 16:
            return column + 16 * (row // 4), 4 * product + row % 4
        return column + 32 * (row // 4 % 2), 16 * product + row // 8 * 4 + row % 4


BITS = {"i8": 8, "f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64, "i32": 32}


def bits_of(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Their bits, as whole numbers."""
    if kind == "bf16":
        return numbers.astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    of = {"i8": np.int8, "i32": np.int32, "f16": np.float16, "f64": np.float64}.get(kind, np.float32)
    made = numbers.astype(of)
    return made.view(f"u{made.itemsize}").astype(np.uint64)


def number_of(bits: int, kind: str) -> float:
    """The number with these bits."""
    if kind == "bf16":
        return float(np.array([bits << 16], np.uint32).view(np.float32)[0])
    of, size = {"i32": (np.int32, 4), "f16": (np.float16, 2), "f64": (np.float64, 8)}.get(kind, (np.float32, 4))
    return float(np.array([bits], f"u{size}").view(of)[0])


def put(wave: Wave, register: int, lane: int, place: int, value: tuple[int, int]) -> None:
    """Sets an element of so many bits of a lane."""
    number, bits = value
    if bits == 64:
        wave.vectors[register + 2 * place : register + 2 * place + 2, lane] = [number & 0xFFFFFFFF, number >> 32]
        return
    low, word = place % (32 // bits) * bits, register + place // (32 // bits)
    mask = ((1 << bits) - 1) << low
    wave.vectors[word, lane] = int(wave.vectors[word, lane]) & ~mask | number << low


def got(wave: Wave, register: int, lane: int, place: int, bits: int) -> int:
    """An element of so many bits of a lane."""
    if bits == 64:
        low, high = wave.vectors[register + 2 * place : register + 2 * place + 2, lane].tolist()
        return int(low | high << 32)
    return int(wave.vectors[register + place * bits // 32, lane]) >> place * bits % 32 & ((1 << bits) - 1)


CDNA3 = [
    Matrices("cdna3", "V_MFMA_I32_16X16X32_I8", "i8", depth=32, sums="i32"),
    Matrices("cdna3", "V_MFMA_I32_32X32X16_I8", "i8", 32, 16, sums="i32"),
    Matrices("cdna3", "V_MFMA_F32_16X16X16_F16", "f16"),
    Matrices("cdna3", "V_MFMA_F32_32X32X8_F16", "f16", 32, 8),
    Matrices("cdna3", "V_MFMA_F32_16X16X4_4B_F16", "f16", 16, 4, 4),
    Matrices("cdna3", "V_MFMA_F32_4X4X4_16B_F16", "f16", 4, 4, 16),
    Matrices("cdna3", "V_MFMA_F32_32X32X4_2B_F16", "f16", 32, 4, 2),
    Matrices("cdna3", "V_MFMA_F32_16X16X16_BF16", "bf16"),
    Matrices("cdna3", "V_MFMA_F32_32X32X8_BF16", "bf16", 32, 8),
    Matrices("cdna3", "V_MFMA_F32_16X16X4_F32", "f32", 16, 4),
    Matrices("cdna3", "V_MFMA_F32_32X32X2_F32", "f32", 32, 2),
    Matrices("cdna3", "V_MFMA_F32_32X32X1_2B_F32", "f32", 32, 1, 2),
    Matrices("cdna3", "V_MFMA_F32_16X16X1_4B_F32", "f32", 16, 1, 4),
    Matrices("cdna3", "V_MFMA_F32_4X4X1_16B_F32", "f32", 4, 1, 16),
    Matrices("cdna3", "V_MFMA_F32_16X16X8_XF32", "xf32", 16, 8),
    Matrices("cdna3", "V_MFMA_F32_32X32X4_XF32", "xf32", 32, 4),
    Matrices("cdna3", "V_MFMA_F64_16X16X4_F64", "f64", 16, 4, sums="f64"),
    Matrices("cdna3", "V_MFMA_F64_4X4X4_4B_F64", "f64", 4, 4, 4, sums="f64"),
]
OTHERS = [
    Matrices("rdna3", "V_WMMA_I32_16X16X16_IU8", "i8", sums="i32", into={"neg": 0b11}),
    Matrices("rdna3", "V_WMMA_F32_16X16X16_F16", "f16"),
    Matrices("rdna3", "V_WMMA_F32_16X16X16_BF16", "bf16"),
    Matrices("rdna4", "V_WMMA_I32_16X16X16_IU8", "i8", sums="i32", into={"neg": 0b11}),
    Matrices("rdna4", "V_WMMA_F32_16X16X16_F16", "f16"),
    Matrices("rdna4", "V_WMMA_F32_16X16X16_BF16", "bf16"),
    Matrices("cdna2", "V_MFMA_I32_16X16X16I8", "i8", sums="i32"),
    Matrices("cdna2", "V_MFMA_F32_16X16X16F16", "f16"),
    Matrices("cdna2", "V_MFMA_F32_16X16X16BF16_1K", "bf16"),
]


def filled(matrices: Matrices, wave: Wave, limit: int = 100) -> np.ndarray:
    """Puts numbers into the registers of the first two matrices; their products."""
    bits = BITS[matrices.kind]
    numbers = wave.rng.integers(-limit, limit, size=(2, matrices.count, matrices.side, matrices.depth))
    words = bits_of(numbers, matrices.kind)
    for index in itertools.product(*map(range, numbers.shape)):
        which, product, line, element = index
        lane = matrices.lane(product, line, element)
        # RDNA3 has each line in two lanes.
        for each in (lane, lane + 16) if matrices.set == "rdna3" else (lane,):
            put(wave, (FIRST, SECOND)[which], each, element % matrices.share, (int(words[index]), bits))
    return np.asarray(numbers[0] @ numbers[1].swapaxes(1, 2))


@pytest.mark.parametrize("matrices", [*CDNA3, *OTHERS], ids=lambda each: f"{each.set}-{each.opcode}")
def test_products_of_matrices(matrices: Matrices) -> None:
    wave = Wave(matrices.set, seed=matrices.depth)
    products = filled(matrices, wave)
    third, bits = wave.rng.integers(-1000, 1000, size=products.shape), BITS[matrices.sums]
    words = bits_of(third, matrices.sums)
    for index in itertools.product(*map(range, third.shape)):
        put(wave, THIRD, *matrices.of_sum(*index), (int(words[index]), bits))
    fields = {"src0": VECTOR + FIRST, "src1": VECTOR + SECOND, "src2": VECTOR + THIRD, "vdst": THIRD}
    wave.run(matrices.opcode, **fields, **(matrices.into or {}))
    for index in some(itertools.product(*map(range, third.shape))):
        found = number_of(got(wave, THIRD, *matrices.of_sum(*index), bits), matrices.sums)
        assert found == products[index] + third[index], index


@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_sums_of_16_bits_have_one_half_of_their_registers(kind: str, *, high: bool) -> None:
    matrices = Matrices("rdna3", f"V_WMMA_{kind.upper()}_16X16X16_{kind.upper()}", kind)
    wave = Wave("rdna3")
    products = filled(matrices, wave, limit=4)
    third = wave.rng.integers(-4, 4, size=(16, 16))
    for row, column in itertools.product(range(16), range(16)):
        lane, place = matrices.of_sum(0, row, column)
        put(wave, THIRD, lane, 2 * place + high, (int(bits_of(third[row, column : column + 1], kind)[0]), 16))
    before = wave.vectors[RESULT : RESULT + 8].copy()
    wave.run(
        matrices.opcode, src0=VECTOR + FIRST, src1=VECTOR + SECOND, src2=VECTOR + THIRD, vdst=RESULT, opsel=4 * high
    )
    for row, column in itertools.product(range(16), range(16)):
        lane, place = matrices.of_sum(0, row, column)
        found = number_of(got(wave, RESULT, lane, 2 * place + high, 16), kind)
        assert found == products[0, row, column] + third[row, column]
        assert got(wave, RESULT, lane, 2 * place + 1 - high, 16) == int(before[place, lane]) >> 16 * (not high) & 0xFFFF


def test_xf32_has_ten_bits_behind_the_point() -> None:
    wave = Wave("cdna3")
    factor = 1 + 2.0**-12 + 2.0**-9
    wave.vectors[FIRST : FIRST + 2] = bits_of(np.array([factor]), "f32")[0]
    wave.vectors[SECOND : SECOND + 2] = bits_of(np.array([1.0]), "f32")[0]
    wave.run("V_MFMA_F32_16X16X8_XF32", src0=VECTOR + FIRST, src1=VECTOR + SECOND, src2=128, vdst=RESULT)
    assert set(wave.vectors[RESULT : RESULT + 4].view(np.float32).ravel()) == {8 * (1 + np.float32(2.0**-9))}


def test_doubles_are_added_one_by_one() -> None:
    wave = Wave("cdna3")
    for lane in range(64):
        # Of 1 and four tiny numbers, no sum of two but 1.
        put(wave, FIRST, lane, 0, (int(bits_of(np.array([2.0**-53]), "f64")[0]), 64))
        put(wave, SECOND, lane, 0, (int(bits_of(np.array([1.0]), "f64")[0]), 64))
        for place in range(4):
            put(wave, THIRD, lane, place, (int(bits_of(np.array([1.0]), "f64")[0]), 64))
    wave.run("V_MFMA_F64_16X16X4_F64", src0=VECTOR, src1=VECTOR + SECOND, src2=VECTOR + THIRD, vdst=RESULT)
    assert {number_of(got(wave, RESULT, lane, place, 64), "f64") for lane in range(64) for place in range(4)} == {1.0}


def test_signs_and_rows_of_other_lanes_are_refused() -> None:
    for more in ({"cbsz": 1}, {"abid": 1}, {"blgp": 1}):
        wave = Wave("cdna3")
        with pytest.raises(AssertionError, match="not known"):
            wave.run("V_MFMA_F32_16X16X4_F32", src0=VECTOR, src1=VECTOR, src2=128, vdst=RESULT, **more)


@pytest.mark.parametrize("name", ["cdna2", "cdna3"])
def test_accumulation_registers_are_other_registers(name: str) -> None:
    wave = Wave(name)
    before = wave.vectors.copy()
    wave.execute(
        wave.words("V_ACCVGPR_WRITE", vdst=1, src0=VECTOR + 2),
        wave.words("V_ACCVGPR_WRITE", vdst=255, src0=128 + 7),
        wave.words("V_ACCVGPR_MOV_B32", vdst=3, src0=VECTOR + 1),
        wave.words("V_ACCVGPR_READ", vdst=4, src0=VECTOR + 3),
        wave.words("V_ACCVGPR_READ", vdst=5, src0=VECTOR + 255),
    )
    assert (wave.vectors[4] == before[2]).all()
    assert (wave.vectors[5] == 7).all()
    assert (wave.vectors[:4] == before[:4]).all()


def test_matrices_may_be_in_accumulation_registers() -> None:
    matrices = CDNA3[9]
    wave = Wave("cdna3")
    products = filled(matrices, wave)
    write = [wave.words("V_ACCVGPR_WRITE", vdst=40 + side, src0=VECTOR + side) for side in (FIRST, SECOND)]
    # Those of that number are something else.
    product = {"src0": VECTOR + 40, "src1": VECTOR + 48, "acc": 0b11, "src2": 128, "acc_cd": 1, "vdst": 60}
    read = [wave.words("V_ACCVGPR_READ", vdst=RESULT + word, src0=VECTOR + 60 + word) for word in range(4)]
    # The sums are there after ten wait states.
    wait = wave.words("S_NOP", simm16=9)
    wave.execute(*write, wave.words(matrices.opcode, **product), wait, *read)
    for index in some(itertools.product(*map(range, products.shape))):
        found = number_of(got(wave, RESULT, *matrices.of_sum(*index), 32), "f32")
        assert found == products[index]
