"""Foreign: in CUDA's own code the ROCm arm answers as the Metal arm does. Swap: such a function gets a ROCm twin."""

from __future__ import annotations

from check import check_refused, check_transformed


def test_rocm_answers_as_metal_does() -> None:
    check_transformed(
        """
        impl QStorage {
            fn pointer(&self) -> Result<*const u8> {
                match self {
                    QStorage::Cuda(s) => s.pointer(),
                    QStorage::Metal(_) | QStorage::Cpu(_) => bail!("not on cuda"),
                }
            }
        }
        """,
        """
        impl QStorage {
            fn pointer(&self) -> Result<*const u8> {
                match self {
                    QStorage::Cuda(s) => s.pointer(),
                    QStorage::Metal(_) | QStorage::Rocm(_) | QStorage::Cpu(_) => bail!("not on cuda"),
                }
            }
        }
        """,
        verb="foreign",
        kind="match",
    )


def test_an_arm_of_metal_alone_is_copied() -> None:
    check_transformed(
        """
        fn f(s: &QStorage) -> Result<u8> {
            match s {
                QStorage::Cuda(s) => s.bits(),
                QStorage::Metal(_) => bail!("Metal is elsewhere, see metal_bits"),
                QStorage::Cpu(_) => bail!("cpu"),
            }
        }
        """,
        """
        fn f(s: &QStorage) -> Result<u8> {
            match s {
                QStorage::Cuda(s) => s.bits(),
                QStorage::Metal(_) => bail!("Metal is elsewhere, see metal_bits"),
                QStorage::Rocm(_) => bail!("ROCm is elsewhere, see rocm_bits"),
                QStorage::Cpu(_) => bail!("cpu"),
            }
        }
        """,
        verb="foreign",
    )


def test_with_cfg_gating_the_arm_stands_behind_the_feature() -> None:
    check_transformed(
        """
        fn f(s: &QStorage) -> Result<u8> {
            match s {
                QStorage::Cuda(s) => s.bits(),
                QStorage::Cpu(_) | QStorage::Metal(_) => bail!("not on cuda"),
            }
        }
        """,
        """
        fn f(s: &QStorage) -> Result<u8> {
            match s {
                QStorage::Cuda(s) => s.bits(),
                QStorage::Cpu(_) | QStorage::Metal(_) => bail!("not on cuda"),
                #[cfg(feature = "rocm")]
                QStorage::Rocm(_) => bail!("not on cuda"),
            }
        }
        """,
        verb="foreign",
        kind="match",
        cfg=True,
    )


def test_an_arm_that_cuda_and_metal_share_is_widened() -> None:
    snippet = """
        fn f(s: &QStorage) -> u8 {
            match s {
                QStorage::Cuda(_) | QStorage::Metal(_) => 1,
                QStorage::Cpu(_) => 0,
            }
        }
        """
    check_transformed(
        snippet,
        """
        fn f(s: &QStorage) -> u8 {
            match s {
                QStorage::Cuda(_) | QStorage::Metal(_) | QStorage::Rocm(_) => 1,
                QStorage::Cpu(_) => 0,
            }
        }
        """,
        verb="foreign",
    )


def test_without_a_metal_arm_there_is_nothing_to_derive_from() -> None:
    check_refused(
        """
        fn f(s: &QStorage) -> u8 {
            match s {
                QStorage::Cuda(_) => 1,
                QStorage::Cpu(_) => 0,
            }
        }
        """,
        "there is no Metal arm to derive the ROCm arm from",
        verb="foreign",
    )


def test_a_metal_arm_whose_body_holds_a_complete_match_is_refused() -> None:
    check_refused(
        """
        fn f(s: &QStorage, t: &QStorage) -> u8 {
            match s {
                QStorage::Cuda(_) => 1,
                QStorage::Cpu(_) => 0,
                QStorage::Metal(_) => match t {
                    QStorage::Cuda(_) => 2,
                    QStorage::Metal(_) => 3,
                    QStorage::Cpu(_) => 4,
                },
            }
        }
        """,
        "the Metal arm to derive from holds a match that rustc wants complete, too",
        verb="foreign",
        at="match s",
    )


def test_devices_that_share_a_body_about_metal_are_refused() -> None:
    check_refused(
        """
        fn f(s: &QStorage) -> u8 {
            match s {
                QStorage::Cuda(_) => 1,
                QStorage::Metal(_) | QStorage::Cpu(_) => metal_or_cpu(),
            }
        }
        """,
        "devices share an arm whose body names Metal",
        verb="foreign",
    )


