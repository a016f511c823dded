"""Instructions by themselves, against AMD's own text of what they do."""

from __future__ import annotations

import itertools
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernels.machine_code import LANES

from codegen.amdgpu.instruction_set import Format, InstructionSet, Kind, Opcode, load
from rocm.pseudocode import FLOATS, Evaluator, NotEvaluated, Value, integer, pseudocode, stem
from rocm.waves import CARDS, END, Registers, Wave, execute, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = ("VOP1", "VOP2", "VOP3", "VOPC", "VOP3_SDST", "VOP3SD", "VOP3P", "SOP1", "SOP2", "SOPC", "SOPK")
RESULT, FIRST = 16, (2, 4, 6)
"""The vector registers of the result and of the sources; of scalar ones likewise."""


OWN = {
    **{
        f"V_FRACT_F{bits}": f"D0.f{bits} = v_min_f{bits}(S0.f{bits} - floor(S0.f{bits}), {below}.f{bits})\n"
        f"if isNAN(S0.f{bits} - S0.f{bits}) then\nD0.f{bits} = S0.f{bits} - S0.f{bits}\nendif"
        for bits, below in ((32, "0x3f7fffff"), (64, "0x3fefffffffffffff"))
    },
    **{f"V_RNDNE_F{bits}": f"D0.f{bits} = rndne(S0.f{bits})" for bits in (32, 64)},
    **{f"V_LDEXP_F{bits}": f"D0.f{bits} = ldexp(S0.f{bits}, S1.i32)" for bits in (32, 64)},
    **{
        f"V_{name}{num}_F{bits}": f"D0.f{bits} = v_{name.lower()}_f{bits}(S0.f{bits}, S1.f{bits})"
        for name, num, bits in itertools.product(("MAX", "MIN"), ("", "_NUM"), (16, 32, 64))
    },
    **{
        f"V_PK_{name}{num}_F16": "\n".join(
            f"D0[{half}].f16 = v_{name.lower()}_f16(S0[{half}].f16, S1[{half}].f16)" for half in ("15 : 0", "31 : 16")
        )
        for name, num in itertools.product(("MAX", "MIN"), ("", "_NUM"))
    },
    **{
        f"V_{name}_F32": f"D0.f32 = {name.lower()}_of_turns(S0.f32)\n"
        f"if !isNAN(S0.f32 - S0.f32) && (S0.f32 < -256.0F || S0.f32 > 256.0F) then\nD0.f32 = {beyond}\nendif"
        for name, beyond in (("SIN", "0.0F"), ("COS", "1.0F"))
    },
}
"""Where the text says what a mode makes of numbers that are none, where it rounds twice, and where compilers count on
more than it says: a fraction is less than 1, and a sine is that of a number of turns."""

OTHERWISE = {
    **dict.fromkeys(("S_GETPC_B64", "S_SETPC_B64", "S_SWAPPC_B64", "S_CALL_B64"), "kernels jump"),
    "V_DIV_SCALE_F32": "the text is wrong (docs/decisions/0028)",
    "V_DIV_SCALE_F64": "the text is wrong (docs/decisions/0028)",
    "V_DIV_FMAS_F32": "the text is wrong (docs/decisions/0028)",
    "V_DIV_FMAS_F64": "the text is wrong (docs/decisions/0028)",
    **dict.fromkeys(("V_DIV_FIXUP_F16", "V_DIV_FIXUP_F32", "V_DIV_FIXUP_F64"), "a quotient that is none (likewise)"),
    **dict.fromkeys(("V_MAC_F32", "V_MAD_F32", "V_MADMK_F32", "V_MADAK_F32"), "the text has left them out"),
    "V_TRIG_PREOP_F64": "it has 1201 bits of 2 / pi",
    "V_FREXP_EXP_I32_F64": "the text has no exponents of subnormal numbers",
    **dict.fromkeys(("V_READLANE_B32", "V_READFIRSTLANE_B32", "V_PERMLANEX16_B32"), "of other lanes: test_lanes"),
    **dict.fromkeys(("V_NOP", "S_BARRIER_SIGNAL"), "nothing is made"),
    **dict.fromkeys(("V_ACCVGPR_READ", "V_ACCVGPR_WRITE", "V_ACCVGPR_MOV_B32"), "of other registers: test_matrices.py"),
    **dict.fromkeys((f"S_WAITCNT_{kind}" for kind in ("VSCNT", "VMCNT", "EXPCNT", "LGKMCNT")), "nothing is made"),
}
"""What is not compared with the text, and why. Kernel tests compare its results with Candle's CPU bit for bit."""

