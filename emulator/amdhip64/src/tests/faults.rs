//! What kernels do wrong, in the words of the reports; and what looks wrong and is not.

use std::fmt::Write as _;

use super::*;
use crate::host_memory::{hipHostRegister, hipHostUnregister};
use crate::launch::hipModuleLaunchKernel;
use crate::pool::{hipFreeAsync, hipMallocAsync};
use candle_rocm_emulator_runtime::queue::MAX_BACKLOG;

const SOURCE: &str = r#"
struct __attribute__((packed)) Loose { int value; };
extern "C" __global__ void load(const char* x) { volatile int seen = ((const Loose*)x)->value; }
extern "C" __global__ void load_byte(const char* x) { volatile char seen = *x; }
extern "C" __global__ void store(char* x) { ((Loose*)x)->value = 7; }
extern "C" __global__ void store_byte(char* x) { *x = 7; }
extern "C" __global__ void copy(char* to, const char* from, long bytes, long own) {
  char kept[64] = {};
  memcpy(own & 1 ? kept : to, own & 2 ? kept : from, bytes);
}
extern "C" __global__ void update(int* x) { atomicAdd(x, 1); }
extern "C" __global__ void nothing() {}
extern "C" __global__ void block_number(int* x) { x[0] = blockIdx.x; }
extern "C" __global__ void two_blocks(int* x, int* y) {
  bool one = blockIdx.x == 1 && blockIdx.y == 2 && blockIdx.z == 1;
  bool other = blockIdx.x == 2 && blockIdx.y == 1 && blockIdx.z == 2;
  if ((one || other) && threadIdx.x == 2 && threadIdx.y == 1) x[0] = one ? 1 : 2;
}
extern "C" __global__ void store_after_update(int* x) {
  if (threadIdx.x == 0) atomicAdd(x, 1);
  __syncwarp();
  if (threadIdx.x == 70) x[0] = 9;
}
extern "C" __global__ void neighbours(int* x, long distance, long waits) {
  x[threadIdx.x] = threadIdx.x;
  if (waits == 1) __syncwarp();
  if (waits == 2) __syncthreads();
  volatile int seen = x[(threadIdx.x + distance) % blockDim.x];
}
extern "C" __global__ void lds_neighbours(int* x, long distance, long waits) {
  __shared__ int first[8];
  __shared__ int second[128];
  extern __shared__ int third[];
  second[threadIdx.x] = third[threadIdx.x] = 0;
  __syncthreads();
  if (threadIdx.x < 8) first[threadIdx.x] = 1000 + threadIdx.x;
  second[threadIdx.x] = threadIdx.x;
  third[threadIdx.x] = 2 * threadIdx.x;
  if (waits == 1) __syncwarp();
  if (waits == 2) __syncthreads();
  long other = (threadIdx.x + distance) % blockDim.x;
  x[threadIdx.x] = second[other] + third[other];
  __syncthreads();
  x[threadIdx.x] += first[threadIdx.x % 8];
}
extern "C" __global__ void lds_store_after_load(int* x) {
  __shared__ int lds[64];
  lds[threadIdx.x] = threadIdx.x;
  __syncthreads();
  volatile int seen = lds[5];
  if (threadIdx.x == 63) lds[5] = 77;
}
extern "C" __global__ void lds_fresh(int* x, long which, long at) {
  __shared__ int first[4];
  __shared__ int second[4];
  extern __shared__ int third[];
  for (int i = 0; i < 4; ++i) {
    if (which != 0 || i != at) first[i] = i;
    if (which != 1 || i != at) second[i] = i;
    if (which != 2 || i != at) third[i] = i;
  }
  for (int i = 0; i < 4; ++i) x[i] = first[i] + second[i] + third[i];
}
extern "C" __global__ void lds_beside(long bytes) {
  __shared__ int lds[64];
  lds[threadIdx.x] = 1;
  ((Loose*)((char*)lds + bytes))->value = 7;
}
extern "C" __global__ void lds_counter(int* x) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, (int)threadIdx.x);
  __syncthreads();
  x[threadIdx.x] = count;
}
extern "C" __global__ void in_flight(int* x) {
  if (threadIdx.x == 0) atomicMax(&x[1], atomicAdd(&x[0], 1) + 1);
  for (int i = 0; i < 4; ++i) __syncthreads();
  if (threadIdx.x == 0) atomicSub(&x[0], 1);
}
extern "C" __global__ void votes(int* x) {
  int t = threadIdx.x;
  int* own = x + 4 * t;
  own[0] = __syncthreads_count(t % 3 == 0);
  own[1] = __syncthreads_and(t < 100);
  own[2] = __syncthreads_and(t < 99);
  own[3] = __syncthreads_or(t == 99) + 2 * __syncthreads_or(t == 100);
}
struct Mixed { char a; double b; short c; };
extern "C" __global__ void mixed(char a, double b, Mixed c, float* x) {
  x[0] = a; x[1] = b; x[2] = c.a; x[3] = c.b; x[4] = c.c;
}
"#;