def test_a_downcast_learns_rocm_and_gets_its_exchange() -> None:
    check_transformed(
        """
        impl Device {
            /// The CUDA device, as a [`Device::Cuda`] holds it.
            pub fn as_cuda_device(&self) -> Result<&CudaDevice> {
                match self {
                    Self::Cuda(d) => Ok(d),
                    Self::Cpu => bail!("expected a cuda device, got cpu"),
                    Self::Metal(_) => bail!("expected a cuda device, got Metal"),
                }
            }

            pub fn as_metal_device(&self) -> Result<&MetalDevice> {
                todo()
            }
        }
        """,
        """
        impl Device {
            /// The CUDA device, as a [`Device::Cuda`] holds it.
            pub fn as_cuda_device(&self) -> Result<&CudaDevice> {
                match self {
                    Self::Cuda(d) => Ok(d),
                    Self::Cpu => bail!("expected a cuda device, got cpu"),
                    Self::Metal(_) => bail!("expected a cuda device, got Metal"),
                    Self::Rocm(_) => bail!("expected a cuda device, got ROCm"),
                }
            }

            pub fn as_metal_device(&self) -> Result<&MetalDevice> {
                todo()
            }

            /// The ROCm device, as a [`Device::Rocm`] holds it.
            pub fn as_rocm_device(&self) -> Result<&RocmDevice> {
                match self {
                    Self::Rocm(d) => Ok(d),
                    Self::Cpu => bail!("expected a rocm device, got cpu"),
                    Self::Metal(_) => bail!("expected a rocm device, got Metal"),
                    Self::Cuda(_) => bail!("expected a rocm device, got CUDA"),
                }
            }
        }
        """,
        verb="swap",
        kind="fn",
    )


def test_with_cfg_gating_the_new_arm_and_the_new_function_are_gated_and_the_exchanged_arm_is_not() -> None:
    check_transformed(
        """
        impl Device {
            fn as_cuda(&self) -> Result<&CudaDevice> {
                match self {
                    Self::Cuda(d) => Ok(d),
                    Self::Cpu => bail!("cpu"),
                    Self::Metal(_) => bail!("metal"),
                }
            }
        }
        """,
        """
        impl Device {
            fn as_cuda(&self) -> Result<&CudaDevice> {
                match self {
                    Self::Cuda(d) => Ok(d),
                    Self::Cpu => bail!("cpu"),
                    Self::Metal(_) => bail!("metal"),
                    #[cfg(feature = "rocm")]
                    Self::Rocm(_) => bail!("rocm"),
                }
            }
            #[cfg(feature = "rocm")]
            fn as_rocm(&self) -> Result<&RocmDevice> {
                match self {
                    Self::Rocm(d) => Ok(d),
                    Self::Cpu => bail!("cpu"),
                    Self::Metal(_) => bail!("metal"),
                    Self::Cuda(_) => bail!("cuda"),
                }
            }
        }
        """,
        verb="swap",
        kind="fn",
        cfg=True,
    )


def test_matches_that_are_complete_anyway_need_not_learn() -> None:
    check_transformed(
        """
        impl Device {
            fn as_cuda(&self, n: Option<u8>) -> Option<&CudaDevice> {
                let _ = match n {
                    Some(n) => n,
                    None => 0,
                };
                match self {
                    Self::Cuda(d) => Some(d),
                    _ => None,
                }
            }
        }
        """,
        """
        impl Device {
            fn as_cuda(&self, n: Option<u8>) -> Option<&CudaDevice> {
                let _ = match n {
                    Some(n) => n,
                    None => 0,
                };
                match self {
                    Self::Cuda(d) => Some(d),
                    _ => None,
                }
            }
            fn as_rocm(&self, n: Option<u8>) -> Option<&RocmDevice> {
                let _ = match n {
                    Some(n) => n,
                    None => 0,
                };
                match self {
                    Self::Rocm(d) => Some(d),
                    _ => None,
                }
            }
        }
        """,
        verb="swap",
        kind="fn",
    )


def test_a_function_not_named_for_cuda_has_no_exchange() -> None:
    check_refused(
        """
        #[cfg(feature = "cuda")]
        fn pointer(s: &Storage) -> u8 {
            match s {
                Storage::Cuda(_) => 1,
                Storage::Metal(_) => 2,
            }
        }
        """,
        "its name does not name CUDA",
        verb="swap",
        kind="fn",
    )


def test_a_function_that_uses_cudas_own_api_has_no_exchange() -> None:
    check_refused(
        """
        fn cuda_stream(s: &Storage) -> cudarc::Stream {
            s.stream()
        }
        """,
        "it uses CUDA's own API (cudarc)",
        verb="swap",
        protected=("cudarc",),
    )


def test_only_functions_can_be_exchanged() -> None:
    check_refused(
        """
        enum Device {
            Cuda(CudaDevice),
        }
        """,
        "the construct is not one that a verb can take",
        verb="swap",
        kind="enum",
    )
