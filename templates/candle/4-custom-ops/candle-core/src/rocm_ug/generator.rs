//! HIP source of a kernel that the crate ug describes.
//!
//! Each of its instructions is a statement, and the value of instruction 7 is the variable `v7`. Numbers of 16 bits are
//! computed in f32 and rounded after each instruction; integers wrap around.
use super::names::{self, Const, Instr, Kernel, ReduceOp, Special, UnaryOp, VarId, A};
use crate::rocm_backend::RocmError;
use std::fmt::Write;

type Result<T> = std::result::Result<T, RocmError>;

/// What all generated kernels use; `candle_rocm/dtype.h` has the types.
const HELPERS: &str = include_str!("ug.hip");

/// What is known of an instruction's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing refers to it.
    None,
    Value(names::DType),
    /// Memory whose elements have this type.
    Memory(names::DType),
}

struct Generator<'a> {
    instructions: &'a [Instr],
    kinds: Vec<Kind>,
    /// The loops and conditions that are open, each with the instruction that ends it.
    open: Vec<(usize, usize)>,
    text: String,
}

/// The source, whose kernel has `name`; `threads` is the most that a block may have.
pub(super) fn generate(name: &str, kernel: &Kernel, threads: u32) -> Result<String> {
    let parameters = arguments(kernel)?;
    let instructions = kernel.instrs();
    let mut generator = Generator {
        instructions,
        kinds: Vec::with_capacity(instructions.len()),
        open: Vec::new(),
        text: String::new(),
    };
    for number in 0..instructions.len() {
        generator.statement(number)?;
    }
    if let Some((start, _)) = generator.open.last() {
        return Err(wrong(*start, "is never ended"));
    }
    let parameters = parameters
        .iter()
        .map(|(number, dtype)| format!("{} *v{number}", dtype.as_str()));
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    Ok(format!(
        "{HELPERS}\nCANDLE_KERNEL({threads}) {name}({parameters}) {{\n{}}}\n",
        generator.text
    ))
}

/// The instructions that are the kernel's parameters, in their order, and the types of the memory that they name.
pub(super) fn arguments(kernel: &Kernel) -> Result<Vec<(usize, names::DType)>> {
    let mut found = Vec::new();
    for (number, instruction) in kernel.instrs().iter().enumerate() {
        if let Instr::DefineGlobal { index, dtype } = instruction {
            if *index != found.len() {
                return Err(wrong(number, "is not the next parameter"));
            }
            found.push((number, *dtype));
        }
    }
    Ok(found)
}

/// Whether the kernel asks which thread runs it.
pub(super) fn knows_its_thread(kernel: &Kernel) -> bool {
    let special = |instruction: &Instr| matches!(instruction, Instr::Special(_));
    kernel.instrs().iter().any(special)
}

