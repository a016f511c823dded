//! Collectives by RCCL: every call, type and operation among the GPUs of the machine, and what goes wrong.
//!
//! Tests that need two GPUs write `SKIPPED: <test>: <reason>` to stderr where there are fewer, and return. cargo shows it,
//! because it does not go through the captured output.
#![cfg(feature = "rocm-rccl")]
use candle_core::rocm::driver::{DevicePtr, RocmSlice, RocmStream, StreamCaptureMode};
use candle_core::rocm::rccl::{
    group_end, group_start, AllGather, AllReduce, Comm, Group, Id, RcclType, ReduceOp,
};
use candle_core::rocm::{device_count, RocmDevice, RocmError};
use candle_core::{DType, Device, Result, Tensor};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

const OPS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Max,
    ReduceOp::Min,
    ReduceOp::Avg,
];

/// Enough for any call of these tests, on a machine that has much else to do.
const ENOUGH: Duration = Duration::from_secs(120);

/// How many ranks there are: one for each GPU, four at most. None with a message where there is one only.
fn ranks(test: &str) -> Option<usize> {
    let there = device_count().unwrap_or(0);
    if there > 1 {
        return Some(there.min(4));
    }
    let line = format!("SKIPPED: {test}: {there} ROCm devices, and RCCL needs one for each rank\n");
    let written = std::io::stderr().write_all(line.as_bytes());
    written.expect("stderr is open");
    None
}

/// One rank's part of a test.
struct Rank {
    comm: Arc<Comm>,
    device: RocmDevice,
}

impl Rank {
    fn number(&self) -> usize {
        self.comm.rank()
    }

    fn upload<T: RcclType>(&self, values: &[T]) -> Result<RocmSlice<T>> {
        self.device.clone_htod(values)
    }

    fn download<T: RcclType>(&self, values: &RocmSlice<T>) -> Result<Vec<T>> {
        self.device.clone_dtoh(values)
    }
}

/// What each rank does, each on a thread and a stream of its own, by rank.
fn each<T: Send>(world: usize, run: impl Fn(&Rank) -> Result<T> + Sync) -> Result<Vec<T>> {
    let id = Id::new()?;
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                let run = &run;
                scope.spawn(move || {
                    let device = RocmDevice::new_with_stream(rank)?;
                    let comm = Comm::from_rank(device.rocm_stream(), rank, world, id)?;
                    comm.set_time_limit(ENOUGH);
                    assert_eq!((comm.rank(), comm.world_size()), (rank, world));
                    assert_eq!(comm.ordinal(), rank);
                    run(&Rank {
                        comm: Arc::new(comm),
                        device,
                    })
                })
            })
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
        ended.collect()
    })
}

/// Elements of all types, from small whole numbers.
trait Number: RcclType + PartialEq + std::fmt::Debug {
    fn of(value: i32) -> Self;
    /// What ranks with these values get of an operation.
    fn reduced(op: ReduceOp, values: &[i32]) -> Self;
}

fn whole(op: ReduceOp, values: &[i32]) -> i32 {
    match op {
        ReduceOp::Sum => values.iter().sum(),
        ReduceOp::Prod => values.iter().product(),
        ReduceOp::Max => values.iter().copied().max().expect("a rank"),
        ReduceOp::Min => values.iter().copied().min().expect("a rank"),
        ReduceOp::Avg => values.iter().sum::<i32>() / values.len() as i32,
    }
}

macro_rules! numbers {
    ($($type:ty: $value:ident => $of:expr, $is_float:literal);+ $(;)?) => {
        $(
            impl Number for $type {
                fn of($value: i32) -> Self {
                    $of
                }

                fn reduced(op: ReduceOp, values: &[i32]) -> Self {
                    if $is_float && op == ReduceOp::Avg {
                        // Each rank multiplies by its share; the numbers of the test have few bits.
                        let sum: f64 = values.iter().map(|&value| f64::from(value)).sum();
                        let $value = (sum / values.len() as f64 * 4.0) as i32;
                        let four_times: Self = $of;
                        return quarter(four_times);
                    }
                    Self::of(whole(op, values))
                }
            }
        )+
    };
}

