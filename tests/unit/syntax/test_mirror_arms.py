"""Mirroring: a ROCm arm next to every CUDA arm."""

from __future__ import annotations

from check import check_noop, check_refused, check_transformed, made, parsed


def test_an_arm_is_copied_and_renamed_behind_its_metal_sibling() -> None:
    check_transformed(
        """
        fn len(s: &Storage) -> usize {
            match s {
                Storage::Cpu(s) => s.len(),
                Storage::Cuda(s) => s.cuda_len(),
                Storage::Metal(s) => s.metal_len(),
            }
        }
        """,
        """
        fn len(s: &Storage) -> usize {
            match s {
                Storage::Cpu(s) => s.len(),
                Storage::Cuda(s) => s.cuda_len(),
                Storage::Metal(s) => s.metal_len(),
                Storage::Rocm(s) => s.rocm_len(),
            }
        }
        """,
        verb="mirror",
    )


def test_an_arm_stays_next_to_cuda_when_metal_comes_first_or_elsewhere() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Metal(s) => 1,
                Storage::Cuda(s) => 2,
                Storage::Cpu(s) => 3,
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Metal(s) => 1,
                Storage::Cuda(s) => 2,
                Storage::Rocm(s) => 2,
                Storage::Cpu(s) => 3,
            }
        }
        """,
        verb="mirror",
    )


def test_a_last_arm_without_a_comma_gets_one() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cpu(_) => 3,
                Storage::Cuda(_) => 2
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cpu(_) => 3,
                Storage::Cuda(_) => 2,
                Storage::Rocm(_) => 2,
            }
        }
        """,
        verb="mirror",
    )


def test_a_block_arm_needs_no_comma() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(c) => {
                    c.sync();
                    2
                }
                Storage::Cpu(_) => 3,
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(c) => {
                    c.sync();
                    2
                }
                Storage::Rocm(c) => {
                    c.sync();
                    2
                }
                Storage::Cpu(_) => 3,
            }
        }
        """,
        verb="mirror",
    )


def test_a_value_that_ends_in_a_brace_and_is_no_block_needs_a_comma() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> Place {
            match s {
                Storage::Cpu(_) => Place { gpu: 0 },
                Storage::Cuda(c) => Place { gpu: c.id }
            }
        }
        """,
        """
        fn f(s: &Storage) -> Place {
            match s {
                Storage::Cpu(_) => Place { gpu: 0 },
                Storage::Cuda(c) => Place { gpu: c.id },
                Storage::Rocm(c) => Place { gpu: c.id },
            }
        }
        """,
        verb="mirror",
    )


def test_a_macro_call_in_braces_needs_a_comma() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> Value {
            match s {
                Storage::Cuda(c) => json! { c.id }
            }
        }
        """,
        """
        fn f(s: &Storage) -> Value {
            match s {
                Storage::Cuda(c) => json! { c.id },
                Storage::Rocm(c) => json! { c.id },
            }
        }
        """,
        verb="mirror",
    )


def test_expressions_with_a_block_need_no_comma() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(c) => if c.ok() { 1 } else { 2 }
                Storage::Cpu(c) => unsafe { c.raw() }
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(c) => if c.ok() { 1 } else { 2 }
                Storage::Rocm(c) => if c.ok() { 1 } else { 2 }
                Storage::Cpu(c) => unsafe { c.raw() }
            }
        }
        """,
        verb="mirror",
    )


def test_a_comment_at_the_end_of_a_line_stays_with_its_arm() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(_) => 2, // two is enough
                // the next one counts threads
                Storage::Cpu(_) => 3,
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cuda(_) => 2, // two is enough
                Storage::Rocm(_) => 2,
                // the next one counts threads
                Storage::Cpu(_) => 3,
            }
        }
        """,
        verb="mirror",
    )


def test_a_comment_behind_a_last_arm_without_a_comma_stays_with_it() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cpu(_) => 3,
                Storage::Cuda(_) => 2 // two is enough
            }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s {
                Storage::Cpu(_) => 3,
                Storage::Cuda(_) => 2, // two is enough
                Storage::Rocm(_) => 2,
            }
        }
        """,
        verb="mirror",
    )


def test_a_match_on_one_line_stays_valid() -> None:
    check_transformed(
        """
        fn f(s: &Storage) -> usize {
            match s { Storage::Cpu(_) => 3, Storage::Cuda(_) => 2 }
        }
        """,
        """
        fn f(s: &Storage) -> usize {
            match s { Storage::Cpu(_) => 3, Storage::Cuda(_) => 2,
            Storage::Rocm(_) => 2, }
        }
        """,
        verb="mirror",
    )