fn module(session: &Session) -> Module {
    Module::new(session, SOURCE, 0)
}

/// Launches one thread, or the block of a kernel that needs more, and says what it did wrong.
fn fault(
    session: &Session,
    module: &Module,
    name: &str,
    threads: c_uint,
    lds: c_uint,
    arguments: &[usize],
) -> (hipError_t, String) {
    let code = launch(module.function(name), [1; 3], [threads, 1, 1], lds, ptr::null_mut(), arguments);
    assert_eq!(code, hipSuccess);
    session.fault()
}

/// A report's text without its place in the source.
fn words(text: &str) -> &str {
    text.rsplit_once(" (test.hip:").map_or(text, |(words, _)| words)
}

#[test]
fn accesses_at_the_ends_of_an_allocation() {
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0i32; 4]));
    let number = machine::lock().memory.find(buffer.address).expect("it is live").number;
    for (offset, whereabouts) in [
        (-4isize, "4 bytes before"),
        (-5, "5 bytes before"),
        (-3, "3 bytes of it before"),
        (-1, "1 bytes of it before"),
        (0, ""),
        (12, ""),
        (13, "1 bytes of it past the end of"),
        (15, "3 bytes of it past the end of"),
        (16, "0 bytes past the end of"),
        (19, "3 bytes past the end of"),
    ] {
        let address = buffer.address.wrapping_add_signed(offset);
        for (name, verb) in [("load", "read of"), ("store", "write to")] {
            let (code, text) = fault(&session, &module, name, 1, 0, &[address]);
            let expected = if whereabouts.is_empty() {
                (hipSuccess, String::new())
            } else {
                let mut text =
                    format!("kernel `{name}`, block (0, 0, 0), thread (0, 0, 0): invalid {verb} 4 bytes at ");
                let _ = write!(
                    text,
                    "{address:#x}: {whereabouts} allocation {number} of 16 bytes at {:#x}",
                    buffer.address
                );
                (ILLEGAL_ADDRESS, text)
            };
            assert_eq!((code, words(&text)), (expected.0, expected.1.as_str()), "{offset}");
            assert_eq!(text.contains(" (test.hip:"), code != hipSuccess, "{text}");
        }
    }
    for (name, verb) in [("load_byte", "read of"), ("store_byte", "write to")] {
        let (_, text) = fault(&session, &module, name, 1, 0, &[buffer.address + 16]);
        assert!(text.contains(&format!("invalid {verb} 1 byte at")), "{text}");
    }
    let (_, text) = fault(&session, &module, "update", 1, 0, &[buffer.address + 16]);
    assert!(text.contains("invalid atomic operation of 4 bytes at") && text.contains(" (line "), "{text}");
    let fresh = Buffer::new(16);
    let (code, text) = fault(&session, &module, "update", 1, 0, &[fresh.address + 4]);
    assert!(code == LAUNCH_FAILURE && text.contains("uninitialised atomic operation of 4 bytes"), "{text}");
    assert!(text.contains("at offset 4 of allocation"), "{text}");
}

