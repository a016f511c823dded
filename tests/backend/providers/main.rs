//! What the optional providers, MIOpen and rocRAND, are called for on the emulated HIP device.
//!
//! The first argument says what is run; what it prints is judged by the tests beside this folder.

mod emulator;

use candle_core::rocm::set_miopen_activations;
use candle_core::{DType, Device, Result, RocmDevice, Tensor};
use emulator::Emulator;

const FUNCTIONS: [&str; 17] = [
    "hipModuleLaunchKernel",
    "rocrand_create_generator",
    "rocrand_set_stream",
    "rocrand_set_seed",
    "rocrand_generate_uniform",
    "rocrand_generate_uniform_double",
    "rocrand_generate_normal",
    "rocrand_generate_normal_double",
    "rocrand_destroy_generator",
    "miopenCreateWithStream",
    "miopenFindConvolutionForwardAlgorithm",
    "miopenConvolutionForward",
    "miopenActivationForward",
    "miopenDestroy",
    "miopenDestroyTensorDescriptor",
    "miopenDestroyConvolutionDescriptor",
    "miopenDestroyActivationDescriptor",
];

const ROCRAND_INTERNAL_ERROR: i32 = 108;
const MIOPEN_INTERNAL_ERROR: i32 = 5;
const MIOPEN_UNKNOWN_ERROR: i32 = 7;
const MIOPEN_UNSUPPORTED_OP: i32 = 8;

fn main() -> Result<()> {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        Some("counts") => counts(),
        Some("faults") => faults(),
        Some("unsupported") => unsupported(&Device::new_rocm(0)?),
        Some("products") => products(&Device::new_rocm(0)?),
        Some("room") => room(),
        Some("room-for-a-search") => room_for_a_search(),
        Some("left-behind") => left_behind(),
        Some("figures") => figures(),
        Some("modules") => modules(),
        Some("backtrace") => backtrace(),
        Some("no-device") => no_device(),
        _ => panic!("what shall be run?"),
    }
}

/// Prints a line for each operation: its name, then `function=calls` for every function that was called.
fn counts() -> Result<()> {
    let emulator = Emulator::open();
    let show = |name: &str, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let (result, counts) = emulator.counted(&FUNCTIONS, work);
        result?;
        let calls = FUNCTIONS.iter().zip(counts).filter(|(_, calls)| *calls > 0);
        let calls: Vec<_> = calls.map(|(name, calls)| format!(" {name}={calls}")).collect();
        println!("{name}:{}", calls.concat());
        Ok(())
    };
    let mut made = None;
    show("a device and a sum", &mut || {
        let device = Device::new_rocm(0)?;
        Tensor::ones(8, DType::F32, &device)?.sum_all()?.to_scalar::<f32>()?;
        made = Some(device);
        Ok(())
    })?;
    let device = made.expect("made above");
    let numbers = |dtype, count: usize| Tensor::zeros(count, dtype, &device);
    for (name, dtype, count) in [
        ("the first f32", DType::F32, 5),
        ("f32", DType::F32, 5),
        ("f16", DType::F16, 5),
        ("f64", DType::F64, 5),
        ("f8e4m3", DType::F8E4M3, 5),
        ("no f32", DType::F32, 0),
    ] {
        let like = numbers(dtype, count)?;
        show(&format!("rand of {name}"), &mut || like.rand_like(0., 1.).map(drop))?;
    }
    for (name, dtype, count) in [
        ("even f32", DType::F32, 6),
        ("odd f32", DType::F32, 7),
        ("bf16", DType::BF16, 6),
        ("odd f64", DType::F64, 7),
    ] {
        let like = numbers(dtype, count)?;
        show(&format!("randn of {name}"), &mut || like.randn_like(0., 1.).map(drop))?;
    }
    show("a seed", &mut || device.set_seed(1))?;
    let like = numbers(DType::F32, 5)?;
    show("rand after a seed", &mut || like.rand_like(0., 1.).map(drop))?;
    show("rand of another device", &mut || {
        let other = Device::new_rocm(0)?;
        Tensor::rand(0f32, 1., 5, &other).map(drop)
    })?;

    let (x, w) = images(&device)?;
    let convolve = |x: &Tensor, w: &Tensor| x.conv2d(w, 1, 1, 1, 1).map(drop);
    show("the first conv2d", &mut || convolve(&x, &w))?;
    show("conv2d", &mut || convolve(&x, &w))?;
    show("conv2d of another size", &mut || convolve(&x.narrow(0, 0, 1)?, &w))?;
    let turned = (x.t()?, w.t()?);
    show("conv2d of a view", &mut || convolve(&turned.0, &turned.1))?;
    let wide = (x.to_dtype(DType::F64)?, w.to_dtype(DType::F64)?);
    show("conv2d of f64", &mut || convolve(&wide.0, &wide.1))?;
    show("relu", &mut || x.relu().map(drop))?;
    set_miopen_activations(true);
    show("relu by MIOpen", &mut || x.relu().map(drop))?;
    show("elu by MIOpen", &mut || x.elu(0.5).map(drop))?;
    show("gelu", &mut || x.gelu().map(drop))?;
    show("relu of a view", &mut || turned.0.relu().map(drop))?;

    let mut last = Some((device.clone(), x, w, turned, wide, like));
    drop(device);
    show("the end", &mut || {
        last = None;
        Ok(())
    })
}

