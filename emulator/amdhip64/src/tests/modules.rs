//! Modules, their kernels and variables, launches, and how many blocks a multiprocessor holds.

use super::*;
use crate::function::*;
use crate::module::*;

const SOURCE: &str = r#"
extern "C" __device__ int counter = 5;
extern "C" __global__ void add(int* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void where(int* x, long width) {
  long i = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  long t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  x[i * width + t] += 1000 * (int)i + (int)t + 1;
}
extern "C" __global__ void __launch_bounds__(128) tile(int* x) {
  __shared__ int lds[4096];
  lds[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = lds[blockDim.x - 1 - threadIdx.x];
}
__device__ __attribute__((noinline)) int far(int i) {
  volatile __shared__ int deep[100];
  deep[i] = i;
  return deep[i] + 1;
}
__device__ __attribute__((noinline)) int near(int i) { return far(i) + 1; }
extern "C" __global__ void calls(int* x) { x[threadIdx.x] = near(threadIdx.x); }
extern "C" __global__ void both(int* x) {
  volatile __shared__ int own[7];
  own[threadIdx.x] = 5;
  x[threadIdx.x] = far(threadIdx.x) + own[threadIdx.x];
}
"#;

#[test]
fn a_module_is_unloaded_once_and_its_kernels_with_it() {
    let session = session();
    let (module, other) = (Module::new(&session, SOURCE, 0), Module::new(&session, SOURCE, 0));
    let (function, kept) = (module.function("add"), other.function("add"));
    let buffer = Buffer::of(&[0i32; 4]);
    assert_eq!(launch(function, [1; 3], [4, 1, 1], 0, ptr::null_mut(), &[buffer.address]), hipSuccess);
    // SAFETY: handles that are looked up.
    unsafe {
        assert_eq!(hipModuleUnload(module.0), hipSuccess);
        assert_eq!(buffer.ints(), [1; 4], "what was enqueued still runs");
        for none in [module.0, ptr::null_mut(), other.0.wrapping_byte_add(1), kept.cast()] {
            assert_eq!(hipModuleUnload(none), INVALID_HANDLE);
            assert_eq!(written(|found| hipModuleGetFunction(found, none, c"add".as_ptr())), Err(INVALID_HANDLE));
            let global = hipModuleGetGlobal(ptr::null_mut(), ptr::null_mut(), none, c"counter".as_ptr());
            assert_eq!(global, INVALID_HANDLE);
        }
        for none in [function, ptr::null_mut(), kept.wrapping_byte_add(1), other.0.cast()] {
            assert_eq!(launch(none, [1; 3], [4, 1, 1], 0, ptr::null_mut(), &[buffer.address]), INVALID_HANDLE);
            assert_eq!(written(|value| hipFuncGetAttribute(value, 0, none)), Err(98));
        }
        assert_eq!(hipModuleGetFunction(ptr::null_mut(), other.0, c"add".as_ptr()), INVALID_VALUE);
        assert_eq!(written(|found| hipModuleGetFunction(found, other.0, c"absent".as_ptr())), Err(NOT_FOUND));
        assert_eq!(written(|found| hipModuleGetFunction(found, other.0, ptr::null())), Err(INVALID_VALUE));
    }
    assert_eq!(launch(kept, [1; 3], [4, 1, 1], 0, ptr::null_mut(), &[buffer.address]), hipSuccess);
    assert_eq!(buffer.ints(), [2; 4]);
}

#[test]
fn only_code_for_the_device_is_loaded() {
    let session = session();
    let code = compiled(SOURCE, 1);
    // SAFETY: valid pointers.
    let load = |code: &[u8]| written(|module| unsafe { hipModuleLoadData(module, code.as_ptr().cast()) });
    assert_eq!(load(&code), Err(209), "no binary for this GPU");
    let mut other = [0u8; 64];
    assert_eq!(load(&other), Err(200));
    other[..24].copy_from_slice(b"__CLANG_OFFLOAD_BUNDLE__");
    assert_eq!(load(&other), Err(209));
    other[..4].copy_from_slice(b"CCOB");
    assert_eq!(load(&other), Err(209));
    other[..4].copy_from_slice(b"\x7fELF");
    other[18..20].copy_from_slice(&[224, 0]);
    assert_eq!(load(&other), Err(209), "code for a card");
    other[18..20].copy_from_slice(&[3, 0]);
    assert_eq!(load(&other), Err(200), "code for another processor");
    session.on(1);
    let module = load(&code).unwrap();
    // SAFETY: it was loaded.
    assert_eq!(unsafe { hipModuleUnload(module) }, hipSuccess);
    let edition = compile::edition().as_bytes();
    for name in [edition, b"candle_rocm_emulator_edition", b"candle_rocm_emulator_module"] {
        let mut other = code.clone();
        let places: Vec<_> = (0..code.len() - name.len()).filter(|at| code[*at..].starts_with(name)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| other[at + name.len() - 1] ^= 1);
        assert_eq!(load(&other), Err(200), "code that something else made");
    }
    // SAFETY: a pointer that is refused.
    assert_eq!(written(|module| unsafe { hipModuleLoadData(module, ptr::null()) }), Err(INVALID_VALUE));
}

#[test]
fn a_file_holds_code_or_a_source_with_headers_beside_it() {
    let session = session();
    let folder = std::env::temp_dir().join(format!("candle-rocm-emulator-modules-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, content).unwrap();
        CString::new(path.to_str().unwrap()).unwrap()
    };
    // SAFETY: valid pointers.
    let load = |path: &CString| written(|module| unsafe { hipModuleLoad(module, path.as_ptr()) });
    write("plus.h", b"#define PLUS 3\n");
    let source = b"#include \"plus.h\"\nextern \"C\" __global__ void plus(int* x) { x[threadIdx.x] += PLUS; }";
    let files = [
        write("a.hip", source),
        write(
            "a.so",
            &compiled(&String::from_utf8_lossy(source).replace("#include \"plus.h\"\n", "#define PLUS 3\n"), 0),
        ),
    ];
    for path in &files {
        let module = Module(load(path).unwrap());
        let buffer = Buffer::of(&[1i32; 2]);
        assert_eq!(module.launch("plus", [1; 3], [2, 1, 1], &[buffer.address]), hipSuccess);
        assert_eq!(buffer.ints(), [4, 4]);
    }
    assert_eq!(load(&write("broken.hip", b"int f( {")), Err(300));
    assert_eq!(load(&write("bytes", &[0xff, 0xfe])), Err(200));
    assert_eq!(load(&CString::new(folder.join("absent").to_str().unwrap()).unwrap()), Err(301));
    // SAFETY: a pointer that is refused.
    assert_eq!(written(|module| unsafe { hipModuleLoad(module, ptr::null()) }), Err(INVALID_VALUE));
    std::fs::remove_dir_all(&folder).unwrap();
    session.on(0);
}

#[test]
fn every_thread_of_every_block_runs_once() {
    let session = session();
    for device in [0, 1] {
        let module = Module::new(&session, SOURCE, device);
        for (grid, block) in
            [([5, 3, 2], [4, 3, 7]), ([1, 1, 1], [65, 1, 1]), ([7, 1, 1], [1, 1, 64]), ([1, 9, 1], [32, 2, 1])]
        {
            let (blocks, threads) = (grid.iter().product::<u32>() as i32, block.iter().product::<u32>() as i32);
            let buffer = Buffer::of(&vec![0i32; (blocks * threads) as usize]);
            assert_eq!(module.launch("where", grid, block, &[buffer.address, threads as usize]), hipSuccess);
            let expected: Vec<_> = (0..blocks).flat_map(|i| (0..threads).map(move |t| 1000 * i + t + 1)).collect();
            assert_eq!(buffer.ints(), expected, "{grid:?} {block:?}");
        }
    }
}

#[test]
fn shapes_that_no_card_runs_are_refused() {
    let session = session();
    let module = Module::new(&session, SOURCE, 0);
    let buffer = Buffer::of(&[0i32; 1024]);
    let run = |name, grid, block, lds| {
        let code = launch(module.function(name), grid, block, lds, ptr::null_mut(), &[buffer.address]);
        (code, session.fault().0).0
    };
    for block in [[1024, 1, 1], [1, 1024, 1], [2, 2, 256]] {
        assert_eq!(run("add", [1; 3], block, 0), hipSuccess, "{block:?}");
    }
    for block in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1025, 1, 1], [513, 2, 1], [1 << 16, 1 << 16, 1]] {
        assert_eq!(run("add", [1; 3], block, 0), INVALID_VALUE, "{block:?}");
    }
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 65537, 1], [1, 1, 65537]] {
        assert_eq!(run("add", grid, [1024, 1, 1], 0), INVALID_VALUE, "{grid:?}");
    }
    for grid in [[1 << 31, 1, 1], [1 << 22, 1, 1]] {
        assert_eq!(run("add", grid, [1024, 1, 1], 0), 9, "{grid:?}");
    }
    assert_eq!(
        (run("tile", [1; 3], [128, 1, 1], 0), run("tile", [1; 3], [129, 1, 1], 0)),
        (hipSuccess, LAUNCH_FAILURE)
    );
    assert_eq!(
        (run("tile", [1; 3], [8, 1, 1], 49152), run("tile", [1; 3], [8, 1, 1], 49153)),
        (hipSuccess, INVALID_VALUE)
    );
    assert_eq!(
        (run("add", [1; 3], [8, 1, 1], 65536), run("add", [1; 3], [8, 1, 1], 65537)),
        (hipSuccess, INVALID_VALUE)
    );
}

