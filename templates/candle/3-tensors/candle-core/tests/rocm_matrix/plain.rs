//! Plain sums in f64, and numbers from a table, for operations that the CPU itself is not trusted with.
use candle_core::{Device, Result, Tensor};

/// The windows of a convolution; rows before columns.
pub(crate) struct Window {
    pub(crate) padding: [usize; 2],
    pub(crate) output_padding: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    pub(crate) groups: usize,
}

impl Window {
    pub(crate) fn rows(padding: usize, stride: usize, dilation: usize) -> Self {
        Self {
            padding: [0, padding],
            output_padding: [0; 2],
            stride: [1, stride],
            dilation: [1, dilation],
            groups: 1,
        }
    }

    pub(crate) fn planes(padding: usize, stride: usize, dilation: usize) -> Self {
        Self {
            padding: [padding; 2],
            output_padding: [0; 2],
            stride: [stride; 2],
            dilation: [dilation; 2],
            groups: 1,
        }
    }
}

/// Elements of a tensor of four dimensions, f64, in row-major order; one of three has one row.
struct Plain {
    dims: [usize; 4],
    elements: Vec<f64>,
    rows: bool,
}

impl Plain {
    fn of(x: &Tensor) -> Result<Self> {
        let rows = x.dims().len() == 3;
        let x = if rows { x.unsqueeze(2)? } else { x.clone() };
        let (a, b, c, d) = x.dims4()?;
        Ok(Self {
            dims: [a, b, c, d],
            elements: x.flatten_all()?.to_vec1()?,
            rows,
        })
    }

    fn at(&self, [i, j, k, l]: [usize; 4]) -> f64 {
        let [_, b, c, d] = self.dims;
        self.elements[((i * b + j) * c + k) * d + l]
    }

    /// A tensor that `element` says all about; of three dimensions if this one was.
    fn another(&self, dims: [usize; 4], element: impl Fn([usize; 4]) -> f64) -> Result<Tensor> {
        let [a, b, c, d] = dims;
        let mut elements = Vec::with_capacity(a * b * c * d);
        for i in 0..a * b * c * d {
            elements.push(element([
                i / (b * c * d),
                i / (c * d) % b,
                i / d % c,
                i % d,
            ]));
        }
        let made = Tensor::from_vec(elements, (a, b, c, d), &Device::Cpu)?;
        if self.rows {
            made.squeeze(2)
        } else {
            Ok(made)
        }
    }
}

/// (b, c_in, h, w) with a kernel (c_out, c_in / groups, k_h, k_w).
pub(crate) fn convolution(x: &Tensor, kernel: &Tensor, window: &Window) -> Result<Tensor> {
    let (x, kernel) = (Plain::of(x)?, Plain::of(kernel)?);
    let ([batch, _, ..], [channels, inputs, ..]) = (x.dims, kernel.dims);
    let size = |d: usize| {
        let span = window.dilation[d] * (kernel.dims[2 + d] - 1) + 1;
        (x.dims[2 + d] + 2 * window.padding[d] - span) / window.stride[d] + 1
    };
    x.another(
        [batch, channels, size(0), size(1)],
        |[b, channel, row, column]| {
            let first = channel / (channels / window.groups) * inputs;
            let place = |d: usize, at: usize, tap: usize| {
                let padded = at * window.stride[d] + tap * window.dilation[d];
                let inside = padded.checked_sub(window.padding[d])?;
                (inside < x.dims[2 + d]).then_some(inside)
            };
            let mut sum = 0.;
            for tap_row in 0..kernel.dims[2] {
                for tap_column in 0..kernel.dims[3] {
                    let places = (place(0, row, tap_row), place(1, column, tap_column));
                    let (Some(row), Some(column)) = places else {
                        continue;
                    };
                    for input in 0..inputs {
                        let weight = kernel.at([channel, input, tap_row, tap_column]);
                        sum += x.at([b, first + input, row, column]) * weight;
                    }
                }
            }
            sum
        },
    )
}

