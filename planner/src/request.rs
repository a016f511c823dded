//! What can be asked for.
use crate::recorder::{Device, Recorder};
use crate::rocm_backend::nn_plan;
use crate::rocm_backend::plan::conv::{Choice, Convolution, Form};
use crate::rocm_backend::plan::index_add::AddingRows;
use crate::rocm_backend::plan::indexing::Placing;
use crate::rocm_backend::plan::scatter_add::Adding;
use crate::rocm_backend::plan::table::{self, Element};
use crate::rocm_backend::plan::upsample::{bilinear, Aligned};
use crate::rocm_backend::plan::{
    self, experts, im2col, quantized, Contiguous, Counter, Distribution, Drawn, Images, Indices,
    Kernel, Number, Op, Operand, Output, Pattern, Pointer, Pooled, Refusal, View, Window,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) device: Device,
    #[serde(flatten)]
    pub(crate) asked: Operation,
}

/// An operation with its operands; types by their names in the symbols of kernels.
#[derive(Debug, Deserialize)]
#[serde(tag = "plan", rename_all = "snake_case")]
pub(crate) enum Operation {
    Unary {
        op: String,
        x: Tensor,
        y: Tensor,
    },
    Binary {
        op: String,
        lhs: Tensor,
        rhs: Tensor,
        y: Tensor,
    },
    Compare {
        op: String,
        lhs: Tensor,
        rhs: Tensor,
        y: Tensor,
    },
    Cast {
        x: Tensor,
        y: Tensor,
    },
    Parametric {
        op: String,
        x: Tensor,
        numbers: Vec<Vec<u8>>,
        y: Tensor,
    },
    Select {
        condition: Tensor,
        on_true: Tensor,
        on_false: Tensor,
        y: Tensor,
    },
    Fill {
        y: Tensor,
        element: Vec<u8>,
    },
    Contiguous {
        x: Tensor,
        y: Tensor,
    },
    Conv {
        x: Tensor,
        w: Tensor,
        padding: [usize; 2],
        stride: usize,
        dilation: usize,
        /// The kernel, but for its type, and the parts of its sums, if they are not to be what pays.
        form: Option<String>,
        parts: Option<usize>,
        y: Tensor,
    },
    ConvTranspose {
        x: Tensor,
        w: Tensor,
        padding: [usize; 2],
        output_padding: [usize; 2],
        stride: usize,
        dilation: usize,
        /// As above; an ordinary convolution's kernel.
        form: Option<String>,
        parts: Option<usize>,
        y: Tensor,
    },
    Matmul {
        left: Tensor,
        right: Tensor,
        y: Tensor,
    },
    Im2col {
        x: Tensor,
        kernel: [usize; 2],
        padding: [usize; 2],
        stride: usize,
        dilation: usize,
        y: Tensor,
    },
    Col2im1d {
        x: Tensor,
        stride: usize,
        y: Tensor,
    },
    Pool {
        op: String,
        x: Tensor,
        window: [usize; 2],
        stride: [usize; 2],
        y: Tensor,
    },
    UpsampleNearest {
        x: Tensor,
        y: Tensor,
    },
    UpsampleBilinear {
        x: Tensor,
        /// None where the corners lie upon each other.
        factors: Option<[Option<f64>; 2]>,
        y: Tensor,
    },
    Copy2d {
        x: Tensor,
        y: Tensor,
    },
    Reduce {
        op: String,
        x: Tensor,
        dims: Vec<usize>,
        y: Tensor,
    },
    Softmax {
        x: Tensor,
        y: Tensor,
    },
    /// `None` for ones, or zeros where they are added.
    Norm {
        op: String,
        x: Tensor,
        parameters: Vec<Option<Tensor>>,
        eps: f32,
        y: Tensor,
    },
    AddRmsNorm {
        x: Tensor,
        other: Tensor,
        /// `None` for ones.
        alpha: Option<Tensor>,
        eps: f32,
        sum: Tensor,
        y: Tensor,
    },
    Rope {
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        interleaved: bool,
        heads_inside: bool,
        y: Tensor,
    },
    RopeAppend {
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cos: Tensor,
        sin: Tensor,
        places: Ids,
        keys: Tensor,
        values: Tensor,
        y: Tensor,
    },
    Sdpa {
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Option<Tensor>,
        scale: f32,
        softcapping: f32,
        causal: bool,
        flash: Option<Flash>,
        /// Of a head's keys, 0 for tiles of queries; if not given, the sizes decide.
        parts: Option<usize>,
        y: Tensor,
    },
    Argsort {
        x: Tensor,
        ascending: bool,
        y: Tensor,
    },
    IndexSelect {
        x: Tensor,
        dim: usize,
        ids: Ids,
        y: Tensor,
    },
    Gather {
        x: Tensor,
        dim: usize,
        ids: Ids,
        y: Tensor,
    },
    Scatter {
        y: Tensor,
        dim: usize,
        ids: Ids,
        x: Tensor,
        form: Option<String>,
    },
    ScatterAdd {
        y: Tensor,
        dim: usize,
        ids: Ids,
        x: Tensor,
        form: Option<String>,
    },
    IndexAdd {
        y: Tensor,
        dim: usize,
        ids: Ids,
        x: Tensor,
        form: Option<String>,
    },
    /// Blocks are a tensor of bytes.
    Dequantize {
        x: Blocks,
        y: Tensor,
    },
    DequantizeRows {
        x: Blocks,
        ids: Ids,
        y: Tensor,
    },
    QuantizedExperts {
        x: Tensor,
        w: Blocks,
        experts: usize,
        ids: Ids,
        y: Tensor,
    },
    /// Pairs of a row and an expert: their numbers, experts and weights.
    ExpertsMatmul {
        x: Tensor,
        w: Tensor,
        pairs: Pairs,
        /// The form, if it is not to be the one that pays.
        tiled: Option<bool>,
        y: Tensor,
    },
    QuantizedPairs {
        x: Tensor,
        w: Blocks,
        experts: usize,
        pairs: Pairs,
        /// As above.
        tiled: Option<bool>,
        y: Tensor,
    },
    QuantizedMatmul {
        x: Tensor,
        w: Blocks,
        y: Tensor,
    },
    Random {
        op: String,
        y: Tensor,
        seed: u64,
        call: u64,
        first: u64,
        /// Of the distribution.
        numbers: Vec<f64>,
    },
    UniformFrom {
        units: Tensor,
        numbers: Vec<f64>,
        y: Tensor,
    },
}

