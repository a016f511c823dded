//! Kernels of ug's on the device, compared with Rust.
use super::names::{op, samples, Arg, BinaryOp, Const, DType as D, Instr, Kernel, LaunchConfig};
use super::names::{Layout, Opts, ReduceOp, Special, Type, UnaryOp, VarId, A};
use super::{generator, Launch};
use crate::rocm_backend::driver::{
    DeviceRepr, LaunchConfig as RocmLaunch, PushKernelArg, RocmSlice,
};
use crate::rocm_backend::testing::gpu;
use crate::rocm_backend::{RocmDevice, WrapErr};
use crate::{DType, Device, Result, Tensor, UgIOp1};
use half::{bf16, f16};

fn var(number: usize) -> VarId {
    VarId::new(number)
}

fn a(number: usize) -> A {
    A::Var(var(number))
}

fn global(index: usize, dtype: D) -> Instr {
    Instr::DefineGlobal { index, dtype }
}

fn load(src: usize, offset: usize, dtype: D) -> Instr {
    let (src, offset) = (var(src), a(offset));
    Instr::Load { src, offset, dtype }
}

fn store(dst: usize, offset: usize, value: usize, dtype: D) -> Instr {
    Instr::Store {
        dst: var(dst),
        offset: a(offset),
        value: a(value),
        dtype,
    }
}

fn binary(op: BinaryOp, lhs: A, rhs: A, dtype: D) -> Instr {
    Instr::Binary {
        op,
        lhs,
        rhs,
        dtype,
    }
}

fn float(value: f32) -> Const {
    value.try_into().expect("no NaN")
}

fn reduce(op: ReduceOp, arg: A, dtype: D) -> Instr {
    Instr::ReduceLocal { op, arg, dtype }
}

/// A kernel that runs with one block of so many threads.
fn kernel(instructions: Vec<Instr>, threads: u32) -> Kernel {
    let args: Vec<(Arg, usize)> = instructions
        .iter()
        .enumerate()
        .filter_map(|(line, instruction)| match instruction {
            Instr::DefineGlobal { dtype, .. } => Some((Arg::ptr(*dtype), line)),
            _ => None,
        })
        .collect();
    let launch = LaunchConfig {
        grid_dim: 1,
        block_dim: threads,
        shared_mem: 0,
    };
    Kernel::new(instructions, args, launch)
}

/// Runs a kernel whose memory is these slices.
fn run(kernel: &Kernel, device: &RocmDevice, memory: &[u64], config: RocmLaunch) -> Result<()> {
    let func = device.compile("test", kernel.clone())?;
    let mut builder = func.builder();
    for address in memory {
        builder.arg(address);
    }
    // SAFETY: the kernels of this file stay within the memory that they are given.
    unsafe { builder.launch(config) }.w()
}

fn config(blocks: u32, threads: u32) -> RocmLaunch {
    RocmLaunch {
        grid_dim: (blocks, 1, 1),
        block_dim: (threads, 1, 1),
        shared_mem_bytes: 0,
    }
}

fn address<T>(slice: &RocmSlice<T>) -> u64 {
    use crate::rocm_backend::driver::DevicePtr;
    slice.device_ptr(slice.stream()).0
}

/// Rust's types that ug has, and how a result differs from the right one, in units of its last place.
trait Number: DeviceRepr + std::fmt::Debug {
    const DTYPE: D;
    const VALUES: &'static [Self];
    fn unary(op: UnaryOp, x: Self) -> Option<Self>;
    fn binary(op: BinaryOp, x: Self, y: Self) -> Self;
    fn apart(self, other: Self) -> u64;
}

fn float_unary(op: UnaryOp, x: f32) -> Option<f32> {
    match op {
        UnaryOp::Exp => Some((x * std::f32::consts::LOG2_E).exp2()),
        UnaryOp::Sin => Some(x.sin()),
        UnaryOp::Cos => Some(x.cos()),
        UnaryOp::Neg => Some(-x),
        UnaryOp::Sqrt => Some(x.sqrt()),
        UnaryOp::Id => Some(x),
        UnaryOp::Cast(_) => None,
    }
}

