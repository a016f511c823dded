//! A network of two layers that learns a function, on two devices from the same start.

use candle::{DType, Device, Result, Tensor, Var};
use candle_nn::{Optimizer, SGD};

/// A network, its parameters and the data that it learns from.
pub struct Training {
    parameters: [Var; 4],
    input: Tensor,
    target: Tensor,
    optimizer: SGD,
}

impl Training {
    /// sin and cos of 64 numbers, from 16 hidden units; the start is the same everywhere.
    pub fn new(device: &Device) -> Result<Self> {
        let numbers = |count: usize, scale: f32, step: u32| -> Vec<f32> {
            let spread = |i: usize| (i as u32).wrapping_mul(step) % 1009;
            (0..count).map(|i| (spread(i) as f32 / 504.5 - 1.) * scale).collect()
        };
        let var = |shape: &[usize], scale, step| {
            let count = shape.iter().product();
            Var::from_tensor(&Tensor::from_vec(numbers(count, scale, step), shape, device)?)
        };
        let parameters = [
            var(&[16, 1], 2., 283)?,
            var(&[16], 1., 691)?,
            var(&[2, 16], 0.5, 577)?,
            var(&[2], 0.1, 409)?,
        ];
        let input = Tensor::arange(0f32, 64., device)?.affine(1. / 16., -2.)?.unsqueeze(1)?;
        let target = Tensor::cat(&[input.sin()?, input.cos()?], 1)?;
        let optimizer = SGD::new(parameters.to_vec(), 0.1)?;
        Ok(Self {
            parameters,
            input,
            target,
            optimizer,
        })
    }

    /// The mean square error before the step.
    pub fn step(&mut self) -> Result<f32> {
        let loss = self.loss()?;
        self.optimizer.backward_step(&loss)?;
        loss.to_dtype(DType::F32)?.to_scalar()
    }

    fn loss(&self) -> Result<Tensor> {
        let [w1, b1, w2, b2] = &self.parameters;
        let hidden = self.input.matmul(&w1.t()?)?.broadcast_add(b1)?.tanh()?;
        let output = hidden.matmul(&w2.t()?)?.broadcast_add(b2)?;
        candle_nn::loss::mse(&output, &self.target)
    }
}

/// Prints the losses of both devices, step by step.
pub fn run(device: &Device, steps: usize) -> Result<()> {
    let (mut ours, mut cpu) = (Training::new(device)?, Training::new(&Device::Cpu)?);
    for _ in 0..steps {
        println!("{} {}", ours.step()?, cpu.step()?);
    }
    Ok(())
}
