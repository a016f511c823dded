//! What stands on the ROCm shelf when this build has none.

use crate::{CpuStorage, Result};

#[derive(Debug, Clone, PartialEq)]
pub struct RocmDevice {
    ordinal: usize,
}

#[derive(Debug)]
pub struct RocmStorage {
    values: Vec<f32>,
    device: RocmDevice,
}

impl RocmDevice {
    pub fn new(ordinal: usize) -> Result<Self> {
        Ok(Self { ordinal })
    }

    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub fn upload(&self, from: &CpuStorage) -> Result<RocmStorage> {
        Ok(RocmStorage {
            values: from.values.clone(),
            device: self.clone(),
        })
    }
}

impl RocmStorage {
    pub fn device(&self) -> &RocmDevice {
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