fn float_binary(op: BinaryOp, x: f32, y: f32) -> f32 {
    match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Mod => x % y,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
    }
}

macro_rules! floats {
    ($($type:ty, $dtype:ident, $bits:ty, $values:expr, $to:expr, $from:expr;)+) => {
        $(
            impl Number for $type {
                const DTYPE: D = D::$dtype;
                const VALUES: &'static [Self] = $values;

                fn unary(op: UnaryOp, x: Self) -> Option<Self> {
                    float_unary(op, $to(x)).map($from)
                }

                fn binary(op: BinaryOp, x: Self, y: Self) -> Self {
                    $from(float_binary(op, $to(x), $to(y)))
                }

                fn apart(self, other: Self) -> u64 {
                    if (self.is_nan() && other.is_nan()) || self == other {
                        return 0;
                    }
                    match self.is_nan() || other.is_nan() {
                        true => u64::MAX,
                        false => u64::from(self.to_bits().abs_diff(other.to_bits())),
                    }
                }
            }
        )+
    };
}

macro_rules! integers {
    ($($type:ty, $dtype:ident;)+) => {
        $(
            impl Number for $type {
                const DTYPE: D = D::$dtype;
                const VALUES: &'static [Self] =
                    &[0, 1, -1, 2, 7, -7, 1000, -12345, <$type>::MAX, <$type>::MIN];

                fn unary(op: UnaryOp, x: Self) -> Option<Self> {
                    match op {
                        UnaryOp::Id => Some(x),
                        UnaryOp::Neg => Some(x.wrapping_neg()),
                        _ => None,
                    }
                }

                fn binary(op: BinaryOp, x: Self, y: Self) -> Self {
                    match op {
                        BinaryOp::Add => x.wrapping_add(y),
                        BinaryOp::Sub => x.wrapping_sub(y),
                        BinaryOp::Mul => x.wrapping_mul(y),
                        BinaryOp::Div if y == 0 => 0,
                        BinaryOp::Div => x.wrapping_div(y),
                        BinaryOp::Mod if y == 0 => 0,
                        BinaryOp::Mod => x.wrapping_rem(y),
                        BinaryOp::Min => x.min(y),
                        BinaryOp::Max => x.max(y),
                    }
                }

                fn apart(self, other: Self) -> u64 {
                    self.abs_diff(other).into()
                }
            }
        )+
    };
}

floats! {
    f32, F32, u32,
    &[0., -0., 1., -1.5, 2., 3.25, -7.75, 1e-3, 30., 1e30, -1e30, f32::INFINITY, f32::NAN],
    |x| x, |x| x;
    f16, F16, u16,
    &[
        f16::ZERO, f16::ONE, f16::from_f32_const(-1.5), f16::from_f32_const(2.),
        f16::from_f32_const(3.25), f16::from_f32_const(1000.), f16::MAX, f16::NAN, f16::INFINITY,
    ],
    f16::to_f32, f16::from_f32;
    bf16, BF16, u16,
    &[
        bf16::ZERO, bf16::ONE, bf16::from_f32_const(-1.5), bf16::from_f32_const(2.),
        bf16::from_f32_const(3.25), bf16::from_f32_const(1000.), bf16::MAX, bf16::NAN,
    ],
    bf16::to_f32, bf16::from_f32;
}

integers! {
    i32, I32;
    i64, I64;
}

const UNARY: [UnaryOp; 6] = [
    UnaryOp::Id,
    UnaryOp::Exp,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Neg,
    UnaryOp::Sqrt,
];

const BINARY: [BinaryOp; 7] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Mod,
    BinaryOp::Min,
    BinaryOp::Max,
];