#[test]
fn accesses_to_what_is_no_memory_of_the_device() {
    let session = session();
    let module = module(&session);
    let host = [1u8; 32];
    let start = host.as_ptr() as usize;
    let nowhere = "no memory of a device, nor LDS, nor the thread's own stack; is it a host pointer?";
    let found = |address| {
        let (code, text) = fault(&session, &module, "load", 1, 0, &[address]);
        (code, words(&text).rsplit(": ").next().unwrap_or_default().to_owned())
    };
    assert_eq!([0, 4095].map(found), [0, 1].map(|_| (ILLEGAL_ADDRESS, "a null pointer".to_owned())));
    assert_eq!([4096, start].map(found), [0, 1].map(|_| (ILLEGAL_ADDRESS, nowhere.to_owned())));
    // SAFETY: the array lives on.
    assert_eq!(unsafe { hipHostRegister(start as *mut c_void, 16, 0) }, hipSuccess);
    assert_eq!([start, start + 12].map(found), [0, 1].map(|_| (hipSuccess, String::new())));
    assert_eq!([start + 13, start + 16].map(found), [0, 1].map(|_| (ILLEGAL_ADDRESS, nowhere.to_owned())));
    assert_eq!(found(start - 1).0, ILLEGAL_ADDRESS);
    // SAFETY: as above.
    assert_eq!(unsafe { hipHostUnregister(start as *mut c_void) }, hipSuccess);
}

/// Copies of a size that only the kernel's arguments tell: from and to device memory, and the thread's own stack.
#[test]
fn copies_are_checked_where_they_copy_something() {
    let session = session();
    let (module, to, from) = (module(&session), Buffer::of(&[0i32; 8]), Buffer::of(&[7i32; 8]));
    let copy = |to, from, bytes, own| fault(&session, &module, "copy", 1, 0, &[to, from, bytes, own]);
    for (address, other, own) in [(0, 0, 0), (to.address, 0, 0), (0, from.address, 0), (0, 0, 1), (0, 0, 2)] {
        assert_eq!(copy(address, other, 0, own), (hipSuccess, String::new()), "nothing is copied: {own}");
    }
    for (bytes, own) in [(32, 0), (32, 1), (32, 2), (19, 1)] {
        assert_eq!(copy(to.address, from.address, bytes, own), (hipSuccess, String::new()), "{bytes} {own}");
    }
    assert_eq!(to.ints(), [0; 8], "the last copy to it was of the stack's zeros");
    assert_eq!(copy(to.address, from.address, 12, 0).0, hipSuccess);
    assert_eq!(to.ints(), [7, 7, 7, 0, 0, 0, 0, 0]);
    for (to, from, own, said) in [
        (to.address, 0, 0, "invalid read of 33 bytes at 0x0: a null pointer"),
        (0, from.address, 1, "invalid read of 33 bytes"),
        (to.address, 0, 2, "invalid write to 33 bytes"),
    ] {
        let (code, text) = copy(to, from, 33, own);
        assert!(code == ILLEGAL_ADDRESS && text.contains(said), "{text}");
    }
}

