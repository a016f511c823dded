Device::Rocm(device) => Self::Rocm(rocm::Ordinal::of(device)),