fn check_operations<T: Number>(device: &RocmDevice) -> Result<()> {
    let pairs = T::VALUES
        .iter()
        .flat_map(|x| T::VALUES.iter().map(move |y| (*x, *y)));
    let (x, y): (Vec<T>, Vec<T>) = pairs.unzip();
    let threads = x.len() as u32;
    let (on_x, on_y) = (device.clone_htod(&x)?, device.clone_htod(&y)?);
    let checked = |instruction: Instr, text: String, limit: u64, right: &dyn Fn(T, T) -> T| {
        let instructions = vec![
            global(0, T::DTYPE),
            global(1, T::DTYPE),
            global(2, T::DTYPE),
            Instr::Special(Special::ThreadIdx),
            load(0, 3, T::DTYPE),
            load(1, 3, T::DTYPE),
            instruction,
            store(2, 3, 6, T::DTYPE),
        ];
        let z = device.clone_htod(&x)?;
        let memory = [address(&on_x), address(&on_y), address(&z)];
        run(
            &kernel(instructions, threads),
            device,
            &memory,
            config(1, threads),
        )?;
        for (i, found) in device.clone_dtoh(&z)?.into_iter().enumerate() {
            let expected = right(x[i], y[i]);
            let what = format!("{text} of {:?} and {:?}", x[i], y[i]);
            assert!(
                found.apart(expected) <= limit,
                "{what}: {found:?}, not {expected:?}"
            );
        }
        Ok::<(), crate::Error>(())
    };
    for op in UNARY {
        let (arg, dtype) = (a(4), T::DTYPE);
        let instruction = Instr::Unary { op, arg, dtype };
        if T::unary(op, x[0]).is_none() {
            let instructions = vec![
                global(0, dtype),
                Instr::Const(Const::I32(0)),
                load(0, 1, dtype),
            ];
            let refused = [
                instructions,
                vec![Instr::Unary {
                    op,
                    arg: a(2),
                    dtype,
                }],
            ]
            .concat();
            let error = device
                .compile("test", kernel(refused, 1))
                .expect_err("no such function");
            assert!(error.to_string().contains("instruction 3 is"), "{error}");
            continue;
        }
        let limit = if matches!(op, UnaryOp::Id | UnaryOp::Neg) {
            0
        } else {
            2
        };
        let right = |x: T, _| T::unary(op, x).expect("asked above");
        checked(instruction, format!("{op:?}"), limit, &right)?;
    }
    for op in BINARY {
        let instruction = binary(op, a(4), a(5), T::DTYPE);
        let limit = if matches!(op, BinaryOp::Div) && T::DTYPE.is_float() {
            2
        } else {
            0
        };
        checked(instruction, format!("{op:?}"), limit, &|x, y| {
            T::binary(op, x, y)
        })?;
    }
    Ok(())
}

#[test]
fn every_operation_of_every_type() -> Result<()> {
    let Some(device) = gpu("every_operation_of_every_type") else {
        return Ok(());
    };
    check_operations::<f32>(&device)?;
    check_operations::<f16>(&device)?;
    check_operations::<bf16>(&device)?;
    check_operations::<i32>(&device)?;
    check_operations::<i64>(&device)
}

#[test]
fn numbers_of_one_type_become_those_of_another() -> Result<()> {
    let Some(device) = gpu("numbers_of_one_type_become_those_of_another") else {
        return Ok(());
    };
    let x = [0f32, 1.75, -1.75, 3e9, -3e9, 1e20, -1e20, f32::NAN, 65000.];
    let cast = |to: D| {
        vec![
            global(0, D::F32),
            global(1, to),
            Instr::Special(Special::ThreadIdx),
            load(0, 2, D::F32),
            Instr::Unary {
                op: UnaryOp::Cast(to),
                arg: a(3),
                dtype: to,
            },
            store(1, 2, 4, to),
        ]
    };
    let source = device.clone_htod(&x)?;
    let threads = x.len() as u32;
    macro_rules! check {
        ($type:ty, $dtype:expr, $right:expr) => {
            let result = device.alloc_zeros::<$type>(x.len())?;
            let memory = [address(&source), address(&result)];
            run(
                &kernel(cast($dtype), threads),
                &device,
                &memory,
                config(1, threads),
            )?;
            let expected: Vec<$type> = x.iter().map($right).collect();
            for (found, expected) in device.clone_dtoh(&result)?.into_iter().zip(expected) {
                assert_eq!(found.apart(expected), 0, "{found:?}, not {expected:?}");
            }
        };
    }
    check!(i32, D::I32, |x| *x as i32);
    check!(i64, D::I64, |x| *x as i64);
    check!(f16, D::F16, |x| f16::from_f32(*x));
    check!(bf16, D::BF16, |x| bf16::from_f32(*x));
    Ok(())
}

