//! Memory in the order of streams, out of pools.

use candle_rocm_emulator_runtime::memory::Place;

use super::*;
use crate::host_memory::{hipHostFree, hipHostMalloc};
use crate::memory::hipMemGetInfo;
use crate::pool::*;
use crate::stream::hipStreamSynchronize;

fn pool_of(device: c_int, limit: usize) -> Result<hipMemPool_t, hipError_t> {
    // SAFETY: all fields are valid as zeros.
    let mut properties: hipMemPoolProps = unsafe { std::mem::zeroed() };
    properties.allocType = hipMemAllocationTypePinned;
    properties.location = hipMemLocation { r#type: hipMemLocationTypeDevice, id: device };
    properties.maxSize = limit;
    // SAFETY: valid pointers.
    written(|pool| unsafe { hipMemPoolCreate(pool, &raw const properties) })
}

fn take(pool: hipMemPool_t, size: usize) -> Result<*mut c_void, hipError_t> {
    // SAFETY: a valid pointer.
    written(|pointer| unsafe { hipMallocFromPoolAsync(pointer, size, pool, ptr::null_mut()) })
}

fn attribute(pool: hipMemPool_t, which: hipMemPoolAttr) -> Result<u64, hipError_t> {
    let mut value = 0u64;
    // SAFETY: room for the widest attribute.
    match unsafe { hipMemPoolGetAttribute(pool, which, (&raw mut value).cast()) } {
        0 => Ok(value),
        code => Err(code),
    }
}

fn set(pool: hipMemPool_t, which: hipMemPoolAttr, value: u64) -> hipError_t {
    // SAFETY: a number as wide as the widest attribute; this machine's are stored with the low half first.
    unsafe { hipMemPoolSetAttribute(pool, which, (&raw const value).cast_mut().cast()) }
}

#[test]
fn a_pool_holds_no_more_than_its_limit() {
    let _session = session();
    let pool = pool_of(0, 1000).unwrap();
    let (first, second) = (take(pool, 600).unwrap(), take(pool, 400).unwrap());
    assert_eq!([take(pool, 1), take(pool, usize::MAX)], [Err(OUT_OF_MEMORY); 2]);
    let (used, high) = (hipMemPoolAttrUsedMemCurrent, hipMemPoolAttrUsedMemHigh);
    assert_eq!((attribute(pool, used), attribute(pool, high)), (Ok(1000), Ok(1000)));
    // SAFETY: what was allocated.
    unsafe {
        assert_eq!(hipFreeAsync(first, ptr::null_mut()), hipSuccess);
        assert_eq!(attribute(pool, used), Ok(1000), "the stream has not got there");
        assert_eq!(hipStreamSynchronize(ptr::null_mut()), hipSuccess);
        assert_eq!([used, hipMemPoolAttrReservedMemCurrent].map(|which| attribute(pool, which)), [Ok(400); 2]);
        assert_eq!([high, hipMemPoolAttrReservedMemHigh].map(|which| attribute(pool, which)), [Ok(1000); 2]);
        assert_eq!((set(pool, high, 7), set(pool, high, 0), attribute(pool, high)), (INVALID_VALUE, 0, Ok(400)));
        let third = take(pool, 100).unwrap();
        assert_eq!((attribute(pool, used), attribute(pool, high)), (Ok(500), Ok(500)));
        assert_eq!((hipFree(third), attribute(pool, used), hipFree(second)), (0, Ok(400), 0));
        assert_eq!(attribute(pool, used), Ok(0));
        let all = take(pool, 1000).unwrap();
        assert_eq!(hipFree(all), hipSuccess);
        let unlimited = pool_of(1, 0).unwrap();
        let more = take(unlimited, 1 << 20).unwrap();
        assert_eq!((hipFree(more), hipMemPoolDestroy(unlimited), hipMemPoolDestroy(pool)), (0, 0, 0));
    }
}

#[test]
fn attributes_on_reuse_are_set_and_read() {
    let _session = session();
    let pool = pool_of(1, 0).unwrap();
    for which in 1..=3 {
        assert_eq!((attribute(pool, which), set(pool, which, 0), attribute(pool, which)), (Ok(1), 0, Ok(0)));
    }
    let threshold = hipMemPoolAttrReleaseThreshold;
    assert_eq!(attribute(pool, threshold), Ok(0));
    assert_eq!((set(pool, threshold, 5 << 32), attribute(pool, threshold)), (0, Ok(5 << 32)));
    assert_eq!([set(pool, 5, 0), set(pool, 7, 0), set(pool, 9, 0)], [INVALID_VALUE; 3]);
    assert_eq!(attribute(pool, 9), Err(INVALID_VALUE));
    // SAFETY: plain calls.
    unsafe {
        assert_eq!((hipMemPoolTrimTo(pool, 0), hipMemPoolDestroy(pool)), (hipSuccess, hipSuccess));
        assert_eq!((hipMemPoolTrimTo(pool, 0), hipMemPoolDestroy(pool)), (INVALID_VALUE, INVALID_VALUE));
        assert_eq!(attribute(pool, threshold), Err(INVALID_VALUE));
    }
}

#[test]
fn each_device_has_a_default_pool_and_may_use_another_of_its_own() {
    let _session = session();
    // SAFETY: valid pointers, or such as are refused.
    unsafe {
        let default = [0, 1].map(|device| written(|pool| hipDeviceGetDefaultMemPool(pool, device)).unwrap());
        let current = |device| written(|pool| hipDeviceGetMemPool(pool, device));
        assert_ne!(default[0], default[1]);
        assert_eq!([current(0), current(1)], default.map(Ok));
        let own = pool_of(1, 0).unwrap();
        assert!(!default.contains(&own));
        assert_eq!(hipDeviceSetMemPool(0, own), INVALID_DEVICE);
        assert_eq!(hipDeviceSetMemPool(1, default[0]), INVALID_DEVICE);
        assert_eq!((hipDeviceSetMemPool(1, own), current(1), current(0)), (hipSuccess, Ok(own), Ok(default[0])));
        for wrong in
            [own.wrapping_byte_add(1), own.wrapping_byte_add(2), default[1].wrapping_byte_add(2), ptr::null_mut()]
        {
            assert_eq!((take(wrong, 8), hipMemPoolDestroy(wrong)), (Err(INVALID_VALUE), INVALID_VALUE), "{wrong:?}");
        }
        assert_eq!(take(default[1].wrapping_byte_add(1), 8), Err(INVALID_VALUE));
        assert_eq!(hipMemPoolDestroy(default[1]), INVALID_VALUE);
        assert_eq!((hipMemPoolDestroy(own), current(1)), (hipSuccess, Ok(default[1])));
        assert_eq!([pool_of(2, 0), pool_of(-1, 0)], [Err(INVALID_VALUE); 2]);
        let memory = take(default[1], 24).unwrap();
        let place = machine::lock().memory.find(memory as usize).map(|allocation| allocation.place);
        assert_eq!(place, Some(Place::Device(1)));
        assert_eq!(attribute(default[1], hipMemPoolAttrUsedMemCurrent), Ok(24));
        assert_eq!(hipFree(memory), hipSuccess);
    }
}

#[test]
fn memory_is_freed_once_and_by_its_first_address() {
    let _session = session();
    // SAFETY: valid pointers.
    let free = || written(|free| unsafe { hipMemGetInfo(free, &mut 0) }).unwrap();
    let before = free();
    // SAFETY: valid pointers.
    let pinned = written(|pointer| unsafe { hipHostMalloc(pointer, 8, 0) }).unwrap();
    // SAFETY: valid pointers, or such as are refused.
    unsafe {
        let pointer = written(|pointer| hipMallocAsync(pointer, 512, ptr::null_mut())).unwrap();
        for wrong in [pointer.wrapping_byte_add(1), pinned, ptr::null_mut(), pointer.wrapping_byte_add(512)] {
            assert_eq!(hipFreeAsync(wrong, ptr::null_mut()), INVALID_VALUE);
        }
        assert_eq!(hipFreeAsync(pointer, pointer.cast()), INVALID_HANDLE);
        assert_eq!(hipFreeAsync(pointer, ptr::null_mut()), hipSuccess);
        assert_eq!((hipFreeAsync(pointer, ptr::null_mut()), free()), (INVALID_VALUE, before - 512));
        assert_eq!((hipStreamSynchronize(ptr::null_mut()), free()), (hipSuccess, before));
        assert_eq!(hipMallocAsync(ptr::null_mut(), 512, ptr::null_mut()), INVALID_VALUE);
        assert_eq!(written(|pointer| hipMallocAsync(pointer, 512, 12 as hipStream_t)), Err(INVALID_HANDLE));
        assert_eq!(free(), before);
        assert_eq!(hipHostFree(pinned), hipSuccess);
    }
}