/// What a multiprocessor of 2048 threads and 64 KiB of LDS holds.
#[test]
fn threads_and_lds_bound_the_blocks_of_a_multiprocessor() {
    let session = session();
    for (device, wave) in [(0, 32), (1, 64)] {
        let module = Module::new(&session, SOURCE, device);
        let (add, tile) = (module.function("add"), module.function("tile"));
        let held = |function, threads, lds| {
            // SAFETY: a valid pointer.
            let plain = written(|blocks| unsafe {
                hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, lds)
            });
            // SAFETY: valid pointers.
            let flagged = written(|blocks| unsafe {
                hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, lds, 1)
            });
            assert_eq!(plain, flagged);
            plain
        };
        assert_eq!(
            [1, wave, wave + 1, 1024].map(|threads| held(add, threads, 0)),
            [2048 / wave, 2048 / wave, 1024 / wave, 2].map(Ok)
        );
        assert_eq!([1, 40000, 65536, 65537].map(|lds| held(add, 1024, lds)), [Ok(2), Ok(1), Ok(1), Ok(0)]);
        assert_eq!([held(tile, 128, 0), held(tile, 128, 5461), held(tile, 128, 5462)], [Ok(4), Ok(3), Ok(2)]);
        assert_eq!([held(tile, 128, 16384), held(tile, 129, 0), held(add, 1025, 0)], [Ok(2), Ok(0), Ok(0)]);
        assert_eq!(
            [held(add, 0, 0), held(add, -1, 0), held(ptr::null_mut(), 1, 0)],
            [Err(INVALID_VALUE), Err(INVALID_VALUE), Err(98)]
        );
        let best = |function, lds, limit| {
            let mut threads = 0;
            // SAFETY: valid pointers.
            let blocks = written(|blocks| unsafe {
                hipModuleOccupancyMaxPotentialBlockSize(blocks, &raw mut threads, function, lds, limit)
            });
            // SAFETY: valid pointers.
            let flagged = written(|blocks| unsafe {
                hipModuleOccupancyMaxPotentialBlockSizeWithFlags(blocks, &raw mut threads, function, lds, limit, 0)
            });
            assert_eq!(blocks, flagged);
            blocks.map(|blocks| (blocks / if device == 0 { 48 } else { 104 }, threads))
        };
        assert_eq!(
            [best(add, 0, 0), best(tile, 0, 0), best(add, 0, 1024)],
            [Ok((2, 1024)), Ok((4, 128)), Ok((2, 1024))]
        );
        assert_eq!(
            [best(add, 0, 256), best(add, 0, 300), best(add, 0, -1)],
            [Ok((8, 256)), Ok((8, 256)), Err(INVALID_VALUE)]
        );
        // With 30 KiB of LDS two blocks fit, with 40 KiB one does: the more threads in each the better.
        assert_eq!([best(add, 30 << 10, 512), best(add, 40 << 10, 0)], [Ok((2, 512)), Ok((1, 1024))]);
        assert_eq!(best(add, 0, 3).map(|found| found.1), Ok(3), "less than a wave");
        // SAFETY: a valid pointer.
        let unknown = written(|blocks| unsafe {
            hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, add, 32, 0, 2)
        });
        assert_eq!(unknown, Err(INVALID_VALUE));
    }
}