/// A quarter of a float; other types are not asked.
fn quarter<T: Number>(value: T) -> T {
    let bytes = size_of::<T>();
    let mut result = value;
    // SAFETY: the types are the floats whose sizes these are, of which any bits are values.
    unsafe {
        let at = &raw mut result;
        match (bytes, T::as_rccl_type() == half::bf16::as_rccl_type()) {
            (2, true) => {
                *at.cast::<half::bf16>() =
                    half::bf16::from_f32((*at.cast::<half::bf16>()).to_f32() / 4.0)
            }
            (2, false) => {
                *at.cast::<half::f16>() =
                    half::f16::from_f32((*at.cast::<half::f16>()).to_f32() / 4.0)
            }
            (4, _) => *at.cast::<f32>() /= 4.0,
            _ => *at.cast::<f64>() /= 4.0,
        }
    }
    result
}

numbers! {
    i8: value => value as i8, false;
    u8: value => value as u8, false;
    i32: value => value, false;
    u32: value => value as u32, false;
    i64: value => i64::from(value), false;
    u64: value => value as u64, false;
    half::f16: value => half::f16::from_f32(value as f32), true;
    half::bf16: value => half::bf16::from_f32(value as f32), true;
    f32: value => value as f32, true;
    f64: value => f64::from(value), true;
}

/// The numbers that a rank starts with.
fn own(rank: usize, count: usize) -> Vec<i32> {
    (0..count)
        .map(|at| ((at * (rank + 1)) % 3 + rank % 2) as i32)
        .collect()
}

fn typed<T: Number>(values: impl IntoIterator<Item = i32>) -> Vec<T> {
    values.into_iter().map(T::of).collect()
}

fn every_call<T: Number>(world: usize) -> Result<()> {
    const COUNT: usize = 1003;
    let all: Vec<Vec<i32>> = (0..world).map(|rank| own(rank, COUNT * world)).collect();
    let column = |at: usize| -> Vec<i32> { all.iter().map(|own| own[at]).collect() };
    each(world, |rank| {
        let number = rank.number();
        let (comm, whole) = (&rank.comm, &all[number]);
        let mine = rank.upload(&typed::<T>(whole[..COUNT].to_vec()))?;
        for op in OPS {
            let mut sum = rank.upload(&typed::<T>([0; COUNT]))?;
            comm.all_reduce(&mine, &mut sum, &op)?;
            let expected: Vec<T> = (0..COUNT).map(|at| T::reduced(op, &column(at))).collect();
            assert_eq!(rank.download(&sum)?, expected, "{op:?}");
            let mut at = mine.try_clone()?;
            comm.all_reduce_in_place(&mut at, &op)?;
            assert_eq!(rank.download(&at)?, expected, "{op:?} in place");
        }
        let sums: Vec<T> = (0..COUNT * world)
            .map(|at| T::reduced(ReduceOp::Sum, &column(at)))
            .collect();
        let mut rooted = (number == 1)
            .then(|| rank.upload(&typed::<T>([0; COUNT])))
            .transpose()?;
        comm.reduce(&mine, rooted.as_mut(), &ReduceOp::Sum, 1)?;
        if let Some(rooted) = rooted {
            assert_eq!(rank.download(&rooted)?, sums[..COUNT]);
        }
        let mut at = mine.try_clone()?;
        comm.reduce_in_place(&mut at, &ReduceOp::Sum, 0)?;
        let expected = if number == 0 {
            sums[..COUNT].to_vec()
        } else {
            typed(whole[..COUNT].to_vec())
        };
        assert_eq!(rank.download(&at)?, expected);
        let mut part = rank.upload(&typed::<T>([0; COUNT]))?;
        comm.reduce_scatter(
            &rank.upload(&typed::<T>(whole.clone()))?,
            &mut part,
            &ReduceOp::Sum,
        )?;
        assert_eq!(rank.download(&part)?, sums[number * COUNT..][..COUNT]);
        let mut gathered = rank.upload(&typed::<T>(vec![0; COUNT * world]))?;
        comm.all_gather(&mine, &mut gathered)?;
        let joined = all.iter().flat_map(|own| own[..COUNT].to_vec());
        assert_eq!(rank.download(&gathered)?, typed::<T>(joined));
        let mut copy = rank.upload(&typed::<T>([0; COUNT]))?;
        comm.broadcast((number == 1).then_some(&mine), &mut copy, 1)?;
        assert_eq!(rank.download(&copy)?, typed::<T>(all[1][..COUNT].to_vec()));
        let mut copy = mine.try_clone()?;
        comm.broadcast_in_place(&mut copy, 0)?;
        assert_eq!(rank.download(&copy)?, typed::<T>(all[0][..COUNT].to_vec()));
        let (after, before) = ((number + 1) % world, (number + world - 1) % world);
        let group = Group::new()?;
        comm.send(&mine, after as i32)?;
        comm.recv(&mut copy, before as i32)?;
        group.end()?;
        assert_eq!(
            rank.download(&copy)?,
            typed::<T>(all[before][..COUNT].to_vec())
        );
        Ok(())
    })?;
    Ok(())
}

