//! The fused operations of candle-nn, for every element type: ROCm against the CPU.
//!
//! The CPU computes in f64 from the same rounded inputs, with Candle's composed form where its own kernel has no f64. ROCm
//! is within what its kernels promise of that, in units in the last place.
#![cfg(feature = "rocm")]
mod rocm_types;
mod rocm_ulp;

use candle::{DType, Device, Result, Tensor, Var, D};
use candle_nn::{ops, rotary_emb};
use rocm_types::DTYPES;
use rocm_ulp::ulp;
use std::cell::Cell;

/// The types that the operations are made for.
const FLOATS: [DType; 4] = [DType::BF16, DType::F16, DType::F32, DType::F64];

/// Shapes of rows: single elements, primes, whole packs, more than a wave, a block or a card takes at a time.
const ROWS: &[&[usize]] = &[
    &[1],
    &[7, 13],
    &[37, 101],
    &[5, 38],
    &[2, 3, 64],
    &[300, 4],
    &[33, 1024],
    &[3, 5000],
    &[3, 5003],
    &[800, 515],
    &[2, 16384],
    &[1, 70001],
    &[1, 131072],
];

/// Shapes of rows with two halves, aligned and not.
const HALVES: &[&[usize]] = &[
    &[2],
    &[7, 14],
    &[2, 3, 64],
    &[300, 4],
    &[33, 1030],
    &[3, 10006],
];

/// (batch, heads, positions, depth) for rotary embeddings.
const SEQUENCES: &[&[usize]] = &[
    &[1, 1, 1, 2],
    &[2, 3, 1, 64],
    &[1, 2, 7, 6],
    &[3, 2, 5, 80],
    &[2, 5, 3, 1030],
];

const EPS: f32 = 1e-5;

/// Makes the tensors of a case, the same on every device.
struct Inputs<'a> {
    device: &'a Device,
    /// The type that numbers are rounded to.
    dtype: DType,
    /// The type that they are given in.
    given: DType,
    shape: &'a [usize],
    /// Elements before the tensors in their memory.
    skip: usize,
    made: Cell<usize>,
}

impl Inputs<'_> {
    /// 255 different numbers between -1 and 1.
    fn tensor(&self, shape: &[usize]) -> Result<Tensor> {
        let salt = self.made.replace(self.made.get() + 1);
        let count: usize = shape.iter().product();
        let numbers = (0..self.skip + count)
            .map(|i| ((i * 97 + i / 11 + salt * 31) % 255) as f32 / 127. - 1.)
            .collect::<Vec<_>>();
        let numbers = Tensor::new(numbers, &Device::Cpu)?.to_dtype(self.dtype)?;
        let numbers = numbers.to_dtype(self.given)?.to_device(self.device)?;
        numbers.narrow(0, self.skip, count)?.reshape(shape)
    }

    fn rows(&self) -> Result<Tensor> {
        self.tensor(self.shape)
    }

    /// As long as a row.
    fn vector(&self) -> Result<Tensor> {
        self.tensor(&self.shape[self.shape.len() - 1..])
    }

    /// Angles of each position, or of each batch entry's positions.
    fn angles(&self, positions: usize, of_each: bool) -> Result<Tensor> {
        let half = self.shape[3] / 2;
        if of_each {
            self.tensor(&[self.shape[0], positions, half])
        } else {
            self.tensor(&[positions, half])
        }
    }
}

type Run = fn(&Inputs) -> Result<Tensor>;

/// One operation, and how the CPU computes it in f64.
struct Operation {
    name: &'static str,
    shapes: &'static [&'static [usize]],
    /// Units in the last place that ROCm's result may be off.
    ulps: f64,
    /// Where results are differences: the least number whose units count.
    least: f64,
    run: Run,
    reference: Run,
}

fn same(
    name: &'static str,
    shapes: &'static [&'static [usize]],
    ulps: f64,
    least: f64,
    run: Run,
) -> Operation {
    Operation {
        name,
        shapes,
        ulps,
        least,
        run,
        reference: run,
    }
}

