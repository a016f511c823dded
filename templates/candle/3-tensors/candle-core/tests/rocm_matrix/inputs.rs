//! The tensors of a case: the same numbers on every device, as views of each kind.
use candle_core::{DType, Device, Result, Tensor};
use std::cell::Cell;

/// How a tensor lies in its memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum View {
    Contiguous,
    /// All dimensions in reverse.
    Transposed,
    Broadcast,
    /// A part of the first dimension: contiguous, with an offset.
    Rows,
    /// A part of the last dimension: strided, with an offset.
    Columns,
    /// Every other element of the last dimension, from the second on.
    EveryOther,
}

pub(crate) const VIEWS: &[View] = &[
    View::Contiguous,
    View::Transposed,
    View::Broadcast,
    View::Rows,
    View::Columns,
    View::EveryOther,
];

/// Those of tensors that are contiguous.
pub(crate) const CONTIGUOUS: &[View] = &[View::Contiguous, View::Rows];

impl View {
    /// The shape of the memory behind a view of that shape.
    fn behind(self, shape: &[usize]) -> Vec<usize> {
        let mut behind = shape.to_vec();
        match self {
            View::Contiguous => {}
            View::Transposed => behind.reverse(),
            View::Broadcast => behind[0] = 1,
            View::Rows => behind[0] += 3,
            View::Columns => behind[shape.len() - 1] += 3,
            View::EveryOther => behind.push(2),
        }
        behind
    }

    fn of(self, tensor: &Tensor, shape: &[usize]) -> Result<Tensor> {
        let last = shape.len() - 1;
        match self {
            View::Contiguous => Ok(tensor.clone()),
            View::Transposed => tensor.permute((0..=last).rev().collect::<Vec<_>>()),
            View::Broadcast => tensor.broadcast_as(shape),
            View::Rows => tensor.narrow(0, 2, shape[0]),
            View::Columns => tensor.narrow(last, 1, shape[last]),
            View::EveryOther => tensor.narrow(last + 1, 1, 1)?.squeeze(last + 1),
        }
    }
}

/// What a case is run on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Numbers {
    /// Numbers of the case's type.
    Given,
    /// The same numbers in f64, where no operation loses much.
    Exact,
    /// Their magnitudes in f64.
    Magnitudes,
}

/// Makes the tensors of a case, the same on every device.
pub(crate) struct Inputs<'a> {
    pub(crate) device: &'a Device,
    pub(crate) dtype: DType,
    numbers: Numbers,
    pub(crate) view: View,
    made: Cell<usize>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(device: &'a Device, dtype: DType, numbers: Numbers, view: View) -> Self {
        Self {
            device,
            dtype,
            numbers,
            view,
            made: Cell::new(0),
        }
    }

    /// Quarters between -2 and 2, or small integers: any sum of products of them is exact in f32.
    ///
    /// Of u8 numbers below 5: where more of them are added up than u8 has room for, the CPU panics.
    pub(crate) fn tensor(&self, shape: &[usize]) -> Result<Tensor> {
        match self.dtype {
            DType::U8 => self.tensor_of(shape, |_, n| (n % 5) as i32),
            DType::U32 => self.tensor_of(shape, |_, n| n as i32),
            _ => self.tensor_of(shape, |_, n| n as i32 - 8),
        }
    }

    /// As `tensor`, but positive; and larger than any element of `tensor`.
    pub(crate) fn positive(&self, shape: &[usize]) -> Result<Tensor> {
        self.tensor_of(shape, |_, n| n as i32 + 17)
    }

    /// As `tensor`, but so that u8 has room for the sum of `length` of them.
    pub(crate) fn summands(&self, shape: &[usize], length: usize) -> Result<Tensor> {
        if self.dtype != DType::U8 {
            return self.tensor(shape);
        }
        let apart = length / 200 + 1;
        self.tensor_of(shape, |i, _| i32::from(i % apart == 0))
    }

    fn tensor_of(&self, shape: &[usize], number: impl Fn(usize, usize) -> i32) -> Result<Tensor> {
        let behind = self.view.behind(shape);
        let salt = self.made.replace(self.made.get() + 1);
        let step = if self.dtype.is_int() { 1. } else { 0.25 };
        let numbers = (0..behind.iter().product())
            .map(|i: usize| number(i, (i * 7 + i / 5 + salt * 13) % 17))
            .map(|n| n as f32 * step)
            .collect::<Vec<_>>();
        let values = Tensor::from_vec(numbers, behind, &Device::Cpu)?.to_dtype(self.dtype)?;
        let values = match self.numbers {
            Numbers::Given => values,
            // By f32, since some releases never end converting f8e4m3 to f64.
            Numbers::Exact => values.to_dtype(DType::F32)?.to_dtype(DType::F64)?,
            Numbers::Magnitudes => values.to_dtype(DType::F32)?.to_dtype(DType::F64)?.abs()?,
        };
        self.view.of(&values.to_device(self.device)?, shape)
    }

    /// Contiguous indices below `end`, each value more than once.
    pub(crate) fn ids(&self, shape: &[usize], end: usize) -> Result<Tensor> {
        let ids = (0..shape.iter().product()).map(|i: usize| ((i * 5 + i / 11) % end) as u32);
        Tensor::from_vec(ids.collect::<Vec<_>>(), shape, &Device::Cpu)?.to_device(self.device)
    }

    pub(crate) fn matrix(&self) -> Result<Tensor> {
        self.tensor(&[5, 7])
    }

    pub(crate) fn positive_matrix(&self) -> Result<Tensor> {
        self.positive(&[5, 7])
    }

    pub(crate) fn image(&self) -> Result<Tensor> {
        self.tensor(&[2, 3, 8, 7])
    }

    /// More than a block's threads take at once, and no multiple of what one of them does.
    pub(crate) fn large(&self) -> Result<Tensor> {
        self.tensor(&[3, 11, 131])
    }
}