ULPS = {
    f"V_{form}{name}_F{bits}": 1
    for form in ("", "S_")
    for name in ("EXP", "LOG", "RSQ", "SIN", "COS")
    for bits in (16, 32, 64)
}
"""Where libraries differ in the last bit, or the text rounds twice."""


def float_bits(operand_format: str) -> int | None:
    """The bits of a float, or of one of several in an operand; None for what is none."""
    match = re.fullmatch(r"(?:PK\d_)?F(16|32|64)", operand_format)
    return int(match[1]) if match else None


def interesting(operand_format: str, bits: int, rng: np.random.Generator, count: int) -> list[int]:
    """Values of an operand: ones at the ends of its type, and any others."""
    edges = [0, 1, 2, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 31, 32, 63, 255, 0x7FFF, 0x8000]
    edges += [0x0C0B0807, 0x090A0D0C]  # of V_PERM
    if (of_float := float_bits(operand_format)) is not None:
        floats = [0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.5, 1e-3, 65504.0, 65520.0, 255.5, -7.75]
        kind, of_bits = FLOATS[of_float]
        with np.errstate(over="ignore"):
            edges = [int(kind(each).view(of_bits)) for each in [*floats, np.inf, -np.inf, np.nan]]
        edges += [1, (1 << (bits - 1)) + 3, 0x3FF]
    whole = [int.from_bytes(rng.bytes(8), "little") & ((1 << bits) - 1) for _ in range(count)]
    return [edges[rng.integers(len(edges))] if rng.random() < 0.4 else any_bits for any_bits in whole]