#[test]
fn constants_keep_their_bits() -> Result<()> {
    let Some(device) = gpu("constants_keep_their_bits") else {
        return Ok(());
    };
    macro_rules! check {
        ($type:ty, $dtype:expr, $values:expr) => {
            for value in $values {
                let constant: Const = value.try_into().expect("no NaN");
                let instructions = vec![
                    global(0, $dtype),
                    Instr::Const(Const::I32(0)),
                    Instr::Const(constant),
                    store(0, 1, 2, $dtype),
                ];
                let result = device.alloc_zeros::<$type>(1)?;
                run(
                    &kernel(instructions, 1),
                    &device,
                    &[address(&result)],
                    config(1, 1),
                )?;
                assert_eq!(device.clone_dtoh(&result)?[0].apart(value), 0, "{value:?}");
            }
        };
    }
    check!(
        f32,
        D::F32,
        [0.1f32, -0., f32::MIN_POSITIVE, f32::MAX, f32::NEG_INFINITY]
    );
    check!(f16, D::F16, [f16::from_f32(0.1), f16::MIN, f16::INFINITY]);
    check!(
        bf16,
        D::BF16,
        [bf16::from_f32(0.1), bf16::MIN, bf16::NEG_INFINITY]
    );
    check!(i32, D::I32, [7i32, -1, i32::MIN, i32::MAX]);
    check!(i64, D::I64, [7i64, -1, i64::MIN, i64::MAX]);
    Ok(())
}

/// Blocks of one thread, of parts of waves of 32 and 64, and of all that there can be.
const BLOCKS: [u32; 12] = [1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 1000, 1024];

#[test]
fn blocks_of_any_size_are_reduced() -> Result<()> {
    let Some(device) = gpu("blocks_of_any_size_are_reduced") else {
        return Ok(());
    };
    for threads in BLOCKS {
        // Far from 0, so that a lane that is not there would show.
        let x: Vec<i64> = (0..i64::from(threads))
            .map(|i| (i * 7919 % 1009) + (1 << 40))
            .collect();
        let ops = [
            (ReduceOp::Sum, x.iter().sum::<i64>()),
            (ReduceOp::Min, *x.iter().min().expect("one thread at least")),
            (ReduceOp::Max, *x.iter().max().expect("one thread at least")),
        ];
        for (op, expected) in ops {
            let dtype = D::I64;
            // The second one follows at once, on what the first one has used.
            let instructions = vec![
                global(0, dtype),
                Instr::Special(Special::ThreadIdx),
                load(0, 1, dtype),
                reduce(op, a(2), dtype),
                binary(BinaryOp::Sub, a(3), a(2), dtype),
                reduce(ReduceOp::Max, a(4), dtype),
                binary(BinaryOp::Add, a(3), a(5), dtype),
                store(0, 1, 6, dtype),
            ];
            let memory = device.clone_htod(&x)?;
            run(
                &kernel(instructions, threads),
                &device,
                &[address(&memory)],
                config(1, threads),
            )?;
            let most = x
                .iter()
                .map(|x| expected - x)
                .max()
                .expect("one thread at least");
            assert_eq!(
                device.clone_dtoh(&memory)?,
                vec![expected + most; threads as usize],
                "{op:?} of {threads}"
            );
        }
    }
    Ok(())
}

