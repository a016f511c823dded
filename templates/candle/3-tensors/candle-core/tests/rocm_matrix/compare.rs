//! How a case is judged: ROCm's result beside the CPU's, and beside what is right.
use crate::exceptions::Kind;
use crate::inputs::{Inputs, Numbers, View};
use crate::operations::{Operation, Scale};
use crate::rocm_ulp::ulp;
use candle_core::{DType, Device, Result, Tensor};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// What came of a case: a tensor on the CPU, or why not.
#[derive(Debug)]
enum Outcome {
    Value(Tensor),
    Refused(String),
    Panicked,
}

fn outcome(run: &dyn Fn(&Inputs) -> Result<Tensor>, inputs: &Inputs) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| run(inputs)?.to_device(&Device::Cpu))) {
        Ok(Ok(value)) => Outcome::Value(value),
        Ok(Err(error)) => Outcome::Refused(error.to_string()),
        Err(_) => Outcome::Panicked,
    }
}

/// What is to be said of a case.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Both have the result.
    Agree,
    BothRefuse,
    /// ROCm has the result, and the CPU differs as listed.
    Differs,
    /// As listed, but the CPU's result is right here.
    NoDifference,
    Fails(String),
}

/// One operation for one type on one kind of view.
pub(crate) struct Case<'a> {
    pub(crate) operation: &'a Operation,
    pub(crate) dtype: DType,
    pub(crate) view: View,
    pub(crate) exception: Option<Kind>,
}

/// What the result should be.
struct Reference {
    dtype: DType,
    dims: Vec<usize>,
    exact: Vec<f64>,
    /// What the operation makes of the inputs' magnitudes, where that counts.
    magnitudes: Option<Vec<f64>>,
}

