//! A plain Rust program against libamdhip64's C interface: loads a HIP source as a module and runs a kernel of it.

use std::env::args;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

#[link(name = "amdhip64")]
unsafe extern "C" {
    fn hipMalloc(pointer: *mut *mut c_void, size: usize) -> c_uint;
    fn hipFree(pointer: *mut c_void) -> c_uint;
    fn hipMemcpy(to: *mut c_void, from: *const c_void, size: usize, kind: c_uint) -> c_uint;
    fn hipModuleLoad(module: *mut *mut c_void, path: *const c_char) -> c_uint;
    fn hipModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char) -> c_uint;
    fn hipModuleLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_uint;
    fn hipGetDeviceCount(count: *mut c_int) -> c_uint;
}

const DEVICE_TO_HOST: c_uint = 2;
const BLOCKS: u32 = 5;
const THREADS: u32 = 96;

fn main() {
    let path = CString::new(args().nth(1).expect("the path of a HIP source")).unwrap();
    let mut values = vec![0u32; (BLOCKS * THREADS) as usize];
    let bytes = size_of_val(values.as_slice());
    let (mut count, mut module, mut function, mut memory) = (0, null_mut(), null_mut(), null_mut());
    // SAFETY: the functions get what HIP's reference asks for.
    unsafe {
        assert_eq!(hipGetDeviceCount(&mut count), 0);
        assert_eq!(hipModuleLoad(&mut module, path.as_ptr()), 0);
        assert_eq!(hipModuleGetFunction(&mut function, module, c"number".as_ptr()), 0);
        assert_eq!(hipMalloc(&mut memory, bytes), 0);
        let mut params = [(&raw mut memory).cast::<c_void>()];
        let launched = hipModuleLaunchKernel(
            function, BLOCKS, 1, 1, THREADS, 1, 1, 0, null_mut(), params.as_mut_ptr(), null_mut(),
        );
        assert_eq!(launched, 0);
        assert_eq!(hipMemcpy(values.as_mut_ptr().cast(), memory, bytes, DEVICE_TO_HOST), 0);
        assert_eq!(hipFree(memory), 0);
    }
    assert!(values.iter().enumerate().all(|(index, value)| index as u32 == *value));
    println!("{} values, {count} device", values.len());
}
