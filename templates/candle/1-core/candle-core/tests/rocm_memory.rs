//! Memory, streams and several GPUs of the ROCm backend.
//!
//! As in rocm_basic.rs, a test that lacks the GPUs it needs writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::backend::BackendStorage;
use candle_core::rocm::device_count;
use candle_core::rocm::driver::{DevicePtr, DevicePtrMut, RocmSlice};
use candle_core::rocm::RocmStorageSlice;
use candle_core::{DType, Error, Result, RocmDevice, RocmError, RocmStorage};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: usize = 1 << 20;

/// GPU `ordinal` on a stream of its own, so that other tests do not change its statistics, or None with a message.
fn gpu(test: &str, ordinal: usize) -> Option<RocmDevice> {
    let count = device_count().expect("the runtime answers");
    if ordinal >= count {
        let reason = match count {
            0 => "no ROCm device".to_string(),
            count => format!("needs {} ROCm devices, {count} visible", ordinal + 1),
        };
        // Past libtest's capture, so that nobody takes a skipped test for a passed one.
        let line = format!("SKIPPED: {test}: {reason}\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("stderr is open");
        return None;
    }
    Some(RocmDevice::new_with_stream(ordinal).expect("a GPU that was counted"))
}

/// Bytes that differ from each other for different `seed`s, at every place.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8 ^ seed).collect()
}

/// Memory that nobody reads before it is written.
fn alloc(size: usize, device: &RocmDevice) -> Result<RocmSlice<u8>> {
    // SAFETY: the caller's business, see above.
    unsafe { device.alloc(size) }
}

fn uploaded(data: &[u8], device: &RocmDevice) -> Result<RocmSlice<u8>> {
    device.clone_htod(data)
}

fn downloaded(memory: &RocmSlice<u8>) -> Result<Vec<u8>> {
    memory.device().clone_dtoh(memory)
}

/// The error of the backend, without the backtrace that RUST_BACKTRACE gives it.
fn bare(error: Error) -> RocmError {
    match error {
        Error::WithBacktrace { inner, .. } => bare(*inner),
        Error::Rocm(error) => error,
        other => panic!("{other}"),
    }
}

/// Whether every block is an allocation of its own, which the environment may ask for.
fn is_direct() -> bool {
    std::env::var("CANDLE_ROCM_ALLOCATOR").is_ok_and(|policy| policy == "direct")
}

