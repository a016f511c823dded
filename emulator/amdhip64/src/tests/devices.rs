//! What devices say about themselves, and what is set on them.

use std::ffi::{CStr, c_char};

use super::*;
use crate::device::*;
use crate::device_state::*;
use crate::error::{hipGetLastError, hipPeekAtLastError};
use crate::identity::*;
use crate::properties::*;

fn attribute(which: hipDeviceAttribute_t, device: c_int) -> Result<c_int, hipError_t> {
    // SAFETY: a valid pointer.
    written(|value| unsafe { hipDeviceGetAttribute(value, which, device) })
}

fn text(field: &[c_char]) -> &str {
    // SAFETY: the field ends with a zero.
    unsafe { CStr::from_ptr(field.as_ptr()) }.to_str().expect("ASCII")
}

/// The figures of AMD's data sheets, for a card with waves of 32 lanes and one of 64.
#[test]
fn attributes_are_the_figures_of_the_cards() {
    let _session = session();
    let figures = [
        (hipDeviceAttributeWarpSize, [32, 64]),
        (hipDeviceAttributeMultiprocessorCount, [48, 104]),
        (hipDeviceAttributePhysicalMultiProcessorCount, [48, 104]),
        (hipDeviceAttributeClockRate, [2_482_000, 1_700_000]),
        (hipDeviceAttributeClockInstructionRate, [2_482_000, 1_700_000]),
        (hipDeviceAttributeMemoryClockRate, [1_249_000, 1_600_000]),
        (hipDeviceAttributeMemoryBusWidth, [384, 4096]),
        (hipDeviceAttributeL2CacheSize, [6_291_456, 8_388_608]),
        (hipDeviceAttributeComputeCapabilityMajor, [11, 9]),
        (hipDeviceAttributeComputeCapabilityMinor, [0, 0]),
        (hipDeviceAttributePciBusId, [1, 2]),
        (hipDeviceAttributePciDeviceId, [0, 0]),
        (hipDeviceAttributePciDomainId, [0, 0]),
        (hipDeviceAttributeMaxThreadsPerBlock, [1024; 2]),
        (hipDeviceAttributeMaxBlockDimX, [1024; 2]),
        (hipDeviceAttributeMaxBlockDimY, [1024; 2]),
        (hipDeviceAttributeMaxBlockDimZ, [1024; 2]),
        (hipDeviceAttributeMaxGridDimX, [i32::MAX; 2]),
        (hipDeviceAttributeMaxGridDimY, [65536; 2]),
        (hipDeviceAttributeMaxGridDimZ, [65536; 2]),
        (hipDeviceAttributeMaxSharedMemoryPerBlock, [65536; 2]),
        (hipDeviceAttributeSharedMemPerMultiprocessor, [65536; 2]),
        (hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, [65536; 2]),
        (hipDeviceAttributeMaxRegistersPerBlock, [65536; 2]),
        (hipDeviceAttributeMaxRegistersPerMultiprocessor, [65536; 2]),
        (hipDeviceAttributeMaxThreadsPerMultiProcessor, [2048; 2]),
        (hipDeviceAttributeMaxBlocksPerMultiProcessor, [2; 2]),
        (hipDeviceAttributeTotalConstantMemory, [i32::MAX; 2]),
        (hipDeviceAttributeTotalGlobalMem, [i32::MAX; 2]),
        (hipDeviceAttributeMaxPitch, [i32::MAX; 2]),
        (hipDeviceAttributeConcurrentKernels, [1; 2]),
        (hipDeviceAttributeCanMapHostMemory, [1; 2]),
        (hipDeviceAttributeUnifiedAddressing, [1; 2]),
        (hipDeviceAttributeHostRegisterSupported, [1; 2]),
        (hipDeviceAttributeMemoryPoolsSupported, [1; 2]),
        (hipDeviceAttributeAsyncEngineCount, [2; 2]),
        (hipDeviceAttributeIsLargeBar, [1; 2]),
    ];
    for (which, expected) in figures {
        assert_eq!([0, 1].map(|device| attribute(which, device)), expected.map(Ok), "attribute {which}");
    }
    let others = (0..hipDeviceAttributeHostNumaId).filter(|which| figures.iter().all(|(known, _)| known != which));
    assert!(others.map(|which| attribute(which, 0)).all(|value| value == Ok(0)));
    assert_eq!(attribute(hipDeviceAttributeHostNumaId, 0), Err(INVALID_VALUE));
    assert_eq!(attribute(hipDeviceAttributeWarpSize, 2), Err(INVALID_DEVICE));
}

#[test]
fn properties_agree_with_attributes() {
    let _session = session();
    for (device, name, architecture) in [
        (0, "AMD Radeon RX 7900 XTX (emulated)", "gfx1100"),
        (1, "AMD Instinct MI210 (emulated)", "gfx90a:sramecc+:xnack-"),
    ] {
        // SAFETY: a valid pointer.
        let found = written(|to| unsafe { hipGetDevicePropertiesR0600(to, device) }).unwrap();
        assert_eq!((text(&found.name), text(&found.gcnArchName)), (name, architecture));
        assert_eq!(found.totalGlobalMem, 16 << 30);
        assert_eq!(attribute(hipDeviceAttributeWarpSize, device), Ok(found.warpSize));
        assert_eq!(found.maxThreadsDim, [1024; 3]);
        assert_eq!(found.maxGridSize, [i32::MAX, 65536, 65536]);
        let features = [
            hipDeviceArch_t::hasGlobalInt32Atomics,
            hipDeviceArch_t::hasSharedInt32Atomics,
            hipDeviceArch_t::hasFloatAtomicAdd,
            hipDeviceArch_t::hasGlobalInt64Atomics,
            hipDeviceArch_t::hasSharedInt64Atomics,
            hipDeviceArch_t::hasDoubles,
        ];
        assert!(features.iter().all(|feature| found.arch.bits & feature != 0));
        assert_eq!(found.arch.bits.count_ones(), 6);
    }
    // SAFETY: a valid pointer.
    let wrong = written::<hipDeviceProp_tR0600>(|to| unsafe { hipGetDevicePropertiesR0600(to, -1) });
    assert_eq!(wrong.err(), Some(INVALID_DEVICE));
}