impl Case<'_> {
    pub(crate) fn verdict(&self, device: &Device) -> Result<Verdict> {
        let rocm = outcome(&self.operation.run, &self.inputs(device, Numbers::Given));
        let cpu = match self.exception {
            Some(Kind::NotAsked) => None,
            _ => Some(outcome(
                &self.operation.run,
                &self.inputs(&Device::Cpu, Numbers::Given),
            )),
        };
        let fails = |why: String| Ok(Verdict::Fails(why));
        let got = match (rocm, &cpu) {
            (Outcome::Value(got), _) => got,
            (Outcome::Panicked, _) => return fails("ROCm panics".to_string()),
            (Outcome::Refused(_), Some(Outcome::Refused(_) | Outcome::Panicked)) => {
                return if self.exception.is_some() || self.must_have_values() {
                    fails("neither side has a result".to_string())
                } else {
                    Ok(Verdict::BothRefuse)
                };
            }
            (Outcome::Refused(why), _) => return fails(format!("ROCm refuses: {why}")),
        };
        let by_cpu = match &cpu {
            Some(Outcome::Value(value)) => Some(value),
            _ => None,
        };
        match (self.exception, by_cpu) {
            (None, None) => return fails("ROCm has a result, the CPU has none".to_string()),
            (Some(Kind::Wrong), None) => return fails("the CPU has no result".to_string()),
            _ => {}
        }
        let reference = match self.reference(by_cpu)? {
            Ok(reference) => reference,
            Err(why) => return fails(format!("nothing to compare with: {why}")),
        };
        let trusted = by_cpu.filter(|_| self.exception != Some(Kind::Wrong));
        if let Some(why) = self.difference(&got, trusted, &reference)? {
            return fails(why);
        }
        let Some(by_cpu) = by_cpu else {
            return Ok(Verdict::Differs);
        };
        let wrong = match self.exception {
            // Some views have more than others: the CPU is as good there as without an exception.
            Some(Kind::More) => None,
            Some(_) => self.difference(by_cpu, None, &reference)?,
            // Narrow floats may be off on the CPU, which rounds at each step.
            None if self.is_plain() && self.dtype.size_in_bytes() >= 4 => {
                self.difference(by_cpu, None, &reference)?
            }
            None => None,
        };
        Ok(match (self.exception, wrong) {
            (None, None) => Verdict::Agree,
            (None, Some(why)) => Verdict::Fails(format!("the CPU's result is not right: {why}")),
            (Some(_), Some(_)) => Verdict::Differs,
            (Some(_), None) => Verdict::NoDifference,
        })
    }

    /// Whether the CPU has the operation for this type and view.
    fn must_have_values(&self) -> bool {
        (self.operation.has)(self.dtype) && self.operation.takes.contains(&self.view)
    }

    fn inputs<'a>(&self, device: &'a Device, numbers: Numbers) -> Inputs<'a> {
        Inputs::new(device, self.dtype, numbers, self.view)
    }

    fn is_plain(&self) -> bool {
        let plain = self.operation.plain.as_ref();
        plain.is_some_and(|(of, _)| of(self.dtype))
    }

    /// By plain sums where there are any; else by the CPU in f64; else, where that is no wider, the CPU's own result.
    fn reference(&self, by_cpu: Option<&Tensor>) -> Result<std::result::Result<Reference, String>> {
        let run = match &self.operation.plain {
            Some((_, plain)) if self.is_plain() => plain,
            _ => &self.operation.run,
        };
        let of = |numbers| outcome(run, &self.inputs(&Device::Cpu, numbers));
        let narrow = self.dtype.is_float() && self.dtype != DType::F64;
        let exact = match by_cpu {
            Some(own) if !narrow && !self.is_plain() && self.exception.is_none() => own.clone(),
            _ => match of(Numbers::Exact) {
                Outcome::Value(exact) => exact,
                other => return Ok(Err(format!("{other:?}"))),
            },
        };
        let magnitudes = match self.operation.scale {
            Scale::Magnitudes if self.dtype.is_float() => match of(Numbers::Magnitudes) {
                Outcome::Value(magnitudes) => Some(elements(&magnitudes)?),
                other => return Ok(Err(format!("{other:?}"))),
            },
            _ => None,
        };
        Ok(Ok(Reference {
            dtype: self.operation.gives.unwrap_or(self.dtype),
            dims: exact.dims().to_vec(),
            exact: elements(&exact)?,
            magnitudes,
        }))
    }

    /// Why a result is not the reference, or None. `by_cpu` is the CPU's result where it is to be trusted.
    fn difference(
        &self,
        got: &Tensor,
        by_cpu: Option<&Tensor>,
        reference: &Reference,
    ) -> Result<Option<String>> {
        if got.dtype() != reference.dtype || got.dims() != reference.dims {
            let (dtype, dims) = (reference.dtype, &reference.dims);
            return Ok(Some(format!("{got:?} instead of {dtype:?} {dims:?}")));
        }
        if let Some(cpu) =
            by_cpu.filter(|cpu| cpu.dtype() != got.dtype() || cpu.dims() != got.dims())
        {
            return Ok(Some(format!("{got:?}, on the CPU {cpu:?}")));
        }
        let (got, by_cpu) = (elements(got)?, by_cpu.map(elements).transpose()?);
        for (at, &got) in got.iter().enumerate() {
            let by_cpu = by_cpu.as_ref().map(|cpu| cpu[at]);
            let exact = reference.exact[at];
            // As most are: no error has to be reckoned.
            if got == exact && by_cpu.unwrap_or(got) == got {
                continue;
            }
            let magnitude = reference.magnitudes.as_ref().map(|of| of[at]);
            let near = self.near(got, by_cpu, exact, magnitude, reference.dtype);
            if let Some(wanted) = near {
                return Ok(Some(format!("element {at} is {got} instead of {wanted}")));
            }
        }
        Ok(None)
    }

    /// What an element should be if it is something else.
    fn near(
        &self,
        got: f64,
        by_cpu: Option<f64>,
        exact: f64,
        magnitude: Option<f64>,
        dtype: DType,
    ) -> Option<String> {
        let same = |wanted: f64| got == wanted || (got.is_nan() && wanted.is_nan());
        if !exact.is_finite() || (dtype.is_float() && exact.abs() > largest(dtype)) {
            // f8e4m3 has no infinity, and ends at its largest number.
            let outside = got.abs() >= largest(dtype) && (got > 0.) == (exact > 0.);
            let fitting = !dtype.is_float() || got.is_nan() || (outside && !exact.is_nan());
            let fine = fitting && by_cpu.into_iter().all(same);
            return (!fine).then(|| format!("{by_cpu:?}, the exact result being {exact}"));
        }
        let exact = if dtype.is_float() {
            exact
        } else {
            wrapped(exact, dtype)
        };
        // Where both round the exact result once, they have the same bits.
        if let (0., Scale::Result, Some(wanted)) =
            (self.operation.ulps, self.operation.scale, by_cpu)
        {
            if !same(wanted) {
                return Some(format!("{wanted}, the exact result being {exact}"));
            }
        }
        let once = 0.5 * ulp(dtype, exact);
        let promised = self.operation.ulps * ulp(dtype, magnitude.unwrap_or(exact));
        let on_the_way = match magnitude {
            Some(size) if dtype.size_in_bytes() < 4 => {
                f64::from(self.operation.roundings) * 0.5 * ulp(dtype, size)
            }
            _ => 0.,
        };
        let allowed = once.max(promised) + on_the_way;
        // NaN is near nothing.
        let near = (got - exact).abs() <= allowed;
        (!near).then(|| format!("{exact}, off by {allowed} at most"))
    }
}