#[test]
fn the_lds_of_functions_that_a_kernel_calls_is_its_own() {
    let session = session();
    let module = Module::new(&session, SOURCE, 0);
    let buffer = Buffer::of(&[0i32; 4]);
    for (name, bytes, result) in [("add", 0, [1, 1, 1, 1]), ("calls", 400, [2, 3, 4, 5]), ("both", 428, [6, 7, 8, 9])] {
        let function = module.function(name);
        // SAFETY: a valid pointer.
        let lds =
            written(|value| unsafe { hipFuncGetAttribute(value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) });
        assert_eq!(lds, Ok(bytes), "{name}");
        assert_eq!(module.launch(name, [1; 3], [4, 1, 1], &[buffer.address]), hipSuccess);
        assert_eq!(buffer.ints(), result, "{name}");
    }
}

#[test]
fn nothing_of_a_module_is_left_when_it_is_unloaded() {
    let session = session();
    let mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.contains("memfd:candle-rocm-kernels")).count()
    };
    let before = mapped();
    let source = format!("extern \"C\" __global__ void once(int* x) {{ x[0] = {}; }}", std::process::id());
    let module = Module::new(&session, &source, 0);
    assert!(mapped() > before);
    drop(module);
    assert_eq!(mapped(), before);
    let prefix = format!("candle-rocm-{}-", std::process::id());
    let names = std::fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.to_string_lossy().starts_with(&prefix)).count(), 0);
}

