"""Each fault that the emulator claims to detect is planted in kernels/faults.hip, and detected."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from codegen.device.hip import Launch

if TYPE_CHECKING:
    from emulator.machine import Emulator

FLOATS = 64
ILLEGAL_ADDRESS = 700
LAUNCH_FAILURE = 719


@dataclass(frozen=True, slots=True)
class Fault:
    """A kernel of faults.hip and the report that it must lead to."""

    kernel: str
    arguments: str
    """One letter each: `w` written memory, `u` fresh memory, `f` freed memory, `h` a host pointer, `0` null, `5` 5."""
    code: int
    report: str
    """A regular expression; `LINE n` stands for the line in the source."""
    blocks: int = 1
    lds: int = 0


FAULTS = [
    Fault(
        "write_past_the_end",
        "u",
        ILLEGAL_ADDRESS,
        r"thread \(63, 0, 0\): invalid write to 4 bytes .* 0 bytes past the end of .* of 256 bytes .*LINE 4",
    ),
    Fault(
        "read_before_the_start",
        "wu",
        ILLEGAL_ADDRESS,
        r"thread \(0, 0, 0\): invalid read of 4 bytes .* 4 bytes before allocation \d+ of 256 bytes .*LINE 8",
    ),
    Fault(
        "vector_past_the_end",
        "wu",
        ILLEGAL_ADDRESS,
        r"thread \(6[0-3], 0, 0\): invalid read of 4 bytes .* 4 bytes past the end of allocation .*LINE 12",
    ),
    Fault("read_uninitialized", "uu", LAUNCH_FAILURE, r"uninitialised read of 4 bytes .* at offset \d+ of .*LINE 16"),
    Fault("copy", "fu", ILLEGAL_ADDRESS, r"invalid read .* of 256 bytes at 0x[0-9a-f]+, which was freed .*LINE 20"),
    Fault("copy", "hu", ILLEGAL_ADDRESS, r"invalid read .* is it a host pointer\? .*LINE 20"),
    Fault("copy", "0u", ILLEGAL_ADDRESS, r"invalid read .* a null pointer .*LINE 20"),
    Fault("lds_race", "u", LAUNCH_FAILURE, r"data race in LDS: (read of|write to) 4 bytes .*LINE 27"),
    Fault(
        "lds_write_race", "u", LAUNCH_FAILURE, r"data race in LDS: write to 4 bytes .* wrote with no barrier .*LINE 33"
    ),
    Fault("lds_uninitialized", "u", LAUNCH_FAILURE, r"uninitialised read of 4 bytes .* LDS .*LINE 50"),
    Fault("lds_past_the_end", "u", ILLEGAL_ADDRESS, r"0 bytes past the end of 256 bytes of LDS .*LINE 55"),
    Fault("dynamic_lds", "u", ILLEGAL_ADDRESS, r"its end lies past that of 255 bytes of LDS .*LINE 62", lds=255),
    Fault(
        "barrier_for_some",
        "u",
        LAUNCH_FAILURE,
        r"divergent barrier: threads 10-63 have returned, threads 0-9 wait at __syncthreads \(line 68\)",
    ),
    Fault(
        "barriers_on_both_sides",
        "u",
        LAUNCH_FAILURE,
        r"threads 0-9 wait at __syncthreads \(line 74\), threads 10-63 wait at __syncthreads \(line 76\)",
    ),
    Fault(
        "shuffles_on_both_sides",
        "u",
        LAUNCH_FAILURE,
        r"divergent wave .* some lanes wait at __shfl_xor \(line 84\), others at __shfl_down \(line 86\)",
    ),
    Fault("shuffle_from_nobody", "u", LAUNCH_FAILURE, r"thread 0 reads from lane 16 in __shfl_xor \(line 92\)"),
    Fault("mask_names_the_absent", "u", LAUNCH_FAILURE, r"the mask 0xffff of __shfl \(line 96\) names lane 8 "),
    Fault("shuffle_width", "u", LAUNCH_FAILURE, r"the width 24 of __shfl \(line 100\) is no power of two"),
    Fault("race_in_a_block", "u", LAUNCH_FAILURE, r"data race in device memory: write .* block \(0, 0, 0\) .*LINE 104"),
    Fault("race_between_blocks", "u", LAUNCH_FAILURE, r"data race in device memory: write .*LINE 108", blocks=2),
    Fault("plain_update_of_a_counter", "w", LAUNCH_FAILURE, r"data race in device memory: .*(LINE 123|\(line 121\))"),
    Fault("divide", "u5", LAUNCH_FAILURE, r"thread \(5, 0, 0\): integer division by zero.*LINE 128"),
    Fault("recurse", "u5", LAUNCH_FAILURE, r"its stack is full"),
    Fault("write_to_a_constant", "w", ILLEGAL_ADDRESS, r"invalid write to 4 bytes .*LINE 147"),
    Fault(
        "read_of_a_misaligned_word",
        "wu",
        LAUNCH_FAILURE,
        r"thread \(\d*[13579], 0, 0\): misaligned read of 8 bytes at 0x[0-9a-f]*[4c] .*LINE 159",
    ),
    Fault("write_of_misaligned_lds", "u", LAUNCH_FAILURE, r"misaligned write to 2 bytes .*LINE 166"),
    Fault("another_stack", "u", ILLEGAL_ADDRESS, r"invalid read of 4 bytes .*LINE 155"),
]


def _argument(device: Emulator, letter: str) -> bytes:
    match letter:
        case "w":
            return struct.pack("<Q", device.upload(bytes(4 * FLOATS)).address)
        case "u":
            return struct.pack("<Q", device.allocate(4 * FLOATS).address)
        case "f":
            buffer = device.upload(bytes(4 * FLOATS))
            device.free(buffer)
            return struct.pack("<Q", buffer.address)
        case "h":
            return struct.pack("<Q", id(letter))
        case "0":
            return struct.pack("<Q", 0)
        case _:
            return struct.pack("<i", int(letter))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.kernel}-{fault.arguments}")
def test_a_planted_fault_is_reported(device: Emulator, fault: Fault) -> None:
    arguments = tuple(_argument(device, letter) for letter in fault.arguments)
    launch = Launch(fault.kernel, (fault.blocks, 1, 1), (FLOATS, 1, 1), arguments, fault.lds)

    code, report = device.fault(device.source("faults.hip"), launch)

    assert f"kernel `{fault.kernel}`, block (" in report
    assert re.search(re.sub(r"LINE (\d+)", r"\\(faults\\.hip:\1\\)", fault.report), report), report
    assert code == fault.code


def test_a_read_of_what_another_block_writes_depends_on_their_order(device: Emulator) -> None:
    """Whichever block comes first, one of the two faults is there: a race, or a read of what is not yet written."""
    fresh = struct.pack("<Q", device.allocate(8 * FLOATS).address)
    launch = Launch("read_of_another_block", (2, 1, 1), (FLOATS, 1, 1), (fresh,))
    code, report = device.fault(device.source("faults.hip"), launch)
    assert code == LAUNCH_FAILURE
    assert re.search(r"(data race in device memory: read|uninitialised read) of 4 bytes .*\(faults\.hip:115\)", report)


@pytest.mark.parametrize(
    ("kernel", "lds"), [("lds_flag", 0), ("dynamic_lds", 256), ("write_to_any_address", 0), ("copy_of_two_doubles", 0)]
)
def test_what_is_right_is_not_reported(device: Emulator, kernel: str, lds: int) -> None:
    launch = Launch(kernel, (3, 1, 1), (FLOATS, 1, 1), (_argument(device, "u"),), lds)
    assert device.fault(device.source("faults.hip"), launch) == (0, "")


def test_a_fault_stays_until_it_is_reset(device: Emulator) -> None:
    hip, module = device.libraries.hip, device.source("faults.hip")
    module.launch(Launch("write_past_the_end", (1, 1, 1), (FLOATS, 1, 1), (_argument(device, "u"),)))
    device.libraries.hip.hipSetDevice(device.index)
    for _ in range(2):
        assert hip.hipDeviceSynchronize() == ILLEGAL_ADDRESS
    hip.candle_rocm_emulator_reset()
    assert hip.hipDeviceSynchronize() == 0
    assert device.report() == ""
