/// ROCm said no.
Rocm(String)
