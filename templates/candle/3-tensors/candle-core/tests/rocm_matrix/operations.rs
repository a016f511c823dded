//! The cases: every operation of `BackendStorage`, small on every view, and large enough for every kernel that it has.
use crate::inputs::{Inputs, View, CONTIGUOUS, VIEWS};
use crate::plain::{self, Window};
use crate::{release, DTYPES};
use candle_core::op::CmpOp;
use candle_core::{DType, Device, Result, Tensor};

type Run = dyn Fn(&Inputs) -> Result<Tensor>;

/// What a difference is measured by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Result,
    /// What the operation makes of its inputs' magnitudes: results are differences of such numbers.
    Magnitudes,
}

pub(crate) struct Operation {
    /// The trait's method, and after a dot which of its cases.
    pub(crate) name: String,
    /// Units in the last place that ROCm's result may be off: 0 where it is the exact result, rounded once.
    pub(crate) ulps: f64,
    pub(crate) scale: Scale,
    /// How often a result of 16 bits or less is rounded to its type on the way; wider ones are exact with these inputs.
    pub(crate) roundings: u32,
    /// The result's type, if it is not that of the inputs.
    pub(crate) gives: Option<DType>,
    /// The types for which specs/kernels says that the CPU has it.
    pub(crate) has: fn(DType) -> bool,
    pub(crate) views: &'static [View],
    /// The views that both sides take.
    pub(crate) takes: &'static [View],
    pub(crate) run: Box<Run>,
    /// What it is in f64 by other means than the CPU backend's, and for which types.
    pub(crate) plain: Option<Plain>,
}

/// The types that it is for, and what it computes.
type Plain = (fn(DType) -> bool, Box<Run>);

pub(crate) fn all(_: DType) -> bool {
    true
}

fn floats(dtype: DType) -> bool {
    dtype.is_float()
}

/// Matrices that the CPU multiplies in every release.
fn products(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::F32 | DType::F64)
}

/// What indices may be everywhere, and conditions.
fn indices(dtype: DType) -> bool {
    matches!(dtype, DType::U8 | DType::U32 | DType::I64)
}

pub(crate) fn op(
    name: impl Into<String>,
    has: fn(DType) -> bool,
    ulps: u32,
    run: impl Fn(&Inputs) -> Result<Tensor> + 'static,
) -> Operation {
    Operation {
        name: name.into(),
        ulps: f64::from(ulps),
        scale: Scale::Result,
        roundings: 0,
        gives: None,
        has,
        views: VIEWS,
        takes: VIEWS,
        run: Box::new(run),
        plain: None,
    }
}

impl Operation {
    pub(crate) fn cancelling(self) -> Self {
        Self {
            scale: Scale::Magnitudes,
            ..self
        }
    }

    /// As `cancelling`, with so many roundings on the way.
    fn rounding(self, roundings: u32) -> Self {
        Self {
            roundings,
            ..self.cancelling()
        }
    }

    fn giving(self, dtype: DType) -> Self {
        Self {
            gives: Some(dtype),
            ..self
        }
    }

    /// Asked for with contiguous tensors only, for what is long.
    fn contiguous(self) -> Self {
        Self {
            views: CONTIGUOUS,
            ..self
        }
    }

    /// Both sides refuse other views than contiguous ones.
    fn taking_contiguous(self) -> Self {
        Self {
            takes: CONTIGUOUS,
            ..self
        }
    }

    fn plainly(
        self,
        of: fn(DType) -> bool,
        plain: impl Fn(&Inputs) -> Result<Tensor> + 'static,
    ) -> Self {
        Self {
            plain: Some((of, Box::new(plain))),
            ..self
        }
    }