def test_tuples_are_renamed_as_a_whole() -> None:
    check_transformed(
        """
        fn add(&self, rhs: &Self) -> Result<Self> {
            match (self, rhs) {
                (Storage::Cpu(a), Storage::Cpu(b)) => a.add(b),
                (Storage::Cuda(a), Storage::Cuda(b)) => a.add(b),
                (Storage::Metal(a), Storage::Metal(b)) => a.add(b),
                (a, b) => Err(mismatch(a, b)),
            }
        }
        """,
        """
        fn add(&self, rhs: &Self) -> Result<Self> {
            match (self, rhs) {
                (Storage::Cpu(a), Storage::Cpu(b)) => a.add(b),
                (Storage::Cuda(a), Storage::Cuda(b)) => a.add(b),
                (Storage::Metal(a), Storage::Metal(b)) => a.add(b),
                (Storage::Rocm(a), Storage::Rocm(b)) => a.add(b),
                (a, b) => Err(mismatch(a, b)),
            }
        }
        """,
        verb="mirror",
    )


def test_cross_enum_tuples_find_their_metal_sibling_under_another_path() -> None:
    check_transformed(
        """
        impl Tensor {
            fn to_device(&self, device: &Device) -> Result<Storage> {
                match (&self.storage, device) {
                    (Storage::Cpu(s), Device::Cuda(d)) => d.upload(s),
                    (Storage::Cpu(s), Device::Metal(d)) => d.upload(s),
                    (Storage::Cuda(s), Device::Cpu) => s.download(),
                    (Storage::Metal(s), Device::Cpu) => s.download(),
                    (Storage::Cuda(s), Device::Cuda(d)) => s.transfer(d),
                    (Storage::Cpu(s), Device::Cpu) => Ok(s.clone()),
                    _ => Err(unsupported()),
                }
            }
        }
        """,
        """
        impl Tensor {
            fn to_device(&self, device: &Device) -> Result<Storage> {
                match (&self.storage, device) {
                    (Storage::Cpu(s), Device::Cuda(d)) => d.upload(s),
                    (Storage::Cpu(s), Device::Metal(d)) => d.upload(s),
                    (Storage::Cpu(s), Device::Rocm(d)) => d.upload(s),
                    (Storage::Cuda(s), Device::Cpu) => s.download(),
                    (Storage::Metal(s), Device::Cpu) => s.download(),
                    (Storage::Rocm(s), Device::Cpu) => s.download(),
                    (Storage::Cuda(s), Device::Cuda(d)) => s.transfer(d),
                    (Storage::Rocm(s), Device::Rocm(d)) => s.transfer(d),
                    (Storage::Cpu(s), Device::Cpu) => Ok(s.clone()),
                    _ => Err(unsupported()),
                }
            }
        }
        """,
        verb="mirror",
    )


def test_struct_patterns_keep_their_bindings() -> None:
    check_transformed(
        """
        fn index(l: &DeviceLocation) -> usize {
            match l {
                DeviceLocation::Cpu => 0,
                DeviceLocation::Cuda { gpu_id } => *gpu_id,
                DeviceLocation::Metal { gpu_id } => *gpu_id,
            }
        }
        """,
        """
        fn index(l: &DeviceLocation) -> usize {
            match l {
                DeviceLocation::Cpu => 0,
                DeviceLocation::Cuda { gpu_id } => *gpu_id,
                DeviceLocation::Metal { gpu_id } => *gpu_id,
                DeviceLocation::Rocm { gpu_id } => *gpu_id,
            }
        }
        """,
        verb="mirror",
    )