/// Every call among all GPUs.
fn every_call_of<T: Number>(test: &str) -> Result<()> {
    match ranks(test) {
        Some(world) => every_call::<T>(world),
        None => Ok(()),
    }
}

#[test]
fn every_call_of_i8() -> Result<()> {
    every_call_of::<i8>("every_call_of_i8")
}

#[test]
fn every_call_of_u8() -> Result<()> {
    every_call_of::<u8>("every_call_of_u8")
}

#[test]
fn every_call_of_i32() -> Result<()> {
    every_call_of::<i32>("every_call_of_i32")
}

#[test]
fn every_call_of_u32() -> Result<()> {
    every_call_of::<u32>("every_call_of_u32")
}

#[test]
fn every_call_of_i64() -> Result<()> {
    every_call_of::<i64>("every_call_of_i64")
}

#[test]
fn every_call_of_u64() -> Result<()> {
    every_call_of::<u64>("every_call_of_u64")
}

#[test]
fn every_call_of_f16() -> Result<()> {
    every_call_of::<half::f16>("every_call_of_f16")
}

#[test]
fn every_call_of_bf16() -> Result<()> {
    every_call_of::<half::bf16>("every_call_of_bf16")
}

#[test]
fn every_call_of_f32() -> Result<()> {
    every_call_of::<f32>("every_call_of_f32")
}

#[test]
fn every_call_of_f64() -> Result<()> {
    every_call_of::<f64>("every_call_of_f64")
}

#[test]
fn tensors_are_reduced_and_gathered() -> Result<()> {
    let Some(world) = ranks("tensors_are_reduced_and_gathered") else {
        return Ok(());
    };
    let made = |rank: usize, device: &Device| -> Result<Tensor> {
        let values = Tensor::arange(0f32, 24., device)?.reshape((4, 6))?;
        // A view with an offset, whose rows are columns of the tensor.
        (values + (10 * rank) as f64)?.narrow(1, 1, 3)?.t()
    };
    let on_the_cpu: Vec<Tensor> = (0..world)
        .map(|rank| made(rank, &Device::Cpu))
        .collect::<Result<_>>()?;
    let mut total = on_the_cpu[0].clone();
    for other in &on_the_cpu[1..] {
        total = (total + other)?;
    }
    let results = each(world, |rank| {
        let mine = made(rank.number(), &Device::Rocm(rank.device.clone()))?;
        let mut found = Vec::new();
        for dtype in [
            DType::F32,
            DType::F16,
            DType::BF16,
            DType::F64,
            DType::I64,
            DType::U32,
        ] {
            let sum = mine
                .to_dtype(dtype)?
                .apply_op1_no_bwd(&AllReduce::new(&rank.comm))?;
            assert_eq!(sum.dtype(), dtype);
            found.push(sum.to_dtype(DType::F32)?.to_vec2::<f32>()?);
        }
        let most = mine.apply_op1_no_bwd(&AllReduce::with(&rank.comm, ReduceOp::Max))?;
        assert_eq!(
            most.to_vec2::<f32>()?,
            on_the_cpu[world - 1].to_vec2::<f32>()?
        );
        for dim in 0..2 {
            let all = mine.apply_op1_no_bwd(&AllGather::new(&rank.comm, dim))?;
            assert_eq!(
                all.to_vec2::<f32>()?,
                Tensor::cat(&on_the_cpu, dim)?.to_vec2::<f32>()?
            );
        }
        let beyond = mine
            .apply_op1_no_bwd(&AllGather::new(&rank.comm, 2))
            .expect_err("two dimensions");
        assert!(beyond.to_string().contains("no dimension 2"), "{beyond}");
        Ok(found)
    })?;
    for found in results {
        assert!(
            found
                .iter()
                .all(|sum| *sum == total.to_vec2::<f32>().expect("f32")),
            "{found:?}"
        );
    }
    Ok(())
}