    /// The trait's method.
    pub(crate) fn method(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

pub(crate) fn operations() -> Vec<Operation> {
    let mut made = vec![];
    elementwise(&mut made);
    functions(&mut made);
    conversions(&mut made);
    reductions(&mut made);
    convolutions(&mut made);
    images(&mut made);
    made.extend(release::operations());
    indexed(&mut made);
    products_of_matrices(&mut made);
    copies(&mut made);
    made
}

fn elementwise(made: &mut Vec<Operation>) {
    made.extend([
        op("affine", all, 2, |i| i.matrix()?.affine(1.5, -0.25)),
        op("affine.large", all, 2, |i| i.large()?.affine(1.5, -0.25)),
        op("powf", floats, 2, |i| i.matrix()?.powf(3.)),
        op("elu", floats, 4, |i| i.matrix()?.elu(0.5)),
        op("where_cond", all, 0, |i| {
            let condition = i.ids(&[5, 7], 2)?.to_dtype(DType::U8)?;
            condition.where_cond(&i.matrix()?, &i.matrix()?)
        }),
        op("where_cond.large", all, 0, |i| {
            let condition = i.ids(&[3, 11, 131], 2)?.to_dtype(DType::U8)?;
            condition.where_cond(&i.large()?, &i.large()?)
        }),
    ]);
    // The condition is the case's tensor, and what it chooses from has every width.
    for &chosen in &[DType::U8, DType::BF16, DType::U32, DType::F64] {
        let run = move |i: &Inputs| {
            let (yes, no) = (i.ids(&[5, 7], 9)?, i.ids(&[5, 7], 5)?);
            i.matrix()?
                .where_cond(&yes.to_dtype(chosen)?, &no.to_dtype(chosen)?)
        };
        made.push(op(format!("where_cond.{chosen:?}"), indices, 0, run).giving(chosen));
    }
    macro_rules! binary {
        ($($name:ident)*) => {
            $(made.push(op(concat!("binary_impl.", stringify!($name)), all, 0, |i| i.matrix()?.$name(&i.matrix()?)));)*
        };
    }
    binary!(add mul minimum maximum);
    made.extend([
        op("binary_impl.large", all, 0, |i| i.large()?.add(&i.large()?)),
        // Views that have nothing in common: a row, and a column.
        op("binary_impl.outer", all, 0, |i| {
            let (row, column) = (i.tensor(&[1, 131])?, i.tensor(&[17, 1])?);
            row.broadcast_mul(&column)
        }),
        // The CPU panics where an unsigned difference is below zero, and where an integer is divided by zero.
        op("binary_impl.sub", all, 0, |i| {
            i.positive_matrix()?.sub(&i.matrix()?)
        }),
        op("binary_impl.div", all, 0, |i| {
            i.matrix()?.div(&i.positive_matrix()?)
        }),
        op("cmp.large", all, 0, |i| {
            i.large()?.cmp(&i.large()?, CmpOp::Le)
        })
        .giving(DType::U8),
    ]);
    let comparisons = [
        ("cmp.eq", CmpOp::Eq),
        ("cmp.ne", CmpOp::Ne),
        ("cmp.lt", CmpOp::Lt),
        ("cmp.le", CmpOp::Le),
        ("cmp.gt", CmpOp::Gt),
        ("cmp.ge", CmpOp::Ge),
    ];
    for (name, compared) in comparisons {
        let run = move |i: &Inputs| i.matrix()?.cmp(&i.matrix()?, compared);
        made.push(op(name, all, 0, run).giving(DType::U8));
    }
}

fn functions(made: &mut Vec<Operation>) {
    macro_rules! unary {
        ($($name:ident $has:ident $ulps:literal,)*) => {
            $(made.push(op(concat!("unary_impl.", stringify!($name)), $has, $ulps, |i| i.matrix()?.$name()));)*
        };
    }
    unary! {
        exp floats 2, log floats 2, sin floats 2, cos floats 2, tanh floats 2, neg floats 0, recip floats 0, sqr floats 0,
        sqrt floats 0, silu all 4, abs all 0, ceil all 0, floor all 0, round all 0, relu all 0, sign all 0,
    }
    made.extend([
        op("unary_impl.large", all, 0, |i| i.large()?.abs()),
        // Below zero, the CPU adds nearly opposite numbers.
        op("unary_impl.gelu", all, 4, |i| i.matrix()?.gelu()).cancelling(),
        op("unary_impl.gelu_erf", all, 4, |i| i.matrix()?.gelu_erf())
            .cancelling()
            .plainly(floats, |i| plain::gelu_erf(&i.matrix()?)),
        op("unary_impl.erf", all, 2, |i| i.matrix()?.erf())
            .plainly(floats, |i| plain::erf(&i.matrix()?)),
    ]);
}

fn conversions(made: &mut Vec<Operation>) {
    for &to in DTYPES {
        let run = move |i: &Inputs| i.matrix()?.to_dtype(to);
        made.push(op(format!("to_dtype.{to:?}"), all, 0, run).giving(to));
    }
    let run = move |i: &Inputs| i.large()?.to_dtype(DType::F32);
    made.push(op("to_dtype.large", all, 0, run).giving(DType::F32));
}

fn reductions(made: &mut Vec<Operation>) {
    macro_rules! extremes {
        ($($name:ident $reduced:ident $gives:expr,)*) => {
            $(
                // Along rows that a few lanes share, and across rows, so many that two launches share them.
                made.push(Operation {
                    gives: $gives,
                    ..op(concat!("reduce_op.", stringify!($name)), all, 0, |i| i.matrix()?.$reduced(1))
                });
                made.push(Operation {
                    gives: $gives,
                    ..op(concat!("reduce_op.", stringify!($name), "_first"), all, 0, |i| i.tensor(&[131, 17])?.$reduced(0))
                });
                // Neighbouring results that a thread takes together.
                made.push(Operation {
                    gives: $gives,
                    ..op(concat!("reduce_op.", stringify!($name), "_middle"), all, 0, |i| i.tensor(&[3, 19, 16])?.$reduced(1))
                });
                // A row for several blocks.
                made.push(Operation {
                    gives: $gives,
                    ..op(concat!("reduce_op.", stringify!($name), "_long"), all, 0, |i| i.tensor(&[2, 17003])?.$reduced(1)).contiguous()
                });
            )*
        };
    }
    extremes! {
        min min_keepdim None, max max_keepdim None,
        argmin argmin_keepdim Some(DType::U32), argmax argmax_keepdim Some(DType::U32),
    }
    made.extend([
        op("reduce_op.sum_last", all, 1, |i| i.matrix()?.sum_keepdim(1)),
        op("reduce_op.sum_first", all, 1, |i| {
            i.summands(&[131, 17], 131)?.sum_keepdim(0)
        }),
        op("reduce_op.sum_middle", all, 1, |i| {
            i.summands(&[3, 19, 16], 19)?.sum_keepdim(1)
        }),
        op("reduce_op.sum_two", all, 1, |i| {
            i.image()?.sum_keepdim((1, 3))
        }),
        op("reduce_op.sum_apart", all, 1, |i| {
            i.summands(&[19, 3, 7, 5], 133)?.sum_keepdim((0, 2))
        }),
        // So many partial results that a third launch puts them together.
        op("reduce_op.sum_lines", all, 1, |i| {
            i.summands(&[17003, 2, 3], 102_018)?.sum_keepdim((0, 2))
        })
        .contiguous(),
        op("reduce_op.sum_long", all, 1, |i| {
            i.summands(&[2, 17003], 17003)?.sum_keepdim(1)
        })
        .contiguous(),
    ]);
}

/// Up to 0.9.1 the CPU takes kernels of a convolution that are no contiguous tensor for one that is; and where they are
/// contiguous, it has a way of its own for transposed ones.
fn images_and_kernels(i: &Inputs, x: &[usize], kernel: &[usize]) -> Result<(Tensor, Tensor)> {
    Ok((i.tensor(x)?, i.tensor(kernel)?.contiguous()?))
}

fn conv1d(
    name: &'static str,
    x: &'static [usize],
    kernel: &'static [usize],
    groups: usize,
    window: fn() -> Window,
) -> Operation {
    op(name, products, 2, move |i| {
        let ((x, kernel), window) = (images_and_kernels(i, x, kernel)?, window());
        let (padding, stride, dilation) = (window.padding[1], window.stride[1], window.dilation[1]);
        x.conv1d(&kernel, padding, stride, dilation, groups)
    })
    .cancelling()
    .plainly(all, move |i| {
        let (x, kernel) = images_and_kernels(i, x, kernel)?;
        plain::convolution(&x, &kernel, &Window { groups, ..window() })
    })
}

fn conv2d(
    name: &'static str,
    x: &'static [usize],
    kernel: &'static [usize],
    window: fn() -> Window,
) -> Operation {
    op(name, products, 2, move |i| {
        let ((x, kernel), window) = (images_and_kernels(i, x, kernel)?, window());
        let (padding, stride, dilation) = (window.padding[0], window.stride[0], window.dilation[0]);
        x.conv2d(&kernel, padding, stride, dilation, 1)
    })
    .cancelling()
    .plainly(all, move |i| {
        let (x, kernel) = images_and_kernels(i, x, kernel)?;
        plain::convolution(&x, &kernel, &window())
    })
}

fn conv_transpose1d(
    name: &'static str,
    has: fn(DType) -> bool,
    x: &'static [usize],
    kernel: &'static [usize],
    window: fn() -> Window,
) -> Operation {
    op(name, has, 2, move |i| {
        let ((x, kernel), window) = (images_and_kernels(i, x, kernel)?, window());
        let (padding, more) = (window.padding[1], window.output_padding[1]);
        x.conv_transpose1d(
            &kernel,
            padding,
            more,
            window.stride[1],
            window.dilation[1],
            1,
        )
    })
    .cancelling()
    .plainly(all, move |i| {
        let (x, kernel) = images_and_kernels(i, x, kernel)?;
        plain::transposed_convolution(&x, &kernel, &window())
    })
}

fn conv_transpose2d(
    name: &'static str,
    x: &'static [usize],
    kernel: &'static [usize],
    window: fn() -> Window,
) -> Operation {
    op(name, all, 2, move |i| {
        let (x, kernel, window) = (i.tensor(x)?, i.tensor(kernel)?, window());
        let (padding, more) = (window.padding[0], window.output_padding[0]);
        x.conv_transpose2d(&kernel, padding, more, window.stride[0], window.dilation[0])
    })
    .cancelling()
    .plainly(all, move |i| {
        let (x, kernel) = (i.tensor(x)?, i.tensor(kernel)?);
        plain::transposed_convolution(&x, &kernel, &window())
    })
}

fn convolutions(made: &mut Vec<Operation>) {
    made.extend([
        conv1d("conv1d", &[2, 4, 9], &[6, 2, 3], 2, || {
            Window::rows(1, 2, 1)
        }),
        conv1d("conv1d.channels", &[2, 3, 41], &[19, 3, 5], 1, || {
            Window::rows(4, 2, 3)
        }),
        conv2d("conv2d", &[2, 3, 8, 7], &[4, 3, 3, 2], || {
            Window::planes(1, 2, 1)
        }),
        // A tile's channels and pixels, and some more.
        conv2d("conv2d.tiled", &[2, 3, 11, 13], &[67, 3, 3, 2], || {
            Window::planes(1, 1, 2)
        }),
        // So many channels that 16-bit floats are unfolded.
        conv2d("conv2d.unfolded", &[2, 2, 9, 7], &[129, 2, 3, 2], || {
            Window::planes(1, 2, 1)
        }),
        // Products of pixels.
        conv2d("conv2d.pixels", &[3, 5, 4, 3], &[18, 5, 1, 1], || {
            Window::planes(0, 1, 1)
        }),
        conv_transpose1d("conv_transpose1d", all, &[2, 3, 5], &[3, 4, 3], || Window {
            output_padding: [0, 1],
            ..Window::rows(1, 2, 1)
        }),
        // The CPU multiplies matrices first where there is no padding.
        conv_transpose1d(
            "conv_transpose1d.images",
            products,
            &[3, 5, 7],
            &[5, 4, 3],
            || Window::rows(0, 2, 1),
        ),
        // So many channels that ROCm does too, and rounds each product that is added up.
        conv_transpose1d(
            "conv_transpose1d.channels",
            products,
            &[3, 65, 7],
            &[65, 4, 5],
            || Window::rows(0, 3, 1),
        )
        .rounding(2),
        conv_transpose2d("conv_transpose2d", &[2, 3, 8, 7], &[3, 4, 3, 2], || {
            Window {
                output_padding: [1; 2],
                ..Window::planes(1, 2, 1)
            }
        }),
        conv_transpose2d(
            "conv_transpose2d.dilated",
            &[3, 3, 7, 11],
            &[3, 5, 2, 3],
            || Window::planes(1, 3, 2),
        ),
    ]);
}

fn images(made: &mut Vec<Operation>) {
    made.extend([
        op("avg_pool2d", all, 1, |i| {
            i.image()?.avg_pool2d_with_stride((3, 2), (2, 1))
        }),
        op("avg_pool2d.large", all, 1, |i| {
            i.tensor(&[2, 5, 37, 29])?
                .avg_pool2d_with_stride((2, 3), (3, 2))
        }),
        op("max_pool2d", all, 0, |i| {
            i.image()?.max_pool2d_with_stride((3, 2), (2, 1))
        }),
        op("max_pool2d.large", all, 0, |i| {
            i.tensor(&[2, 5, 37, 29])?
                .max_pool2d_with_stride((2, 3), (3, 2))
        }),
        op("upsample_nearest1d", all, 0, |i| {
            i.tensor(&[2, 3, 5])?.upsample_nearest1d(13)
        }),
        op("upsample_nearest2d", all, 0, |i| {
            i.image()?.upsample_nearest2d(11, 5)
        }),
        // Rows of whole packs.
        op("upsample_nearest2d.large", all, 0, |i| {
            i.image()?.upsample_nearest2d(37, 48)
        }),
    ]);
}

/// Indices along dimension 1 that name each place once at most: the order of several writes is nobody's promise.
fn distinct(device: &Device, left: usize, ids: usize, right: usize, end: usize) -> Result<Tensor> {
    let id = |n: usize| (n * 7 + 3) % end;
    let made = (0..left * ids * right).map(|k| id(k / right % ids) as u32);
    Tensor::from_vec(made.collect::<Vec<_>>(), (left, ids, right), &Device::Cpu)?.to_device(device)
}

/// A target that is contiguous, and begins within its memory.
fn target(i: &Inputs, shape: &[usize]) -> Result<Tensor> {
    let mut whole = shape.to_vec();
    whole[0] += 1;
    let whole = i.tensor(&whole)?.force_contiguous()?;
    whole.narrow(0, 1, shape[0])
}

fn indexed(made: &mut Vec<Operation>) {
    made.extend([
        op("gather", all, 0, |i| {
            i.matrix()?.gather(&i.ids(&[5, 4], 7)?, 1)
        })
        .taking_contiguous(),
        op("gather.large", all, 0, |i| {
            let x = i.tensor(&[3, 37, 11])?;
            x.gather(&i.ids(&[3, 53, 11], 37)?, 1)
        })
        .contiguous(),
        op("index_select", all, 0, |i| {
            i.matrix()?.index_select(&i.ids(&[9], 5)?, 0)
        })
        .taking_contiguous(),
        op("index_select.large", all, 0, |i| {
            let x = i.tensor(&[3, 37, 11])?;
            x.index_select(&i.ids(&[53], 37)?, 1)
        })
        .contiguous(),
        op("scatter_set", all, 0, |i| {
            let target = target(i, &[5, 7])?;
            let ids = Tensor::arange(0u32, 5, i.device)?.reshape((5, 1))?;
            let ids = ids.broadcast_as((5, 7))?.contiguous()?;
            target.scatter_set(&ids, &i.matrix()?, 0)?;
            Ok(target)
        })
        .taking_contiguous(),
        // So many that the last writer of each place is found first.
        op("scatter_set.many", all, 0, |i| {
            let target = target(i, &[3, 83, 7])?;
            let ids = distinct(i.device, 3, 37, 7, 83)?;
            target.scatter_set(&ids, &i.tensor(&[3, 37, 7])?, 1)?;
            Ok(target)
        })
        .contiguous(),
    ]);
    // Few elements for each place, as many as LDS has room for, and places that are many more than elements.
    let added = [
        ("few", 11, 11, 7),
        ("places", 67, 9, 41),
        ("spread", 67, 601, 7),
    ];
    for (name, ids, places, right) in added {
        let run = move |i: &Inputs| {
            let target = target(i, &[3, places, right])?;
            let x = i.summands(&[3, ids, right], ids)?;
            target.scatter_add_set(&i.ids(&[3, ids, right], places)?, &x, 1)?;
            Ok(target)
        };
        let name = format!("scatter_add_set.{name}");
        let roundings = (ids / places.min(ids)) as u32 + 2;
        made.push(op(name, all, 0, run).rounding(roundings).contiguous());
    }
    made.push(
        op("scatter_add_set", all, 0, |i| {
            let target = target(i, &[5, 7])?;
            target.scatter_add_set(&i.ids(&[5, 7], 5)?, &i.matrix()?, 0)?;
            Ok(target)
        })
        .rounding(5)
        .taking_contiguous(),
    );
    // Short rows, rows for a wave and for several blocks, and so many of them that their indices are sorted.
    let rows = [
        ("short", 45, 31, 7),
        ("wave", 45, 31, 67),
        ("blocks", 5, 3, 4109),
        ("sorted", 1031, 211, 33),
    ];
    for (name, ids, places, length) in rows {
        let run = move |i: &Inputs| {
            let x = i.tensor(&[2, places, length])?;
            let added = i.summands(&[2, ids, length], ids)?.contiguous()?;
            x.index_add(&i.ids(&[ids], places)?, &added, 1)
        };
        let roundings = (ids / places) as u32 + 2;
        made.push(
            op(format!("index_add.{name}"), all, 0, run)
                .rounding(roundings)
                .contiguous(),
        );
    }
    made.push(
        op("index_add", all, 0, |i| {
            let added = i.tensor(&[7, 7])?.contiguous()?;
            i.matrix()?.index_add(&i.ids(&[7], 5)?, &added, 0)
        })
        .rounding(2),
    );
    // Indices of the case's type, as many as are sorted at once, and more.
    for (name, rows) in [("indices", 1031), ("indices_merged", 9001)] {
        let run = move |i: &Inputs| {
            let ids = i.ids(&[rows], 101)?.to_dtype(i.dtype)?;
            let x = i.ids(&[101, 32], 64)?.to_dtype(DType::F32)?;
            let added = i.ids(&[rows, 32], 64)?.to_dtype(DType::F32)?;
            x.index_add(&ids, &added, 0)
        };
        let name = format!("index_add.{name}");
        made.push(Operation {
            views: &[View::Contiguous],
            ..op(name, indices, 0, run).giving(DType::F32)
        });
    }
}

fn products_of_matrices(made: &mut Vec<Operation>) {
    macro_rules! product {
        ($name:literal, $i:ident, $left:expr, $right:expr) => {
            made.push(
                op($name, products, 1, |$i| $left.matmul(&$right))
                    .cancelling()
                    .plainly(all, |$i| plain::product(&$left, &$right)),
            );
        };
    }
    product!("matmul", i, i.tensor(&[3, 5, 4])?, i.tensor(&[3, 4, 6])?);
    product!(
        "matmul.transposed",
        i,
        i.tensor(&[3, 5, 4])?,
        i.tensor(&[3, 6, 4])?.t()?
    );
    product!(
        "matmul.large",
        i,
        i.tensor(&[2, 37, 67])?,
        i.tensor(&[2, 67, 19])?
    );
    // One matrix for all of a batch of transposed ones.
    product!(
        "matmul.shared",
        i,
        i.tensor(&[3, 4, 5])?.t()?,
        i.tensor(&[1, 4, 6])?.broadcast_as((3, 4, 6))?
    );
    product!(
        "matmul.shared_left",
        i,
        i.tensor(&[1, 5, 4])?.broadcast_as((3, 5, 4))?,
        i.tensor(&[3, 4, 6])?
    );
}

fn copies(made: &mut Vec<Operation>) {
    made.extend([
        op("copy_strided_src", all, 0, |i| {
            i.image()?.force_contiguous()
        }),
        op("copy_strided_src.large", all, 0, |i| {
            i.tensor(&[700, 530])?.force_contiguous()
        }),
        // Small rows change places as a whole.
        op("copy_strided_src.rows", all, 0, |i| {
            let x = i.tensor(&[66, 70, 4])?;
            x.transpose(0, 1)?.force_contiguous()
        })
        .contiguous(),
        op("copy_strided_src.long_rows", all, 0, |i| {
            let x = i.tensor(&[37, 41, 16])?;
            x.transpose(0, 1)?.force_contiguous()
        })
        .contiguous(),
        op("copy2d", all, 0, |i| {
            Tensor::cat(&[i.matrix()?, i.matrix()?], 1)
        }),
        op("copy2d.large", all, 0, |i| {
            Tensor::cat(&[i.tensor(&[37, 16])?, i.tensor(&[37, 48])?], 1)
        }),
        op("copy2d.blocks", all, 0, |i| {
            Tensor::cat(&[i.tensor(&[37, 131])?, i.tensor(&[37, 53])?], 1)
        }),
        op("const_set", all, 0, |i| {
            let target = i.matrix()?;
            target.one_set()?;
            Ok(target)
        }),
        op("const_set.whole", all, 0, |i| {
            let target = i.tensor(&[5, 64])?;
            target.one_set()?;
            Ok(target)
        }),
        op("const_set.large", all, 0, |i| {
            let target = i.large()?;
            target.one_set()?;
            Ok(target)
        }),
    ]);
}