def test_at_bindings_references_and_full_paths_are_copied() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> usize {
            match &d {
                &&crate::Device::Cpu => 0,
                &&(ref all @ crate::Device::Cuda(_)) => all.count(),
                &&crate::Device::Metal(_) => 2,
            }
        }
        """,
        """
        fn f(d: &Device) -> usize {
            match &d {
                &&crate::Device::Cpu => 0,
                &&(ref all @ crate::Device::Cuda(_)) => all.count(),
                &&(ref all @ crate::Device::Rocm(_)) => all.count(),
                &&crate::Device::Metal(_) => 2,
            }
        }
        """,
        verb="mirror",
    )


def test_a_guard_goes_with_its_arm() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> usize {
            match d {
                Device::Cuda(c) if c.ordinal() == 0 => 1,
                Device::Cuda(_) => 2,
                Device::Metal(_) => 3,
                _ => 0,
            }
        }
        """,
        """
        fn f(d: &Device) -> usize {
            match d {
                Device::Cuda(c) if c.ordinal() == 0 => 1,
                Device::Rocm(c) if c.ordinal() == 0 => 1,
                Device::Cuda(_) => 2,
                Device::Metal(_) => 3,
                Device::Rocm(_) => 2,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_twin_arms_that_differ_by_cfg_are_copied_together() -> None:
    check_transformed(
        """
        fn seed(d: &Device) -> Result<u64> {
            match d {
                Device::Cpu => Ok(1),
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.seed(),
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Err(not_compiled("cuda")),
                Device::Metal(m) => m.seed(),
            }
        }
        """,
        """
        fn seed(d: &Device) -> Result<u64> {
            match d {
                Device::Cpu => Ok(1),
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.seed(),
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Err(not_compiled("cuda")),
                Device::Metal(m) => m.seed(),
                #[cfg(feature = "rocm")]
                Device::Rocm(c) => c.seed(),
                #[cfg(not(feature = "rocm"))]
                Device::Rocm(_) => Err(not_compiled("rocm")),
            }
        }
        """,
        verb="mirror",
    )


def test_with_cfg_gating_twin_arms_give_one_arm_behind_the_feature() -> None:
    check_transformed(
        """
        fn seed(d: &Device) -> Result<u64> {
            match d {
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.seed(),
                #[allow(unused)]
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Err(not_compiled("cuda")),
                Device::Cpu => Ok(1),
            }
        }
        """,
        """
        fn seed(d: &Device) -> Result<u64> {
            match d {
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => c.seed(),
                #[allow(unused)]
                #[cfg(not(feature = "cuda"))]
                Device::Cuda(_) => Err(not_compiled("cuda")),
                #[cfg(feature = "rocm")]
                Device::Rocm(c) => c.seed(),
                Device::Cpu => Ok(1),
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_with_cfg_gating_a_plain_arm_stands_behind_the_feature() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> u64 {
            match d {
                Device::Cpu => 1,
                Device::Cuda(c) => c.id(),
                Device::Metal(m) => m.id(),
            }
        }
        """,
        """
        fn f(d: &Device) -> u64 {
            match d {
                Device::Cpu => 1,
                Device::Cuda(c) => c.id(),
                Device::Metal(m) => m.id(),
                #[cfg(feature = "rocm")]
                Device::Rocm(c) => c.id(),
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_match_in_a_cuda_arm_is_renamed_with_it() -> None:
    check_transformed(
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cuda(a) => match b {
                    Storage::Cuda(b) => a.both(b),
                    _ => 0,
                },
                _ => 1,
            }
        }
        """,
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cuda(a) => match b {
                    Storage::Cuda(b) => a.both(b),
                    _ => 0,
                },
                Storage::Rocm(a) => match b {
                    Storage::Rocm(b) => a.both(b),
                    _ => 0,
                },
                _ => 1,
            }
        }
        """,
        verb="mirror",
    )


def test_a_complete_match_in_a_cuda_arm_learns_rocm_and_the_copy_learns_cuda() -> None:
    check_transformed(
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cpu(_) => 1,
                Storage::Cuda(a) => match b {
                    Storage::Cpu(_) => 2,
                    Storage::Cuda(b) => a.both(b),
                    Storage::Metal(_) => foreign("Metal"),
                },
                Storage::Metal(_) => 3,
            }
        }
        """,
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cpu(_) => 1,
                Storage::Cuda(a) => match b {
                    Storage::Cpu(_) => 2,
                    Storage::Cuda(b) => a.both(b),
                    Storage::Metal(_) => foreign("Metal"),
                    Storage::Rocm(_) => foreign("ROCm"),
                },
                Storage::Metal(_) => 3,
                Storage::Rocm(a) => match b {
                    Storage::Cpu(_) => 2,
                    Storage::Rocm(b) => a.both(b),
                    Storage::Metal(_) => foreign("Metal"),
                    Storage::Cuda(_) => foreign("CUDA"),
                },
            }
        }
        """,
        verb="mirror",
        at="match a",
    )


