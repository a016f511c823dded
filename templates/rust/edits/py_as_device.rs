Self::Rocm(ordinal) => ordinal.device(),