#[test]
fn devices_are_counted_and_chosen() {
    let session = session();
    // SAFETY: valid pointers.
    unsafe {
        assert_eq!(written(|count| hipGetDeviceCount(count)), Ok(2));
        for device in [1, 0] {
            session.on(device);
            assert_eq!(written(|current| hipGetDevice(current)), Ok(device));
        }
        for none in [2, 3, -1, c_int::MIN] {
            assert_eq!(hipSetDevice(none), INVALID_DEVICE);
            assert_eq!(written(|handle| hipDeviceGet(handle, none)), Err(INVALID_DEVICE));
        }
        assert_eq!(written(|current| hipGetDevice(current)), Ok(0));
        assert_eq!(written(|version| hipRuntimeGetVersion(version)), Ok(70_200_000));
        assert_eq!(written(|version| hipDriverGetVersion(version)), Ok(70_200_000));
        assert_eq!((hipInit(0), hipInit(1)), (hipSuccess, INVALID_VALUE));
        assert_eq!(hipGetDeviceCount(ptr::null_mut()), INVALID_VALUE);
    }
}

#[test]
fn the_last_error_stays_until_it_is_taken() {
    let _session = session();
    hipGetLastError();
    // SAFETY: plain calls.
    unsafe {
        assert_eq!(hipSetDevice(9), INVALID_DEVICE);
        assert_eq!(hipSetDevice(0), hipSuccess);
    }
    assert_eq!([hipPeekAtLastError(), hipGetLastError(), hipGetLastError()], [INVALID_DEVICE, INVALID_DEVICE, 0]);
}

#[test]
fn limits_and_flags_are_those_of_a_device() {
    let session = session();
    // SAFETY: valid pointers.
    let limit = |which| written(|value| unsafe { hipDeviceGetLimit(value, which) });
    // SAFETY: valid pointers.
    let flags = || written(|flags| unsafe { hipGetDeviceFlags(flags) });
    let at_first = [hipLimitStackSize, hipLimitPrintfFifoSize, hipLimitMallocHeapSize];
    assert_eq!(at_first.map(limit), [1024, 1_048_576, 8_388_608].map(Ok));
    assert_eq!((limit(3), flags()), (Err(215), Ok(hipDeviceScheduleAuto)));
    // SAFETY: plain calls.
    unsafe {
        assert_eq!(hipDeviceSetLimit(hipLimitStackSize, 4096), hipSuccess);
        assert_eq!(hipDeviceSetLimit(7, 4096), 215);
        for known in [1, 2, 4, 8, 16, 8 | 16 | 4] {
            assert_eq!((hipSetDeviceFlags(known), flags()), (hipSuccess, Ok(known)));
        }
        for unknown in [3, 5, 6, 32, 1 << 31] {
            assert_eq!(hipSetDeviceFlags(unknown), INVALID_VALUE);
        }
        assert_eq!((limit(hipLimitStackSize), flags()), (Ok(4096), Ok(28)));
        session.on(1);
        assert_eq!((limit(hipLimitStackSize), flags()), (Ok(1024), Ok(0)));
        assert_eq!(hipSetDeviceFlags(1), hipSuccess);
        session.on(0);
        assert_eq!(hipDeviceReset(), hipSuccess);
        assert_eq!((limit(hipLimitStackSize), flags()), (Ok(1024), Ok(0)));
        session.on(1);
        assert_eq!((flags(), hipDeviceReset(), flags()), (Ok(1), hipSuccess, Ok(0)));
    }
}

#[test]
fn a_device_is_found_by_its_place_on_the_bus() {
    let _session = session();
    let mut place = [1; 16];
    // SAFETY: buffers of the lengths given.
    unsafe {
        assert_eq!(hipDeviceGetPCIBusId(place.as_mut_ptr(), 16, 1), hipSuccess);
        assert_eq!(text(&place), "0000:02:00.0");
        assert_eq!(written(|device| hipDeviceGetByPCIBusId(device, place.as_ptr())), Ok(1));
        assert_eq!(written(|device| hipDeviceGetByPCIBusId(device, c"0000:03:00.0".as_ptr())), Err(INVALID_DEVICE));
        assert_eq!(hipDeviceGetPCIBusId(place.as_mut_ptr(), 5, 0), hipSuccess);
        assert_eq!((text(&place), place[5]), ("0000", b'0' as c_char), "cut off, and nothing written behind");
        assert_eq!(hipDeviceGetPCIBusId(place.as_mut_ptr(), 1, 0), hipSuccess);
        assert_eq!(text(&place), "");
        assert_eq!(hipDeviceGetPCIBusId(place.as_mut_ptr(), 0, 0), INVALID_VALUE);
        assert_eq!(hipDeviceGetPCIBusId(place.as_mut_ptr(), -1, 0), INVALID_VALUE);
    }
}
