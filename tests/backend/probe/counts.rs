//! How many launches, copies and synchronisations an operation costs once its kernels are loaded.

use crate::emulator::Emulator;
use candle::{DType, Device, Module, Result, Tensor, D};

const FUNCTIONS: [&str; 15] = [
    "hipModuleLaunchKernel",
    "rocblas_gemm_strided_batched_ex",
    "hipMemsetAsync",
    "hipMalloc",
    "hipFree",
    "hipMemcpyAsync",
    "hipMemcpy",
    "hipMemcpy2DAsync",
    "hipHostMalloc",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
    "hipEventSynchronize",
    "hipStreamWaitEvent",
    "hipModuleGetFunction",
    "hipGetDeviceCount",
];

type Op = Box<dyn Fn() -> Result<Option<Tensor>>>;

/// Prints a line for each operation: its name, then `function=calls` for every function that was called.
pub fn run(device: &Device) -> Result<()> {
    let emulator = Emulator::open();
    for (name, op) in ops(device)? {
        for _ in 0..2 {
            op()?;
        }
        device.synchronize()?;
        let (result, counts) = emulator.counted(&FUNCTIONS, &op);
        let kept = result?;
        let calls = FUNCTIONS.iter().zip(counts).filter(|(_, calls)| *calls > 0);
        let calls: Vec<_> = calls.map(|(name, calls)| format!("{name}={calls}")).collect();
        println!("{name} {}", calls.join(" "));
        device.synchronize()?;
        drop(kept);
    }
    Ok(())
}

fn ops(device: &Device) -> Result<Vec<(&'static str, Op)>> {
    let f = |shape: &[usize]| Tensor::randn(0f32, 1., shape, device);
    let x = f(&[6, 5, 64])?;
    let y = f(&[6, 5, 64])?;
    let row = f(&[64])?;
    let turned = x.transpose(0, 2)?;
    let half = x.to_dtype(DType::F16)?;
    let ids = Tensor::new(&[0u32, 3, 1, 4], device)?;
    let image = f(&[2, 3, 16, 16])?;
    let weight = f(&[4, 3, 3, 3])?;
    let pointwise = f(&[4, 3, 1, 1])?;
    let (a, b) = (f(&[3, 16, 24])?, f(&[3, 24, 8])?);
    let at = f(&[3, 24, 16])?.transpose(1, 2)?;
    let bt = f(&[3, 8, 24])?.transpose(1, 2)?;
    let wide = f(&[3, 16, 48])?.narrow(2, 8, 24)?;
    let heads = f(&[2, 7, 3, 24])?.transpose(1, 2)?;
    let keys = f(&[2, 7, 3, 24])?.transpose(1, 2)?.transpose(2, 3)?;
    let one = f(&[1, 16, 24])?.broadcast_as((3, 16, 24))?;
    let tall = f(&[512, 300])?;
    let source = f(&[6, 4, 64])?;
    let zeros = {
        let device = device.clone();
        move || Ok(Some(Tensor::zeros((33, 7), DType::F32, &device)?))
    };
    let mut ops: Vec<(&'static str, Op)> = vec![("zeros", Box::new(zeros))];
    macro_rules! op {
        ($name:literal, [$($used:ident),*], $result:expr) => {{
            $(let $used = $used.clone();)*
            ops.push(($name, Box::new(move || Ok(Some($result)))));
        }};
    }
    op!("add", [x, y], (&x + &y)?);
    op!("broadcast_add", [x, row], x.broadcast_add(&row)?);
    op!("add of a transposed view", [turned, turned], (&turned + &turned)?);
    op!("exp", [x], x.exp()?);
    op!("affine", [x], x.affine(2., 1.)?);
    op!("powf", [x], x.powf(2.)?);
    op!("cast", [x], x.to_dtype(DType::BF16)?);
    op!("gelu of f16", [half], half.gelu()?);
    op!("compare", [x, y], x.lt(&y)?);
    op!("where", [x, y], x.lt(&y)?.where_cond(&x, &y)?);
    op!("contiguous", [turned], turned.contiguous()?);
    op!("cat", [x, y], Tensor::cat(&[&x, &y], 0)?);
    op!("cat of the last dimension", [x, y], Tensor::cat(&[&x, &y], 2)?);
    op!("sum of the last dimension", [x], x.sum(D::Minus1)?);
    op!("sum of the first dimension", [x], x.sum(0)?);
    op!("sum_all", [tall], tall.sum_all()?);
    op!("max", [x], x.max(1)?);
    op!("argmin", [tall], tall.argmin(0)?);
    op!("index_select", [x, ids], x.index_select(&ids, 1)?);
    op!("gather", [x, source], {
        let ids = source.zeros_like()?.to_dtype(DType::U32)?;
        x.gather(&ids, 1)?
    });
    op!("index_add", [x, ids, source], x.index_add(&ids, &source, 1)?);
    op!("conv2d", [image, weight], image.conv2d(&weight, 1, 1, 1, 1)?);
    op!("conv2d of 1x1", [image, pointwise], image.conv2d(&pointwise, 0, 1, 1, 1)?);
    op!("avg_pool2d", [image], image.avg_pool2d(2)?);
    op!("max_pool2d", [image], image.max_pool2d(2)?);
    op!("upsample_nearest2d", [image], image.upsample_nearest2d(32, 32)?);
    op!("matmul", [a, b], a.matmul(&b)?);
    op!("matmul of transposed lhs", [at, b], at.matmul(&b)?);
    op!("matmul of transposed rhs", [a, bt], a.matmul(&bt)?);
    op!("matmul of both transposed", [at, bt], at.matmul(&bt)?);
    op!("matmul of narrow lhs", [wide, b], wide.matmul(&b)?);
    op!("matmul of broadcast lhs", [one, b], one.matmul(&b)?);
    op!("matmul of attention heads", [heads, keys], heads.matmul(&keys)?);
    op!("arg_sort", [tall], tall.arg_sort_last_dim(true)?);
    let random = device.clone();
    ops.push(("rand", Box::new(move || Ok(Some(Tensor::rand(0f32, 1., (33, 7), &random)?)))));
    let random = device.clone();
    ops.push(("randn", Box::new(move || Ok(Some(Tensor::randn(0f32, 1., (33, 7), &random)?)))));
    let linear = candle_nn::Linear::new(f(&[8, 24])?, Some(f(&[8])?));
    let input = f(&[16, 24])?;
    ops.push(("linear", Box::new(move || Ok(Some(linear.forward(&input)?)))));
    let to_host = x.clone();
    ops.push(("to_vec", Box::new(move || to_host.to_vec3::<f32>().map(|_| None))));
    let scalar = x.clone();
    ops.push(("to_scalar of one element", Box::new(move || scalar.get(0)?.get(0)?.get(0)?.to_scalar::<f32>().map(|_| None))));
    Ok(ops)
}