#[test]
fn one_thread_may_have_all_ranks() -> Result<()> {
    let Some(world) = ranks("one_thread_may_have_all_ranks") else {
        return Ok(());
    };
    let devices: Vec<_> = (0..world)
        .map(RocmDevice::new_with_stream)
        .collect::<Result<_>>()?;
    let comms = Comm::from_devices(devices.iter().map(RocmDevice::rocm_stream).collect())?;
    let mut values: Vec<_> = devices
        .iter()
        .zip(1i32..)
        .map(|(device, rank)| device.clone_htod(&[rank, 10 * rank]))
        .collect::<Result<_>>()?;
    group_start()?;
    for (comm, values) in comms.iter().zip(&mut values) {
        comm.all_reduce_in_place(values, &ReduceOp::Sum)?;
    }
    group_end()?;
    let sum = (1..=world as i32).sum::<i32>();
    for (device, values) in devices.iter().zip(&values) {
        assert_eq!(device.clone_dtoh(values)?, [sum, 10 * sum]);
    }
    Ok(())
}

#[test]
fn parts_have_ranks_of_their_own() -> Result<()> {
    let Some(world) = ranks("parts_have_ranks_of_their_own") else {
        return Ok(());
    };
    let found = each(world, |rank| {
        let number = rank.number();
        // All but the first, in reverse.
        let part = rank
            .comm
            .split((number > 0).then_some(7), -(number as i32))?;
        let Some(part) = part else {
            return Ok((None, Vec::new()));
        };
        let mut all = rank.upload(&vec![0u32; part.world_size()])?;
        part.all_gather(&rank.upload(&[number as u32])?, &mut all)?;
        Ok((Some(part.rank()), rank.download(&all)?))
    })?;
    let reversed: Vec<u32> = (1..world as u32).rev().collect();
    for (number, (rank, all)) in found.into_iter().enumerate() {
        let expected = (number > 0).then(|| (world - 1 - number, reversed.clone()));
        assert_eq!(rank.map(|rank| (rank, all)), expected);
    }
    Ok(())
}

#[test]
fn a_graph_may_have_collectives() -> Result<()> {
    let Some(world) = ranks("a_graph_may_have_collectives") else {
        return Ok(());
    };
    let found = each(world, |rank| {
        let mut values = rank.upload(&[rank.number() as i32 + 1])?;
        let stream = rank.comm.stream();
        stream.begin_capture(StreamCaptureMode::Relaxed)?;
        rank.comm.all_reduce_in_place(&mut values, &ReduceOp::Sum)?;
        let graph = stream.end_capture()?.expect("something was captured");
        let mut found = Vec::new();
        for _ in 0..3 {
            graph.launch()?;
            found.extend(rank.download(&values)?);
        }
        Ok(found)
    })?;
    let (world, mut value) = (world as i32, (1..=world as i32).sum::<i32>());
    let expected: Vec<i32> = (0..3)
        .map(|_| {
            let now = value;
            value *= world;
            now
        })
        .collect();
    assert!(found.iter().all(|found| *found == expected), "{found:?}");
    Ok(())
}

#[test]
fn memory_of_another_stream_is_in_order() -> Result<()> {
    let Some(world) = ranks("memory_of_another_stream_is_in_order") else {
        return Ok(());
    };
    let found = each(world, |rank| {
        let other = RocmDevice::new_with_stream(rank.number())?;
        let mut found = 0;
        for turn in 0..20 {
            let mut values = other.clone_htod(&[turn; 5000])?;
            rank.comm.all_reduce_in_place(&mut values, &ReduceOp::Sum)?;
            found += other
                .clone_dtoh(&values)?
                .iter()
                .filter(|value| **value == turn * world as i32)
                .count();
        }
        let group = Group::new()?;
        let mut values = other.clone_htod(&[1; 5])?;
        let refused = rank.comm.all_reduce_in_place(&mut values, &ReduceOp::Sum);
        let refused = refused
            .expect_err("the group would lose the order")
            .to_string();
        assert!(
            refused.contains("of the communicator's stream"),
            "{refused}"
        );
        group.end()?;
        Ok(found)
    })?;
    assert_eq!(found, vec![20 * 5000; world]);
    Ok(())
}

