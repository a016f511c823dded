//! A test that reads device memory as if it were the host's.

use std::ffi::{c_int, c_void};

#[link(name = "amdhip64")]
unsafe extern "C" {
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> c_int;
    fn hipMemset(pointer: *mut c_void, value: c_int, size: usize) -> c_int;
    fn hipDeviceSynchronize() -> c_int;
}

#[test]
fn reads_directly() {
    let mut memory = std::ptr::null_mut();
    // SAFETY: that the last line is none is what the test is about.
    unsafe {
        assert_eq!(hipMalloc(&raw mut memory, 64), 0);
        assert_eq!(hipMemset(memory, 7, 64), 0);
        assert_eq!(hipDeviceSynchronize(), 0);
        assert_eq!(memory.cast::<u8>().add(40).read(), 7);
    }
}
