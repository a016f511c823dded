//! The Cuda shelf.

use crate::{CpuStorage, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct CudaDevice {
    ordinal: usize,
}

#[derive(Debug)]
pub struct CudaStorage {
    values: Vec<f32>,
    device: CudaDevice,
}

impl CudaDevice {
    pub fn new(ordinal: usize) -> Result<Self> {
        Ok(Self { ordinal })
    }

    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub fn upload(&self, from: &CpuStorage) -> Result<CudaStorage> {
        Ok(CudaStorage {
            values: from.values.clone(),
            device: self.clone(),
        })
    }
}

impl CudaStorage {
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    pub fn sum(&self) -> f32 {
        self.values.iter().sum()
    }

    pub fn add(&self, rhs: &Self) -> Result<Self> {
        let values = self.values.iter().zip(&rhs.values).map(|(a, b)| a + b);
        Ok(Self {
            values: values.collect(),
            device: self.device.clone(),
        })
    }

    pub fn download(&self) -> CpuStorage {
        CpuStorage {
            values: self.values.clone(),
        }
    }
}