/// Indices, and what goes with them.
#[derive(Debug, Deserialize)]
pub(crate) struct Ids {
    tensor: Tensor,
    /// The number that stands for no element.
    none: i64,
    /// A u32.
    failed: Option<Tensor>,
}

impl Ids {
    fn indices(&self) -> Result<Indices, Refusal> {
        let failed = self.failed.as_ref().map(Tensor::start).transpose()?;
        Ok(Indices {
            start: self.tensor.start()?,
            element: self.tensor.element()?,
            none: self.none,
            failed: failed.unwrap_or(Pointer::NULL),
        })
    }

    /// Those without gaps.
    fn contiguous(&self) -> Result<(Indices, &[usize]), Refusal> {
        Ok((self.indices()?, self.tensor.contiguous()?.shape))
    }
}

/// What flash attention has beside other attention.
#[derive(Debug, Deserialize)]
pub(crate) struct Flash {
    /// Keys before and behind a query's place that it sees.
    window: [Option<usize>; 2],
    slopes: Option<Tensor>,
    sequences: Option<Sequences>,
}

impl Flash {
    fn planned(&self) -> Result<nn_plan::Flash, Refusal> {
        let [before, after] = self.window;
        Ok(nn_plan::Flash {
            window: nn_plan::Window { before, after },
            slopes: self.slopes.as_ref().map(Tensor::start).transpose()?,
            sequences: self
                .sequences
                .as_ref()
                .map(Sequences::planned)
                .transpose()?,
        })
    }
}