#[test]
fn a_kernel_says_what_it_takes() {
    let session = session();
    for (device, version) in [(0, 110), (1, 90)] {
        let module = Module::new(&session, SOURCE, device);
        let of = |name| {
            let function = module.function(name);
            // SAFETY: valid pointers.
            (0..=10).map(move |which| written(|value| unsafe { hipFuncGetAttribute(value, which, function) }))
        };
        let tile = [128, 16384, 0, 0, 0, version, version, 0, 49152, 0].map(Ok);
        let add = [1024, 0, 0, 0, 0, version, version, 0, 65536, 0].map(Ok);
        assert_eq!(of("tile").collect::<Vec<_>>(), [&tile[..], &[Err(INVALID_VALUE)]].concat());
        assert_eq!(of("add").collect::<Vec<_>>(), [&add[..], &[Err(INVALID_VALUE)]].concat());
    }
}

#[test]
fn variables_of_a_module_are_found_by_name() {
    let session = session();
    let module = Module::new(&session, SOURCE, 0);
    let (mut place, mut size) = (ptr::null_mut(), 0);
    // SAFETY: valid pointers.
    unsafe {
        let mut find =
            |name: &std::ffi::CStr| hipModuleGetGlobal(&raw mut place, &raw mut size, module.0, name.as_ptr());
        assert_eq!([find(c"absent"), find(c"add"), find(c"counter")], [NOT_FOUND, NOT_FOUND, hipSuccess]);
        assert_eq!((size, place.cast::<i32>().read()), (4, 5));
    }
}
