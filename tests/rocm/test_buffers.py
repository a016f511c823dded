"""Loads and stores by a descriptor: what lies in its part of memory, behind it, and in no memory."""

from __future__ import annotations

import numpy as np
import pytest
from some import some

from rocm.waves import Wave

SIZE = 1000
"""Bytes that the descriptor has; the memory behind it goes on."""
DESCRIPTOR, OFFSET = 8, 12
"""The first scalar registers of the descriptor, and of an offset of all lanes."""
DATA, ADDRESS = 8, 2
RAW = {"rdna3": 0x31004000, "cdna2": 0x20000, "cdna3": 0x20000}
"""The last word of descriptors that AMD's compiler makes for these sets."""
LOADS = {
    "rdna3": ("BUFFER_LOAD_U8", "BUFFER_LOAD_I16", *(f"BUFFER_LOAD_B{bits}" for bits in (32, 64, 96, 128))),
    "cdna3": ("BUFFER_LOAD_UBYTE", "BUFFER_LOAD_SSHORT", *(f"BUFFER_LOAD_DWORD{n}" for n in ("", "X2", "X3", "X4"))),
}
STORES = {
    "rdna3": ("BUFFER_STORE_B8", "BUFFER_STORE_B16", *(f"BUFFER_STORE_B{bits}" for bits in (32, 64, 96, 128))),
    "cdna3": ("BUFFER_STORE_BYTE", "BUFFER_STORE_SHORT", *(f"BUFFER_STORE_DWORD{n}" for n in ("", "X2", "X3", "X4"))),
}
BYTES = (1, 2, 4, 8, 12, 16)
WAIT = {"rdna3": lambda loads: loads << 10 | 0x3F7, "cdna3": lambda loads: loads & 15 | loads >> 4 << 14 | 0xF70}
"""The constant of S_WAITCNT that waits for loads of memory alone."""