fn operations() -> Vec<Operation> {
    vec![
        same("sigmoid", ROWS, 4., 0., |i| ops::sigmoid(&i.rows()?)),
        same("softmax_last_dim", ROWS, 4., 0., |i| {
            ops::softmax_last_dim(&i.rows()?)
        }),
        Operation {
            reference: |i| ops::rms_norm_slow(&i.rows()?, &i.vector()?, EPS),
            ..same("rms_norm", ROWS, 4., 0., |i| {
                ops::rms_norm(&i.rows()?, &i.vector()?, EPS)
            })
        },
        Operation {
            reference: |i| ops::layer_norm_slow(&i.rows()?, &i.vector()?, &i.vector()?, EPS),
            ..same("layer_norm", ROWS, 4., 2., |i| {
                ops::layer_norm(&i.rows()?, &i.vector()?, &i.vector()?, EPS)
            })
        },
        same("rope", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[2], false)?, i.angles(i.shape[2], false)?);
            rotary_emb::rope(&i.rows()?, &cos, &sin)
        }),
        same("rope with angles to spare", SEQUENCES, 2., 1., |i| {
            let cos = i.angles(i.shape[2] + 2, false)?;
            let sin = i.angles(i.shape[2] + 1, false)?;
            rotary_emb::rope(&i.rows()?, &cos, &sin)
        }),
        same("rope of each entry", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[2], true)?, i.angles(i.shape[2], true)?);
            rotary_emb::rope(&i.rows()?, &cos, &sin)
        }),
        same("rope_i", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[2], false)?, i.angles(i.shape[2], false)?);
            rotary_emb::rope_i(&i.rows()?, &cos, &sin)
        }),
        same("rope_i of each entry", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[2], true)?, i.angles(i.shape[2], true)?);
            rotary_emb::rope_i(&i.rows()?, &cos, &sin)
        }),
        same("rope_thd", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[1], false)?, i.angles(i.shape[1], false)?);
            rotary_emb::rope_thd(&i.rows()?, &cos, &sin)
        }),
        same("rope_thd of each entry", SEQUENCES, 2., 1., |i| {
            let (cos, sin) = (i.angles(i.shape[1], true)?, i.angles(i.shape[1], true)?);
            rotary_emb::rope_thd(&i.rows()?, &cos, &sin)
        }),
    ]
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
    tensor.flatten_all()?.to_vec1()
}

/// Asserts that `got` is within so many units in the last place of its type of what the CPU has in f64.
fn assert_near(got: &Tensor, expected: &Tensor, ulps: f64, least: f64, case: &str) -> Result<()> {
    assert_eq!(got.dims(), expected.dims(), "{case}");
    let (got, wanted, dtype) = (numbers(got)?, numbers(expected)?, got.dtype());
    // What the CPU may lose where it is no wider: a rounding for each element that it adds up.
    let length = expected.dims().last().copied().unwrap_or(1);
    let own = length as f64 * f64::EPSILON;
    for (at, (got, wanted)) in got.into_iter().zip(wanted).enumerate() {
        let size = wanted.abs().max(least);
        let allowed = ulps * ulp(dtype, size) + own * size;
        assert!(
            allowed.is_finite() && (got - wanted).abs() <= allowed,
            "{case}: element {at} is {got} instead of {wanted}, off by {allowed} at most"
        );
    }
    Ok(())
}

mod forward_agrees_with_the_cpu {
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        for operation in operations() {
            for dtype in FLOATS {
                for shape in operation.shapes {
                    // Aligned to what a lane reads at once, and not.
                    for skip in [0, 3] {
                        let inputs = |device, given| Inputs {
                            device,
                            dtype,
                            given,
                            shape,
                            skip,
                            made: Cell::new(0),
                        };
                        let case = format!("{} {dtype:?} {shape:?} + {skip}", operation.name);
                        let got = (operation.run)(&inputs(&device, dtype))?;
                        assert_eq!(got.dtype(), dtype, "{case}");
                        let expected = (operation.reference)(&inputs(&Device::Cpu, DType::F64))?;
                        assert_near(&got, &expected, operation.ulps, operation.least, &case)?;
                    }
                }
            }
        }
        Ok(())
    }
}

mod empty_tensors_stay_empty {
    use super::*;

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        for operation in operations() {
            let shapes: &[&[usize]] = match operation.shapes {
                ROWS => &[&[0], &[0, 5], &[4, 0]],
                _ => &[&[0, 2, 3, 4], &[2, 0, 3, 4], &[2, 3, 3, 0]],
            };
            for shape in shapes {
                let inputs = Inputs {
                    device: &device,
                    dtype: DType::F32,
                    given: DType::F32,
                    shape,
                    skip: 1,
                    made: Cell::new(0),
                };
                let got = (operation.run)(&inputs)?;
                assert_eq!(got.dims(), *shape, "{}", operation.name);
            }
        }
        Ok(())
    }
}