/// (b, c_in, h, w) with a kernel (c_in, c_out, k_h, k_w).
pub(crate) fn transposed_convolution(
    x: &Tensor,
    kernel: &Tensor,
    window: &Window,
) -> Result<Tensor> {
    let (x, kernel) = (Plain::of(x)?, Plain::of(kernel)?);
    let ([batch, inputs, ..], [_, channels, ..]) = (x.dims, kernel.dims);
    let size = |d: usize| {
        let span = window.dilation[d] * (kernel.dims[2 + d] - 1) + 1;
        let whole = (x.dims[2 + d] - 1) * window.stride[d] + span + window.output_padding[d];
        whole - 2 * window.padding[d]
    };
    x.another(
        [batch, channels, size(0), size(1)],
        |[b, channel, row, column]| {
            // The input whose tap reaches a result.
            let place = |d: usize, at: usize, tap: usize| {
                let steps = (at + window.padding[d]).checked_sub(tap * window.dilation[d])?;
                let input = steps / window.stride[d];
                (steps % window.stride[d] == 0 && input < x.dims[2 + d]).then_some(input)
            };
            let mut sum = 0.;
            for tap_row in 0..kernel.dims[2] {
                for tap_column in 0..kernel.dims[3] {
                    let places = (place(0, row, tap_row), place(1, column, tap_column));
                    let (Some(row), Some(column)) = places else {
                        continue;
                    };
                    for input in 0..inputs {
                        let weight = kernel.at([input, channel, tap_row, tap_column]);
                        sum += x.at([b, input, row, column]) * weight;
                    }
                }
            }
            sum
        },
    )
}

/// (b, m, k) times (b, k, n).
pub(crate) fn product(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let ((batch, rows, _), columns) = (left.dims3()?, right.dim(2)?);
    let (left, right) = (left.to_vec3::<f64>()?, right.to_vec3::<f64>()?);
    let mut elements = Vec::with_capacity(batch * rows * columns);
    for (left, right) in left.iter().zip(&right) {
        for row in left {
            elements.extend((0..columns).map(|column| {
                let factors = row.iter().zip(right);
                factors.map(|(x, of_k)| x * of_k[column]).sum::<f64>()
            }));
        }
    }
    Tensor::from_vec(elements, (batch, rows, columns), &Device::Cpu)
}

/// erf(x), gelu(x) and gelu(-x), gelu being that of erf, for x = 0, 1/4, ..., 2; each rounded once.
#[allow(clippy::excessive_precision)]
const ERF: [[f64; 3]; 9] = [
    [0., 0., 0.],
    [
        0.27632639016823696,
        0.14967658142073093,
        -0.10032341857926907,
    ],
    [
        0.5204998778130465,
        0.34573123063700656,
        -0.15426876936299344,
    ],
    [0.7111556336535151, 0.5800294857173488, -0.16997051428265114],
    [0.8427007929497149, 0.8413447460685429, -0.15865525393145705],
    [0.9229001282564583, 1.117937782916431, -0.13206221708356908],
    [0.9661051464753108, 1.399789198096713, -0.1002108019032871],
    [0.9866716712191824, 1.67989647548832, -0.07010352451167991],
    [0.9953222650189527, 1.9544997361036416, -0.04550026389635842],
];

fn tabulated(x: &Tensor, number: impl Fn([f64; 3], bool) -> f64) -> Result<Tensor> {
    let elements = x.flatten_all()?.to_vec1::<f64>()?.into_iter();
    let found = elements.map(|x| number(ERF[(x.abs() * 4.) as usize], x < 0.));
    Tensor::from_vec(found.collect::<Vec<_>>(), x.dims(), &Device::Cpu)
}

/// Of quarters between -2 and 2.
pub(crate) fn erf(x: &Tensor) -> Result<Tensor> {
    tabulated(x, |[erf, ..], negative| if negative { -erf } else { erf })
}

/// As `erf`.
pub(crate) fn gelu_erf(x: &Tensor) -> Result<Tensor> {
    tabulated(
        x,
        |[_, gelu, mirrored], negative| {
            if negative {
                mirrored
            } else {
                gelu
            }
        },
    )
}