fn images(device: &Device) -> Result<(Tensor, Tensor)> {
    let of = |shape: &[usize]| {
        let count: usize = shape.iter().product();
        let values = (0..count).map(|i| (i * 7 % 17) as f32 / 4. - 2.);
        Tensor::from_iter(values, device)?.reshape(shape)
    };
    Ok((of(&[2, 3, 9, 8])?, of(&[4, 3, 3, 3])?))
}

/// Prints a line for each function of rocRAND and MIOpen that failed once: what came of it, and what of the next try.
fn faults() -> Result<()> {
    const F32: DType = DType::F32;
    type Work = fn(&Device) -> Result<Tensor>;
    let works: [(&str, i32, Work); 9] = [
        ("rocrand_create_generator", ROCRAND_INTERNAL_ERROR, |d| uniform(F32, d)),
        ("rocrand_set_stream", ROCRAND_INTERNAL_ERROR, |d| uniform(F32, d)),
        ("rocrand_set_seed", ROCRAND_INTERNAL_ERROR, |d| uniform(F32, d)),
        ("rocrand_generate_uniform", ROCRAND_INTERNAL_ERROR, |d| uniform(F32, d)),
        ("rocrand_generate_uniform_double", ROCRAND_INTERNAL_ERROR, |d| uniform(DType::F64, d)),
        ("rocrand_generate_normal", ROCRAND_INTERNAL_ERROR, |d| normal(DType::F16, d)),
        ("rocrand_generate_normal_double", ROCRAND_INTERNAL_ERROR, |d| normal(DType::F64, d)),
        ("miopenCreateWithStream", MIOPEN_INTERNAL_ERROR, convolution),
        ("miopenConvolutionForward", MIOPEN_INTERNAL_ERROR, convolution),
    ];
    let emulator = Emulator::open();
    for (function, code, work) in works {
        // With a stream and a state of random numbers of its own.
        let device = Device::Rocm(RocmDevice::new_with_stream(0)?);
        emulator.fail(function, 1, code);
        match work(&device) {
            Ok(_) => println!("{function}: ok"),
            Err(error) => println!("{function}: {error}"),
        }
        emulator.reset();
        work(&device)?;
        device.synchronize()?;
    }
    Ok(())
}

fn uniform(dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(7, dtype, device)?.rand_like(0., 1.)
}

fn normal(dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(7, dtype, device)?.randn_like(0., 1.)
}

fn convolution(device: &Device) -> Result<Tensor> {
    let (x, w) = images(device)?;
    x.conv2d(&w, 1, 1, 1, 1)
}

