//! ROCm devices as Python names them: `rocm` is the first GPU, `rocm:1` the second.
use crate::utils::wrap_err;
use ::candle::backend::BackendDevice;
use ::candle::{Device, DeviceLocation, RocmDevice};
use pyo3::exceptions::PyTypeError;
use pyo3::PyResult;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Each GPU's device, made when it is first asked for: its tensors share a stream and a state of random numbers.
static DEVICES: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

/// Names of the GPUs behind the first one. They live as long as the program, and there is one for each GPU.
static NAMES: Mutex<BTreeMap<usize, &'static str>> = Mutex::new(BTreeMap::new());

/// The number of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordinal(usize);

impl Ordinal {
    /// The GPU that a device is on.
    pub fn of(device: &RocmDevice) -> Self {
        match device.location() {
            DeviceLocation::Rocm { gpu_id } => Self(gpu_id),
            other => unreachable!("a ROCm device at {other:?}"),
        }
    }

    /// The GPU that `rocm` or `rocm:N` names, whether or not there is one.
    pub fn parse(name: &str) -> PyResult<Self> {
        let ordinal = match name.strip_prefix("rocm") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix(':').and_then(number),
            None => None,
        };
        let invalid = || PyTypeError::new_err(format!("invalid device '{name}'"));
        ordinal.map(Self).ok_or_else(invalid)
    }

    /// Its device. An error where there is no such GPU, or no ROCm.
    pub fn device(self) -> PyResult<Device> {
        let mut devices = DEVICES.lock().unwrap();
        if let Some(device) = devices.get(&self.0) {
            return Ok(device.clone());
        }
        let device = Device::new_rocm(self.0).map_err(wrap_err)?;
        devices.insert(self.0, device.clone());
        Ok(device)
    }

    /// What Python calls it.
    pub fn name(self) -> &'static str {
        if self.0 == 0 {
            return "rocm";
        }
        let mut names = NAMES.lock().unwrap();
        names
            .entry(self.0)
            .or_insert_with(|| format!("rocm:{}", self.0).leak())
    }
}

/// Digits only: `usize` would also take a sign.
fn number(text: &str) -> Option<usize> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