class Buffer:
    """A wave, and memory with a descriptor of its first bytes."""

    def __init__(self, name: str, *, seed: int = 1, word: int | None = None, stride: int = 0) -> None:
        self.wave = Wave(name, seed)
        self.memory = self.wave.rng.integers(256, size=SIZE + 200, dtype=np.uint8)
        self.before = self.memory.copy()
        self.wave.memory = [self.memory]
        address = self.memory.ctypes.data
        last = RAW[name] if word is None else word
        self.wave.scalars[DESCRIPTOR : DESCRIPTOR + 4] = [
            address & 0xFFFFFFFF,
            address >> 32 | stride << 16,
            SIZE,
            last,
        ]
        self.wave.scalars[OFFSET] = 64
        self.wave.vectors[ADDRESS] = self.offsets()

    def offsets(self) -> np.ndarray:
        """Some in the part, some at its end, some far behind it."""
        near = self.wave.rng.integers(0, SIZE + 60, size=64)
        near[::3] = SIZE - 64 - 20 - 16 + np.arange(22)
        near[::7] = 0x80000000 + near[::7]
        return near.astype(np.uint32)

    def words(self, opcode: str, **more: int) -> list[int]:
        """The instruction with an offset of each lane, one of all, and 20."""
        fields = {"vdata": DATA, "vaddr": ADDRESS, "offen": 1, "offset": 20, "soffset": OFFSET}
        return self.wave.words(opcode, **(fields | {"srsrc": DESCRIPTOR // 4} | more))

    def taken(self, lane: int, count: int, offset: int | None = None) -> list[int]:
        """The bytes that a lane loads: zeros for words that are not wholly there."""
        first = int(self.wave.vectors[ADDRESS, lane]) + 64 + 20 if offset is None else offset
        words = [(first + place, min(4, count - place)) for place in range(0, count, 4)]
        parts = [self.before[at : at + size] if at + size <= SIZE else np.zeros(size, np.uint8) for at, size in words]
        return [int(byte) for byte in np.concatenate(parts)]


CASES = [
    (name, load, store, count)
    for name in LOADS
    for load, store, count in zip(LOADS[name], STORES[name], BYTES, strict=True)
]


@pytest.mark.parametrize(("name", "load", "store", "count"), CASES)
def test_zeros_are_loaded_from_behind_the_end(name: str, load: str, store: str, count: int) -> None:
    buffer = Buffer(name, seed=count)
    buffer.wave.execute(buffer.words(load))
    for lane in range(buffer.wave.lanes):
        raw = bytes(buffer.taken(lane, count))
        sign = load.endswith(("I16", "SSHORT")) and raw[-1] >> 7
        whole = raw if count >= 4 else raw + bytes([255 * sign] * (4 - count))
        assert buffer.wave.vectors[DATA : DATA + len(whole) // 4, lane].tobytes() == whole, lane
    assert store


@pytest.mark.parametrize(("name", "load", "store", "count"), CASES)
def test_nothing_is_stored_behind_the_end(name: str, load: str, store: str, count: int) -> None:
    buffer = Buffer(name, seed=count)
    wave = buffer.wave
    # One lane after another would overwrite each other's bytes.
    wave.exec = 1 << 5
    for offset in (0, 3, SIZE - 84 - count, SIZE - 84 - count + 1, SIZE - 84 - 4, SIZE - 84, SIZE, 0x80000000):
        buffer.memory[:] = buffer.before
        wave.vectors[ADDRESS, 5] = offset
        wave.execute(buffer.words(store))
        wanted, data = buffer.before.copy(), wave.vectors[DATA : DATA + 4, 5].tobytes()
        for place in range(0, count, 4):
            first, size = offset + 84 + place, min(4, count - place)
            if first + size <= SIZE:
                wanted[first : first + size] = list(data[place : place + size])
        assert (buffer.memory == wanted).all(), offset
    assert load


@pytest.mark.parametrize("name", LOADS)
def test_without_an_offset_all_lanes_have_one_address(name: str) -> None:
    buffer = Buffer(name)
    buffer.wave.execute(buffer.words(LOADS[name][2], offen=0))
    wanted = int(buffer.before[84:88].view(np.uint32)[0])
    assert set(buffer.wave.vectors[DATA, : buffer.wave.lanes].tolist()) == {wanted}


@pytest.mark.parametrize("name", LOADS)
def test_an_index_stands_before_the_offset(name: str) -> None:
    buffer = Buffer(name)
    buffer.wave.vectors[ADDRESS + 1] = np.arange(64) * 4
    buffer.wave.execute(buffer.words(LOADS[name][2], idxen=1))
    found = buffer.wave.vectors[DATA, : buffer.wave.lanes]
    assert (found == buffer.before[84:].view(np.uint32)[: buffer.wave.lanes]).all()


@pytest.mark.parametrize(
    ("name", "opcode", "high"),
    [
        ("rdna3", "BUFFER_LOAD_D16_B16", False),
        ("rdna3", "BUFFER_LOAD_D16_HI_B16", True),
        ("cdna3", "BUFFER_LOAD_SHORT_D16", False),
        ("cdna3", "BUFFER_LOAD_SHORT_D16_HI", True),
    ],
)
def test_halves_of_registers(name: str, opcode: str, *, high: bool) -> None:
    """Memory with error correction, which CDNA has, makes the other half zero."""
    buffer = Buffer(name)
    before = buffer.wave.vectors[DATA].copy()
    buffer.wave.execute(buffer.words(opcode))
    for lane in some(range(buffer.wave.lanes)):
        taken = int.from_bytes(bytes(buffer.taken(lane, 2)), "little")
        kept = int(before[lane]) if name == "rdna3" else 0
        wanted = taken << 16 | kept & 0xFFFF if high else kept & 0xFFFF0000 | taken
        assert buffer.wave.vectors[DATA, lane] == wanted


@pytest.mark.parametrize(
    ("name", "opcode", "returns"),
    [("rdna3", "BUFFER_ATOMIC_CMPSWAP_B32", "glc"), ("cdna3", "BUFFER_ATOMIC_CMPSWAP", "sc0")],
)
def test_values_are_exchanged_where_they_are_as_expected(name: str, opcode: str, returns: str) -> None:
    buffer = Buffer(name)
    wave = buffer.wave
    wave.vectors[ADDRESS] = np.arange(64, dtype=np.uint32) * 4 + (SIZE - 84 - 64)
    old = buffer.before.view(np.uint32)[(SIZE - 64) // 4 :][: wave.lanes].copy()
    new = wave.vectors[DATA].copy()
    wave.vectors[DATA + 1, : wave.lanes] = np.where(np.arange(wave.lanes) % 2, old, old + 1)
    wave.execute(buffer.words(opcode, **{returns: 1}))
    for lane in some(range(wave.lanes)):
        is_there = lane < 16
        assert wave.vectors[DATA, lane] == (old[lane] if is_there else 0)
        found = buffer.memory.view(np.uint32)[(SIZE - 64) // 4 + lane]
        assert found == (new[lane] if is_there and lane % 2 else old[lane])


def test_data_may_be_in_accumulation_registers() -> None:
    buffer = Buffer("cdna3")
    wave = buffer.wave
    wave.vectors[ADDRESS] = np.arange(64) * 4
    read = wave.words("V_ACCVGPR_READ", vdst=20, src0=256 + DATA)
    before = wave.vectors[DATA].copy()
    wave.execute(
        buffer.words("BUFFER_LOAD_DWORD", acc=1), wave.words("S_WAITCNT", simm16=WAIT["cdna3"](0)), read,
        buffer.words("BUFFER_STORE_DWORD", acc=1, offset=24),
    )  # fmt: skip
    assert (wave.vectors[20] == buffer.before[84 : 84 + 256].view(np.uint32)).all()
    assert (wave.vectors[DATA] == before).all()
    assert (buffer.memory[88 : 88 + 256] == buffer.before[84 : 84 + 256]).all()


@pytest.mark.parametrize("name", LOADS)
def test_what_the_descriptor_has_must_be_memory(name: str) -> None:
    buffer = Buffer(name)
    buffer.wave.scalars[DESCRIPTOR + 2] = SIZE + 10_000
    buffer.wave.vectors[ADDRESS] = SIZE + 5000
    with pytest.raises(AssertionError, match="in no memory"):
        buffer.wave.execute(buffer.words(LOADS[name][2]))
    buffer = Buffer(name)
    buffer.wave.scalars[DESCRIPTOR] -= 200
    buffer.wave.vectors[ADDRESS] = 0
    with pytest.raises(AssertionError, match="in no memory"):
        buffer.wave.execute(buffer.words(STORES[name][2]))


@pytest.mark.parametrize(
    ("name", "word", "stride"),
    [
        ("rdna3", None, 4),
        ("cdna3", None, 4),
        ("rdna3", None, 1 << 14),  # in another order
        ("cdna3", None, 1 << 15),
        ("rdna3", 0x11004000, 0),  # it ends after so many elements
        ("rdna3", 0x31804000, 0),  # elements by the lane's number
        ("cdna3", 0x820000, 0),
        ("cdna3", 0x40020000, 0),  # an image
    ],
)
def test_descriptors_of_elements_are_refused(name: str, word: int | None, stride: int) -> None:
    buffer = Buffer(name, word=word, stride=stride)
    with pytest.raises(AssertionError, match=r"descriptor .* is not known"):
        buffer.wave.execute(buffer.words(LOADS[name][2]))


def test_loads_into_lds_are_refused() -> None:
    buffer = Buffer("cdna3")
    with pytest.raises(AssertionError, match="into LDS"):
        buffer.wave.execute(buffer.words("BUFFER_LOAD_DWORD", lds=1))


@pytest.mark.parametrize("name", LOADS)
def test_they_are_waited_for(name: str) -> None:
    def run(*waits: int, stores: int = 0) -> None:
        buffer = Buffer(name)
        wave = buffer.wave
        wave.vectors[ADDRESS] = 0
        use = wave.words("V_MOV_B32", vdst=20, src0=256 + DATA)
        between = [buffer.words(STORES[name][2], vdata=30)] * stores
        waiting = [wave.words("S_WAITCNT", simm16=WAIT[name](loads)) for loads in waits]
        wave.execute(buffer.words(LOADS[name][2]), *between, *waiting, use)

    early = f"v{DATA} is used before"
    with pytest.raises(AssertionError, match=early):
        run()
    with pytest.raises(AssertionError, match=early):
        run(1)
    run(0)
    # CDNA counts stores with the loads; RDNA has a counter for them.
    if name == "cdna3":
        run(2, stores=2)
        with pytest.raises(AssertionError, match=early):
            run(3, stores=2)
    else:
        with pytest.raises(AssertionError, match=early):
            run(1, stores=2)


def test_what_an_atomic_operation_returns_is_waited_for() -> None:
    buffer = Buffer("cdna3")
    use = buffer.wave.words("V_MOV_B32", vdst=20, src0=256 + DATA)
    buffer.wave.vectors[ADDRESS] = 0
    with pytest.raises(AssertionError, match=f"v{DATA} is used before"):
        buffer.wave.execute(buffer.words("BUFFER_ATOMIC_CMPSWAP", sc0=1), use)
    buffer.wave.execute(buffer.words("BUFFER_ATOMIC_CMPSWAP"), use)