class Instruction:
    """An instruction with registers of its own for each operand, executed and evaluated."""

    def __init__(self, instruction_set: InstructionSet, form: Format, opcode: Opcode, seed: int) -> None:
        self.set, self.form, self.opcode = instruction_set, form, opcode
        self.rng = np.random.default_rng(seed)
        self.lanes = LANES[CARDS[instruction_set.name]]
        self.name = stem(opcode.name)
        self.operands = {operand.field: operand for operand in opcode.operands}
        self.constant = int(self.rng.integers(1 << 16))
        self.literal = int(self.rng.integers(1 << 32))
        self.before = Registers(exec=(1 << self.lanes) - 1, lanes=self.lanes, scc=int(self.rng.integers(2)))
        self.before.vcc = int.from_bytes(self.rng.bytes(8), "little") & ((1 << self.lanes) - 1)
        for register in range(106):
            self.before.scalars[register] = int(self.rng.integers(1 << 32))
        first: list[int] = []
        for field, register in self._registers():
            operand = self.operands.get(field)
            if operand is None:
                continue
            values = interesting(operand.format, operand.bits, self.rng, 64)
            # Some are as the first.
            mask = (1 << operand.bits) - 1
            values = [a & mask if self.rng.random() < 0.1 else b for a, b in zip(first or values, values, strict=True)]
            first = first or values
            if operand.is_scalar or self.is_scalar:
                self._set_scalar(register, values[0], operand.bits)
            for lane in range(64):
                for word in range(-(-operand.bits // 32)):
                    self.before.vectors[register + word][lane] = values[lane] >> 32 * word & 0xFFFFFFFF

    @property
    def is_scalar(self) -> bool:
        """Whether it is executed once for a wave."""
        return self.form.name.startswith("SO")

    @property
    def is_test(self) -> bool:
        """Whether it makes a mask of lanes and nothing else."""
        return self.name.startswith("V_CMP")

    @property
    def has_scalar_result(self) -> bool:
        """Whether its result is in scalar registers."""
        return self.is_scalar or self.name.startswith("V_S_")

    def _registers(self) -> Iterator[tuple[str, int]]:
        for names, register in zip((("src0", "ssrc0"), ("src1", "vsrc1", "ssrc1"), ("src2",)), FIRST, strict=True):
            yield from ((name, register) for name in names)
        yield from ((name, RESULT) for name in ("vdst", "sdst"))

    def _set_scalar(self, register: int, value: int, bits: int) -> None:
        for word in range(-(-bits // 32)):
            self.before.scalars[register + word] = value >> 32 * word & 0xFFFFFFFF

    def words(self) -> list[int]:
        """Its encoding, and the end of a program."""
        registers, bits = dict(self._registers()), self.form.value
        for field in self.form.fields:
            number = 0
            operand = self.operands.get(field.name)
            if field.kind is Kind.OPCODE:
                number = self.opcode.number
            elif field.name == "simm16":
                number = self.constant
            elif field.name in {"opsel_hi", "opsel_hi2"}:
                number = (1 << (field.high - field.low + 1)) - 1
            elif operand is not None and (operand.format == "M64" or (self.is_test and field.name == "vdst")):
                number = 106  # VCC
            elif operand is not None:
                number = registers[field.name] + (256 if field.kind is Kind.SOURCE and not operand.is_scalar else 0)
            bits |= number << field.low
        words = [bits >> place & 0xFFFFFFFF for place in range(0, self.form.bits, 32)]
        return [*words, *([self.literal] if self.opcode.has_literal else []), END[self.set.name]]

    def executed(self) -> Registers | None:
        """The registers after it; None if it is not known."""
        after = Registers.from_buffer_copy(self.before)
        if execute(self.set.name, self.words(), after) < 0:
            why = problem()
            assert "not known" in why or "no instruction" in why, f"{self.opcode.name}: {why}"
            return None
        return after

    def _pair(self, registers: Any, first: int, bits: int) -> int:
        return sum(int(registers[first + word]) << 32 * word for word in range(-(-bits // 32)))

    def _of_lane(self, field: str, lane: int) -> Value | None:
        operand, register = self.operands.get(field), dict(self._registers()).get(field)
        if operand is None or register is None:
            return None
        if operand.is_scalar or self.is_scalar:
            return integer(self._pair(self.before.scalars, register, operand.bits), 64)
        column = [self.before.vectors[word][lane] for word in range(32)]
        return integer(self._pair(column, register, operand.bits), 64)

    def variables(self, lane: int) -> dict[str, Any]:
        """What the text finds."""
        found: dict[str, Any] = {"laneId": integer(lane, 32, "i")}
        for name, fields in (("S0", ("src0", "ssrc0")), ("S1", ("src1", "vsrc1", "ssrc1")), ("S2", ("src2",))):
            found[name] = next((value for field in fields if (value := self._of_lane(field, lane))), integer(0, 64))
        old = next((value for field in ("vdst", "sdst") if (value := self._of_lane(field, lane))), integer(0, 64))
        found |= {"D0": old, "D1": integer(0, 64), "VCC": integer(self.before.vcc, 64), "tmp": integer(0, 64)}
        found |= {"EXEC": integer(self.before.exec, 64), "SCC": integer(self.before.scc, 1)}
        found |= {
            "SIMM16": integer(self.constant, 16),
            "SIMM32": integer(self.literal, 32),
            "OPSEL": integer(0, 4),
            "OPSEL_HI": integer(7, 3),
            "NEG": integer(0, 3),
        }
        found["S"] = [found["S0"], found["S1"], found["S2"]]
        if self.form.name == "SOPK":
            constant = integer(self.constant, 16)
            found |= {"S0": old, "S1": constant} if "CMPK" in self.name else {"S0": constant}
            if "SIMM16" in (pseudocode(self.set.name).get(self.name) or ""):
                found["S0"] = old
        if self.is_test:
            found["D0"] = integer(0, 64)
        return found

    def compare(self, after: Registers) -> None:
        """Asserts that the registers are as the text says. Raises NotEvaluated."""
        text = OWN.get(self.name) or pseudocode(self.set.name).get(self.name)
        if text is None:
            raise NotEvaluated("no text")
        text = text.replace("EXEC.u64[laneId] = D0.u64[laneId] =", "EXEC.u64[laneId] =")
        mask, lanes = 0, (1 << self.lanes) - 1
        for lane in range(1 if self.has_scalar_result else self.lanes):
            variables = self.variables(lane)
            Evaluator(text, variables).run()
            if self.is_test:
                made = variables["EXEC" if "EXEC.u64[laneId] =" in text else "D0"]
                mask |= made.bits & 1 << lane
                continue
            mask |= (variables["D1"].bits & 1 if "D1." in text else variables["VCC"].bits >> lane & 1) << lane
            self._compare_result(after, variables, lane)
        if "CMPX" in self.name:
            assert after.exec & lanes == mask, f"{self.name}: lanes {after.exec ^ mask:x}"
        if "CMPX" in self.name and self.set.name.startswith("rdna"):
            assert after.vcc == self.before.vcc
        elif self.is_test or ("sdst" in self.operands and not self.is_scalar) or "VCC.u64[laneId] =" in text:
            assert after.vcc & lanes == mask, f"{self.name}: lanes {after.vcc ^ mask:x}"

    def _compare_result(self, after: Registers, variables: dict[str, Any], lane: int) -> None:
        field = "sdst" if self.is_scalar else "vdst"
        operand = self.operands.get(field)
        if self.is_scalar:
            assert after.scc == variables["SCC"].bits & 1, f"{self.name}: SCC"
            lanes = (1 << self.lanes) - 1
            assert after.exec & lanes == variables["EXEC"].bits & lanes, f"{self.name}: EXEC"
        if operand is None:
            return
        registers = after.scalars if self.has_scalar_result else [after.vectors[word][lane] for word in range(32)]
        bits = (1 << operand.bits) - 1
        got, wanted = self._pair(registers, RESULT, operand.bits) & bits, variables["D0"].bits & bits
        each = float_bits(operand.format)
        if each is not None and same_number(got, wanted, each, operand.bits, ULPS.get(self.name, 0)):
            return
        inputs = ", ".join(f"{name} {variables[name].bits:x}" for name in ("S0", "S1", "S2"))
        assert got == wanted, f"{self.name} of {inputs}: {got:x} for {wanted:x}"


def same_number(got: int, wanted: int, each: int, bits: int, ulps: int) -> bool:
    """Whether floats of `each` bits are the same, or both none, or so near."""
    kind, of_bits = FLOATS[each]
    for low in range(0, bits, each):
        a, b = (number >> low & ((1 << each) - 1) for number in (got, wanted))
        if abs(a - b) > ulps and not all(np.isnan(of_bits(number).view(kind)) for number in (a, b)):
            return False
    return True


@cache
def instructions(name: str) -> list[tuple[Format, Opcode]]:
    """Those of a set that do something in each lane, or with scalar registers: all but products of matrices."""
    forms = [form for form in load(name).formats if form.name in FORMATS]
    every = [(form, opcode) for form in forms for opcode in form.opcodes]
    return [(form, opcode) for form, opcode in every if all(operand.bits <= 64 for operand in opcode.operands)]


@pytest.mark.parametrize("name", CARDS)
def test_instructions_do_what_amd_says(name: str) -> None:
    compared: set[str] = set()
    left: dict[str, str] = {}
    wrong: dict[str, str] = {}
    found = load(name)
    for seed, (form, opcode) in enumerate(instructions(name)):
        for again in range(8 if form.name.startswith("SO") else 1):  # of vectors, each lane has other values
            instruction = Instruction(found, form, opcode, 1000 * again + seed)
            if instruction.name in OTHERWISE or (after := instruction.executed()) is None:
                break
            try:
                instruction.compare(after)
            except NotEvaluated as reason:
                left[instruction.name] = str(reason)
                break
            except AssertionError as difference:
                wrong[opcode.name] = str(difference).splitlines()[0]
                break
            compared.add(instruction.name)
    assert not wrong, "\n".join(wrong.values())
    assert not left, "not evaluated"
    assert len(compared) > 400


DPP, SDWA = 250, 249
"""As the first source: what stands behind says which lanes, or parts of words, it is of."""


def lanes_of(control: int, lane: int) -> int | None:
    """Whose value a lane of a wave of 64 takes, by the control of DPP; None beyond its row, or the wave."""
    row, place, count = lane // 16 * 16, lane % 16, control & 15
    within = {1: place + count, 2: None, 3: None}
    if control < 0x100:
        return lane // 4 * 4 + (control >> lane % 4 * 2 & 3)
    if control in range(0x101, 0x110):
        return row + within[1] if within[1] is not None and within[1] < 16 else None
    if control in range(0x111, 0x120):
        return lane - count if place >= count else None
    if control in range(0x121, 0x130):
        return row + (place - count) % 16
    special = {0x130: lane + 1 if lane < 63 else None, 0x138: lane - 1 if lane else None}
    special |= {0x140: row + 15 - place, 0x141: lane // 8 * 8 + 7 - lane % 8}
    special |= {0x142: row - 1 if row else None, 0x143: 31 if lane >= 32 else None}
    return special[control]


@pytest.mark.parametrize(
    "control", [0x1B, 0xE4, 0x101, 0x10F, 0x111, 0x118, 0x121, 0x12F, 0x130, 0x138, 0x140, 0x141, 0x142, 0x143]
)
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("seed", range(4))  # of lanes that are off
def test_values_of_other_lanes(control: int, seed: int, *, zero: bool) -> None:
    wave = Wave("cdna3", seed)
    wave.exec = int.from_bytes(wave.rng.bytes(8), "little")
    before, is_on = wave.vectors.copy(), [wave.exec >> lane & 1 for lane in range(64)]
    behind = 1 | control << 8 | zero << 19 | 0xF << 24 | 0xF << 28
    wave.run("V_MOV_B32", src0=DPP, vdst=16, behind=behind)
    for lane in range(64):
        other = lanes_of(control, lane)
        taken = before[1, other] if other is not None and is_on[other] else 0 if zero else before[16, lane]
        assert wave.vectors[16, lane] == (taken if is_on[lane] else before[16, lane]), lane


def test_rows_and_banks_that_are_masked_keep_their_values() -> None:
    wave = Wave("cdna3")
    before = wave.vectors.copy()
    wave.run("V_MOV_B32", src0=DPP, vdst=16, behind=1 | 0x140 << 8 | 0b0110 << 24 | 0b0101 << 28)
    for lane in range(64):
        is_written = lane // 16 in (0, 2) and lane % 16 // 4 in (1, 2)
        assert wave.vectors[16, lane] == (
            before[1, lane // 16 * 16 + 15 - lane % 16] if is_written else before[16, lane]
        )


@pytest.mark.parametrize("name", CARDS)
def test_lanes(name: str) -> None:
    wave = Wave(name)
    before, scalars = wave.vectors.copy(), wave.scalars.copy()
    wave.exec &= ~0b111
    wave.run("V_READFIRSTLANE_B32", src0=256 + 1, vdst=16)
    assert wave.scalars[16] == before[1, 3]
    wave.run("V_READLANE_B32", src0=256 + 1, src1=2, vdst=17)
    assert wave.scalars[17] == before[1, scalars[2] % wave.lanes]
    wave.exec = (1 << wave.lanes) - 1
    wave.vectors[2] = wave.rng.integers(256, size=64)
    wave.run("DS_BPERMUTE_B32", addr=2, data0=1, vdst=17)
    for lane in range(wave.lanes):
        assert wave.vectors[17, lane] == before[1, wave.vectors[2, lane] // 4 % wave.lanes]


@pytest.mark.parametrize("name", ["rdna3", "rdna4"])
def test_lanes_of_the_other_row(name: str) -> None:
    wave = Wave(name)
    before, selected = wave.vectors.copy(), int(wave.scalars[2]) | int(wave.scalars[3]) << 32
    wave.run("V_PERMLANEX16_B32", src0=256 + 1, src1=2, src2=3, vdst=16)
    for lane in range(32):
        assert wave.vectors[16, lane] == before[1, (lane // 16 ^ 1) * 16 + (selected >> lane % 16 * 4 & 15)]


def test_bytes_are_picked() -> None:
    wave = Wave("rdna3")
    selected = wave.rng.integers(0, 16, (64, 4)).astype(np.uint8)
    wave.vectors[3] = selected.view(np.uint32).ravel()
    wave.run("V_PERM_B32", src0=256 + 1, src1=256 + 2, src2=256 + 3, vdst=16)
    for lane in range(32):
        data = wave.vectors[[2, 1], lane].view(np.uint8)
        of_signs = {8 + place: 255 * (data[2 * place + 1] >> 7) for place in range(4)}
        wanted = [of_signs.get(each, data[each] if each < 8 else 255 * (each > 12)) for each in selected[lane].tolist()]
        assert wave.vectors[16, lane : lane + 1].view(np.uint8).tolist() == wanted


@pytest.mark.parametrize("selected", range(7))
@pytest.mark.parametrize("signed", [False, True])
def test_parts_of_words(selected: int, *, signed: bool) -> None:
    low, bits = [(0, 8), (8, 8), (16, 8), (24, 8), (0, 16), (16, 16), (0, 32)][selected]

    def part(word: int) -> int:
        number = word >> low & ((1 << bits) - 1)
        return number - (1 << bits) if signed and number >> (bits - 1) else number

    wave = Wave("cdna3")
    before = wave.vectors.astype(np.int64)
    of_both = selected << 16 | selected << 24 | signed << 19 | signed << 27
    wave.run("V_ADD_U32", src0=SDWA, vsrc1=2, vdst=16, behind=1 | 6 << 8 | of_both)
    wanted = [(part(a) + part(b)) % (1 << 32) for a, b in zip(before[1].tolist(), before[2].tolist(), strict=True)]
    assert wave.vectors[16].tolist() == wanted
    for unused in (0, 2):  # the rest is zero, or as it was
        wave.vectors[17] = before[17]
        wave.run("V_MOV_B32", src0=SDWA, vdst=17, behind=1 | selected << 8 | unused << 11 | 6 << 16)
        mask = ((1 << bits) - 1) << low
        kept = before[17] & ~mask if unused else before[17] * 0
        assert wave.vectors[17].tolist() == (kept | before[1] << low & mask).tolist()