/// What becomes of convolutions that MIOpen has no solution for, whichever way it says so.
fn unsupported(device: &Device) -> Result<()> {
    let emulator = Emulator::open();
    let (images, w) = images(device)?;
    let statuses = [MIOPEN_UNSUPPORTED_OP, MIOPEN_UNKNOWN_ERROR, MIOPEN_INTERNAL_ERROR];
    // Another problem for each, and each twice.
    for turn in 0..2 * statuses.len() {
        let x = images.narrow(2, 0, 9 - turn / 2)?.contiguous()?;
        let on_cpu = x.to_device(&Device::Cpu)?.conv2d(&w.to_device(&Device::Cpu)?, 1, 1, 1, 1)?;
        if turn % 2 == 0 {
            emulator.fail("miopenFindConvolutionForwardAlgorithm", 1, statuses[turn / 2]);
        }
        let functions = ["miopenConvolutionForward", "hipModuleLaunchKernel"];
        let (result, counts) = emulator.counted(&functions, || x.conv2d(&w, 1, 1, 1, 1));
        let difference = (result?.to_device(&Device::Cpu)? - &on_cpu)?.abs()?.max_all()?.to_scalar::<f32>()?;
        println!("{counts:?} {difference}");
    }
    Ok(())
}

/// A program with the features, where HIP says that there is no device.
fn no_device() -> Result<()> {
    const NO_DEVICE: i32 = 100;
    let emulator = Emulator::open();
    let none = || emulator.fail("hipGetDeviceCount", 1, NO_DEVICE);
    none();
    match Device::new_rocm(0) {
        Ok(_) => println!("new_rocm: a device"),
        Err(error) => println!("new_rocm: {error}"),
    }
    none();
    let device = Device::rocm_if_available(0)?;
    println!("{:?}", device.location());
    device.set_seed(1).ok();
    println!("{:?}", Tensor::rand(0f32, 1., 5, &device)?.dims());
    println!("{:?}", Tensor::randn(0f32, 1., 5, &device)?.dims());
    Ok(())
}

/// Products of every type: calls of rocBLAS, and the largest difference from the CPU's results.
fn products(device: &Device) -> Result<()> {
    let emulator = Emulator::open();
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        let of = |shape: (usize, usize, usize)| {
            let count = shape.0 * shape.1 * shape.2;
            let values = (0..count).map(|i| (i * 7 % 5) as f32 - 2.);
            Tensor::from_iter(values, &Device::Cpu)?.reshape(shape)
        };
        let (x, y) = (of((3, 20, 70))?, of((3, 20, 66))?);
        let wanted = x.t()?.contiguous()?.matmul(&y)?;
        let on = |x: &Tensor| x.to_dtype(dtype)?.to_device(device);
        let (x, y) = (on(&x)?, on(&y)?);
        let functions = ["rocblas_create_handle", "rocblas_gemm_strided_batched_ex"];
        let (found, calls) = emulator.counted(&functions, || x.t()?.matmul(&y));
        match found {
            Ok(found) => {
                let found = found.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
                let difference = (found - &wanted)?.abs()?.max_all()?.to_scalar::<f32>()?;
                println!("{dtype:?} {calls:?} {difference}");
            }
            Err(error) => println!("{dtype:?} {calls:?} {error}"),
        }
    }
    Ok(())
}

/// A device that holds memory which nobody uses.
fn with_cached_memory() -> Result<RocmDevice> {
    let device = RocmDevice::new_with_stream(0)?;
    // Two blocks, because rocBLAS works in one.
    let zeros = || Tensor::zeros(8 << 20, DType::F32, &Device::Rocm(device.clone()));
    drop((zeros()?, zeros()?));
    assert!(device.memory_stats().cached >= 64 << 20);
    Ok(device)
}

/// Prints a line for each function of a library that found no memory once: what came of it, and whether cached memory
/// was given back for it.
fn room() -> Result<()> {
    type Work = fn(&Device) -> Result<Tensor>;
    let product: Work = |d| Tensor::ones((3, 3), DType::F32, d)?.matmul(&Tensor::ones((3, 3), DType::F32, d)?);
    let works: [(&str, i32, Work); 8] = [
        ("rocblas_create_handle", 5, product),
        ("rocblas_gemm_strided_batched_ex", 5, product),
        ("rocrand_create_generator", 102, |d| uniform(DType::F32, d)),
        ("rocrand_generate_uniform", 102, |d| uniform(DType::F32, d)),
        ("miopenCreateWithStream", 4, convolution),
        ("miopenFindConvolutionForwardAlgorithm", 4, convolution),
        ("miopenConvolutionForward", 4, convolution),
        ("hipModuleLoadData", 2, |d| Tensor::ones((3, 5), DType::F32, d)?.arg_sort_last_dim(true)),
    ];
    let emulator = Emulator::open();
    for (function, code, work) in works {
        let device = with_cached_memory()?;
        let frees = device.memory_stats().device_frees;
        emulator.fail(function, 1, code);
        let result = work(&Device::Rocm(device.clone()));
        let gave = device.memory_stats().device_frees > frees;
        match result {
            Ok(_) => println!("{function}: ok, memory given back: {gave}"),
            Err(error) => println!("{function}: {error}"),
        }
        emulator.reset();
    }
    Ok(())
}