def test_a_complete_match_in_a_cuda_arm_needs_a_metal_arm_to_learn_from() -> None:
    check_refused(
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cpu(_) => 1,
                Storage::Cuda(a) => match b {
                    Storage::Cpu(_) => 2,
                    Storage::Cuda(b) => a.both(b),
                },
            }
        }
        """,
        "there is no Metal arm to derive the ROCm arm from",
        verb="mirror",
        at="match a",
    )


def test_matches_in_other_arms_are_sites_of_their_own() -> None:
    check_transformed(
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cpu(a) => match b {
                    Storage::Cuda(b) => a.upload(b),
                    _ => 0,
                },
                Storage::Cuda(_) => 1,
                _ => 2,
            }
        }
        """,
        """
        fn f(a: &Storage, b: &Storage) -> u64 {
            match a {
                Storage::Cpu(a) => match b {
                    Storage::Cuda(b) => a.upload(b),
                    Storage::Rocm(b) => a.upload(b),
                    _ => 0,
                },
                Storage::Cuda(_) => 1,
                Storage::Rocm(_) => 1,
                _ => 2,
            }
        }
        """,
        verb="mirror",
    )


def test_device_names_as_strings_are_mirrored() -> None:
    check_transformed(
        """
        fn parse(name: &str) -> Option<Place> {
            match name {
                "cpu" => Some(Place::Cpu),
                "cuda" | r"gpu" => Some(Place::Cuda),
                "metal" => Some(Place::Metal),
                _ => None,
            }
        }
        """,
        """
        fn parse(name: &str) -> Option<Place> {
            match name {
                "cpu" => Some(Place::Cpu),
                "cuda" | r"gpu" => Some(Place::Cuda),
                "rocm" => Some(Place::Rocm),
                "metal" => Some(Place::Metal),
                _ => None,
            }
        }
        """,
        verb="mirror",
    )


def test_raw_and_byte_strings_are_names_too() -> None:
    check_transformed(
        """
        fn parse(name: &[u8]) -> u8 {
            match name {
                b"cuda" => 1,
                _ => 0,
            }
        }
        """,
        """
        fn parse(name: &[u8]) -> u8 {
            match name {
                b"cuda" => 1,
                b"rocm" => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_names_in_an_arm_are_spelled_as_code_and_as_prose() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> String {
            match d {
                Device::Cuda(c) => {
                    // Cuda counts from zero, like `Device::Cuda` elsewhere.
                    format!("CUDA device {} ({:?}, {})", c.cuda_ordinal(), "CudaDevice", CUDA_LIMIT)
                }
                _ => String::new(),
            }
        }
        """,
        """
        fn f(d: &Device) -> String {
            match d {
                Device::Cuda(c) => {
                    // Cuda counts from zero, like `Device::Cuda` elsewhere.
                    format!("CUDA device {} ({:?}, {})", c.cuda_ordinal(), "CudaDevice", CUDA_LIMIT)
                }
                Device::Rocm(c) => {
                    // ROCm counts from zero, like `Device::Rocm` elsewhere.
                    format!("ROCm device {} ({:?}, {})", c.rocm_ordinal(), "RocmDevice", ROCM_LIMIT)
                }
                _ => String::new(),
            }
        }
        """,
        verb="mirror",
    )