#[test]
fn accesses_beside_lds() {
    let session = session();
    let module = module(&session);
    let beside = |bytes: isize| {
        let (code, text) = fault(&session, &module, "lds_beside", 1, 0, &[bytes as usize]);
        (code, words(&text).rsplit(": ").next().unwrap_or_default().to_owned())
    };
    let far = "no memory of a device, nor LDS, nor the thread's own stack; is it a host pointer?";
    for (bytes, whereabouts) in [
        (0, ""),
        (252, ""),
        (253, "its end lies past that of 256 bytes of LDS"),
        (256, "0 bytes past the end of 256 bytes of LDS"),
        (260, "4 bytes past the end of 256 bytes of LDS"),
        (-1, "1 bytes before 256 bytes of LDS"),
        (-65535, "65535 bytes before 256 bytes of LDS"),
        (-65536, far),
        (256 + 65531, "65531 bytes past the end of 256 bytes of LDS"),
        (256 + 65532, far),
    ] {
        let code = if whereabouts.is_empty() { hipSuccess } else { ILLEGAL_ADDRESS };
        assert_eq!(beside(bytes), (code, whereabouts.to_owned()), "{bytes}");
    }
}

#[test]
fn a_race_names_both_blocks_and_threads() {
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0i32; 4]));
    assert_eq!(module.launch("two_blocks", [4, 3, 3], [3, 2, 1], &[buffer.address, 0]), hipSuccess);
    let (code, text) = session.fault();
    let texts = [["(1, 2, 1)", "(2, 1, 2)"], ["(2, 1, 2)", "(1, 2, 1)"]].map(|[later, earlier]| {
        format!(
            "kernel `two_blocks`, block {later}, thread (2, 1, 0): data race in device memory: write to 4 bytes at {:#x}, \
             which thread (2, 1, 0) of block {earlier} wrote with no barrier between",
            buffer.address
        )
    });
    assert!(code == LAUNCH_FAILURE && texts.contains(&words(&text).to_owned()), "{text}");
    let (code, text) = fault(&session, &module, "store_after_update", 128, 0, &[buffer.address]);
    let (later, earlier) = ("thread (70, 0, 0)", "thread (0, 0, 0)");
    let orders = [
        format!(
            "{later}: data race in device memory: write to 4 bytes at {:#x}, which {earlier} of block (0, 0, 0) updated",
            buffer.address
        ),
        format!(
            "{earlier}: data race in device memory: atomic operation of 4 bytes at {:#x}, which {later} of block (0, 0, 0) wrote",
            buffer.address
        ),
    ];
    assert!(code == LAUNCH_FAILURE && orders.iter().any(|order| text.contains(order)), "{text}");
}

/// In device memory and in LDS: within a thread, a wave and a block, with nothing between, a wait of the wave, a barrier.
#[test]
fn waits_order_what_they_wait_for() {
    let session = session();
    for (device, wave) in [(0, 32), (1, 64)] {
        let module = Module::new(&session, SOURCE, device);
        let buffer = Buffer::of(&[0i32; 128]);
        for (kernel, memory) in [("neighbours", "device memory"), ("lds_neighbours", "LDS")] {
            for (distance, ordered_by) in [(0, 0), (1, 2), (wave, 2), (128, 0)] {
                for waits in 0..3 {
                    let (code, text) = fault(&session, &module, kernel, 128, 512, &[buffer.address, distance, waits]);
                    let expected = if waits >= ordered_by { hipSuccess } else { LAUNCH_FAILURE };
                    assert_eq!(code, expected, "{kernel} {distance} {waits}: {text}");
                    assert_eq!(text.contains(&format!("data race in {memory}: ")), code != hipSuccess, "{text}");
                }
            }
        }
        assert_eq!(fault(&session, &module, "lds_neighbours", 128, 512, &[buffer.address, 1, 2]).0, hipSuccess);
        let expected = (0..128).map(|t| 3 * ((t + 1) % 128) + 1000 + t % 8);
        assert_eq!(buffer.ints(), expected.collect::<Vec<_>>());
        // Half a wave only: nobody of another wave is read from.
        let half = |kernel| fault(&session, &module, kernel, 32, 512, &[buffer.address, 1, 1]).0;
        assert_eq!([half("neighbours"), half("lds_neighbours")], [hipSuccess; 2]);
    }
}

