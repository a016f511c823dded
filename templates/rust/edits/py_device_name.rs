PyDevice::Rocm(ordinal) => ordinal.name(),