#[test]
fn narrow_sums_are_rounded_once() -> Result<()> {
    let Some(device) = gpu("narrow_sums_are_rounded_once") else {
        return Ok(());
    };
    // In f16, 2048 + 1 is 2048.
    let x: Vec<f16> = (0..100)
        .map(|i| f16::from_f32(if i == 0 { 2048. } else { 1. }))
        .collect();
    let (dtype, op) = (D::F16, ReduceOp::Sum);
    let instructions = vec![
        global(0, dtype),
        Instr::Special(Special::ThreadIdx),
        load(0, 1, dtype),
        reduce(op, a(2), dtype),
        store(0, 1, 3, dtype),
    ];
    let memory = device.clone_htod(&x)?;
    run(
        &kernel(instructions, 100),
        &device,
        &[address(&memory)],
        config(1, 100),
    )?;
    assert_eq!(device.clone_dtoh(&memory)?, vec![f16::from_f32(2147.); 100]);
    Ok(())
}

#[test]
fn loops_and_conditions_and_barriers() -> Result<()> {
    let Some(device) = gpu("loops_and_conditions_and_barriers") else {
        return Ok(());
    };
    // Through shared memory: y[t] = sum of x[0..=t] by a loop, written by the threads with t & 1 only.
    let (threads, dtype) = (70u32, D::I32);
    let instructions = vec![
        global(0, dtype),
        Instr::DefineLocal { size: 70, dtype },
        Instr::Special(Special::ThreadIdx),
        load(0, 2, dtype),
        store(1, 2, 3, dtype),
        Instr::Barrier,
        Instr::DefineAcc(Const::I32(0)),
        binary(BinaryOp::Add, a(2), A::Const(Const::I32(1)), dtype),
        Instr::Range {
            lo: A::Const(Const::I32(0)),
            up: a(7),
            step: 1,
            end_idx: var(12),
        },
        load(1, 8, dtype),
        binary(BinaryOp::Add, a(6), a(9), dtype),
        Instr::Assign {
            dst: var(6),
            src: a(10),
        },
        Instr::EndRange { start_idx: var(8) },
        binary(BinaryOp::Mod, a(2), A::Const(Const::I32(2)), dtype),
        Instr::If {
            cond: a(13),
            end_idx: var(16),
        },
        store(0, 2, 6, dtype),
        Instr::EndIf,
    ];
    let x: Vec<i32> = (0..threads as i32).map(|i| i * 3 - 50).collect();
    let memory = device.clone_htod(&x)?;
    run(
        &kernel(instructions, threads),
        &device,
        &[address(&memory)],
        config(1, threads),
    )?;
    let sums = x.iter().scan(0, |sum, x| {
        *sum += x;
        Some(*sum)
    });
    let expected: Vec<i32> = sums
        .enumerate()
        .map(|(t, sum)| if t % 2 == 1 { sum } else { x[t] })
        .collect();
    assert_eq!(device.clone_dtoh(&memory)?, expected);
    Ok(())
}

/// Rows of numbers, and the softmax of each.
fn softmaxes(rows: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let x: Vec<f32> = (0..rows * columns)
        .map(|i| (i * 7919 % 1009) as f32 / 100. - 5.)
        .collect();
    let y = x.chunks(columns).flat_map(|row| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f32 = weights.iter().sum();
        weights.into_iter().map(move |weight| weight / sum)
    });
    let y = y.collect();
    (x, y)
}

fn check_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let limit = 1e-5 * expected.abs().max(1e-3);
        assert!(
            (found - expected).abs() <= limit,
            "{what}: {found}, not {expected}"
        );
    }
}