impl Generator<'_> {
    fn statement(&mut self, number: usize) -> Result<()> {
        let instructions = self.instructions;
        let kind = match &instructions[number] {
            Instr::DefineGlobal { dtype, .. } => Kind::Memory(*dtype),
            Instr::DefineLocal { size, dtype } => {
                if *size == 0 {
                    return Err(wrong(number, "is memory of no element"));
                }
                self.line(format!("__shared__ {} v{number}[{size}];", dtype.as_str()));
                Kind::Memory(*dtype)
            }
            Instr::DefineAcc(value) | Instr::Const(value) => {
                self.variable(number, type_of(value), constant(value))
            }
            Instr::Special(special) => {
                let name = match special {
                    Special::ThreadIdx => "threadIdx.x",
                    Special::BlockIdx => "blockIdx.x",
                };
                self.variable(number, names::DType::I32, format!("i32({name})"))
            }
            Instr::Load { src, offset, dtype } => {
                let element = self.element(number, *src, offset, *dtype)?;
                self.variable(number, *dtype, element)
            }
            Instr::Store {
                dst,
                offset,
                value,
                dtype,
            } => {
                let element = self.element(number, *dst, offset, *dtype)?;
                let value = self.converted(number, value, *dtype)?;
                self.line(format!("{element} = {value};"));
                Kind::None
            }
            Instr::Assign { dst, src } => {
                let dtype = self.value(number, *dst)?;
                if !matches!(instructions[dst.as_usize()], Instr::DefineAcc(_)) {
                    return Err(wrong(number, "assigns to what is no accumulator"));
                }
                let value = self.converted(number, src, dtype)?;
                self.line(format!("v{} = {value};", dst.as_usize()));
                Kind::None
            }
            Instr::Range {
                lo,
                up,
                step,
                end_idx,
            } => {
                let dtype = match (self.kind_of(number, lo)?, self.kind_of(number, up)?) {
                    (names::DType::I32, names::DType::I32) => names::DType::I32,
                    (lo, up) if lo.is_int() && up.is_int() => names::DType::I64,
                    _ => return Err(wrong(number, "counts with numbers that are no integers")),
                };
                if *step == 0 {
                    return Err(wrong(number, "never comes to its end"));
                }
                let lo = self.converted(number, lo, dtype)?;
                let up = self.converted(number, up, dtype)?;
                let of = dtype.as_str();
                self.line(format!(
                    "for ({of} v{number} = {lo}; v{number} < {up}; v{number} += {step}) {{"
                ));
                self.open.push((number, end_idx.as_usize()));
                Kind::Value(dtype)
            }
            Instr::If { cond, end_idx } => {
                let dtype = self.kind_of(number, cond)?;
                if !dtype.is_int() {
                    return Err(wrong(number, "asks a number that is no integer"));
                }
                let cond = self.text_of(number, cond)?;
                self.line(format!("if ({cond} != 0) {{"));
                self.open.push((number, end_idx.as_usize()));
                Kind::None
            }
            Instr::EndRange { start_idx } => {
                self.close(number, Some(start_idx.as_usize()))?;
                Kind::None
            }
            Instr::EndIf => {
                self.close(number, None)?;
                Kind::None
            }
            Instr::Barrier => {
                self.line("__syncthreads();".to_string());
                Kind::None
            }
            Instr::Unary { op, arg, dtype } => {
                let value = match op {
                    UnaryOp::Id | UnaryOp::Cast(_) => self.converted(number, arg, *dtype)?,
                    _ => {
                        let name = word(op);
                        if !dtype.is_float() && !matches!(op, UnaryOp::Neg) {
                            let message = format!("is {name} of {}", dtype.as_str());
                            return Err(wrong(number, &message));
                        }
                        let arg = self.converted(number, arg, *dtype)?;
                        format!("ug_{name}({arg})")
                    }
                };
                self.variable(number, *dtype, value)
            }
            Instr::Binary {
                op,
                lhs,
                rhs,
                dtype,
            } => {
                let name = word(op);
                let lhs = self.converted(number, lhs, *dtype)?;
                let rhs = self.converted(number, rhs, *dtype)?;
                self.variable(number, *dtype, format!("ug_{name}({lhs}, {rhs})"))
            }
            Instr::ReduceLocal { op, arg, dtype } => {
                if self.in_condition() {
                    return Err(wrong(
                        number,
                        "needs all threads, and stands in a condition",
                    ));
                }
                let name = match op {
                    ReduceOp::Sum => "UgSum",
                    ReduceOp::Min => "UgMin",
                    ReduceOp::Max => "UgMax",
                };
                let arg = self.converted(number, arg, *dtype)?;
                self.variable(number, *dtype, format!("ug_reduce<{name}>({arg})"))
            }
        };
        self.kinds.push(kind);
        Ok(())
    }

    fn in_condition(&self) -> bool {
        let start = |(start, _): &(usize, usize)| &self.instructions[*start];
        let mut open = self.open.iter().map(start);
        open.any(|instruction| matches!(instruction, Instr::If { .. }))
    }

    fn line(&mut self, text: String) {
        let depth = 1 + self.open.len();
        writeln!(self.text, "{:width$}{text}", "", width = 4 * depth).expect("strings take all");
    }

    /// Declares an instruction's value.
    fn variable(&mut self, number: usize, dtype: names::DType, value: String) -> Kind {
        self.line(format!("{} v{number} = {value};", dtype.as_str()));
        Kind::Value(dtype)
    }

    /// Ends the innermost loop, which began at `start`, or the innermost condition.
    fn close(&mut self, number: usize, start: Option<usize>) -> Result<()> {
        let (opened, end) = self
            .open
            .pop()
            .ok_or_else(|| wrong(number, "ends what has not begun"))?;
        let is_loop = matches!(self.instructions[opened], Instr::Range { .. });
        if end != number || is_loop != start.is_some() || start.is_some_and(|start| start != opened)
        {
            return Err(wrong(number, "does not end what was begun last"));
        }
        self.line("}".to_string());
        Ok(())
    }

    /// The element of memory, as something that can be read and assigned.
    fn element(
        &self,
        number: usize,
        memory: VarId,
        offset: &A,
        dtype: names::DType,
    ) -> Result<String> {
        match self.kinds.get(memory.as_usize()) {
            Some(Kind::Memory(of)) if *of == dtype => {}
            Some(Kind::Memory(of)) => {
                let (of, as_) = (of.as_str(), dtype.as_str());
                return Err(wrong(number, &format!("takes memory of {of} for {as_}")));
            }
            _ => return Err(wrong(number, "takes a value for memory")),
        }
        if !self.kind_of(number, offset)?.is_int() {
            return Err(wrong(
                number,
                "counts elements with a number that is no integer",
            ));
        }
        let offset = self.text_of(number, offset)?;
        Ok(format!("v{}[{offset}]", memory.as_usize()))
    }

    /// The type of an earlier instruction's value, which is still there.
    fn value(&self, number: usize, of: VarId) -> Result<names::DType> {
        match self.kinds.get(of.as_usize()) {
            Some(Kind::Value(dtype)) => Ok(*dtype),
            _ => {
                let message = format!("needs a value of instruction {}", of.as_usize());
                Err(wrong(number, &message))
            }
        }
    }

    fn kind_of(&self, number: usize, of: &A) -> Result<names::DType> {
        match of {
            A::Var(of) => self.value(number, *of),
            A::Const(value) => Ok(type_of(value)),
        }
    }

    fn text_of(&self, number: usize, of: &A) -> Result<String> {
        match of {
            A::Var(of) => {
                self.value(number, *of)?;
                Ok(format!("v{}", of.as_usize()))
            }
            A::Const(value) => Ok(constant(value)),
        }
    }

    fn converted(&self, number: usize, of: &A, dtype: names::DType) -> Result<String> {
        let text = self.text_of(number, of)?;
        Ok(match self.kind_of(number, of)? == dtype {
            true => text,
            false => format!("ug_cast<{}>({text})", dtype.as_str()),
        })
    }
}

/// An operation's name as helpers have it.
fn word(op: &impl std::fmt::Debug) -> String {
    format!("{op:?}").to_lowercase()
}

fn type_of(value: &Const) -> names::DType {
    match value {
        Const::I32(_) => names::DType::I32,
        Const::I64(_) => names::DType::I64,
        Const::BF16(_) => names::DType::BF16,
        Const::F16(_) => names::DType::F16,
        Const::F32(_) => names::DType::F32,
    }
}

/// The number with all of its bits, also if it is infinite or the least integer.
fn constant(value: &Const) -> String {
    match value {
        Const::I32(value) => format!("i32({:#x}u)", *value as u32),
        Const::I64(value) => format!("i64({:#x}ull)", *value as u64),
        Const::BF16(value) => format!("bf16{{{:#x}}}", value.to_bits()),
        Const::F16(value) => format!("f16{{{:#x}}}", value.to_bits()),
        Const::F32(value) => format!("bits_as<f32>({:#x}u)", value.to_bits()),
    }
}

fn wrong(number: usize, problem: &str) -> RocmError {
    RocmError::Other(format!("ug: instruction {number} {problem}"))
}
