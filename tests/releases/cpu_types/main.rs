//! Asks Candle's CPU backend which ops it has for which element types: one line `op dtype...` for each op.
//!
//! An op that returns an error, panics or does not return for a type is taken not to have it.

use candle::{DType, Device, Result, Tensor};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No op takes longer on eight elements.
const PATIENCE: Duration = Duration::from_secs(5);

const DTYPES: [DType; 10] = [
    DType::U8,
    DType::U32,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

type Op = Box<dyn Fn(DType) -> Result<Tensor>>;

fn ones(shape: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::ones(shape, dtype, &Device::Cpu)
}

fn row(dtype: DType) -> Result<Tensor> {
    ones(&[2, 4], dtype)
}

fn ids(dtype: DType) -> Result<Tensor> {
    Tensor::zeros(&[2, 4][..], dtype, &Device::Cpu)
}

fn image(dtype: DType) -> Result<Tensor> {
    ones(&[1, 2, 4, 4], dtype)
}

fn op(name: &'static str, f: impl Fn(DType) -> Result<Tensor> + 'static) -> (&'static str, Op) {
    (name, Box::new(f))
}

fn ops() -> Vec<(&'static str, Op)> {
    let mut all = vec![
        op("fill", row),
        op("copy", |d| row(d)?.t()?.contiguous()),
        op("copy2d", |d| Tensor::cat(&[row(d)?, row(d)?], 1)),
        op("affine", |d| row(d)?.affine(2., 1.)),
        op("powf", |d| row(d)?.powf(2.)),
        op("elu", |d| row(d)?.elu(1.)),
        op("where", |d| ids(DType::U8)?.where_cond(&row(d)?, &row(d)?)),
        op("where.cond", |d| ids(d)?.where_cond(&row(DType::F32)?, &row(DType::F32)?)),
        op("sum", |d| row(d)?.sum_keepdim((0, 1))),
        op("min", |d| row(d)?.min_keepdim(1)),
        op("max", |d| row(d)?.max_keepdim(1)),
        op("argmin", |d| row(d)?.argmin_keepdim(1)),
        op("argmax", |d| row(d)?.argmax_keepdim(1)),
        op("softmax", |d| candle_nn::ops::softmax_last_dim(&row(d)?)),
        op("rms_norm", |d| candle_nn::ops::rms_norm(&row(d)?, &ones(&[4], d)?, 1e-5)),
        op("layer_norm", |d| candle_nn::ops::layer_norm(&row(d)?, &ones(&[4], d)?, &ones(&[4], d)?, 1e-5)),
        op("sigmoid", |d| candle_nn::ops::sigmoid(&row(d)?)),
        op("rope", |d| candle_nn::rotary_emb::rope(&image(d)?, &ones(&[4, 2], d)?, &ones(&[4, 2], d)?)),
        op("rope_i", |d| candle_nn::rotary_emb::rope_i(&image(d)?, &ones(&[4, 2], d)?, &ones(&[4, 2], d)?)),
        op("rope_thd", |d| candle_nn::rotary_emb::rope_thd(&image(d)?, &ones(&[2, 2], d)?, &ones(&[2, 2], d)?)),
        op("gather", |d| row(d)?.gather(&ids(DType::U32)?, 1)),
        op("gather.ids", |d| row(DType::F32)?.gather(&ids(d)?, 1)),
        op("index_select", |d| row(d)?.index_select(&Tensor::zeros(3, DType::U32, &Device::Cpu)?, 1)),
        op("index_select.ids", |d| row(DType::F32)?.index_select(&Tensor::zeros(3, d, &Device::Cpu)?, 1)),
        op("scatter", |d| row(d)?.scatter(&ids(DType::U32)?, &row(d)?, 1)),
        op("scatter.ids", |d| row(DType::F32)?.scatter(&ids(d)?, &row(DType::F32)?, 1)),
        op("scatter_add", |d| row(d)?.scatter_add(&ids(DType::U32)?, &row(d)?, 1)),
        op("scatter_add.ids", |d| row(DType::F32)?.scatter_add(&ids(d)?, &row(DType::F32)?, 1)),
        op("index_add", |d| row(d)?.index_add(&Tensor::zeros(4, DType::U32, &Device::Cpu)?, &row(d)?, 1)),
        op("index_add.ids", |d| {
            row(DType::F32)?.index_add(&Tensor::zeros(4, d, &Device::Cpu)?, &row(DType::F32)?, 1)
        }),
        op("conv1d", |d| ones(&[1, 2, 8], d)?.conv1d(&ones(&[3, 2, 3], d)?, 1, 1, 1, 1)),
        op("conv2d", |d| image(d)?.conv2d(&ones(&[3, 2, 3, 3], d)?, 1, 1, 1, 1)),
        op("conv_transpose1d", |d| ones(&[1, 2, 8], d)?.conv_transpose1d(&ones(&[2, 3, 3], d)?, 1, 0, 1, 1, 1)),
        op("conv_transpose2d", |d| image(d)?.conv_transpose2d(&ones(&[2, 3, 3, 3], d)?, 1, 0, 1, 1)),
        op("avg_pool2d", |d| image(d)?.avg_pool2d(2)),
        op("max_pool2d", |d| image(d)?.max_pool2d(2)),
        op("upsample_nearest1d", |d| ones(&[1, 2, 8], d)?.upsample_nearest1d(12)),
        op("upsample_nearest2d", |d| image(d)?.upsample_nearest2d(6, 6)),
        op("upsample_bilinear2d", |d| image(d)?.upsample_bilinear2d(6, 6, false)),
        op("matmul", |d| row(d)?.matmul(&row(d)?.t()?)),
        op("argsort", |d| row(d)?.arg_sort_last_dim(true)),
        op("rand_uniform", |d| row(d)?.rand_like(0., 1.)),
        op("rand_normal", |d| row(d)?.randn_like(0., 1.)),
        op("add", |d| row(d)? + row(d)?),
        op("sub", |d| row(d)? - row(d)?),
        op("mul", |d| row(d)? * row(d)?),
        op("div", |d| row(d)? / row(d)?),
        op("minimum", |d| row(d)?.minimum(&row(d)?)),
        op("maximum", |d| row(d)?.maximum(&row(d)?)),
        op("eq", |d| row(d)?.eq(&row(d)?)),
        op("ne", |d| row(d)?.ne(&row(d)?)),
        op("lt", |d| row(d)?.lt(&row(d)?)),
        op("le", |d| row(d)?.le(&row(d)?)),
        op("gt", |d| row(d)?.gt(&row(d)?)),
        op("ge", |d| row(d)?.ge(&row(d)?)),
    ];
    macro_rules! unary {
        ($($name:ident)*) => { $(all.push(op(stringify!($name), |d| row(d)?.$name()));)* };
    }
    unary!(exp log sin cos abs neg recip sqr sqrt gelu gelu_erf erf relu silu tanh floor ceil round sign);
    for to in DTYPES {
        let name = format!("cast.{}", to.as_str()).leak();
        all.push(op(name, move |d| row(d)?.to_dtype(to)));
    }
    all
}

/// Whether the op works for the type, tried in a process of its own: some panic, some recurse for ever.
fn works(name: &str, dtype: DType) -> bool {
    let me = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(me)
        .args([name, dtype.as_str()])
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can start itself");
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status.success();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().expect("the child is ours");
    child.wait().expect("the child is ours");
    false
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, dtype] = &arguments[..] {
        let (_, f) = ops().into_iter().find(|(op, _)| op == name).expect("an op of the list");
        let done = f(dtype.parse().expect("an element type"));
        std::process::exit(i32::from(done.is_err()));
    }
    for (name, _) in ops() {
        let types: Vec<&str> = DTYPES.iter().filter(|d| works(name, **d)).map(|d| d.as_str()).collect();
        println!("{name} {}", types.join(" "));
    }
}