def test_a_rule_corrects_the_copied_text() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> &str {
            match d {
                Device::Cuda(_) => "an NVIDIA card, cuda",
                _ => "",
            }
        }
        """,
        """
        fn f(d: &Device) -> &str {
            match d {
                Device::Cuda(_) => "an NVIDIA card, cuda",
                Device::Rocm(_) => "an AMD card, rocm",
                _ => "",
            }
        }
        """,
        verb="mirror",
        replace={"NVIDIA": "AMD"},
    )


def test_an_arm_that_uses_cudas_own_api_is_refused() -> None:
    snippet = """
        fn f(s: &Storage) -> Slice {
            match s {
                Storage::Cuda(s) => CudaSlice::from(s),
                _ => Slice::empty(),
            }
        }
        """
    message = "it uses CUDA's own API (CudaSlice), which has no ROCm namesake"
    check_refused(snippet, message, verb="mirror", protected=("CudaSlice", "cudarc"))


def test_functions_of_the_c_api_are_refused_without_being_listed() -> None:
    check_refused(
        """
        fn f(s: &Storage) -> i32 {
            match s {
                Storage::Cuda(s) => unsafe { cudaMemcpyAsync(s) },
                _ => 0,
            }
        }
        """,
        "it uses CUDA's own API (cudaMemcpyAsync), which has no ROCm namesake",
        verb="mirror",
    )


def test_an_arm_that_is_never_compiled_with_cfg_gating_is_left_out() -> None:
    check_noop(
        """
        fn f(s: &Storage) -> i32 {
            match s {
                #[cfg(not(feature = "cuda"))]
                Storage::Cuda(_) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_file_with_windows_line_ends_keeps_them() -> None:
    arm = b"        S::Cuda(_) => {\r\n            1\r\n        }\r\n"
    head, tail = b"fn f(s: &S) -> i32 {\r\n    match s {\r\n", b"    }\r\n}\r\n"
    before = head + arm + tail
    after = head + arm + arm.replace(b"Cuda", b"Rocm") + tail
    check_transformed(before, after, verb="mirror")
    gated = after.replace(b"        S::Rocm", b'        #[cfg(feature = "rocm")]\r\n        S::Rocm')
    check_transformed(before, gated, verb="mirror", cfg=True)


def test_offsets_count_bytes_where_text_is_not_ascii() -> None:
    check_transformed(
        """
        /// Größe in µm — 寸法
        fn f(s: &Storage) -> &str {
            match s {
                Storage::Cpu(_) => "µ", // größer
                Storage::Cuda(_) => "größe ≥ 1", // 寸
                _ => "",
            }
        }
        """,
        """
        /// Größe in µm — 寸法
        fn f(s: &Storage) -> &str {
            match s {
                Storage::Cpu(_) => "µ", // größer
                Storage::Cuda(_) => "größe ≥ 1", // 寸
                Storage::Rocm(_) => "größe ≥ 1",
                _ => "",
            }
        }
        """,
        verb="mirror",
    )


def test_an_error_node_elsewhere_does_not_matter() -> None:
    check_transformed(
        """
        struct Holder<'a>(Arc<dyn 'a + Fn(&T) -> T>);

        fn f(s: &Storage) -> i32 {
            match s {
                Storage::Cuda(_) => 1,
                _ => 0,
            }
        }
        """,
        """
        struct Holder<'a>(Arc<dyn 'a + Fn(&T) -> T>);

        fn f(s: &Storage) -> i32 {
            match s {
                Storage::Cuda(_) => 1,
                Storage::Rocm(_) => 1,
                _ => 0,
            }
        }
        """,
        verb="mirror",
    )


def test_an_arm_that_the_grammar_cannot_parse_is_refused() -> None:
    check_refused(
        """
        fn f(s: &Storage) {
            match s {
                Storage::Cuda(c) => go::<Box<dyn 'a + Fn(&T)>>(c),
                _ => {}
            }
        }
        """,
        "the Rust grammar cannot parse a part of it",
        verb="mirror",
    )


# --- override: arms that a template brings ----------------------------------------------------------------------------

OVERRIDDEN = """
    fn count(device: &Device) -> usize {
        match device {
            Device::Cpu => 0,
            Device::Cuda(cuda) => cuda.count(),
        }
    }
    """
ARMS = """\
    // A view is gathered first.
    Device::Rocm(rocm) if rocm.is_view() => {
        match rocm.view() {
            None => 0,
            Some(view) => view.count(),
        }
    }
    #[cfg(all(feature = "rocm", unix))]
    Device::Rocm(rocm) => rocm.count(),
    """


def test_arms_of_an_override_are_behind_the_feature_once() -> None:
    check_transformed(
        OVERRIDDEN,
        """
        fn count(device: &Device) -> usize {
            match device {
                Device::Cpu => 0,
                Device::Cuda(cuda) => cuda.count(),
                // A view is gathered first.
                #[cfg(feature = "rocm")]
                Device::Rocm(rocm) if rocm.is_view() => {
                    match rocm.view() {
                        None => 0,
                        Some(view) => view.count(),
                    }
                }
                #[cfg(all(feature = "rocm", unix))]
                Device::Rocm(rocm) => rocm.count(),
            }
        }
        """,
        verb="override",
        cfg=True,
        text=ARMS,
    )


def test_arms_of_an_override_as_they_are_beside_a_dummy_backend() -> None:
    (edit,) = made(parsed(OVERRIDDEN), "override", text=ARMS)
    assert edit.text.count("#[cfg(") == 1
    assert "is_view() => {" in edit.text


def test_an_override_that_is_no_arm_is_handed_on_as_it_is() -> None:
    """What it would leave does not parse, and the plan says so."""
    (edit,) = made(parsed(OVERRIDDEN), "override", cfg=True, text="}}}")
    assert edit.text.strip() == "}}}"