mod what_the_cpu_refuses_is_an_error {
    use super::*;

    fn inputs<'a>(device: &'a Device, dtype: DType, shape: &'static [usize]) -> Inputs<'a> {
        Inputs {
            device,
            dtype,
            given: dtype,
            shape,
            skip: 0,
            made: Cell::new(0),
        }
    }

    /// Integers, and floats of a byte.
    #[test]
    fn types_rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let others = || DTYPES.iter().filter(|dtype| !FLOATS.contains(dtype));
        assert!(others().count() > 0);
        for operation in operations() {
            for &dtype in others() {
                for device in [&device, &Device::Cpu] {
                    let got = (operation.run)(&inputs(device, dtype, operation.shapes[1]));
                    assert!(got.is_err(), "{} {dtype:?} {device:?}", operation.name);
                }
            }
        }
        Ok(())
    }

    /// Views that are not contiguous, and tensors of two types.
    #[test]
    fn operands_rocm() -> Result<()> {
        let rocm = Device::new_rocm(0)?;
        for device in [&rocm, &Device::Cpu] {
            let of = |dtype| inputs(device, dtype, &[6, 6]);
            let (x, vector) = (of(DType::F32).rows()?, of(DType::F32).vector()?);
            let other = of(DType::F16).vector()?;
            let pairs = of(DType::F32).tensor(&[6, 2])?;
            let every_other = pairs.narrow(1, 0, 1)?.squeeze(1)?;
            for (why, result) in [
                ("view", ops::softmax_last_dim(&x.t()?)),
                ("view", ops::rms_norm(&x.t()?, &vector, EPS)),
                ("view", ops::layer_norm(&x.t()?, &vector, &vector, EPS)),
                ("alpha", ops::rms_norm(&x, &every_other, EPS)),
                ("beta", ops::layer_norm(&x, &vector, &every_other, EPS)),
                ("type", ops::rms_norm(&x, &other, EPS)),
                ("type", ops::layer_norm(&x, &vector, &other, EPS)),
            ] {
                assert!(result.is_err(), "{why} {device:?}");
            }
        }
        Ok(())
    }
}

mod backward_agrees_with_the_cpu {
    use super::*;

    /// The gradient of a weighted sum of the function's results.
    fn gradient(inputs: &Inputs, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let x = Var::from_tensor(&inputs.rows()?)?;
        let sum = (f(x.as_tensor())? * inputs.rows()?)?.sum_all()?;
        let gradients = sum.backward()?;
        Ok(gradients.get(x.as_tensor()).expect("a gradient").clone())
    }

    #[test]
    fn rocm() -> Result<()> {
        let device = Device::new_rocm(0)?;
        // Sigmoid is the only fused operation with a gradient of its own. The others have composed forms for training.
        type Function = fn(&Inputs, &Tensor) -> Result<Tensor>;
        let functions: [(&str, Function); 5] = [
            ("sigmoid", |_, x| ops::sigmoid(x)),
            ("swiglu", |_, x| {
                ops::swiglu(&Tensor::cat(&[x, x], D::Minus1)?)
            }),
            ("softmax", |_, x| ops::softmax(x, D::Minus1)),
            ("rms_norm_slow", |i, x| {
                ops::rms_norm_slow(x, &i.vector()?, EPS)
            }),
            ("layer_norm_slow", |i, x| {
                ops::layer_norm_slow(x, &i.vector()?, &i.vector()?, EPS)
            }),
        ];
        for (name, function) in functions {
            for dtype in [DType::F32, DType::F64] {
                for shape in [&[7, 13][..], &[2, 3, 64]] {
                    let of = |device, given| {
                        let inputs = Inputs {
                            device,
                            dtype,
                            given,
                            shape,
                            skip: 0,
                            made: Cell::new(0),
                        };
                        gradient(&inputs, |x| function(&inputs, x))
                    };
                    let (got, expected) = (of(&device, dtype)?, of(&Device::Cpu, DType::F64)?);
                    // A rounding for each element that is added up, and some for the steps before and after.
                    let ulps = (shape[shape.len() - 1] + 16) as f64;
                    let case = format!("{name} {dtype:?} {shape:?}");
                    assert_near(&got, &expected, ulps, 1., &case)?;
                }
            }
        }
        Ok(())
    }
}

/// What statements in candle-transformers ask for.
mod operations_of_models {
    use super::*;
    use candle_nn::rocm::{attention, gated, rms_norm_residual, rope_with_caches};
    use candle_nn::Activation;