#[test]
fn a_store_to_lds_races_with_earlier_loads() {
    let session = session();
    let module = module(&session);
    let (code, text) = fault(&session, &module, "lds_store_after_load", 64, 0, &[0]);
    assert!(code == LAUNCH_FAILURE && text.contains("data race in LDS: "), "{text}");
    let by = if text.contains("write to 4 bytes") { "read with no barrier" } else { "wrote with no barrier" };
    assert!(text.contains(by), "{text}");
}

#[test]
fn each_byte_of_each_object_in_lds_is_fresh_until_it_is_written() {
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0i32; 4]));
    for (which, at) in (0..3).flat_map(|which| (0..4).map(move |at| (which, at))) {
        let (code, text) = fault(&session, &module, "lds_fresh", 1, 16, &[buffer.address, which, at]);
        assert!(code == LAUNCH_FAILURE && text.contains("uninitialised read of 4 bytes"), "{which} {at}: {text}");
        assert!(words(&text).ends_with(": LDS"), "{text}");
    }
    assert_eq!(fault(&session, &module, "lds_fresh", 1, 16, &[buffer.address, 3, 0]), (hipSuccess, String::new()));
    assert_eq!(buffer.ints(), [0, 3, 6, 9]);
}

#[test]
fn atomics_on_lds_and_votes_of_a_block_have_their_results() {
    let session = session();
    for device in [0, 1] {
        let module = Module::new(&session, SOURCE, device);
        let buffer = Buffer::of(&[0i32; 400]);
        assert_eq!(module.launch("lds_counter", [1; 3], [100, 1, 1], &[buffer.address]), hipSuccess);
        assert_eq!(buffer.ints()[..100], [4950; 100]);
        assert_eq!(module.launch("votes", [1; 3], [100, 1, 1], &[buffer.address]), hipSuccess);
        assert_eq!(buffer.ints(), [34, 1, 0, 1].repeat(100));
    }
}

/// Three blocks take turns at their barriers.
#[test]
fn at_most_three_blocks_are_in_flight() {
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0i32; 2]));
    assert_eq!(module.launch("in_flight", [60, 1, 1], [2, 1, 1], &[buffer.address]), hipSuccess);
    assert_eq!(buffer.ints(), [0, 3]);
}

#[test]
fn launches_whose_numbers_come_again_are_told_apart() {
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0i32; 1]));
    let only = |block| {
        machine::run_only(vec![block]);
        assert_eq!(module.launch("block_number", [2, 1, 1], [1; 3], &[buffer.address]), hipSuccess);
        assert_eq!(session.fault(), (hipSuccess, String::new()));
    };
    let nothing = module.function("nothing");
    for block in [0, 1] {
        only(block);
        for _ in 0..4094 {
            assert_eq!(launch(nothing, [1; 3], [1; 3], 0, ptr::null_mut(), &[]), hipSuccess);
        }
    }
    only(0);
    assert_eq!(buffer.ints(), [0]);
}

#[test]
fn a_stream_holds_so_much_work_and_no_more() {
    let session = session();
    let (module, stream) = (module(&session), stream());
    let nothing = module.function("nothing");
    let id = crate::stream::resolve(stream).expect("it was made");
    let backlogs: Vec<_> = (0..2 * MAX_BACKLOG)
        .map(|_| {
            assert_eq!(launch(nothing, [1; 3], [1; 3], 0, stream, &[]), hipSuccess);
            machine::lock().queues.backlog(id)
        })
        .collect();
    let expected = (1..MAX_BACKLOG).chain((MAX_BACKLOG / 2..MAX_BACKLOG).cycle());
    assert_eq!(backlogs, expected.take(2 * MAX_BACKLOG).collect::<Vec<_>>());
    destroy(stream);
}