#[test]
fn ugs_own_samples() -> Result<()> {
    let Some(device) = gpu("ugs_own_samples") else {
        return Ok(());
    };
    let two = |x: &[f32]| -> Result<[RocmSlice<f32>; 2]> {
        Ok([device.clone_htod(x)?, device.alloc_zeros(x.len())?])
    };
    for columns in [4usize, 33, 100, 1000, 1024] {
        let (x, expected) = softmaxes(3, columns);
        let [source, result] = two(&x)?;
        let sample = samples::ssa::softmax_reduce(3, columns).expect("a sample");
        // A block for each row, with a thread for each column.
        let memory = [address(&source), address(&result)];
        run(
            &with_threads(&sample, columns),
            &device,
            &memory,
            config(3, columns as u32),
        )?;
        check_close(
            &device.clone_dtoh(&result)?,
            &expected,
            &format!("softmax of {columns}"),
        );
    }
    for (columns, threads) in [(2048usize, 64usize), (1024, 1024), (96, 32)] {
        let (x, expected) = softmaxes(2, columns);
        let [source, result] = two(&x)?;
        let sample = samples::ssa::softmax_block(2, columns, threads).expect("a sample");
        let memory = [address(&source), address(&result)];
        run(
            &with_threads(&sample, threads),
            &device,
            &memory,
            config(2, threads as u32),
        )?;
        check_close(
            &device.clone_dtoh(&result)?,
            &expected,
            &format!("softmax of {columns}, {threads}"),
        );
        let sample = samples::ssa::exp_block(columns, threads).expect("a sample");
        run(
            &with_threads(&sample, threads),
            &device,
            &memory,
            config(2, threads as u32),
        )?;
        let exps: Vec<f32> = x.iter().map(|x| x.exp()).collect();
        check_close(&device.clone_dtoh(&result)?, &exps, "exp");
    }
    Ok(())
}

/// The kernel, which says that its blocks have so many threads.
fn with_threads(sample: &Kernel, threads: usize) -> Kernel {
    kernel(sample.instrs().clone(), threads as u32)
}

/// exp of each element in place, by a kernel that ug has lowered.
fn exp(elements: usize, opts: &Opts) -> Kernel {
    let layout = Layout::from_shape(&[elements]);
    let ptr = op::Arg::ptr(D::F32);
    let src = op::load(ptr.id(), layout.clone(), D::F32).expect("a load");
    let src = op::unary(UnaryOp::Exp, src).expect("an exp");
    let st = op::store(ptr.id(), layout, src).expect("a store");
    let kernel = op::Kernel::new("exp".to_string(), vec![ptr], vec![st]);
    kernel.lower(opts).expect("a kernel")
}

fn counting(elements: usize, device: &Device) -> Result<Tensor> {
    let numbers: Vec<f32> = (0..elements).map(|i| (i % 100) as f32 / 25. - 2.).collect();
    Tensor::from_vec(numbers, elements, device)
}

fn exps(of: &Tensor) -> Result<Vec<f32>> {
    of.to_device(&Device::Cpu)?.exp()?.flatten_all()?.to_vec1()
}

#[test]
fn an_operation_changes_a_tensor_in_place() -> Result<()> {
    let Some(device) = gpu("an_operation_changes_a_tensor_in_place") else {
        return Ok(());
    };
    let device = Device::Rocm(device);
    let cases = [
        (12usize, Opts::default()),
        (1024, Opts::default().with_global_axis(0, 32)),
        (96, Opts::default().with_global_axis(0, 32)),
        // Without a multiple of 32, each element has a block.
        (1000, Opts::default().with_global_axis(0, 1)),
        (12, Opts::default().with_block_axis(0)),
    ];
    for (elements, opts) in cases {
        let op = UgIOp1::new("exp", exp(elements, &opts), &device)?;
        let x = counting(elements, &device)?;
        let expected = exps(&x)?;
        x.inplace_op1(&op)?;
        check_close(
            &x.to_vec1::<f32>()?,
            &expected,
            &format!("exp of {elements}"),
        );
    }
    Ok(())
}

