"""Where ROCm's compiler, headers and libraries come from: an installation, or Debian's packages below build/."""