#[test]
fn lengths_and_roots_are_checked() -> Result<()> {
    let Some(world) = ranks("lengths_and_roots_are_checked") else {
        return Ok(());
    };
    each(world, |rank| {
        let (comm, mut short, long) =
            (&rank.comm, rank.upload(&[0u8; 3])?, rank.upload(&[0u8; 4])?);
        let sum = ReduceOp::Sum;
        let none: Option<&mut RocmSlice<u8>> = None;
        let root = rank.number() as i32;
        for refused in [
            comm.all_reduce(&long, &mut short, &sum),
            comm.all_gather(&long, &mut short),
            comm.reduce_scatter(&long, &mut short, &sum),
            comm.reduce(&long, Some(&mut short), &sum, root),
        ] {
            assert!(
                matches!(refused, Err(RocmError::TooShort { .. })),
                "{refused:?}"
            );
        }
        assert!(comm.reduce(&long, none, &sum, root).is_err());
        assert!(comm
            .broadcast(None::<&RocmSlice<u8>>, &mut short, root)
            .is_err());
        for peer in [-1, world as i32] {
            assert!(comm.send(&long, peer).is_err() && comm.recv(&mut short, peer).is_err());
            assert!(comm.broadcast_in_place(&mut short, peer).is_err());
        }
        // Nothing of that has reached the other ranks.
        let mut values = rank.upload(&[1u8])?;
        comm.all_reduce_in_place(&mut values, &sum)?;
        assert_eq!(rank.download(&values)?, [world as u8]);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn ranks_that_cannot_be_are_refused() -> Result<()> {
    if ranks("ranks_that_cannot_be_are_refused").is_none() {
        return Ok(());
    }
    let stream = RocmDevice::new_with_stream(0)?.rocm_stream();
    let id = Id::new()?;
    assert_eq!(Id::uninit(*id.internal()), id);
    for (rank, world) in [(0, 0), (2, 2), (usize::MAX, 4)] {
        assert!(
            Comm::from_rank(stream.clone(), rank, world, id).is_err(),
            "{rank} of {world}"
        );
    }
    assert!(Comm::from_devices(Vec::new()).is_err());
    Ok(())
}

/// In a process of its own: a variable is for all tests of one.
#[test]
fn a_rank_that_never_comes_is_an_error() -> Result<()> {
    const LIMIT: &str = "CANDLE_ROCM_RCCL_TIMEOUT";
    let test = "a_rank_that_never_comes_is_an_error";
    if ranks(test).is_none() {
        return Ok(());
    }
    if std::env::var(LIMIT).as_deref() != Ok("1.5") {
        let alone = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", test])
            .env(LIMIT, "1.5")
            .env_remove("CANDLE_ROCM_RECORD")
            .output()?;
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && said.contains("1 passed"),
            "{said}"
        );
        return Ok(());
    }
    let stream = RocmDevice::new_with_stream(0)?.rocm_stream();
    let error = Comm::from_rank(stream.clone(), 0, 2, Id::new()?).expect_err("nobody else comes");
    let error = error.to_string();
    let expected = "rank 0 of 2 failed: the other ranks did not come within 1.5s";
    assert!(error.contains(expected), "{error}");
    // The device is as it was, and what is set holds for calls, too.
    let alone = Comm::from_devices(vec![stream])?;
    assert_eq!(alone[0].time_limit(), Duration::from_millis(1500));
    Ok(())
}

#[test]
fn ranks_wait_for_ten_minutes_if_nothing_else_is_said() -> Result<()> {
    if ranks("ranks_wait_for_ten_minutes_if_nothing_else_is_said").is_none() {
        return Ok(());
    }
    let device = RocmDevice::new_with_stream(0)?;
    let alone = Comm::from_devices(vec![device.rocm_stream()])?;
    if std::env::var_os("CANDLE_ROCM_RCCL_TIMEOUT").is_none() {
        assert_eq!(alone[0].time_limit(), Duration::from_secs(600));
    }
    alone[0].set_time_limit(ENOUGH);
    assert_eq!(alone[0].time_limit(), ENOUGH);
    let mut values = device.clone_htod(&[5i64])?;
    alone[0].all_reduce_in_place(&mut values, &ReduceOp::Sum)?;
    assert_eq!(device.clone_dtoh(&values)?, [5]);
    Ok(())
}

/// What a rank gets of a sum that another one spoils, and whether its device works afterwards.
fn spoilt(rank: &Rank, spoil: impl FnOnce(&Rank) -> Result<()>) -> Result<Option<String>> {
    if rank.number() == 1 {
        spoil(rank)?;
        return Ok(None);
    }
    let sum = || -> Result<Vec<f32>> {
        let mut values = rank.upload(&[1f32; 8])?;
        rank.comm.all_reduce_in_place(&mut values, &ReduceOp::Sum)?;
        rank.download(&values)
    };
    let error = match sum() {
        Err(error) => error.to_string(),
        Ok(values) => panic!("a sum without the other rank: {values:?}"),
    };
    assert!(rank.comm.async_error().is_err());
    assert!(sum().is_err());
    // All that is on the stream is in doubt.
    let other = rank.upload(&[2f32; 8]);
    assert!(other.and_then(|other| rank.download(&other)).is_err());
    Ok(Some(error))
}

fn ends(
    world: usize,
    limit: Duration,
    spoil: impl Fn(&Rank) -> Result<()> + Sync,
) -> Result<Vec<String>> {
    let ended = each(world, |rank| {
        rank.comm.set_time_limit(limit);
        let error = spoilt(rank, &spoil)?;
        Ok((error, rank.device.clone(), rank.number(), rank.comm.clone()))
    })?;
    let mut found = Vec::new();
    for (error, device, number, comm) in ended {
        drop(comm);
        if number != 1 {
            // The communicator is gone by now. Its error is told once more at most.
            let _ = device.synchronize();
            assert_eq!(device.clone_dtoh(&device.clone_htod(&[3u8])?)?, [3]);
        }
        found.extend(error);
    }
    Ok(found)
}

#[test]
fn a_rank_that_does_not_come_is_an_error() -> Result<()> {
    let Some(world) = ranks("a_rank_that_does_not_come_is_an_error") else {
        return Ok(());
    };
    let limit = Duration::from_millis(500);
    let errors = ends(world, limit, |_| {
        std::thread::sleep(4 * limit);
        Ok(())
    })?;
    for (error, rank) in errors.iter().zip([0, 2, 3]) {
        assert!(
            error.contains(&format!("all_reduce of rank {rank} of {world} failed")),
            "{error}"
        );
    }
    assert_eq!(errors.len(), world - 1);
    Ok(())
}

#[test]
fn a_rank_that_aborts_is_an_error() -> Result<()> {
    let Some(world) = ranks("a_rank_that_aborts_is_an_error") else {
        return Ok(());
    };
    let errors = ends(world, Duration::from_secs(5), |rank| {
        rank.comm.abort();
        let mut values = rank.upload(&[1f32])?;
        let refused = rank.comm.all_reduce_in_place(&mut values, &ReduceOp::Sum);
        let refused = refused.expect_err("it was aborted").to_string();
        assert!(
            refused.contains("the communicator was aborted"),
            "{refused}"
        );
        Ok(())
    })?;
    assert_eq!(errors.len(), world - 1);
    Ok(())
}

/// The emulated RCCL says which calls differ; the real one waits, so that the limit ends it.
#[test]
fn a_rank_that_calls_something_else_is_an_error() -> Result<()> {
    let Some(world) = ranks("a_rank_that_calls_something_else_is_an_error") else {
        return Ok(());
    };
    let errors = ends(world, Duration::from_secs(5), |rank| {
        let mut values = rank.upload(&[1f32; 8])?;
        let _ = rank.comm.broadcast_in_place(&mut values, 0);
        let _ = rank.comm.stream().synchronize();
        Ok(())
    })?;
    assert_eq!(errors.len(), world - 1);
    Ok(())
}

/// An address is enough for what other code does with a communicator's stream.
#[test]
fn a_communicator_is_for_all_threads() {
    fn is<T: Send + Sync>() {}
    is::<Comm>();
    is::<AllReduce>();
    is::<AllGather>();
    let _: fn(&RocmSlice<f32>, &RocmStream) -> u64 = |slice, stream| slice.device_ptr(stream).0;
}