#[test]
fn the_kernel_of_candles_own_test() -> Result<()> {
    let Some(device) = gpu("the_kernel_of_candles_own_test") else {
        return Ok(());
    };
    let device = Device::Rocm(device);
    let op = UgIOp1::new("test", exp(12, &Opts::default()), &device)?;
    let x = Tensor::arange(0u32, 12u32, &device)?.to_dtype(DType::F32)?;
    x.inplace_op1(&op)?;
    let cents = |x: &f32| (f64::from(*x) * 100.).round() as i64;
    let found: Vec<i64> = x.to_vec1::<f32>()?.iter().map(cents).collect();
    // Powers of e as powers of two in f32, so that the last one is not 59874.14.
    let expected = [
        100, 272, 739, 2009, 5460, 14841, 40343, 109663, 298096, 810308, 2202647, 5987413,
    ];
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn only_a_view_of_a_tensor_changes() -> Result<()> {
    let Some(device) = gpu("only_a_view_of_a_tensor_changes") else {
        return Ok(());
    };
    let device = Device::Rocm(device);
    let op = UgIOp1::new("exp", exp(12, &Opts::default()), &device)?;
    let x = counting(30, &device)?;
    let before: Vec<f32> = x.to_vec1()?;
    let view = x.narrow(0, 7, 12)?;
    let expected = exps(&view)?;
    view.inplace_op1(&op)?;
    let after: Vec<f32> = x.to_vec1()?;
    check_close(&after[7..19], &expected, "the view");
    assert_eq!((&after[..7], &after[19..]), (&before[..7], &before[19..]));
    // A thread for each element of the view, and for no other.
    let each = vec![
        global(0, D::F32),
        Instr::Special(Special::BlockIdx),
        load(0, 1, D::F32),
        binary(BinaryOp::Add, a(2), A::Const(float(1.5)), D::F32),
        store(0, 1, 3, D::F32),
    ];
    let op = UgIOp1::new("each", kernel(each, 1), &device)?;
    view.inplace_op1(&op)?;
    let moved: Vec<f32> = after[7..19].iter().map(|x| x + 1.5).collect();
    let later: Vec<f32> = x.to_vec1()?;
    assert_eq!(later[7..19], moved);
    assert_eq!((&later[..7], &later[19..]), (&before[..7], &before[19..]));
    // Nothing is launched for no element.
    Tensor::zeros(0, DType::F32, &device)?.inplace_op1(&op)
}

#[test]
fn loops_count_in_the_wider_of_two_integers() {
    let ranges = |lo: Const, up: Const| {
        let range = Instr::Range {
            lo: A::Const(lo),
            up: A::Const(up),
            step: 1,
            end_idx: var(2),
        };
        let inner = Instr::Const(Const::I32(7));
        let end = Instr::EndRange { start_idx: var(0) };
        let kernel = Kernel::new(vec![range, inner, end], vec![], config_of(1));
        generator::generate("k", &kernel, 1)
    };
    for (lo, up, counts) in [
        (Const::I32(0), Const::I32(4), "i32"),
        (Const::I64(0), Const::I32(4), "i64"),
        (Const::I32(0), Const::I64(4), "i64"),
        (Const::I64(0), Const::I64(4), "i64"),
    ] {
        let source = ranges(lo, up).expect("both are integers");
        let text = format!("\n    for ({counts} v0 = ");
        assert!(source.contains(&text), "{source}");
        assert!(source.contains("\n        i32 v1 = "), "{source}");
    }
    for (lo, up) in [
        (Const::I32(0), float(4.)),
        (float(0.), Const::I64(4)),
        (float(0.), float(4.)),
    ] {
        let error = ranges(lo, up).expect_err("one is no integer").to_string();
        assert!(
            error.contains("counts with numbers that are no integers"),
            "{error}"
        );
    }
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    let Some(device) = gpu("what_does_not_fit_is_refused") else {
        return Ok(());
    };
    let other = Device::Rocm(RocmDevice::new_with_stream(0)?);
    let device = Device::Rocm(device);
    let op = UgIOp1::new("exp", exp(12, &Opts::default()), &device)?;
    let x = counting(12, &device)?;
    let refused = |result: Result<()>, text: &str| {
        let error = result.expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(
        x.to_dtype(DType::F16)?.inplace_op1(&op),
        "exp takes F32, not F16",
    );
    refused(
        x.reshape((3, 4))?.t()?.inplace_op1(&op),
        "takes contiguous tensors only",
    );
    refused(counting(12, &other)?.inplace_op1(&op), "was compiled for");
    refused(
        UgIOp1::new("exp", exp(12, &Opts::default()), &Device::Cpu).map(drop),
        "rocm",
    );
    let two = samples::ssa::simple_add(4).expect("a sample");
    refused(
        UgIOp1::new("add", two, &device).map(drop),
        "takes memory of 3 tensors",
    );
    let large = kernel(vec![global(0, D::F32)], 1025);
    refused(
        UgIOp1::new("large", large, &device).map(drop),
        "a block of 1025 threads",
    );
    Ok(())
}

#[test]
fn instructions_that_make_no_kernel_are_named() {
    let constant = || Instr::Const(Const::I32(3));
    let range = |end| Instr::Range {
        lo: A::Const(Const::I32(0)),
        up: A::Const(Const::I32(4)),
        step: 1,
        end_idx: var(end),
    };
    let cases = [
        (vec![global(1, D::F32)], "0 is not the next parameter"),
        (
            vec![constant(), load(0, 0, D::F32)],
            "1 takes a value for memory",
        ),
        (
            vec![global(0, D::F32), constant(), load(0, 1, D::F16)],
            "2 takes memory of f32 for f16",
        ),
        (
            vec![global(0, D::F32), load(0, 5, D::F32)],
            "1 needs a value of instruction 5",
        ),
        (vec![range(1)], "0 is never ended"),
        (
            vec![Instr::EndRange { start_idx: var(0) }],
            "0 ends what has not begun",
        ),
        (
            vec![range(2), constant(), Instr::EndIf],
            "2 does not end what was begun last",
        ),
        (
            vec![
                constant(),
                Instr::Assign {
                    dst: var(0),
                    src: A::Const(Const::I32(1)),
                },
            ],
            "1 assigns to what is no accumulator",
        ),
        (
            vec![
                Instr::If {
                    cond: A::Const(Const::I32(1)),
                    end_idx: var(2),
                },
                reduce(ReduceOp::Sum, A::Const(float(1.)), D::F32),
                Instr::EndIf,
            ],
            "1 needs all threads, and stands in a condition",
        ),
        (
            vec![Instr::DefineLocal {
                size: 0,
                dtype: D::F32,
            }],
            "0 is memory of no element",
        ),
    ];
    for (instructions, expected) in cases {
        let kernel = Kernel::new(instructions, vec![], config_of(1));
        let result = generator::generate("k", &kernel, 32);
        let error = result.expect_err(expected).to_string();
        assert_eq!(error, format!("ug: instruction {expected}"));
    }
}

fn config_of(threads: u32) -> LaunchConfig {
    LaunchConfig {
        grid_dim: 1,
        block_dim: threads,
        shared_mem: 0,
    }
}

#[test]
fn a_kernel_that_says_nothing_runs_a_thread_for_each_element() -> Result<()> {
    let silent = kernel(vec![Instr::Special(Special::ThreadIdx)], 1);
    let launch = Launch::of(&silent)?;
    assert_eq!(launch, Launch::Elements);
    for (elements, blocks, threads) in [(12, 12, 1), (1024, 32, 32), (1000, 1000, 1), (1, 1, 1)] {
        assert_eq!(
            launch.config(elements)?,
            config(blocks, threads),
            "{elements}"
        );
    }
    assert!(launch.config(1 << 40).is_err());
    // It does all by itself, or says how many do.
    let serial = kernel(vec![], 1);
    assert_eq!(Launch::of(&serial)?, Launch::Fixed(config(1, 1)));
    let block = kernel(vec![Instr::Special(Special::ThreadIdx)], 64);
    assert_eq!(Launch::of(&block)?, Launch::Fixed(config(1, 64)));
    assert!(matches!(serial.args(), []));
    assert!(matches!(Arg::ptr(D::F32).type_(), Type::Ptr(D::F32)));
    Ok(())
}
