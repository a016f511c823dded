//! Streams, events and their handles; work that other libraries put on a stream.

use std::ffi::c_float;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::call::must_be_of;
use crate::event::*;
use crate::memory::{hipMemcpyAsync, hipMemset, hipMemsetAsync};
use crate::sibling::{candle_rocm_emulator_enqueue, candle_rocm_emulator_uses, candle_rocm_emulator_wake};
use crate::stream::*;
use crate::stream_properties::*;
use candle_rocm_emulator_runtime::transfer::Extent;

fn event(flags: c_uint) -> Result<hipEvent_t, hipError_t> {
    // SAFETY: a valid pointer.
    written(|event| unsafe { hipEventCreateWithFlags(event, flags) })
}

fn elapsed(start: hipEvent_t, stop: hipEvent_t) -> Result<c_float, hipError_t> {
    // SAFETY: a valid pointer.
    written(|time| unsafe { hipEventElapsedTime(time, start, stop) })
}

#[test]
fn flags_are_those_that_are_known() {
    assert_eq!((must_be_of(&[1, 4], 0), must_be_of(&[1, 4], 5), must_be_of(&[6, 2], 6)), (Ok(()), Ok(()), Ok(())));
    assert!(must_be_of(&[1, 4], 2).is_err() && must_be_of(&[1, 4], 7).is_err() && must_be_of(&[], 1).is_err());
    let _session = session();
    for known in [0, 1, 2, 4, 1 << 29, 1 << 30, 1 << 31, 7] {
        let event = event(known).unwrap();
        // SAFETY: the test's own event.
        assert_eq!(unsafe { hipEventDestroy(event) }, hipSuccess);
    }
    assert_eq!([8, 16, 1 << 28].map(event), [Err(INVALID_VALUE); 3]);
}

#[test]
fn a_handle_that_was_given_up_is_none() {
    let _session = session();
    let (gone, kept, plain) = (event(0).unwrap(), event(0).unwrap(), stream());
    // SAFETY: handles that are looked up.
    unsafe {
        assert_eq!(hipEventDestroy(gone), hipSuccess);
        for none in [gone, ptr::null_mut(), kept.wrapping_byte_add(1), kept.wrapping_byte_add(2), plain.cast()] {
            assert_eq!(hipEventDestroy(none), INVALID_HANDLE);
            assert_eq!(hipEventRecord(none, ptr::null_mut()), INVALID_HANDLE);
            assert_eq!(hipStreamWaitEvent(ptr::null_mut(), none, 0), INVALID_HANDLE);
            assert_eq!((hipEventSynchronize(none), hipEventQuery(none)), (INVALID_HANDLE, INVALID_HANDLE));
            assert_eq!([elapsed(none, kept), elapsed(kept, none)], [Err(INVALID_HANDLE); 2]);
        }
        let gone = stream();
        destroy(gone);
        let beyond = (gone as usize + 2) as hipStream_t;
        let between = (plain as usize + 1) as hipStream_t;
        for none in [gone, beyond, between, 3 as hipStream_t, usize::MAX as hipStream_t] {
            assert_eq!((hipStreamDestroy(none), hipStreamSynchronize(none)), (INVALID_HANDLE, INVALID_HANDLE));
            assert_eq!((hipStreamQuery(none), hipEventRecord(kept, none)), (INVALID_HANDLE, INVALID_HANDLE));
        }
        for default in [ptr::null_mut(), hipStreamLegacy, hipStreamPerThread] {
            assert_eq!((hipStreamDestroy(default), hipStreamSynchronize(default)), (INVALID_HANDLE, hipSuccess));
        }
        assert_eq!(hipStreamCreate(ptr::null_mut()), INVALID_VALUE);
        assert_eq!(hipEventCreate(ptr::null_mut()), INVALID_VALUE);
        assert_eq!(hipEventDestroy(kept), hipSuccess);
    }
    destroy(plain);
}

#[test]
fn the_stream_of_a_thread_is_its_own_on_each_device() {
    let session = session();
    let buffer = Buffer::of(&[0u8; 4]);
    // SAFETY: valid pointers.
    let of = |stream| written(|flags| unsafe { hipStreamGetFlags(stream, flags) });
    // SAFETY: valid pointers.
    let device = |stream| written(|device| unsafe { hipStreamGetDevice(stream, device) });
    assert_eq!([of(hipStreamPerThread), of(hipStreamLegacy), of(ptr::null_mut())], [Ok(0); 3]);
    session.on(1);
    assert_eq!([device(hipStreamPerThread), device(hipStreamLegacy), device(ptr::null_mut())], [Ok(1); 3]);
    session.on(0);
    assert_eq!([device(hipStreamPerThread), device(hipStreamLegacy), device(ptr::null_mut())], [Ok(0); 3]);
    // SAFETY: four bytes.
    unsafe {
        assert_eq!(hipMemsetAsync(buffer.pointer(), 1, 4, hipStreamPerThread), hipSuccess);
        let other = std::thread::spawn(|| hipStreamSynchronize(hipStreamPerThread)).join();
        assert_eq!((other.unwrap(), buffer.now()), (hipSuccess, vec![0; 4]), "another thread's stream");
        assert_eq!((hipStreamSynchronize(hipStreamPerThread), buffer.now()), (hipSuccess, vec![1; 4]));
    }
}

#[test]
fn priorities_are_those_of_the_range() {
    let _session = session();
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: valid pointers, or none.
    unsafe {
        assert_eq!(hipDeviceGetStreamPriorityRange(&raw mut least, &raw mut greatest), hipSuccess);
        assert_eq!((least, greatest), (1, -1));
        assert_eq!(hipDeviceGetStreamPriorityRange(ptr::null_mut(), ptr::null_mut()), hipSuccess);
        for (asked, flags, given) in [(-2, 0, -1), (-1, 1, -1), (0, 0, 0), (1, 1, 1), (2, 0, 1)] {
            let stream = written(|stream| hipStreamCreateWithPriority(stream, flags, asked)).unwrap();
            assert_eq!(written(|priority| hipStreamGetPriority(stream, priority)), Ok(given));
            assert_eq!(written(|found| hipStreamGetFlags(stream, found)), Ok(flags));
            destroy(stream);
        }
        assert_eq!(written(|stream| hipStreamCreateWithPriority(stream, 2, 0)), Err(INVALID_VALUE));
        assert_eq!(written(|stream| hipStreamCreateWithFlags(stream, 4)), Err(INVALID_VALUE));
    }
}

#[test]
fn an_event_is_reached_when_the_work_before_it_is_done() {
    let _session = session();
    let (first, second, buffer) = (stream(), stream(), Buffer::of(&[0u8; 8]));
    let (start, stop) = (event(0).unwrap(), event(0).unwrap());
    let untimed = event(hipEventDisableTiming).unwrap();
    // SAFETY: memory of eight bytes, the test's own streams and events.
    unsafe {
        assert_eq!((hipEventQuery(start), hipEventSynchronize(start)), (hipSuccess, hipSuccess), "never recorded");
        assert_eq!(hipStreamWaitEvent(second, start, 0), hipSuccess);
        assert_eq!(elapsed(start, stop), Err(INVALID_HANDLE));
        assert_eq!(hipEventRecord(start, first), hipSuccess);
        for value in 1..=40 {
            assert_eq!(hipMemsetAsync(buffer.pointer(), value, 8, first), hipSuccess);
        }
        assert_eq!(hipEventRecord(stop, first), hipSuccess);
        assert_eq!(hipStreamWaitEvent(second, stop, 1), INVALID_VALUE);
        assert_eq!(hipStreamWaitEvent(second, stop, 0), hipSuccess);
        assert_eq!(hipMemcpyAsync(buffer.pointer(), buffer.at(4), 4, hipMemcpyDefault, second), hipSuccess);
        assert_eq!(hipEventQuery(stop), NOT_READY);
        assert_eq!(elapsed(start, stop), Err(NOT_READY));
        assert_eq!((hipEventSynchronize(stop), hipEventQuery(stop)), (hipSuccess, hipSuccess));
        assert_eq!(buffer.now(), [40; 8]);
        let milliseconds = elapsed(start, stop).unwrap();
        assert!(milliseconds > 0.0 && milliseconds < 60_000.0, "{milliseconds}");
        assert_eq!(elapsed(stop, start), Ok(0.0));
        assert_eq!(hipEventRecord(untimed, first), hipSuccess);
        assert_eq!(hipEventSynchronize(untimed), hipSuccess);
        assert_eq!([elapsed(untimed, stop), elapsed(start, untimed)], [Err(INVALID_HANDLE); 2]);
        for event in [start, stop, untimed] {
            assert_eq!(hipEventDestroy(event), hipSuccess);
        }
    }
    destroy(first);
    destroy(second);
}

/// Times are in milliseconds: a sleep on the stream is no shorter, and not a thousand times as long.
#[test]
fn elapsed_times_are_milliseconds() {
    unsafe extern "C" fn sleep(_data: *mut c_void) {
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    let _session = session();
    let (stream, start, stop) = (stream(), event(0).unwrap(), event(0).unwrap());
    // SAFETY: the test's own stream and events.
    unsafe {
        assert_eq!(hipEventRecord(start, stream), hipSuccess);
        assert_eq!(crate::host_function::hipLaunchHostFunc(stream, Some(sleep), ptr::null_mut()), hipSuccess);
        assert_eq!(hipEventRecord(stop, stream), hipSuccess);
        assert_eq!(hipEventSynchronize(stop), hipSuccess);
        let milliseconds = elapsed(start, stop).unwrap();
        assert!((30.0..20_000.0).contains(&milliseconds), "{milliseconds}");
        assert_eq!((hipEventDestroy(start), hipEventDestroy(stop)), (hipSuccess, hipSuccess));
    }
    destroy(stream);
}

#[test]
fn asking_a_stream_lets_it_work() {
    let _session = session();
    let (stream, buffer) = (stream(), Buffer::of(&[0u8; 4]));
    // SAFETY: four bytes.
    unsafe {
        assert_eq!(hipStreamQuery(stream), hipSuccess);
        for value in 1..=5 {
            assert_eq!(hipMemsetAsync(buffer.pointer(), value, 4, stream), hipSuccess);
        }
        let asked = (1..100).find(|_| hipStreamQuery(stream) == hipSuccess);
        assert_eq!((asked, buffer.now()), (Some(5), vec![5; 4]));
    }
    destroy(stream);
}

/// The null stream waits for blocking streams, and they for it.
#[test]
fn a_blocking_stream_keeps_order_with_the_null_stream() {
    let _session = session();
    for _ in 0..20 {
        let buffer = Buffer::of(&[0u8; 4]);
        // SAFETY: four bytes.
        unsafe {
            let blocking = written(|stream| hipStreamCreate(stream)).unwrap();
            assert_eq!(hipMemsetAsync(buffer.pointer(), 1, 4, blocking), hipSuccess);
            assert_eq!(hipMemset(buffer.pointer(), 2, 3), hipSuccess);
            assert_eq!(hipMemsetAsync(buffer.pointer(), 3, 2, blocking), hipSuccess);
            assert_eq!(hipStreamSynchronize(blocking), hipSuccess);
            assert_eq!(buffer.now(), [3, 3, 2, 1]);
            destroy(blocking);
        }
    }
}

/// What work of a sibling library was asked to do: its data, seen by the test.
struct Asked {
    /// Each time: 1 to do it, 0 to give the data back.
    wanted: Vec<c_int>,
    extent: Extent,
    result: c_int,
}

unsafe extern "C" fn perform(data: *mut c_void, wanted: c_int) -> c_int {
    // SAFETY: the test's own data, which lives until its device is done.
    let asked = unsafe { &mut *data.cast::<Asked>() };
    asked.wanted.push(wanted);
    let fits = wanted == 0
        // SAFETY: one extent.
        || unsafe { candle_rocm_emulator_uses(c"fills it".as_ptr(), &raw const asked.extent, 1) } == 1;
    if fits { asked.result } else { 1 }
}

#[test]
fn a_sibling_s_work_is_done_or_given_back() {
    let session = session();
    let (stream, buffer) = (stream(), Buffer::new(16));
    let enqueue = |stream, asked: &mut Asked| {
        // SAFETY: a name, and data that lives on.
        unsafe { candle_rocm_emulator_enqueue(stream, c"sibling".as_ptr(), 0, perform, ptr::from_mut(asked).cast()) }
    };
    let asked =
        |address, writes, result| Asked { wanted: Vec::new(), extent: Extent { address, bytes: 16, writes }, result };

    let mut right = asked(buffer.address, true, 1);
    assert_eq!((enqueue(stream, &mut right), &right.wanted[..]), (hipSuccess, &[][..]), "not before it is waited for");
    assert_eq!((session.fault(), right.wanted), ((hipSuccess, String::new()), vec![1, 0]));

    let mut refused = asked(buffer.address, true, 1);
    assert_eq!((enqueue(5 as hipStream_t, &mut refused), refused.wanted), (INVALID_HANDLE, vec![0]));

    let (mut wrong, mut after) = (asked(buffer.address + 8, true, 1), asked(buffer.address, true, 1));
    assert_eq!((enqueue(stream, &mut wrong), enqueue(stream, &mut after)), (hipSuccess, hipSuccess));
    let (code, text) = session.fault();
    assert_eq!((code, wrong.wanted, after.wanted), (ILLEGAL_ADDRESS, vec![1, 0], vec![0]));
    assert!(text.starts_with("fills it: invalid write of 16 bytes"), "{text}");

    let mut nothing = asked(0, true, 1);
    nothing.extent.bytes = 0;
    assert_eq!((enqueue(stream, &mut nothing), session.fault().0), (hipSuccess, hipSuccess), "no bytes are nowhere");

    let mut panicked = asked(buffer.address, true, 0);
    assert_eq!(enqueue(stream, &mut panicked), hipSuccess);
    assert_eq!(session.fault(), (999, "sibling: the emulator panicked; its message is on standard error".to_owned()));
    destroy(stream);
}

/// Work of which another thread says when its time has come.
#[test]
fn a_sibling_s_work_may_wait_for_what_is_outside_of_the_machine() {
    static COME: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn perform(data: *mut c_void, wanted: c_int) -> c_int {
        match wanted {
            2 => COME.load(Ordering::Acquire).into(),
            // SAFETY: the test's own flag, which lives until its device is done.
            1 => (!unsafe { (*data.cast::<AtomicBool>()).swap(true, Ordering::AcqRel) }).into(),
            _ => 1,
        }
    }
    let session = session();
    let (stream, done) = (stream(), AtomicBool::new(false));
    // SAFETY: a name, and data that lives on.
    let code = unsafe {
        candle_rocm_emulator_enqueue(stream, c"sibling".as_ptr(), 1, perform, ptr::from_ref(&done).cast_mut().cast())
    };
    // SAFETY: a stream.
    assert_eq!((code, unsafe { hipStreamQuery(stream) }), (hipSuccess, NOT_READY));
    assert!(!done.load(Ordering::Acquire));
    let waited = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            COME.store(true, Ordering::Release);
            candle_rocm_emulator_wake();
        });
        // SAFETY: a stream.
        unsafe { hipStreamSynchronize(stream) }
    });
    assert_eq!((waited, done.load(Ordering::Acquire)), (hipSuccess, true));
    assert_eq!(session.fault(), (hipSuccess, String::new()));
    destroy(stream);
}

/// The work's device is that of its stream, whichever thread or device asked for it.
#[test]
fn a_sibling_s_work_uses_memory_of_its_stream_s_device() {
    let session = session();
    let host = [0u8; 16];
    let mut addresses =
        vec![(host.as_ptr() as usize, "no memory of a device; is it a host pointer?"), (0, "a null pointer")];
    session.on(1);
    let (stream, own) = (stream(), Buffer::of(&[1u8; 16]));
    session.on(0);
    let other = Buffer::of(&[1u8; 16]);
    addresses.push((other.address, "memory of device 0, to which device 1 has no peer access"));
    let run = |address, writes| {
        let mut asked = Asked { wanted: Vec::new(), extent: Extent { address, bytes: 16, writes }, result: 1 };
        // SAFETY: a name, and data that lives until the device is done.
        let code =
            unsafe { candle_rocm_emulator_enqueue(stream, c"sibling".as_ptr(), 0, perform, (&raw mut asked).cast()) };
        assert_eq!(code, hipSuccess);
        session.on(1);
        let fault = session.fault();
        session.on(0);
        fault
    };
    assert_eq!(run(own.address, false), (hipSuccess, String::new()));
    for (address, why) in addresses {
        for (writes, verb) in [(true, "write"), (false, "read")] {
            let text = format!("fills it: invalid {verb} of 16 bytes at {address:#x}: {why}");
            assert_eq!(run(address, writes), (ILLEGAL_ADDRESS, text));
        }
    }
    session.on(1);
    let fresh = Buffer::new(16);
    let (code, text) = run(fresh.address, false);
    let expected =
        format!("fills it: uninitialised read of 16 bytes, first at {:#x}: at offset 0 of allocation", fresh.address);
    assert!(code == LAUNCH_FAILURE && text.starts_with(&expected), "{text}");
    assert_eq!((run(fresh.address, true).0, run(fresh.address, false).0), (hipSuccess, hipSuccess), "it was written");
    session.on(1);
    destroy(stream);
}