/// A convolution within a limit that has no room for the largest workspace.
fn room_for_a_search() -> Result<()> {
    let device = RocmDevice::new_with_stream(0)?;
    let on = Device::Rocm(device.clone());
    let x = Tensor::ones((1, 64, 64, 64), DType::F32, &on)?;
    let w = Tensor::ones((8, 64, 3, 3), DType::F32, &on)?;
    // Unfolded, the image takes nine times its memory.
    let held = device.memory_stats().allocated + device.memory_stats().cached;
    device.set_memory_limit(Some(held + (4 << 20)));
    let y = x.conv2d(&w, 1, 1, 1, 1)?;
    println!("{}", y.max_all()?.to_scalar::<f32>()?);
    Ok(())
}

/// Errors that are made up for, and what rocRAND says afterwards.
fn left_behind() -> Result<()> {
    const PEER_ACCESS_ALREADY_ENABLED: i32 = 704;
    const INVALID_VALUE: i32 = 1;
    let emulator = Emulator::open();
    let devices = [RocmDevice::new_with_stream(0)?, RocmDevice::new_with_stream(1)?];
    let [first, second] = devices.map(Device::Rocm);
    uniform(DType::F32, &first)?;
    emulator.fail("hipDeviceEnablePeerAccess", 1, PEER_ACCESS_ALREADY_ENABLED);
    Tensor::ones(5, DType::F32, &first)?.to_device(&second)?;
    println!("peers: {:?}", uniform(DType::F32, &first).map(|_| ()));
    let memory = Tensor::ones(5, DType::F32, &first)?;
    emulator.fail("hipFree", 1, INVALID_VALUE);
    drop(memory);
    println!("memory: {:?}", uniform(DType::F32, &first).map(|_| ()));
    Ok(())
}

/// What rocBLAS works in is memory of the device's, in its figures and within its limit.
fn figures() -> Result<()> {
    let device = RocmDevice::new_with_stream(0)?;
    let on = Device::Rocm(device.clone());
    let x = Tensor::ones((3, 3), DType::F32, &on)?;
    device.set_memory_limit(Some(8 << 20));
    match x.matmul(&x) {
        Ok(_) => println!("no limit"),
        Err(error) => println!("{error}"),
    }
    device.set_memory_limit(None);
    let before = device.memory_stats().allocated;
    let y = x.matmul(&x)?;
    let grown = device.memory_stats().allocated - before;
    println!("{}", grown >> 20);
    drop((x, y, on));
    Ok(())
}

/// How often a source is read and loaded that several callers compile.
fn modules() -> Result<()> {
    const SOURCE: &str = "extern \"C\" __global__ void one(float *x) { x[0] = 1; }";
    let emulator = Emulator::open();
    let functions = ["hipModuleLoadData", "hipModuleUnload"];
    let devices = [RocmDevice::new(0)?, RocmDevice::new_with_stream(0)?];
    let (modules, calls) = emulator.counted(&functions, || {
        let compiled = devices.iter().flat_map(|device| [device, device]);
        compiled.map(|device| device.load_module("one.hip", SOURCE)).collect::<Result<Vec<_>>>()
    });
    println!("{calls:?}");
    for (module, device) in modules?.iter().zip([&devices[0], &devices[0], &devices[1], &devices[1]]) {
        assert_eq!(module.device(), device);
        module.function("one")?;
    }
    let other = SOURCE.replace("= 1", "= 2");
    let (_, calls) = emulator.counted(&functions, || devices[0].load_module("one.hip", &other));
    println!("{calls:?}");
    Ok(())
}

fn backtrace() -> Result<()> {
    let Err(error) = Device::new_rocm(77) else { panic!("so many devices") };
    println!("{error}");
    Ok(())
}