/// All elements; f8e4m3 goes by f32, which every release can convert it to.
fn elements(tensor: &Tensor) -> Result<Vec<f64>> {
    let tensor = match tensor.dtype() {
        dtype if dtype.is_float() && dtype != DType::F64 => tensor.to_dtype(DType::F32)?,
        _ => tensor.clone(),
    };
    tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}

/// An integer as the bits of its type hold it.
fn wrapped(value: f64, dtype: DType) -> f64 {
    let unused = 64 - 8 * dtype.size_in_bytes();
    let bits = (value as i64) << unused;
    match dtype {
        DType::U8 | DType::U32 => (bits as u64 >> unused) as f64,
        _ => (bits >> unused) as f64,
    }
}

/// The largest number of a float type.
fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F32 => f32::MAX.into(),
        DType::F16 => 65504.,
        // f8e4m3, which old releases do not have.
        narrow if narrow.is_float() && narrow.size_in_bytes() == 1 => 448.,
        _ => 3.3895e38,
    }
}

mod judges {
    use super::*;
    use crate::operations::{all, op};
    use std::cell::Cell;

    /// The verdict on an operation that answers like this: as ROCm, as the CPU if it is asked, and in f64.
    fn verdict(answers: &'static [Option<f32>], exception: Option<Kind>) -> Result<Verdict> {
        let calls = Cell::new(0);
        let operation = op("answer", all, 0, move |_| {
            let answer = answers[calls.replace(calls.get() + 1)];
            let Some(number) = answer else {
                candle_core::bail!("no answer")
            };
            Tensor::new(&[number], &Device::Cpu)
        });
        let case = Case {
            operation: &operation,
            dtype: DType::F32,
            view: View::Contiguous,
            exception,
        };
        case.verdict(&Device::Cpu)
    }

    fn fails(answers: &'static [Option<f32>], exception: Option<Kind>) -> Result<bool> {
        Ok(matches!(verdict(answers, exception)?, Verdict::Fails(_)))
    }

    const ONE: Option<f32> = Some(1.);
    const TWO: Option<f32> = Some(2.);

    #[test]
    fn without_an_exception() -> Result<()> {
        assert_eq!(verdict(&[ONE, ONE, ONE], None)?, Verdict::Agree);
        for wrong in [
            &[TWO, ONE, ONE],
            &[TWO, TWO, ONE],
            &[ONE, TWO, ONE],
            &[ONE, ONE, None],
            &[ONE, None, ONE],
            &[None, ONE, ONE],
            &[None, None, ONE],
            &[Some(f32::INFINITY), ONE, ONE],
            &[Some(f32::NAN), ONE, ONE],
            &[ONE, ONE, Some(f32::INFINITY)],
        ] {
            assert!(fails(wrong, None)?, "{wrong:?}");
        }
        let infinite = &[
            Some(f32::INFINITY),
            Some(f32::INFINITY),
            Some(f32::INFINITY),
        ];
        assert_eq!(verdict(infinite, None)?, Verdict::Agree);
        Ok(())
    }

    #[test]
    fn with_one() -> Result<()> {
        let (more, wrong, not_asked) = (Kind::More, Kind::Wrong, Kind::NotAsked);
        assert_eq!(verdict(&[ONE, None, ONE], Some(more))?, Verdict::Differs);
        assert_eq!(
            verdict(&[ONE, ONE, ONE], Some(more))?,
            Verdict::NoDifference
        );
        assert!(fails(&[TWO, None, ONE], Some(more))?);
        assert!(fails(&[None, None, ONE], Some(more))?);
        assert_eq!(verdict(&[ONE, TWO, ONE], Some(wrong))?, Verdict::Differs);
        assert_eq!(
            verdict(&[ONE, ONE, ONE], Some(wrong))?,
            Verdict::NoDifference
        );
        assert!(fails(&[TWO, TWO, ONE], Some(wrong))?);
        assert!(fails(&[ONE, None, ONE], Some(wrong))?);
        assert_eq!(verdict(&[ONE, ONE], Some(not_asked))?, Verdict::Differs);
        assert!(fails(&[TWO, ONE], Some(not_asked))?);
        Ok(())
    }
}