/// Batch entries of different lengths, with pages (entries, pages) and groups (entries, groups, 2).
#[derive(Debug, Deserialize)]
pub(crate) struct Sequences {
    queries: Tensor,
    keys: Tensor,
    most: [usize; 2],
    pages: Option<Tensor>,
    groups: Option<Tensor>,
}

impl Sequences {
    fn planned(&self) -> Result<nn_plan::Sequences, Refusal> {
        let table = |of_entries: &Tensor| -> Result<_, Refusal> {
            Ok(nn_plan::Table {
                start: of_entries.contiguous()?.start,
                of_entry: of_entries.shape[1],
            })
        };
        Ok(nn_plan::Sequences {
            queries: self.queries.contiguous()?.start,
            keys: self.keys.contiguous()?.start,
            count: self.queries.shape[0] - 1,
            most: self.most,
            pages: self.pages.as_ref().map(table).transpose()?,
            groups: self.groups.as_ref().map(table).transpose()?,
        })
    }
}

/// A list of pairs of a row and an expert.
#[derive(Debug, Deserialize)]
pub(crate) struct Pairs {
    order: Ids,
    experts: Ids,
    weights: Option<Tensor>,
    shared: usize,
}

impl Pairs {
    fn planned(&self) -> Result<experts::Pairs, Refusal> {
        let (order, shape) = self.order.contiguous()?;
        let (experts, _) = self.experts.contiguous()?;
        let weights = self.weights.as_ref().map(Tensor::contiguous).transpose()?;
        Ok(experts::Pairs {
            order,
            experts,
            weights: weights.map_or(Pointer::NULL, |weights| weights.start),
            count: shape.iter().product(),
            shared: self.shared,
        })
    }
}

/// Rows of quantized blocks.
#[derive(Debug, Deserialize)]
pub(crate) struct Blocks {
    bytes: Tensor,
    format: String,
    shape: [usize; 2],
}

impl Blocks {
    fn planned(&self) -> Result<quantized::Blocks, Refusal> {
        let mut formats = table::BLOCKS.iter();
        let found = formats.position(|block| block.name == self.format);
        let [rows, columns] = self.shape;
        Ok(quantized::Blocks {
            start: self.bytes.start()?,
            format: found.ok_or_else(|| Refusal(format!("no block format `{}`", self.format)))?,
            rows,
            columns,
        })
    }
}

/// Null where there is none.
fn start_of(vector: &Option<Tensor>) -> Result<Pointer, Refusal> {
    match vector {
        Some(vector) => Ok(vector.contiguous()?.start),
        None => Ok(Pointer::NULL),
    }
}

/// Memory and a view of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Tensor {
    address: usize,
    element: String,
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

impl Tensor {
    fn element(&self) -> Result<Element, Refusal> {
        let named = |element: &Element| element.name() == self.element;
        let found = Element::ALL.into_iter().find(named);
        found.ok_or_else(|| Refusal(format!("no element type `{}`", self.element)))
    }

    fn operand(&self) -> Result<Operand<'_>, Refusal> {
        Ok(Operand {
            base: Pointer::NULL.offset(self.address),
            size: self.element()?.size(),
            view: View {
                shape: &self.shape,
                strides: &self.strides,
                offset: self.offset,
            },
        })
    }

    /// As results are written: contiguously, from the first element of the view on.
    fn output(&self) -> Result<Output, Refusal> {
        let size = self.element()?.size();
        Ok(Output {
            start: self.start()?,
            size,
        })
    }

    /// Height and width of images; those of three dimensions have one row.
    fn size(&self) -> Result<[usize; 2], Refusal> {
        let [.., height, width] = Images::of(self.operand()?)?.shape;
        Ok([height, width])
    }

    fn contiguous(&self) -> Result<Contiguous<'_>, Refusal> {
        if !self.operand()?.view.is_contiguous() {
            return Err(Refusal("the tensors must be contiguous".to_string()));
        }
        Ok(Contiguous {
            start: self.start()?,
            element: self.element()?,
            shape: &self.shape,
        })
    }

    fn drawn(&self) -> Result<Drawn, Refusal> {
        let Contiguous {
            start,
            element,
            shape,
        } = self.contiguous()?;
        Ok(Drawn {
            start,
            element,
            count: shape.iter().product(),
        })
    }

    fn start(&self) -> Result<Pointer, Refusal> {
        Ok(Pointer::NULL.offset(self.address + self.offset * self.element()?.size()))
    }
}