mod cache {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// These tests take turns: one that runs out of memory makes all streams give back what they have cached.
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn memory_is_used_again_without_asking_the_runtime() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("memory_is_used_again_without_asking_the_runtime", 0) else {
            return Ok(());
        };
        let sizes = [1, 4096, 3 * MIB, 20 * MIB];
        let round = || -> Result<()> {
            let blocks = sizes.map(|size| device.alloc_zeros::<u8>(size));
            blocks.into_iter().try_for_each(|block| block.map(drop))
        };
        round()?;
        let before = device.memory_stats();
        for _ in 0..10 {
            round()?;
        }
        let after = device.memory_stats();
        if is_direct() {
            assert_eq!(after.reuses, 0);
            assert_eq!(after.cached, 0);
        } else {
            assert_eq!(after.device_allocations, before.device_allocations);
            assert_eq!(after.reuses, before.reuses + 40);
            assert!(after.cached >= 23 * MIB);
        }
        assert_eq!(after.allocated, 0);
        assert!(after.peak_allocated >= sizes.iter().sum());
        Ok(())
    }

    #[test]
    fn memory_that_is_used_again_holds_what_was_written_last() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("memory_that_is_used_again_holds_what_was_written_last", 0) else {
            return Ok(());
        };
        // Each copy reads a block that is dropped at once, and written by the next round, before anything has run.
        let copies: Vec<_> = (0..20)
            .map(|round| Ok(uploaded(&bytes(5000, round), &device)?.try_clone()?))
            .collect::<Result<_>>()?;
        for (round, copy) in copies.iter().enumerate() {
            assert!(downloaded(copy)? == bytes(5000, round as u8), "{round}");
        }
        Ok(())
    }

    #[test]
    fn blocks_do_not_overlap() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("blocks_do_not_overlap", 0) else {
            return Ok(());
        };
        let whole = alloc(16 * MIB, &device)?;
        drop(whole);
        let sizes = [1, 511, 513, 100_003, MIB - 1, MIB, 3 * MIB + 1, 7 * MIB];
        let mut blocks = Vec::new();
        for (size, seed) in sizes.into_iter().zip(0..) {
            blocks.push((uploaded(&bytes(size, seed), &device)?, seed));
        }
        for (block, seed) in &blocks {
            assert!(downloaded(block)? == bytes(block.len(), *seed), "{seed}");
        }
        Ok(())
    }

    #[test]
    fn trimming_gives_back_what_is_cached_and_nothing_else() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("trimming_gives_back_what_is_cached_and_nothing_else", 0) else {
            return Ok(());
        };
        let kept = uploaded(&bytes(3 * MIB, 1), &device)?;
        drop(uploaded(&bytes(5 * MIB, 2), &device)?);
        device.trim_memory()?;
        let stats = device.memory_stats();
        assert_eq!(stats.device_allocations - stats.device_frees, 1);
        assert!(stats.allocated >= 3 * MIB);
        assert!(stats.cached < MIB * 2);
        assert!(downloaded(&kept)? == bytes(3 * MIB, 1));
        drop(kept);
        device.trim_memory()?;
        let stats = device.memory_stats();
        assert_eq!((stats.allocated, stats.cached), (0, 0));
        assert_eq!(stats.device_allocations, stats.device_frees);
        Ok(())
    }

    #[test]
    fn a_tensor_that_grows_leaves_a_bounded_cache() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("a_tensor_that_grows_leaves_a_bounded_cache", 0) else {
            return Ok(());
        };
        let mut _current = alloc(16 * MIB, &device)?;
        for size in (18..=40).step_by(2) {
            _current = alloc(size * MIB, &device)?;
            let stats = device.memory_stats();
            let bound = stats.peak_allocated * 3 / 2 + 64 * MIB;
            assert!(stats.allocated + stats.cached <= bound, "{stats:?}");
        }
        Ok(())
    }

    #[test]
    fn a_limit_is_kept_and_named() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("a_limit_is_kept_and_named", 0) else {
            return Ok(());
        };
        let limit = 16 * MIB;
        device.set_memory_limit(Some(limit));
        // What is cached makes room.
        for size in [10, 12, 14] {
            drop(uploaded(&bytes(size * MIB, 3), &device)?);
        }
        let kept = uploaded(&bytes(10 * MIB, 3), &device)?;
        match alloc(8 * MIB, &device).map_err(bare) {
            Err(RocmError::MemoryLimit {
                requested,
                held,
                limit: named,
            }) => {
                assert_eq!((requested, named), (8 * MIB, limit));
                assert!((10 * MIB..=limit).contains(&held), "{held}");
            }
            other => panic!("{other:?}"),
        }
        assert!(downloaded(&kept)? == bytes(10 * MIB, 3));
        device.set_memory_limit(None);
        alloc(8 * MIB, &device)?;
        Ok(())
    }

    #[test]
    fn running_out_of_memory_frees_what_all_streams_have_cached() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu(
            "running_out_of_memory_frees_what_all_streams_have_cached",
            0,
        ) else {
            return Ok(());
        };
        let other = RocmDevice::new_with_stream(0)?;
        // Other tests use the GPU too: three quarters of what is free fit once, not twice.
        let size = other.free_memory()? / 4 * 3;
        drop(alloc(size, &other)?);
        drop(alloc(size, &device)?);
        assert_eq!(other.memory_stats().cached, 0);
        device.trim_memory()
    }

    #[test]
    fn running_out_of_memory_leaves_streams_of_other_code_alone() -> Result<()> {
        let _turn = turn();
        let Some(owner) = gpu(
            "running_out_of_memory_leaves_streams_of_other_code_alone",
            0,
        ) else {
            return Ok(());
        };
        // SAFETY: `owner` keeps the stream for longer than `device` lives.
        let device = unsafe { RocmDevice::from_raw_stream(0, owner.rocm_stream().hip_stream()) }?;
        drop(alloc(8 * MIB, &device)?);
        let cached = device.memory_stats().cached;
        assert_eq!(cached, if is_direct() { 0 } else { 8 * MIB });
        let wanted = 2 * owner.total_memory()?;
        assert!(alloc(wanted, &owner).is_err());
        assert_eq!(device.memory_stats().cached, cached);
        assert!(alloc(wanted, &device).is_err());
        assert_eq!(device.memory_stats().cached, 0);
        Ok(())
    }

    /// What one thread is giving back to the GPU is no longer in the cache, and still counts: others wait for that.
    #[test]
    fn a_limit_holds_while_others_run_out_of_memory() -> Result<()> {
        let _turn = turn();
        let test = "a_limit_holds_while_others_run_out_of_memory";
        let (Some(device), Some(other)) = (gpu(test, 0), gpu(test, 0)) else {
            return Ok(());
        };
        device.set_memory_limit(Some(16 * MIB));
        let wanted = 2 * other.total_memory()?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let trimming = scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(alloc(wanted, &other).is_err());
                }
            });
            let mut sizes = [10, 12, 14].into_iter().cycle().take(600);
            let result = sizes.try_for_each(|size| alloc(size * MIB, &device).map(drop));
            done.store(true, Ordering::Relaxed);
            trimming.join().expect("no panic");
            result
        })
    }

    #[test]
    fn being_out_of_memory_is_reported_with_figures() -> Result<()> {
        let _turn = turn();
        let Some(device) = gpu("being_out_of_memory_is_reported_with_figures", 0) else {
            return Ok(());
        };
        let wanted = 2 * device.total_memory()?;
        match alloc(wanted, &device).map_err(bare) {
            Err(RocmError::OutOfMemory {
                requested,
                free,
                total,
            }) => {
                // What is asked of HIP is rounded up.
                assert!(requested >= wanted && requested - wanted <= wanted / 8);
                assert_eq!(total, device.total_memory()?);
                assert!(free <= total);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(device.memory_stats().allocated, 0);
        assert_eq!(device.memory_stats().cached, 0);
        Ok(())
    }
}

mod copies {
    use super::*;

    #[test]
    fn uploads_of_any_size_come_back() -> Result<()> {
        let Some(device) = gpu("uploads_of_any_size_come_back", 0) else {
            return Ok(());
        };
        // Around a staging buffer, and more than all of them.
        for length in [
            1,
            63,
            64 << 10,
            2 * MIB - 1,
            2 * MIB,
            2 * MIB + 1,
            11 * MIB + 7,
        ] {
            let memory = uploaded(&bytes(length, 5), &device)?;
            assert!(downloaded(&memory)? == bytes(length, 5), "{length} bytes");
        }
        Ok(())
    }

    #[test]
    fn an_upload_keeps_what_the_source_was() -> Result<()> {
        let Some(device) = gpu("an_upload_keeps_what_the_source_was", 0) else {
            return Ok(());
        };
        let mut uploads = Vec::new();
        let mut source = vec![0; 300_000];
        // 12 MB: the staging buffers are used more than once before anything is read.
        for round in 0..40 {
            source.copy_from_slice(&bytes(300_000, round));
            uploads.push(uploaded(&source, &device)?);
            source.fill(255);
        }
        for (round, upload) in uploads.iter().enumerate() {
            assert!(
                downloaded(upload)? == bytes(300_000, round as u8),
                "{round}"
            );
        }
        Ok(())
    }

    #[test]
    fn elements_keep_their_type() -> Result<()> {
        let Some(device) = gpu("elements_keep_their_type", 0) else {
            return Ok(());
        };
        let numbers: Vec<f64> = (0..1009).map(|i| f64::from(i) / 7.).collect();
        let slice = device.clone_htod(&numbers)?;
        assert_eq!((slice.len(), slice.num_bytes()), (1009, 8072));
        assert_eq!(device.clone_dtoh(&slice)?, numbers);
        for copy in [slice.try_clone()?, slice.clone()] {
            assert_eq!(device.clone_dtoh(&copy)?, numbers);
        }
        let storage = RocmStorage::wrap_rocm_slice(slice, device.clone());
        assert_eq!((storage.dtype(), storage.size()), (DType::F64, 8072));
        assert_eq!(device.clone_dtoh(storage.as_rocm_slice::<f64>()?)?, numbers);
        match storage.as_rocm_slice::<f32>().map_err(bare) {
            Err(RocmError::UnexpectedDType { expected, got, .. }) => {
                assert_eq!((expected, got), (DType::F32, DType::F64));
            }
            other => panic!("{other:?}"),
        }
        let RocmStorageSlice::F64(slice) = storage.slice else {
            panic!("another type")
        };
        assert_eq!(device.clone_dtoh(&slice)?, numbers);
        Ok(())
    }

    #[test]
    fn a_range_is_read_alone() -> Result<()> {
        let Some(device) = gpu("a_range_is_read_alone", 0) else {
            return Ok(());
        };
        let numbers: Vec<u32> = (0..1000).collect();
        let slice = device.clone_htod(&numbers)?;
        for (first, end) in [(0, 1000), (1, 2), (990, 1000), (500, 500), (1000, 1000)] {
            let view = slice.slice(first..end);
            assert_eq!(view.len(), end - first);
            assert_eq!(device.clone_dtoh(&view)?, numbers[first..end]);
        }
        assert_eq!(device.clone_dtoh(&slice.slice(..=4))?, numbers[..=4]);
        // Counted from the view's beginning.
        let view = slice.slice(100..).slice(10..20);
        assert_eq!(device.clone_dtoh(&view)?, numbers[110..120]);
        assert!(view.try_slice(0..11).is_none());
        for range in [0..1001, 1001..1001, 5..usize::MAX] {
            assert!(slice.try_slice(range.clone()).is_none(), "{range:?}");
        }
        let panic = std::panic::catch_unwind(|| slice.slice(10..1001).len());
        let panic = panic.expect_err("a range beyond the end");
        let text = panic.downcast_ref::<String>().map(String::as_str);
        assert_eq!(
            text,
            Some("elements 10..1001 of device memory that has 1000")
        );
        Ok(())
    }

    #[test]
    fn a_part_is_overwritten_alone() -> Result<()> {
        let Some(device) = gpu("a_part_is_overwritten_alone", 0) else {
            return Ok(());
        };
        let source = device.clone_htod(&(0..1000).map(|i| i + 5000).collect::<Vec<i64>>())?;
        let mut slice = device.clone_htod(&(0..1000).collect::<Vec<i64>>())?;
        device.memcpy_dtod(&source.slice(500..530), &mut slice.slice_mut(10..40))?;
        device.memcpy_htod(&[-1, -2], &mut slice.slice_mut(100..))?;
        let mut view = slice.slice_mut(200..);
        device.memcpy_htod(&[-3], &mut view.slice_mut(5..6))?;
        let mut expected: Vec<i64> = (0..1000).collect();
        for (place, number) in (10..40).zip(5500..) {
            expected[place] = number;
        }
        expected[100..102].copy_from_slice(&[-1, -2]);
        expected[205] = -3;
        assert_eq!(device.clone_dtoh(&slice)?, expected);
        let results = [
            device.memcpy_dtod(&source, &mut slice.slice_mut(1..)),
            device.memcpy_htod(&[7; 11], &mut slice.slice_mut(990..)),
            device.memcpy_dtoh(&slice, &mut [0; 999]),
        ];
        for result in results {
            match result.map_err(bare) {
                Err(RocmError::TooShort { len, size, .. }) => assert!(len == size + 8),
                other => panic!("{other:?}"),
            }
        }
        assert!(slice.try_slice_mut(990..1001).is_none());
        assert_eq!(device.clone_dtoh(&slice)?, expected);
        // What is longer than the source keeps the rest.
        let mut host = vec![9; 1001];
        device.memcpy_dtoh(&slice, &mut host)?;
        assert_eq!((&host[..1000], host[1000]), (&expected[..], 9));
        Ok(())
    }

    #[test]
    fn more_elements_than_can_be_counted_are_refused() {
        let Some(device) = gpu("more_elements_than_can_be_counted_are_refused", 0) else {
            return;
        };
        // SAFETY: nobody reads it.
        let error = unsafe { device.alloc::<f32>(usize::MAX / 2) }.expect_err("too many");
        assert!(
            error.to_string().contains("of 4 bytes are too many"),
            "{error}"
        );
    }

    #[test]
    fn zeros_are_zeros() -> Result<()> {
        let Some(device) = gpu("zeros_are_zeros", 0) else {
            return Ok(());
        };
        for length in [0, 1, 4097] {
            // The cache has a block that fits and is not 0.
            drop(uploaded(&bytes(length, 77), &device)?);
            assert_eq!(downloaded(&device.alloc_zeros(length)?)?, vec![0; length]);
        }
        Ok(())
    }
}

mod streams {
    use super::*;

    /// What a copy between two devices shall hold, whatever the order in which their streams run.
    fn check_transfers(one: &RocmDevice, other: &RocmDevice) -> Result<()> {
        for length in [0, 1, 5000, 3 * MIB + 1] {
            let (first, second) = (bytes(length, 1), bytes(length, 2));
            let source = uploaded(&first, one)?;
            let mut source = RocmStorage::wrap_rocm_slice(source, one.clone());
            let copy = source.transfer_to_device(other)?;
            assert_eq!(copy.device(), other);
            assert_eq!(copy.dtype(), DType::U8);
            // Written again, then dropped, and its memory used for something else, all while the copy may not have begun.
            one.memcpy_htod(&second, source.as_rocm_slice_mut()?)?;
            let again = source.transfer_to_device(other)?;
            drop(source);
            let reused = uploaded(&bytes(length, 3), one)?;
            let back = copy.transfer_to_device(one)?;
            assert!(downloaded(copy.as_rocm_slice()?)? == first, "{length}");
            assert!(downloaded(again.as_rocm_slice()?)? == second, "{length}");
            assert!(downloaded(back.as_rocm_slice()?)? == first, "{length}");
            assert!(downloaded(&reused)? == bytes(length, 3), "{length}");
        }
        Ok(())
    }

    #[test]
    fn storages_move_between_streams() -> Result<()> {
        let Some(device) = gpu("storages_move_between_streams", 0) else {
            return Ok(());
        };
        check_transfers(&device, &RocmDevice::new_with_stream(0)?)?;
        check_transfers(&device, &RocmDevice::new(0)?)
    }

    #[test]
    fn storages_move_between_gpus() -> Result<()> {
        let Some(other) = gpu("storages_move_between_gpus", 1) else {
            return Ok(());
        };
        check_transfers(&RocmDevice::new_with_stream(0)?, &other)?;
        check_transfers(&other, &RocmDevice::new(0)?)
    }

    #[test]
    fn memory_of_two_gpus_is_counted_apart() -> Result<()> {
        let Some(other) = gpu("memory_of_two_gpus_is_counted_apart", 1) else {
            return Ok(());
        };
        let device = RocmDevice::new_with_stream(0)?;
        let _memory = alloc(8 * MIB, &other)?;
        assert_eq!(device.memory_stats().allocated, 0);
        assert_eq!(other.memory_stats().allocated, 8 * MIB);
        assert_ne!(device, other);
        Ok(())
    }

    #[test]
    fn memory_that_another_stream_reads_is_not_used_again() -> Result<()> {
        let Some(device) = gpu("memory_that_another_stream_reads_is_not_used_again", 0) else {
            return Ok(());
        };
        let other = RocmDevice::new_with_stream(0)?;
        let mut copies = Vec::new();
        // More rounds than one, since an emulated GPU runs streams in a random order.
        for round in 0..20 {
            let source = uploaded(&bytes(100_000, round), &device)?;
            copies.push(other.clone_dtod(&source)?);
        }
        for (round, copy) in copies.iter().enumerate() {
            assert!(downloaded(copy)? == bytes(100_000, round as u8), "{round}");
        }
        device.trim_memory()?;
        let stats = device.memory_stats();
        assert_eq!((stats.allocated, stats.cached), (0, 0));
        Ok(())
    }

    #[test]
    fn a_stream_waits_for_the_event_of_another() -> Result<()> {
        let Some(device) = gpu("a_stream_waits_for_the_event_of_another", 0) else {
            return Ok(());
        };
        let other = RocmDevice::new_with_stream(0)?;
        for round in 0..20 {
            for _ in 0..10 {
                drop(other.alloc_zeros::<u8>(MIB)?);
            }
            let event = other.rocm_stream().record_event()?;
            device.rocm_stream().wait(&event)?;
            // The host waits for `device` alone, which has nothing to do but to wait for `other`.
            device.synchronize()?;
            assert!(event.is_done()?, "{round}");
            event.synchronize()?;
        }
        Ok(())
    }

    #[test]
    fn work_on_a_foreign_stream_is_in_order_with_the_memory() -> Result<()> {
        let test = "work_on_a_foreign_stream_is_in_order_with_the_memory";
        let Some(device) = gpu(test, 0) else {
            return Ok(());
        };
        let (own, foreign) = (device.rocm_stream(), RocmDevice::new_with_stream(0)?);
        let stream = foreign.rocm_stream();
        let mut slice = device.clone_htod(&[1u8; 1000])?;
        let (address, _) = slice.device_ptr(&own);
        let (later, _) = slice.slice(10..).device_ptr(&own);
        assert_eq!(later, address + 10);
        for round in 0..20 {
            let whole = device.clone_htod(&vec![round; 3 * MIB])?;
            let (copy, event) = {
                let (found, _guard) = slice.device_ptr_mut(&stream);
                assert_eq!(found, address);
                (foreign.clone_dtod(&whole)?, stream.record_event()?)
            };
            // The foreign stream is done with the copy before the own one goes on.
            own.synchronize()?;
            assert!(event.is_done()?, "{round}");
            assert!(device.clone_dtoh(&copy)? == vec![round; 3 * MIB], "{round}");
        }
        Ok(())
    }

    #[test]
    fn a_stream_of_other_code_is_used_and_left_alone() -> Result<()> {
        let Some(owner) = gpu("a_stream_of_other_code_is_used_and_left_alone", 0) else {
            return Ok(());
        };
        // SAFETY: `owner` keeps the stream for longer than `device` and its storage live.
        let device = unsafe { RocmDevice::from_raw_stream(0, owner.rocm_stream().hip_stream()) }?;
        assert_eq!(device, owner);
        assert_eq!(
            device.rocm_stream().hip_stream(),
            owner.rocm_stream().hip_stream()
        );
        let memory = uploaded(&bytes(1000, 4), &device)?;
        // In order on the one stream, without an event.
        let clone = owner.clone_dtod(&memory)?;
        assert_eq!(downloaded(&clone)?, bytes(1000, 4));
        drop(memory);
        drop(device);
        assert_eq!(downloaded(&clone)?, bytes(1000, 4));
        owner.synchronize()?;
        // SAFETY: null is the default stream, which is never destroyed.
        let default = unsafe { RocmDevice::from_raw_stream(0, std::ptr::null_mut()) }?;
        assert_eq!(default, RocmDevice::new(0)?);
        Ok(())
    }

    #[test]
    fn devices_that_are_equal_share_their_memory() -> Result<()> {
        if gpu("devices_that_are_equal_share_their_memory", 0).is_none() {
            return Ok(());
        }
        let (one, other) = (RocmDevice::new(0)?, RocmDevice::new(0)?);
        let _memory = alloc(32 * MIB, &one)?;
        assert!(other.memory_stats().allocated >= 32 * MIB);
        Ok(())
    }
}

mod threads {
    use super::*;

    /// Eight threads that allocate, copy and drop, on as many devices as are given.
    fn stress(devices: &[RocmDevice]) -> Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u8)
                .map(|thread| {
                    let home = &devices[thread as usize % devices.len()];
                    let away = &devices[(thread as usize + 1) % devices.len()];
                    scope.spawn(move || -> Result<()> {
                        for round in 0..30 {
                            let length = 1 + usize::from(thread) * 4001 + round * 7919;
                            let data = bytes(length, thread.wrapping_mul(31) ^ round as u8);
                            let memory = uploaded(&data, home)?;
                            let moved = away.clone_dtod(&memory)?;
                            drop(memory);
                            let clone = moved.try_clone()?;
                            drop(moved);
                            let back = home.clone_dtod(&clone)?;
                            drop(clone);
                            assert!(downloaded(&back)? == data, "{thread} {round}");
                            if round == 15 {
                                home.trim_memory()?;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            for thread in threads {
                thread.join().expect("the thread does not panic")?;
            }
            Ok::<_, candle_core::Error>(())
        })?;
        for device in devices {
            device.trim_memory()?;
            let stats = device.memory_stats();
            assert_eq!((stats.allocated, stats.cached), (0, 0));
        }
        Ok(())
    }

    #[test]
    fn eight_threads_share_a_stream() -> Result<()> {
        match gpu("eight_threads_share_a_stream", 0) {
            Some(device) => stress(&[device]),
            None => Ok(()),
        }
    }

    #[test]
    fn eight_threads_use_three_streams() -> Result<()> {
        let Some(device) = gpu("eight_threads_use_three_streams", 0) else {
            return Ok(());
        };
        let others = [
            RocmDevice::new_with_stream(0)?,
            RocmDevice::new_with_stream(0)?,
        ];
        let [second, third] = others;
        stress(&[device, second, third])
    }

    #[test]
    fn eight_threads_use_two_gpus() -> Result<()> {
        match gpu("eight_threads_use_two_gpus", 1) {
            Some(other) => stress(&[RocmDevice::new_with_stream(0)?, other]),
            None => Ok(()),
        }
    }
}

mod random {
    use super::*;
    use candle_core::backend::BackendDevice;

    #[test]
    fn numbers_do_not_repeat_until_a_seed_is_set() -> Result<()> {
        let Some(device) = gpu("numbers_do_not_repeat_until_a_seed_is_set", 0) else {
            return Ok(());
        };
        device.set_seed(7)?;
        assert_eq!(device.random_offset(10), (7, 0));
        assert_eq!(device.clone().random_offset(0), (7, 10));
        assert_eq!(device.random_offset(5), (7, 11));
        device.set_seed(7)?;
        assert_eq!(device.random_offset(1), (7, 0));
        Ok(())
    }

    #[test]
    fn devices_made_apart_have_seeds_apart() -> Result<()> {
        if gpu("devices_made_apart_have_seeds_apart", 0).is_none() {
            return Ok(());
        }
        let (one, other) = (RocmDevice::new(0)?, RocmDevice::new(0)?);
        one.set_seed(1)?;
        other.set_seed(2)?;
        assert_eq!((one.seed(), other.seed()), (1, 2));
        Ok(())
    }
}
