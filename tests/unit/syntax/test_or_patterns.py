"""Or-patterns: CUDA shares an arm with another device, so ROCm joins in, or is split off where the body names CUDA."""

from __future__ import annotations

from check import check_refused, check_transformed


def test_rocm_joins_the_gpus() -> None:
    check_transformed(
        """
        impl Device {
            fn supports_bf16(&self) -> bool {
                match self {
                    Self::Cuda(_) | Self::Metal(_) => true,
                    Self::Cpu => false,
                }
            }
        }
        """,
        """
        impl Device {
            fn supports_bf16(&self) -> bool {
                match self {
                    Self::Cuda(_) | Self::Metal(_) | Self::Rocm(_) => true,
                    Self::Cpu => false,
                }
            }
        }
        """,
        verb="mirror",
    )


def test_rocm_stands_behind_the_last_gpu_wherever_the_cpu_is() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> bool {
            match d {
                Device::Cuda(_) | Device::Metal(_) | Device::Cpu => true,
                Device::Tpu => false,
            }
        }
        """,
        """
        fn f(d: &Device) -> bool {
            match d {
                Device::Cuda(_) | Device::Metal(_) | Device::Rocm(_) | Device::Cpu => true,
                Device::Tpu => false,
            }
        }
        """,
        verb="mirror",
    )


def test_with_cfg_gating_rocm_gets_an_arm_of_its_own() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> bool {
            match d {
                Device::Cuda(_) | Device::Metal(_) => true,
                Device::Cpu => false,
            }
        }
        """,
        """
        fn f(d: &Device) -> bool {
            match d {
                Device::Cuda(_) | Device::Metal(_) => true,
                #[cfg(feature = "rocm")]
                Device::Rocm(_) => true,
                Device::Cpu => false,
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_bindings_that_all_alternatives_share_are_kept() -> None:
    check_transformed(
        """
        fn index(l: &Place) -> usize {
            match l {
                Place::Cuda { gpu_id } | Place::Metal { gpu_id } => *gpu_id,
                Place::Cpu => 0,
            }
        }
        """,
        """
        fn index(l: &Place) -> usize {
            match l {
                Place::Cuda { gpu_id } | Place::Metal { gpu_id } | Place::Rocm { gpu_id } => *gpu_id,
                Place::Cpu => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_an_or_pattern_of_cuda_alternatives_only_is_mirrored() -> None:
    check_transformed(
        """
        fn f(a: &Storage, b: &Storage) -> u8 {
            match (a, b) {
                (Storage::Cpu(_), Storage::Cuda(_)) | (Storage::Cuda(_), Storage::Cpu(_)) => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(a: &Storage, b: &Storage) -> u8 {
            match (a, b) {
                (Storage::Cpu(_), Storage::Cuda(_)) | (Storage::Cuda(_), Storage::Cpu(_)) => 1,
                (Storage::Cpu(_), Storage::Rocm(_)) | (Storage::Rocm(_), Storage::Cpu(_)) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_an_or_pattern_inside_a_tuple_is_widened() -> None:
    check_transformed(
        """
        fn f(a: &Storage, d: &Device) -> u8 {
            match (a, d) {
                (Storage::Cpu(_), Device::Cpu | Device::Cuda(_)) => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(a: &Storage, d: &Device) -> u8 {
            match (a, d) {
                (Storage::Cpu(_), Device::Cpu | Device::Cuda(_) | Device::Rocm(_)) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_or_patterns_that_vary_together_are_all_widened() -> None:
    snippet = """
        fn f(a: &S, b: &S) -> u8 {
            match (a, b) {
                (S::Cpu(_) | S::Cuda(_), S::Cpu(_) | S::Cuda(_)) => 1,
                _ => 0,
            }
        }
        """
    check_transformed(
        snippet,
        """
        fn f(a: &S, b: &S) -> u8 {
            match (a, b) {
                (S::Cpu(_) | S::Cuda(_) | S::Rocm(_), S::Cpu(_) | S::Cuda(_) | S::Rocm(_)) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )
    check_transformed(
        snippet,
        """
        fn f(a: &S, b: &S) -> u8 {
            match (a, b) {
                (S::Cpu(_) | S::Cuda(_), S::Cpu(_) | S::Cuda(_)) => 1,
                #[cfg(feature = "rocm")]
                (S::Cpu(_) | S::Cuda(_) | S::Rocm(_), S::Cpu(_) | S::Cuda(_) | S::Rocm(_)) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_tuple_that_names_cuda_beside_the_or_pattern_is_mirrored_whole() -> None:
    check_transformed(
        """
        fn f(a: &Storage, d: &Device) -> u8 {
            match (a, d) {
                (Storage::Cuda(_), Device::Cpu | Device::Cuda(_)) => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(a: &Storage, d: &Device) -> u8 {
            match (a, d) {
                (Storage::Cuda(_), Device::Cpu | Device::Cuda(_)) => 1,
                (Storage::Rocm(_), Device::Cpu | Device::Rocm(_)) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_a_guard_stays_behind_the_widened_pattern() -> None:
    check_transformed(
        """
        fn f(d: &Device, fast: bool) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) if fast => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(d: &Device, fast: bool) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) | Device::Rocm(_) if fast => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_a_body_that_names_cuda_is_not_shared_with_rocm() -> None:
    check_transformed(
        """
        fn name(d: &Device) -> &str {
            match d {
                Device::Cpu | Device::Cuda(_) => cuda_or_cpu(d),
                Device::Metal(_) => "metal",
            }
        }
        """,
        """
        fn name(d: &Device) -> &str {
            match d {
                Device::Cpu | Device::Cuda(_) => cuda_or_cpu(d),
                Device::Rocm(_) => rocm_or_cpu(d),
                Device::Metal(_) => "metal",
            }
        }
        """,
        verb="mirror",
    )


def test_a_guard_that_names_cuda_is_not_shared_with_rocm() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) if cuda_graphs() => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) if cuda_graphs() => 1,
                Device::Rocm(_) if rocm_graphs() => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_a_comment_in_the_body_that_names_cuda_changes_nothing() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) => {
                    // cuda and metal agree here
                    1
                }
                _ => 0,
            }
        }
        """,
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cuda(_) | Device::Metal(_) | Device::Rocm(_) => {
                    // cuda and metal agree here
                    1
                }
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_a_split_off_body_must_not_use_cudas_own_api() -> None:
    check_refused(
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cpu | Device::Cuda(_) => cudarc::count(d),
                _ => 0,
            }
        }
        """,
        "it uses CUDA's own API (cudarc)",
        verb="mirror",
        protected=("cudarc",),
    )


def test_a_shared_body_that_holds_a_complete_match_is_refused() -> None:
    check_refused(
        """
        fn f(d: &Device, e: &Device) -> u8 {
            match d {
                Device::Cpu | Device::Cuda(_) => match e {
                    Device::Cpu => 1,
                    Device::Cuda(_) => 2,
                    Device::Metal(_) => 3,
                },
                _ => 0,
            }
        }
        """,
        "devices share an arm whose body names CUDA",
        verb="mirror",
        at="match d",
    )


def test_an_or_pattern_over_several_lines() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cpu
                | Device::Cuda(_) // the old one
                | Device::Metal(_) => 1,
                Device::Tpu => 0,
            }
        }
        """,
        """
        fn f(d: &Device) -> u8 {
            match d {
                Device::Cpu
                | Device::Cuda(_) // the old one
                | Device::Metal(_) | Device::Rocm(_) => 1,
                Device::Tpu => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_a_leading_bar_is_kept() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> u8 {
            match d {
                | Device::Cpu | Device::Cuda(_) => 1,
                _ => 0,
            }
        }
        """,
        """
        fn f(d: &Device) -> u8 {
            match d {
                | Device::Cpu | Device::Cuda(_) | Device::Rocm(_) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )
