//! Allocations, copies, fills, rows, and what an address is.

use super::*;
use crate::copy::*;
use crate::fill::*;
use crate::host_memory::*;
use crate::memory::*;
use crate::pointer::*;
use crate::rows::*;
use crate::stream::hipStreamSynchronize;

const NUMBERS: [i32; 4] = [3, 1, 4, 1];

#[test]
fn a_copy_s_kind_must_fit_its_sides() {
    let _session = session();
    let (device, other) = (Buffer::of(&NUMBERS), Buffer::of(&[0; 4]));
    let (mut host, mut target) = (NUMBERS, [0; 4]);
    let (host, target) = (host.as_mut_ptr().cast::<c_void>(), target.as_mut_ptr().cast::<c_void>());
    let on_host = |pointer: *mut c_void| pointer == host || pointer == target;
    for to in [target, other.pointer()] {
        for from in [host, device.pointer()] {
            for (kind, fits) in [
                (hipMemcpyHostToHost, on_host(to) && on_host(from)),
                (hipMemcpyHostToDevice, on_host(from)),
                (hipMemcpyDeviceToHost, on_host(to)),
                (hipMemcpyDeviceToDevice, true),
                (hipMemcpyDefault, true),
            ] {
                // SAFETY: 16 bytes on either side.
                let code = unsafe { hipMemcpy(to, from, 16, kind) };
                assert_eq!(code, if fits { hipSuccess } else { INVALID_VALUE }, "{to:?} {from:?} {kind}");
            }
            // SAFETY: as above.
            assert_eq!(unsafe { hipMemcpy(to, from, 16, 5) }, 21);
        }
    }
    assert_eq!(other.ints(), NUMBERS);
    // SAFETY: a range that is refused, on one side and on the other, by one byte or by overflow.
    unsafe {
        for size in [17, usize::MAX, usize::MAX - 15] {
            assert_eq!(hipMemcpy(other.pointer(), host, size, hipMemcpyHostToDevice), INVALID_VALUE);
            assert_eq!(hipMemcpy(target, device.pointer(), size, hipMemcpyDeviceToHost), INVALID_VALUE);
        }
        assert_eq!(hipMemcpy(other.at(1), host, 16, hipMemcpyHostToDevice), INVALID_VALUE);
        assert_eq!(hipMemcpy(ptr::null_mut(), host, 16, hipMemcpyHostToHost), INVALID_VALUE);
        assert_eq!(hipMemcpy(ptr::null_mut(), ptr::null(), 0, hipMemcpyHostToHost), hipSuccess);
        assert_eq!(hipMemcpy(other.pointer(), host, 0, hipMemcpyHostToDevice), hipSuccess);
    }
    assert_eq!(other.ints(), NUMBERS);
}

/// The host's memory is read when an asynchronous copy is asked for, and holds poison until one is done.
#[test]
fn asynchronous_copies_run_when_they_are_waited_for() {
    let _session = session();
    let (stream, device) = (stream(), Buffer::new(16));
    let (mut host, mut back) = (NUMBERS, [0i32; 4]);
    // SAFETY: 16 bytes on either side, which live until the stream was waited for.
    unsafe {
        assert_eq!(hipMemcpyHtoDAsync(device.pointer(), host.as_ptr().cast(), 16, stream), hipSuccess);
        host = [9; 4];
        assert_eq!(device.now(), poison(16));
        assert_eq!(hipMemcpyDtoHAsync(back.as_mut_ptr().cast(), device.pointer(), 12, stream), hipSuccess);
        assert_eq!(back, [-1, -1, -1, 0]);
        assert_eq!(hipStreamSynchronize(stream), hipSuccess);
    }
    assert_eq!((host, back), ([9; 4], [3, 1, 4, 0]));
    let empty = Buffer::new(16);
    // SAFETY: nothing is copied.
    unsafe {
        assert_eq!(hipMemcpyHtoDAsync(empty.pointer(), host.as_ptr().cast(), 0, stream), hipSuccess);
        assert_eq!(hipMemcpyDtoHAsync(back.as_mut_ptr().cast(), empty.pointer(), 0, stream), hipSuccess);
    }
    assert_eq!(back, [3, 1, 4, 0]);
    destroy(stream);
    assert_eq!(empty.now(), poison(16));
}

#[test]
fn fills_repeat_their_pattern_inside_of_an_allocation() {
    let _session = session();
    let buffer = Buffer::new(20);
    // SAFETY: plain calls.
    unsafe {
        assert_eq!(hipMemsetD32(buffer.pointer(), 0x0403_0201, 3), hipSuccess);
        assert_eq!(hipMemsetD16(buffer.at(12), 0x0605, 2), hipSuccess);
        assert_eq!(hipMemsetD8(buffer.at(16), 7, 4), hipSuccess);
        assert_eq!(buffer.bytes(), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 5, 6, 7, 7, 7, 7]);
        assert_eq!(hipMemset(buffer.at(18), 0x1_02, 2), hipSuccess);
        assert_eq!(buffer.bytes()[16..], [7, 7, 2, 2]);
        for count in [6, usize::MAX / 4 + 1, usize::MAX / 4 + 2, usize::MAX] {
            assert_eq!(hipMemsetD32(buffer.pointer(), 0, count), INVALID_VALUE, "{count}");
        }
        assert_eq!(hipMemsetD16(buffer.pointer(), 0, 1 << 63), INVALID_VALUE);
        assert_eq!(hipMemset(buffer.pointer(), 0, 21), INVALID_VALUE);
        assert_eq!(hipMemset(buffer.at(20), 0, 1), INVALID_VALUE);
    }
}

#[test]
fn memory_counts_against_its_device_until_it_is_freed() {
    let session = session();
    // SAFETY: valid pointers.
    let free = || written(|free| unsafe { hipMemGetInfo(free, &mut 0) }).unwrap();
    let before = free();
    // SAFETY: valid pointers, or such as are refused.
    unsafe {
        let pointer = written(|pointer| hipMalloc(pointer, 4096)).unwrap();
        assert_eq!((pointer as usize % 256, free()), (0, before - 4096));
        session.on(1);
        assert_eq!(free(), before, "another device's");
        session.on(0);
        assert_eq!(hipFree(pointer.wrapping_byte_add(256)), INVALID_VALUE);
        assert_eq!((hipFree(pointer), free()), (hipSuccess, before));
        assert_eq!(hipFree(pointer), INVALID_VALUE);
        assert_eq!(hipFree(ptr::null_mut()), hipSuccess);
        assert_eq!(written(|pointer| hipMalloc(pointer, 0)), Ok(ptr::null_mut()));
        assert_eq!(hipMalloc(ptr::null_mut(), 4096), INVALID_VALUE);
        for size in [before + 1, usize::MAX, usize::MAX - 255] {
            assert_eq!(written(|pointer| hipMalloc(pointer, size)), Err(OUT_OF_MEMORY));
        }
        assert_eq!(free(), before);
    }
}

#[test]
fn rows_lie_a_pitch_apart() {
    let _session = session();
    // SAFETY: memory of the sizes given.
    unsafe {
        let mut pitch = 0;
        let pointer = written(|pointer| hipMallocPitch(pointer, &raw mut pitch, 257, 3)).unwrap();
        let rows = Buffer { address: pointer as usize, size: 3 * 512 };
        assert_eq!(pitch, 512);
        assert_eq!(hipMemset2D(pointer, 512, 5, 257, 3), hipSuccess);
        assert_eq!(hipMemcpy2D(rows.at(1), 512, NUMBERS.as_ptr().cast(), 8, 8, 2, hipMemcpyHostToDevice), hipSuccess);
        let mut expected = poison(3 * 512);
        for (row, numbers) in [Some(&NUMBERS[..2]), Some(&NUMBERS[2..]), None].into_iter().enumerate() {
            expected[row * 512..row * 512 + 257].fill(5);
            for (place, number) in numbers.into_iter().flatten().enumerate() {
                expected[row * 512 + 1 + 4 * place..][..4].copy_from_slice(&number.to_ne_bytes());
            }
        }
        assert_eq!(rows.now(), expected);
        let mut back = [0u8; 8];
        let code = hipMemcpy2D(back.as_mut_ptr().cast(), 4, rows.at(5), 512, 3, 2, hipMemcpyDeviceToHost);
        assert_eq!((code, back), (hipSuccess, [1, 0, 0, 0, 1, 0, 0, 0]));
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let _session = session();
    let rows = Buffer::of(&[1u8; 64]);
    let mut host = [0u8; 64];
    let host = host.as_mut_ptr().cast::<c_void>();
    let copy = |to_pitch, from_pitch, width, height| {
        // SAFETY: within 64 bytes, or refused.
        unsafe { hipMemcpy2D(host, to_pitch, rows.pointer(), from_pitch, width, height, hipMemcpyDeviceToHost) }
    };
    // SAFETY: as above.
    let fill = |pitch, width, height| unsafe { hipMemset2D(rows.pointer(), pitch, 2, width, height) };
    assert_eq!([copy(8, 8, 8, 8), copy(16, 8, 8, 2), fill(8, 8, 8)], [hipSuccess; 3]);
    assert_eq!([copy(7, 8, 8, 2), copy(8, 7, 8, 2), fill(7, 8, 2)], [12; 3]);
    assert_eq!([copy(8, 8, 8, 9), copy(8, 32, 1, 3), fill(8, 8, 9)], [INVALID_VALUE; 3]);
    assert_eq!(
        [copy(8, 8, 0, 100), copy(0, 0, 0, 1), fill(0, 0, 100), fill(8, 8, 0), copy(8, 8, 8, 0)],
        [hipSuccess; 5]
    );
    for height in [usize::MAX, usize::MAX / 8 + 2, usize::MAX / 256 + 1] {
        assert_eq!([copy(256, 8, 8, height), copy(8, 256, 8, height), fill(256, 8, height)], [INVALID_VALUE; 3]);
    }
    // SAFETY: valid pointers, or such as are refused.
    unsafe {
        let (mut pitch, mut pointer) = (0, ptr::null_mut());
        for (width, height) in
            [(usize::MAX, 1), (usize::MAX - 254, 1), (1 << 40, 1 << 24), (256, 1 << 56), (1, 1 << 57)]
        {
            let code = hipMallocPitch(&raw mut pointer, &raw mut pitch, width, height);
            assert_eq!(code, OUT_OF_MEMORY, "{width} x {height}");
        }
        assert_eq!(hipMallocPitch(ptr::null_mut(), &raw mut pitch, 8, 8), INVALID_VALUE);
        assert_eq!(hipMallocPitch(&raw mut pointer, ptr::null_mut(), 8, 8), INVALID_VALUE);
        assert_eq!(pointer, ptr::null_mut());
    }
}

#[test]
fn pinned_memory_has_flags_until_it_is_freed() {
    let _session = session();
    // SAFETY: valid pointers.
    let flags_of = |pointer| written(|flags| unsafe { hipHostGetFlags(flags, pointer) });
    // SAFETY: valid pointers, or such as are refused.
    unsafe {
        for flags in [0, 1, 2, 4, 1 << 28, 1 << 29, 1 << 30, 1 << 31, 3] {
            let pointer = written(|pointer| hipHostMalloc(pointer, 64, flags)).unwrap();
            assert_eq!(flags_of(pointer.wrapping_byte_add(63)), Ok(flags));
            assert_eq!(hipHostFree(pointer.wrapping_byte_add(8)), INVALID_VALUE);
            assert_eq!(hipFree(pointer), INVALID_VALUE);
            assert_eq!((hipHostFree(pointer), flags_of(pointer)), (hipSuccess, Err(INVALID_VALUE)));
        }
        for flags in [8, 16, 1 << 27] {
            assert_eq!(written(|pointer| hipHostMalloc(pointer, 64, flags)), Err(INVALID_VALUE));
        }
        assert_eq!(hipHostMalloc(ptr::null_mut(), 64, 0), INVALID_VALUE);
        let device = Buffer::new(16);
        assert_eq!(hipHostFree(device.pointer()), INVALID_VALUE);
        assert_eq!(flags_of(device.pointer()), Err(INVALID_VALUE));
        assert_eq!(hipHostFree(ptr::null_mut()), hipSuccess);
        assert_eq!(written(|pointer| hipHostMalloc(pointer, 0, 1)), Ok(ptr::null_mut()));
        assert_eq!(flags_of(ptr::null_mut()), Err(INVALID_VALUE));
    }
}

#[test]
fn registered_memory_does_not_overlap() {
    let _session = session();
    let host = [0u8; 96];
    let (middle, high) = (32, 64);
    // SAFETY: the array lives on; what is refused is not used.
    unsafe {
        for flags in [0, 1, 2, 4, 8, 15] {
            assert_eq!(hipHostRegister(at_of(&host, middle), 32, flags), hipSuccess);
            assert_eq!(written(|found| hipHostGetFlags(found, at_of(&host, 63))), Ok(flags));
            assert_eq!(hipHostUnregister(at_of(&host, middle)), hipSuccess);
        }
        assert_eq!(hipHostRegister(at_of(&host, middle), 32, 16), INVALID_VALUE);
        assert_eq!(hipHostRegister(at_of(&host, middle), 0, 0), INVALID_VALUE);
        assert_eq!(hipHostRegister(at_of(&host, middle), usize::MAX, 0), INVALID_VALUE);
        assert_eq!(hipHostRegister(ptr::null_mut(), 32, 0), INVALID_VALUE);
        assert_eq!(hipHostRegister(at_of(&host, middle), 32, 0), hipSuccess);
        for (start, size) in [(32, 1), (63, 1), (31, 2), (0, 96), (63, 33)] {
            assert_eq!(hipHostRegister(at_of(&host, start), size, 0), 712, "{start} {size}");
        }
        assert_eq!(hipHostRegister(at_of(&host, 0), 32, 0), hipSuccess);
        assert_eq!(hipHostRegister(at_of(&host, high), 32, 0), hipSuccess);
        let found = written(|pointer| hipHostGetDevicePointer(pointer, at_of(&host, 5), 0));
        assert_eq!(found, Ok(at_of(&host, 5)));
        assert_eq!(hipHostUnregister(at_of(&host, 1)), 713);
        assert_eq!(hipHostUnregister(ptr::null_mut()), INVALID_VALUE);
        for start in [0, middle, high] {
            assert_eq!(hipHostUnregister(at_of(&host, start)), hipSuccess);
        }
        let missing = written(|pointer| hipHostGetDevicePointer(pointer, at_of(&host, 5), 0));
        assert_eq!(missing, Err(INVALID_VALUE));
        let device = Buffer::new(64);
        assert_eq!(hipHostRegister(device.pointer(), 64, 0), 712);
    }
}

fn at_of(host: &[u8], offset: usize) -> *mut c_void {
    host.as_ptr().wrapping_add(offset).cast_mut().cast()
}

/// What uses pinned memory may be on any device's streams, and is done before the memory goes.
#[test]
fn pinned_memory_is_freed_when_no_device_uses_it() {
    let session = session();
    session.on(1);
    let (stream, target, registered) = (stream(), Buffer::new(16), [7u8; 16]);
    session.on(0);
    // SAFETY: 16 bytes each.
    unsafe {
        let pinned = written(|pointer| hipHostMalloc(pointer, 16, 0)).unwrap();
        pinned.cast::<u8>().write_bytes(6, 16);
        assert_eq!(hipMemcpyHtoDAsync(target.pointer(), pinned, 16, stream), hipSuccess);
        assert_eq!(hipHostFree(pinned), hipSuccess);
        assert_eq!(target.now(), [6; 16]);
        assert_eq!(hipHostRegister(at_of(&registered, 0), 16, 0), hipSuccess);
        assert_eq!(hipMemcpyHtoDAsync(target.pointer(), at_of(&registered, 0), 16, stream), hipSuccess);
        assert_eq!(hipHostUnregister(at_of(&registered, 0)), hipSuccess);
        assert_eq!(target.now(), [7; 16]);
    }
    session.on(1);
    destroy(stream);
}

#[test]
fn kinds_of_device_memory_are_known() {
    let _session = session();
    // SAFETY: valid pointers.
    let kind = |size, flags| written(|pointer| unsafe { hipExtMallocWithFlags(pointer, size, flags) });
    for (size, flags) in [(64, 0), (64, 1), (8, 2), (64, 3), (64, 4)] {
        let pointer = kind(size, flags).unwrap();
        // SAFETY: it was allocated.
        assert_eq!(unsafe { hipFree(pointer) }, hipSuccess);
    }
    for (size, flags) in [(64, 2), (4, 2), (64, 5), (64, 8)] {
        assert_eq!(kind(size, flags), Err(INVALID_VALUE));
    }
    // SAFETY: a pointer that is refused.
    assert_eq!(unsafe { hipExtMallocWithFlags(ptr::null_mut(), 8, 0) }, INVALID_VALUE);
}

#[test]
fn an_address_says_where_it_is() {
    let session = session();
    session.on(1);
    let (device, host) = (Buffer::new(40), [0u8; 4]);
    // SAFETY: valid pointers.
    let attributes = |pointer| written(|to| unsafe { hipPointerGetAttributes(to, pointer) }).unwrap();
    let described = |pointer| {
        let found = attributes(pointer);
        (found.r#type, found.device, found.devicePointer, found.hostPointer, found.allocationFlags)
    };
    // SAFETY: valid pointers.
    unsafe {
        let pinned = written(|pointer| hipHostMalloc(pointer, 64, 4)).unwrap();
        let inside = pinned.wrapping_byte_add(9);
        assert_eq!(described(device.at(39)), (hipMemoryTypeDevice, 1, device.at(39), ptr::null_mut(), 0));
        assert_eq!(described(inside), (hipMemoryTypeHost, 0, inside, inside, 4));
        let none = (hipMemoryTypeUnregistered, -2, ptr::null_mut(), ptr::null_mut(), 0);
        assert_eq!([described(device.at(40)), described(at_of(&host, 0))], [none, none]);
        let range = |pointer| written(|start| hipMemGetAddressRange(start, ptr::null_mut(), pointer));
        assert_eq!([range(inside), range(device.at(39))], [Ok(pinned), Ok(device.pointer())]);
        assert_eq!([range(device.at(40)), range(at_of(&host, 0))], [Err(NOT_FOUND); 2]);
        let number = |pointer| {
            written(|to: *mut u64| hipPointerGetAttribute(to.cast(), HIP_POINTER_ATTRIBUTE_BUFFER_ID, pointer))
        };
        assert!(number(inside).unwrap() > number(device.pointer()).unwrap());
        let kind = |pointer| {
            written(|to: *mut c_uint| hipPointerGetAttribute(to.cast(), HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer))
        };
        assert_eq!([kind(inside), kind(device.pointer())], [Ok(hipMemoryTypeHost), Ok(hipMemoryTypeDevice)]);
        assert_eq!(hipHostFree(pinned), hipSuccess);
    }
}