impl Operation {
    /// Has the recorder write down what is launched.
    pub(crate) fn plan(&self, recorder: &Recorder) -> Result<(), Refusal> {
        match self {
            Self::Dequantize { x, y } => {
                quantized::dequantize(recorder, x.planned()?, y.element()?, y.start()?)
            }
            Self::DequantizeRows { x, ids, y } => {
                let [n, step] = [ids.tensor.shape[0], ids.tensor.strides[0]];
                quantized::dequantize_rows(
                    recorder,
                    x.planned()?,
                    ids.indices()?,
                    [n, step],
                    y.start()?,
                )
            }
            Self::QuantizedExperts {
                x,
                w,
                experts,
                ids,
                y,
            } => {
                let (ids, shape) = ids.contiguous()?;
                let chosen = quantized::Chosen {
                    ids,
                    experts: *experts,
                    pairs: shape.iter().product(),
                };
                let (x, element) = (x.operand()?, x.element()?);
                quantized::multiply_experts(recorder, w.planned()?, x, element, chosen, y.start()?)
            }
            Self::ExpertsMatmul {
                x,
                w,
                pairs,
                tiled,
                y,
            } => experts::multiply(
                recorder,
                w.contiguous()?,
                x.contiguous()?,
                pairs.planned()?,
                *tiled,
                y.start()?,
            ),
            Self::QuantizedPairs {
                x,
                w,
                experts,
                pairs,
                tiled,
                y,
            } => {
                let x = (x.operand()?, x.element()?);
                let (w, pairs) = (w.planned()?, pairs.planned()?);
                experts::multiply_blocks(recorder, w, *experts, x, pairs, *tiled, y.start()?)
            }
            Self::QuantizedMatmul { x, w, y } => quantized::multiply(
                recorder,
                w.planned()?,
                x.operand()?,
                x.element()?,
                y.start()?,
            ),
            Self::Unary { op, x, y } => {
                let kernel = kernel(table::unary::OPS, op, &[x])?;
                plan::unary(recorder, kernel, x.operand()?, y.output()?)
            }
            Self::Binary { op, lhs, rhs, y } => {
                let kernel = kernel(table::binary::OPS, op, &[lhs])?;
                plan::binary(
                    recorder,
                    kernel,
                    [lhs.operand()?, rhs.operand()?],
                    y.output()?,
                )
            }
            Self::Compare { op, lhs, rhs, y } => {
                let kernel = kernel(table::compare::OPS, op, &[lhs])?;
                plan::compare(
                    recorder,
                    kernel,
                    [lhs.operand()?, rhs.operand()?],
                    y.output()?,
                )
            }
            Self::Cast { x, y } => {
                let kernel = kernel(table::cast::OPS, "cast", &[x, y])?;
                plan::cast(recorder, kernel, x.operand()?, y.output()?)
            }
            Self::Parametric { op, x, numbers, y } => {
                let kernel = kernel(table::parametric::OPS, op, &[x])?;
                let numbers: Vec<_> = numbers.iter().map(|bytes| Number::of(bytes)).collect();
                plan::parametric(recorder, kernel, x.operand()?, &numbers, y.output()?)
            }
            Self::Select {
                condition,
                on_true,
                on_false,
                y,
            } => {
                let types = [condition.element()?.bits(), on_true.element()?.bits()];
                let kernel = found(table::r#where::WHERE.kernel(&types), "where")?;
                let operands = [
                    condition.operand()?,
                    on_true.operand()?,
                    on_false.operand()?,
                ];
                plan::select(recorder, kernel, operands, y.output()?)
            }
            Self::Fill { y, element } => {
                plan::fill(recorder, y.operand()?, y.element()?, Pattern::of(element))
            }
            Self::Contiguous { x, y } => {
                plan::contiguous(recorder, x.operand()?, x.element()?, y.start()?)
            }
            Self::Conv {
                x,
                w,
                padding,
                stride,
                dilation,
                form,
                parts,
                y,
            } => {
                let (images, kernels) = (Images::of(x.operand()?)?, Images::of(w.operand()?)?);
                let window = window(&kernels, *padding, *stride, *dilation);
                let [.., height, width] = images.shape;
                let convolution = Convolution {
                    element: x.element()?,
                    x: images,
                    w: kernels,
                    window,
                    channels: kernels.shape[0],
                    groups: (images.shape[1] / kernels.shape[1].max(1)).max(1),
                    results: window.results([height, width])?,
                };
                convolution.check_sizes("a convolution")?;
                convolution.gather(recorder, choice(form.as_deref(), *parts)?, y.start()?)
            }
            Self::ConvTranspose {
                x,
                w,
                padding,
                output_padding,
                stride,
                dilation,
                form,
                parts,
                y,
            } => {
                let (images, kernels) = (Images::of(x.operand()?)?, Images::of(w.operand()?)?);
                let window = window(&kernels, *padding, *stride, *dilation);
                let [.., height, width] = images.shape;
                let convolution = Convolution {
                    element: x.element()?,
                    x: images,
                    w: kernels,
                    window,
                    channels: kernels.shape[1],
                    groups: 1,
                    results: window.transposed_results([height, width], *output_padding)?,
                };
                convolution.check_sizes("a transposed convolution")?;
                let choice = choice(form.as_deref(), *parts)?;
                convolution.gather_transposed(recorder, choice, y.start()?)
            }
            Self::Matmul { left, right, y } => {
                let kernel = kernel(table::matmul::OPS, "matmul", &[left])?;
                let (left, right) = (left.operand()?, right.operand()?);
                plan::matmul(recorder, kernel, left, right, y.start()?)
            }
            Self::Im2col {
                x,
                kernel,
                padding,
                stride,
                dilation,
                y,
            } => {
                let images = Images::of(x.operand()?)?;
                let window = im2col::Window {
                    kernel: *kernel,
                    padding: *padding,
                    stride: *stride,
                    dilation: *dilation,
                };
                let [batch, _, height, width] = images.shape;
                let results = window.results([height, width])?;
                let (element, part) = (x.element()?, (0, batch));
                im2col::im2col(
                    recorder,
                    element,
                    &images,
                    part,
                    &window,
                    results,
                    y.start()?,
                )
            }
            Self::Col2im1d { x, stride, y } => {
                let kernel = found(table::im2col::COL2IM1D.kernel(&[x.element()?]), "col2im1d")?;
                let windows = Images::of(x.operand()?)?;
                im2col::col2im1d(recorder, kernel, &windows, *stride, y.start()?)
            }
            Self::Pool {
                op,
                x,
                window,
                stride,
                y,
            } => {
                let kernel = kernel(table::pool::OPS, op, &[x])?;
                let pooled = match op.as_str() {
                    "avg_pool2d" => Pooled::Mean,
                    _ => Pooled::Largest,
                };
                let (x, window) = (Images::of(x.operand()?)?, Window::of(*window, *stride)?);
                plan::pool(recorder, kernel, pooled, &x, &window, y.start()?)
            }
            Self::UpsampleNearest { x, y } => {
                let bits = [x.element()?.bits()];
                let kernel = found(
                    table::upsample::UPSAMPLE_NEAREST2D.kernel(&bits),
                    "upsample",
                )?;
                let images = Images::of(x.operand()?)?;
                plan::nearest(recorder, kernel, &images, y.size()?, y.start()?)
            }
            Self::UpsampleBilinear { x, factors, y } => {
                let types = [x.element()?];
                let kernel = found(
                    table::upsample::UPSAMPLE_BILINEAR2D.kernel(&types),
                    "upsample",
                )?;
                let aligned = factors.map_or(Aligned::Corners, Aligned::Edges);
                let images = Images::of(x.operand()?)?;
                bilinear(recorder, kernel, &images, y.size()?, aligned, y.start()?)
            }
            Self::Copy2d { x, y } => {
                plan::copy2d(recorder, [x.operand()?, y.operand()?], x.element()?)
            }
            Self::Reduce { op, x, dims, y } => {
                let op = named(table::reduce::OPS, op)?;
                plan::reduce(recorder, &op, x.operand()?, x.element()?, dims, y.start()?)
            }
            Self::Softmax { x, y } => nn_plan::softmax(recorder, x.contiguous()?, y.start()?),
            Self::Norm {
                op,
                x,
                parameters,
                eps,
                y,
            } => {
                let op = named(table::norm::OPS, op)?;
                let vectors: Result<Vec<_>, _> = parameters.iter().map(start_of).collect();
                nn_plan::norm(recorder, &op, x.contiguous()?, &vectors?, *eps, y.start()?)
            }
            Self::AddRmsNorm {
                x,
                other,
                alpha,
                eps,
                sum,
                y,
            } => {
                let inputs = [other.contiguous()?.start, start_of(alpha)?];
                let results = [sum.start()?, y.start()?];
                match nn_plan::add_rms_norm(recorder, x.contiguous()?, inputs, *eps, results)? {
                    true => Ok(()),
                    false => Err(Refusal("no block's registers hold such rows".to_string())),
                }
            }
            Self::Rope {
                x,
                cos,
                sin,
                interleaved,
                heads_inside,
                y,
            } => {
                let rotation = nn_plan::Rotation {
                    interleaved: *interleaved,
                    heads_inside: *heads_inside,
                };
                let (x, cos, sin) = (x.contiguous()?, cos.contiguous()?, sin.contiguous()?);
                nn_plan::rope(recorder, rotation, x, cos, sin, y.start()?)
            }
            Self::RopeAppend {
                q,
                k,
                v,
                cos,
                sin,
                places,
                keys,
                values,
                y,
            } => {
                let next = nn_plan::Next {
                    q: q.contiguous()?,
                    k: k.contiguous()?,
                    v: v.contiguous()?,
                    cos: cos.contiguous()?,
                    sin: sin.contiguous()?,
                };
                let kept = keys.contiguous()?;
                let caches = nn_plan::Caches {
                    keys: kept.start,
                    values: values.contiguous()?.start,
                    capacity: kept.shape[2],
                    places: places.contiguous()?.0,
                };
                match nn_plan::rope_append(recorder, next, caches, y.start()?)? {
                    true => Ok(()),
                    false => Err(Refusal("halves of rows are no whole packs".to_string())),
                }
            }
            Self::Sdpa {
                q,
                k,
                v,
                mask,
                scale,
                softcapping,
                causal,
                flash,
                parts,
                y,
            } => {
                let attention = nn_plan::Attention {
                    q: q.operand()?,
                    k: k.operand()?,
                    v: v.operand()?,
                    mask: mask.as_ref().map(Tensor::operand).transpose()?,
                    element: q.element()?,
                    scores: nn_plan::Scores {
                        scale: *scale,
                        softcapping: *softcapping,
                        causal: *causal,
                    },
                    flash: flash.as_ref().map(Flash::planned).transpose()?,
                };
                nn_plan::sdpa(recorder, &attention, *parts, y.start()?)
            }
            Self::Argsort { x, ascending, y } => {
                plan::argsort(recorder, x.contiguous()?, *ascending, y.start()?)
            }
            Self::IndexSelect { x, dim, ids, y } => {
                let ([n], [step]) = (&ids.tensor.shape[..], &ids.tensor.strides[..]) else {
                    return Err(Refusal("the indices have one dimension".to_string()));
                };
                let (x, y) = (x.contiguous()?, y.start()?);
                plan::index_select(recorder, x, *dim, ids.indices()?, [*n, *step], y)
            }
            Self::Gather { x, dim, ids, y } => {
                let (x, y, (ids, shape)) = (x.contiguous()?, y.start()?, ids.contiguous()?);
                plan::gather(recorder, x, *dim, ids, shape, y)
            }
            Self::Scatter {
                y,
                dim,
                ids,
                x,
                form,
            } => {
                let form = chosen(
                    form,
                    &[("columns", Placing::Columns), ("marked", Placing::Marked)],
                )?;
                let (y, x, (ids, _)) = (y.contiguous()?, x.contiguous()?, ids.contiguous()?);
                plan::scatter(recorder, y, ids, x, *dim, form)
            }
            Self::ScatterAdd {
                y,
                dim,
                ids,
                x,
                form,
            } => {
                let forms = [
                    ("columns", Adding::Columns),
                    ("lds", Adding::Lds),
                    ("atomic", Adding::Atomic),
                ];
                let form = chosen(form, &forms)?;
                let (y, x, (ids, _)) = (y.contiguous()?, x.contiguous()?, ids.contiguous()?);
                plan::scatter_add(recorder, y, ids, x, *dim, form)
            }
            Self::IndexAdd {
                y,
                dim,
                ids,
                x,
                form,
            } => {
                let forms = [
                    ("elements", AddingRows::Elements),
                    ("few", AddingRows::Few),
                    ("searched", AddingRows::Searched),
                    ("sorted", AddingRows::Sorted),
                ];
                let form = chosen(form, &forms)?;
                let (y, x, (ids, _)) = (y.contiguous()?, x.contiguous()?, ids.contiguous()?);
                plan::index_add(recorder, y, ids, x, *dim, form)
            }
            Self::Random {
                op,
                y,
                seed,
                call,
                first,
                numbers,
            } => {
                let Some(op) = Op::named(table::random::OPS, op) else {
                    return Err(Refusal(format!("no distribution `{op}`")));
                };
                let counter = Counter {
                    seed: *seed,
                    call: *call,
                    first: *first,
                };
                let distribution = Distribution::of(numbers, y.element()?);
                plan::random(recorder, &op, y.drawn()?, counter, distribution)
            }
            Self::UniformFrom { units, numbers, y } => {
                let distribution = Distribution::of(numbers, y.element()?);
                plan::random::uniform_from(recorder, units.start()?, y.drawn()?, distribution)
            }
        }
    }
}

/// The windows of a convolution with these kernels.
fn window(kernels: &Images, padding: [usize; 2], stride: usize, dilation: usize) -> im2col::Window {
    let [.., height, width] = kernels.shape;
    im2col::Window {
        kernel: [height, width],
        padding,
        stride,
        dilation,
    }
}

/// What was decided about a convolution.
fn choice(form: Option<&str>, parts: Option<usize>) -> Result<Choice, Refusal> {
    let named = |name| Form::named(name).ok_or_else(|| Refusal(format!("no form `{name}`")));
    let form = form.map(named).transpose()?;
    Ok(Choice { form, parts })
}

/// The form of that name; none if the sizes are to decide.
fn chosen<T: Copy>(form: &Option<String>, forms: &[(&str, T)]) -> Result<Option<T>, Refusal> {
    let Some(name) = form else { return Ok(None) };
    let found = forms.iter().find(|(known, _)| known == name);
    let refusal = || Refusal(format!("no form `{name}`"));
    found.map(|(_, form)| Some(*form)).ok_or_else(refusal)
}

/// The kernel of an op for the types of these tensors.
fn kernel(ops: &[Op], op: &str, typed: &[&Tensor]) -> Result<Kernel, Refusal> {
    let types = typed
        .iter()
        .map(|tensor| tensor.element())
        .collect::<Result<Vec<_>, _>>()?;
    found(Op::named(ops, op).and_then(|op| op.kernel(&types)), op)
}

fn named(ops: &[Op], op: &str) -> Result<Op, Refusal> {
    Op::named(ops, op).ok_or_else(|| Refusal(format!("there is no `{op}`")))
}

fn found(kernel: Option<Kernel>, op: &str) -> Result<Kernel, Refusal> {
    kernel.ok_or_else(|| Refusal(format!("`{op}` has no kernel for these types")))
}
