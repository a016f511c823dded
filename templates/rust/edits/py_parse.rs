name if name.starts_with("rocm") => PyDevice::Rocm(rocm::Ordinal::parse(name)?),