    /// Queries, keys and values of heads that share keys in twos.
    fn operands(device: &Device, dtype: DType) -> Result<[Tensor; 3]> {
        let inputs = |shape| Inputs {
            device,
            dtype,
            given: dtype,
            shape,
            skip: 3,
            made: Cell::new(shape[1]),
        };
        Ok([
            inputs(&[2, 4, 5, 16]).rows()?,
            inputs(&[2, 2, 9, 16]).rows()?,
            inputs(&[2, 2, 9, 24]).rows()?,
        ])
    }

    /// 1 where a key is hidden.
    fn hidden(device: &Device) -> Result<Tensor> {
        let hidden = (0..5).flat_map(|i| (0..9).map(move |j| u8::from(j > i + 4)));
        Tensor::from_vec(hidden.collect(), (5, 9), device)
    }

    /// With one operation after another.
    fn plainly([q, k, v]: &[Tensor; 3], mask: Option<&Tensor>, cap: f64) -> Result<Tensor> {
        let twice = |x: &Tensor| {
            let (batch, heads, rows, columns) = x.dims4()?;
            let x = x.unsqueeze(2)?.expand((batch, heads, 2, rows, columns))?;
            x.reshape((batch, 2 * heads, rows, columns))
        };
        let scores = (q.matmul(&twice(k)?.t()?)? * 0.5)?;
        let scores = ((scores / cap)?.tanh()? * cap)?;
        let scores = match mask {
            None => scores,
            Some(mask) => scores.broadcast_add(mask)?,
        };
        ops::softmax(&scores, D::Minus1)?.matmul(&twice(v)?)
    }

    #[test]
    fn attention_is_what_models_write_out() -> Result<()> {
        let device = Device::new_rocm(0)?;
        for (dtype, ulps) in [(DType::F32, 64.), (DType::F16, 4.), (DType::BF16, 4.)] {
            let on_rocm = operands(&device, dtype)?;
            let exact = operands(&Device::Cpu, dtype)?;
            let exact = [0, 1, 2].map(|i| exact[i].to_dtype(DType::F64).expect("numbers"));
            let [q, k, v] = &on_rocm;
            let hidden_on_cpu = hidden(&Device::Cpu)?.to_dtype(DType::F64)?;
            let infinite = hidden_on_cpu.affine(-1., 1.)?.log()?;
            let finite = (&hidden_on_cpu * -3.)?;
            let added = finite.to_dtype(DType::F32)?.to_device(&device)?;
            for (name, mask, reference, cap) in [
                ("none", None, None, None),
                ("hidden", Some(hidden(&device)?), Some(&infinite), None),
                ("added, f32", Some(added), Some(&finite), Some(2.)),
            ] {
                let found = attention(q, k, v, mask.as_ref(), 0.5, cap)?.expect("one kernel");
                // No cap is one far above all scores.
                let expected = plainly(&exact, reference, cap.unwrap_or(1e9))?;
                assert_eq!(found.dtype(), dtype);
                let case = format!("{dtype:?}, mask {name}");
                assert_near(&found, &expected, ulps, 1., &case)?;
            }
        }
        Ok(())
    }