#[test]
fn work_on_memory_that_was_freed_before_it_is_reported() {
    let session = session();
    let (stream, source) = (stream(), Buffer::of(&[5u8; 32]));
    for (function, verb) in [("hipMemsetAsync", "write"), ("hipMemcpyAsync", "write"), ("hipMemcpyAsync", "read")] {
        // SAFETY: memory of 16 bytes until it is freed.
        let pointer = written(|pointer| unsafe { hipMallocAsync(pointer, 16, stream) }).expect("there is memory");
        // SAFETY: as above; what comes later is reported.
        unsafe {
            assert_eq!(hipFreeAsync(pointer, stream), hipSuccess);
            let code = match (function, verb) {
                ("hipMemsetAsync", _) => crate::memory::hipMemsetAsync(pointer, 1, 16, stream),
                (_, "write") => crate::memory::hipMemcpyAsync(pointer, source.pointer(), 16, 3, stream),
                _ => crate::memory::hipMemcpyAsync(source.pointer(), pointer, 16, 3, stream),
            };
            assert_eq!(code, hipSuccess);
        }
        let (code, text) = session.fault();
        let start =
            format!("{function}: invalid {verb} of 16 bytes at {:#x}: at offset 0 of allocation ", pointer as usize);
        let end = format!(" of 16 bytes at {:#x}, which was freed", pointer as usize);
        assert!(code == ILLEGAL_ADDRESS && text.starts_with(&start) && text.ends_with(&end), "{text}");
    }
    destroy(stream);
}

#[test]
fn parameters_are_found_behind_pointers_and_in_a_buffer() {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Mixed {
        a: u8,
        b: f64,
        c: i16,
    }
    #[repr(C)]
    struct All {
        a: u8,
        b: f64,
        c: Mixed,
        x: usize,
    }
    let session = session();
    let (module, buffer) = (module(&session), Buffer::of(&[0f32; 5]));
    let function = module.function("mixed");
    let all = All { a: 1, b: 2.5, c: Mixed { a: 3, b: 4.5, c: -5 }, x: buffer.address };
    let check = || {
        let bits: Vec<_> = buffer.ints().into_iter().map(|bits| f32::from_bits(bits as u32)).collect();
        assert_eq!(bits, [1.0, 2.5, 3.0, 4.5, -5.0]);
    };
    let mut pointers: [*mut c_void; 4] = [
        (&raw const all.a).cast_mut().cast(),
        (&raw const all.b).cast_mut().cast(),
        (&raw const all.c).cast_mut().cast(),
        (&raw const all.x).cast_mut().cast(),
    ];
    let run = |params: *mut *mut c_void, extra: *mut *mut c_void| {
        // SAFETY: parameters as the kernel has them, or such as are refused.
        unsafe { hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, ptr::null_mut(), params, extra) }
    };
    assert_eq!(run(pointers.as_mut_ptr(), ptr::null_mut()), hipSuccess);
    check();
    let mut size = size_of::<All>();
    let mut extra = [
        HIP_LAUNCH_PARAM_BUFFER_POINTER,
        (&raw const all).cast_mut().cast(),
        HIP_LAUNCH_PARAM_BUFFER_SIZE,
        (&raw mut size).cast(),
        HIP_LAUNCH_PARAM_END,
    ];
    assert_eq!(run(ptr::null_mut(), extra.as_mut_ptr()), hipSuccess);
    check();
    assert_eq!(run(pointers.as_mut_ptr(), extra.as_mut_ptr()), INVALID_VALUE);
    assert_eq!(run(ptr::null_mut(), ptr::null_mut()), INVALID_VALUE);
    let mut short = size - 1;
    extra[3] = (&raw mut short).cast();
    assert_eq!(run(ptr::null_mut(), extra.as_mut_ptr()), INVALID_VALUE, "too short");
    extra[0] = ptr::null_mut();
    assert_eq!(run(ptr::null_mut(), extra.as_mut_ptr()), INVALID_VALUE, "no marker");
    let mut end = [HIP_LAUNCH_PARAM_END];
    assert_eq!(run(ptr::null_mut(), end.as_mut_ptr()), INVALID_VALUE, "no buffer");
}
