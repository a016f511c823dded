|| vb.device().is_rocm()
