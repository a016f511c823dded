Rocm(rocm::Ordinal)