    #[test]
    fn rows_with_gaps_are_attended_to() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let [q, k, v] = operands(&device, DType::F32)?;
        let turned = |x: &Tensor| x.transpose(2, 3)?.contiguous()?.transpose(2, 3);
        let expected = attention(&q, &k, &v, None, 0.5, None)?.expect("one kernel");
        let found = attention(&turned(&q)?, &turned(&k)?, &turned(&v)?, None, 0.5, None)?;
        let found = found.expect("one kernel");
        let expected = expected.to_dtype(DType::F64)?;
        assert_near(&found, &expected, 64., 1., "rows with gaps")
    }

    /// A rounding for silu, and one for the product.
    #[test]
    fn swiglu_agrees_with_the_cpu() -> Result<()> {
        let device = Device::new_rocm(0)?;
        for dtype in FLOATS {
            for shape in HALVES {
                for skip in [0, 3] {
                    let of = |device, given| {
                        let inputs = Inputs {
                            device,
                            dtype,
                            given,
                            shape,
                            skip,
                            made: Cell::new(0),
                        };
                        ops::swiglu(&inputs.rows()?)
                    };
                    let (found, expected) = (of(&device, dtype)?, of(&Device::Cpu, DType::F64)?);
                    assert_eq!(found.dtype(), dtype);
                    let case = format!("swiglu {dtype:?} {shape:?} {skip}");
                    assert_near(&found, &expected, 4., 0., &case)?;
                }
            }
        }
        Ok(())
    }

    #[test]
    fn other_devices_types_and_gradients_are_left_to_candle() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let fused = |[q, k, v]: &[Tensor; 3], cap: Option<f64>| -> Result<bool> {
            Ok(attention(q, k, v, None, 0.5, cap)?.is_some())
        };
        let operands = |device: &Device, dtype| operands(device, dtype);
        assert!(fused(&operands(&device, DType::F16)?, None)?);
        assert!(!fused(&operands(&Device::Cpu, DType::F32)?, None)?);
        assert!(!fused(&operands(&device, DType::F64)?, None)?);
        let [q, k, v] = operands(&device, DType::F32)?;
        // Prompts in f32 are two products while their scores fit into memory.
        for (queries, dtype, one_kernel) in [
            (16, DType::F32, true),
            (17, DType::F32, false),
            (17, DType::BF16, true),
        ] {
            let q = Tensor::zeros((2, 4, queries, 16), dtype, &device)?;
            let [k, v] = [k.to_dtype(dtype)?, v.to_dtype(dtype)?];
            assert_eq!(fused(&[q, k, v], None)?, one_kernel, "{queries} {dtype:?}");
        }
        // `ops::sdpa` takes a cap of 1 for none.
        assert!(!fused(&[q.clone(), k.clone(), v.clone()], Some(1.))?);
        let k = Var::from_tensor(&k)?.as_tensor().clone();
        assert!(!fused(&[q, k, v], None)?);
        Ok(())
    }

    /// Rows that one kernel takes, and rows, views and gradients that are left to two operations.
    #[test]
    fn norms_of_sums_are_those_of_two_operations() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let same = |x: &Tensor, other: &Tensor, alpha: &Tensor| -> Result<()> {
            let numbers = |x: &Tensor| x.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>();
            let (sum, normed) = rms_norm_residual(x, other, alpha, EPS)?;
            let plain = (x + other)?;
            assert_eq!(sum.shape(), x.shape());
            assert_eq!(numbers(&sum)?, numbers(&plain)?, "{x:?}");
            let plain = ops::rms_norm(&plain.contiguous()?, alpha, EPS)?;
            assert_eq!(numbers(&normed)?, numbers(&plain)?, "{x:?}");
            Ok(())
        };
        for dtype in FLOATS {
            for (shape, skip) in [
                (&[1, 4096][..], 0),
                (&[7, 3, 64], 0),
                (&[3, 33], 0),
                (&[2, 64], 1),
                (&[3, 0], 0),
                (&[1, 70000], 0),
            ] {
                let inputs = Inputs {
                    device: &device,
                    dtype,
                    given: dtype,
                    shape,
                    skip,
                    made: Cell::new(0),
                };
                same(&inputs.rows()?, &inputs.rows()?, &inputs.vector()?)?;
            }
        }
        let [x, ..] = operands(&device, DType::F32)?;
        let x = x.narrow(2, 0, 1)?.squeeze(2)?.get(0)?.narrow(0, 0, 4)?;
        let columns = x.dim(1)?;
        let alpha = Tensor::ones(columns, DType::F32, &device)?;
        same(&x, &x.narrow(0, 0, 1)?.broadcast_as(x.shape())?, &alpha)?;
        let weight = Var::from_tensor(&x)?;
        let (sum, _) = rms_norm_residual(weight.as_tensor(), &x, &alpha, EPS)?;
        let gradients = sum.sum_all()?.backward()?;
        assert!(gradients.get(weight.as_tensor()).is_some());
        let shorter = x.narrow(1, 0, columns - 1)?;
        assert!(rms_norm_residual(&x, &x, &alpha.narrow(0, 1, columns - 1)?, EPS).is_err());
        assert!(rms_norm_residual(&x, &shorter, &alpha, EPS).is_err());
        let other = x.to_dtype(DType::F16)?;
        assert!(rms_norm_residual(&x, &other, &alpha, EPS).is_err());
        Ok(())
    }

    #[test]
    fn keys_and_values_are_kept_as_by_rope_and_two_scatters() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let numbers = |x: &Tensor| x.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>();
        for dtype in FLOATS {
            let drawn = |shape: [usize; 4], salt| {
                Inputs {
                    device: &device,
                    dtype,
                    given: dtype,
                    shape: &shape,
                    skip: 0,
                    made: Cell::new(salt),
                }
                .rows()
            };
            let q = drawn([2, 4, 3, 64], 1)?;
            let (k, v) = (drawn([2, 2, 3, 64], 2)?, drawn([2, 2, 3, 64], 3)?);
            let angles = drawn([1, 2, 5, 32], 4)?;
            let (cos, sin) = (angles.get(0)?.get(0)?, angles.get(0)?.get(1)?);
            let places = Tensor::new(&[6u32, 0, 4], &device)?;
            let caches = || -> Result<[Tensor; 2]> {
                Ok([drawn([2, 2, 7, 64], 5)?, drawn([2, 2, 7, 64], 6)?])
            };
            let [keys, values] = caches()?;
            let found = rope_with_caches(&q, &k, &v, &cos, &sin, &places, &keys, &values)?;
            let found = found.expect("one launch");
            let rows = places.reshape((1, 1, 3, 1))?.broadcast_as(k.shape())?;
            let [plain_keys, plain_values] = caches()?;
            let turned = rotary_emb::rope(&k, &cos, &sin)?;
            plain_keys.scatter_set(&rows.contiguous()?, &turned, 2)?;
            plain_values.scatter_set(&rows.contiguous()?, &v, 2)?;
            assert_eq!(
                numbers(&found)?,
                numbers(&rotary_emb::rope(&q, &cos, &sin)?)?
            );
            assert_eq!(numbers(&keys)?, numbers(&plain_keys)?, "{dtype:?}");
            assert_eq!(numbers(&values)?, numbers(&plain_values)?, "{dtype:?}");

            let is_none = |q: &Tensor, v: &Tensor, values: &Tensor| -> Result<bool> {
                let done = rope_with_caches(q, &k, v, &cos, &sin, &places, &keys, values)?;
                Ok(done.is_none())
            };
            let before = numbers(&keys)?;
            // Memory that is read or written twice, views, gradients.
            assert!(is_none(&q, &v, &keys)?);
            let within = values.narrow(0, 0, 2)?.narrow(2, 0, 3)?;
            assert!(is_none(&q, &within, &values)?);
            let view = drawn([2, 3, 4, 64], 1)?.transpose(1, 2)?;
            assert!(is_none(&view, &v, &values)?);
            let weight = Var::from_tensor(&q)?;
            assert!(is_none(weight.as_tensor(), &v, &values)?);
            assert_eq!(numbers(&keys)?, before);
            // What does not fit together.
            let short = values.narrow(2, 0, 6)?.contiguous()?;
            let kept = rope_with_caches(&q, &k, &v, &cos, &sin, &places, &keys, &short);
            assert!(kept.is_err());
            let few = places.narrow(0, 0, 2)?;
            let kept = rope_with_caches(&q, &k, &v, &cos, &sin, &few, &keys, &values);
            assert!(kept.is_err());
            let other = v.to_dtype(if dtype == DType::F32 {
                DType::F16
            } else {
                DType::F32
            })?;
            assert!(rope_with_caches(&q, &k, &other, &cos, &sin, &places, &keys, &values).is_err());
            assert_eq!(numbers(&keys)?, before);
        }
        Ok(())
    }

    #[test]
    fn gated_units_keep_gradients_and_other_activations() -> Result<()> {
        let device = Device::new_rocm(0)?;
        let [x, ..] = operands(&device, DType::F32)?;
        let numbers = |x: &Tensor| x.flatten_all()?.to_vec1::<f32>();
        let up = (&x * 3.)?;
        let made = || gated(&x, Activation::Silu, || Ok(x.clone()), || Ok(up.clone()));
        let expected = (x.silu()? * &up)?;
        assert_eq!(numbers(&made()?.expect("one kernel"))?, numbers(&expected)?);
        let nothing = gated(
            &x,
            Activation::Gelu,
            || unreachable!("nothing is made"),
            || unreachable!("nothing is made"),
        );
        assert!(nothing?.is_none());
        let weight = Var::from_tensor(&up)?;
        let product = || &x * weight.as_tensor();
        let made = gated(&x, Activation::Silu, product, || Ok(x.clone()))?.expect("two operations");
        let gradients = made.sum_all()?.backward()?;
        assert!(gradients.get(weight.as_tensor()).is_some());
        let plain = ((&x * &up)?.silu()? * &x)?;
        assert_eq!(numbers(&made)?, numbers(&plain)?);
        Ok(())
    }
}
