"""Items: functions, variants, statics, modules, statements and what a template puts in their place."""

from __future__ import annotations

import pytest
from check import check_noop, check_refused, check_transformed, made, parsed

from codegen.syntax.modules import declare_module
from codegen.syntax.sites import find_sites
from codegen.syntax.verbs import CannotMirror, Style, insert_module, mirrored_text


def test_a_trait_method_is_copied_with_its_documentation() -> None:
    check_transformed(
        """
        trait Op {
            /// The forward pass on the cpu.
            fn cpu_fwd(&self, s: &CpuStorage) -> Result<CpuStorage>;

            /// The forward pass on a CUDA device, as run by [`Device::Cuda`].
            fn cuda_fwd(&self, _: &CudaStorage) -> Result<CudaStorage> {
                Err(Error::Cuda(format!("no cuda implementation for {}", self.name()).into()))
            }

            /// The forward pass on a Metal device.
            fn metal_fwd(&self, _: &MetalStorage) -> Result<MetalStorage> {
                Err(Error::Metal(self.name()))
            }

            fn bwd(&self) {}
        }
        """,
        """
        trait Op {
            /// The forward pass on the cpu.
            fn cpu_fwd(&self, s: &CpuStorage) -> Result<CpuStorage>;

            /// The forward pass on a CUDA device, as run by [`Device::Cuda`].
            fn cuda_fwd(&self, _: &CudaStorage) -> Result<CudaStorage> {
                Err(Error::Cuda(format!("no cuda implementation for {}", self.name()).into()))
            }

            /// The forward pass on a Metal device.
            fn metal_fwd(&self, _: &MetalStorage) -> Result<MetalStorage> {
                Err(Error::Metal(self.name()))
            }

            /// The forward pass on a ROCm device, as run by [`Device::Rocm`].
            fn rocm_fwd(&self, _: &RocmStorage) -> Result<RocmStorage> {
                Err(Error::Rocm(format!("no rocm implementation for {}", self.name()).into()))
            }

            fn bwd(&self) {}
        }
        """,
        verb="mirror",
        kind="fwd",
    )


def test_with_cfg_gating_the_attribute_stands_below_the_documentation() -> None:
    check_transformed(
        """
        impl Op for Add {
            /// On a CUDA device.
            #[inline]
            fn cuda_fwd(&self) -> u8 {
                1
            }
        }
        """,
        """
        impl Op for Add {
            /// On a CUDA device.
            #[inline]
            fn cuda_fwd(&self) -> u8 {
                1
            }
            /// On a ROCm device.
            #[cfg(feature = "rocm")]
            #[inline]
            fn rocm_fwd(&self) -> u8 {
                1
            }
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_free_function_behind_cudas_feature_gets_its_own_feature() -> None:
    for cfg in (False, True):
        check_transformed(
            """
            #[cfg(feature = "cuda")]
            pub fn cuda_rope(x: &CudaStorage) -> u8 {
                1
            }

            #[cfg(feature = "metal")]
            pub fn other() {}
            """,
            """
            #[cfg(feature = "cuda")]
            pub fn cuda_rope(x: &CudaStorage) -> u8 {
                1
            }

            #[cfg(feature = "rocm")]
            pub fn rocm_rope(x: &RocmStorage) -> u8 {
                1
            }

            #[cfg(feature = "metal")]
            pub fn other() {}
            """,
            verb="mirror",
            cfg=cfg,
        )


def test_a_function_whose_copy_would_have_its_name_is_refused() -> None:
    """With both features on there would be two of them."""
    check_refused(
        """
        #[cfg(feature = "cuda")]
        pub fn rope(x: &CudaStorage) -> u8 {
            1
        }
        """,
        "its name does not name CUDA, so its copy would be called the same",
        verb="mirror",
        kind="fn",
    )


def test_what_stands_in_for_the_feature_is_left_out_with_cfg_gating() -> None:
    check_noop(
        """
        /// Without CUDA there is nothing to do.
        #[cfg(not(feature = "cuda"))]
        fn setup_cuda() {}
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_function_that_holds_a_complete_match_must_be_swapped() -> None:
    check_refused(
        """
        fn cuda_index(d: &Device) -> usize {
            match d {
                Device::Cpu => 0,
                Device::Cuda(d) => d.index(),
            }
        }
        """,
        "it holds a match that rustc wants complete, so the original must learn ROCm too: swap it",
        verb="mirror",
        kind="fn",
    )


def test_a_complete_match_deep_inside_counts_too() -> None:
    check_refused(
        """
        fn cuda_index(d: &Device, e: &Device) -> usize {
            match d {
                Device::Cuda(_) => match e {
                    Device::Cpu => 0,
                    Device::Cuda(d) => d.index(),
                },
                _ => 1,
            }
        }
        """,
        "it holds a match that rustc wants complete",
        verb="mirror",
        kind="fn",
    )


def test_an_enum_variant_takes_attributes_and_documentation_along_but_no_plain_comment() -> None:
    check_transformed(
        """
        enum Error {
            // === devices ===
            /// A CUDA failure.
            #[error("cuda: {0}")]
            Cuda(Box<CudaError>),

            /// A Metal failure.
            #[error("metal: {0}")]
            Metal(MetalError),

            // === the rest ===
            Other,
        }
        """,
        """
        enum Error {
            // === devices ===
            /// A CUDA failure.
            #[error("cuda: {0}")]
            Cuda(Box<CudaError>),

            /// A Metal failure.
            #[error("metal: {0}")]
            Metal(MetalError),

            /// A ROCm failure.
            #[error("rocm: {0}")]
            Rocm(Box<RocmError>),

            // === the rest ===
            Other,
        }
        """,
        verb="mirror",
    )


def test_a_plain_comment_between_documentation_and_item_does_not_part_them() -> None:
    check_transformed(
        """
        enum Place {
            Cpu,
            /// On CUDA.
            // counted from zero
            Cuda { gpu: usize },
        }
        """,
        """
        enum Place {
            Cpu,
            /// On CUDA.
            // counted from zero
            Cuda { gpu: usize },
            /// On ROCm.
            // counted from zero
            Rocm { gpu: usize },
        }
        """,
        verb="mirror",
    )


def test_a_variant_with_cfg_gating() -> None:
    check_transformed(
        """
        enum Storage {
            Cpu(CpuStorage),
            Cuda(CudaStorage),
            Metal(MetalStorage),
        }
        """,
        """
        enum Storage {
            Cpu(CpuStorage),
            Cuda(CudaStorage),
            Metal(MetalStorage),
            #[cfg(feature = "rocm")]
            Rocm(RocmStorage),
        }
        """,
        verb="mirror",
        cfg=True,
    )


def test_a_last_variant_without_a_comma_gets_one() -> None:
    check_transformed(
        """
        enum Storage {
            Cpu,
            Cuda // the fast one
        }
        """,
        """
        enum Storage {
            Cpu,
            Cuda, // the fast one
            Rocm,
        }
        """,
        verb="mirror",
    )
    check_transformed(
        """
        enum Storage { Cpu, Cuda }
        """,
        """
        enum Storage { Cpu, Cuda,
        Rocm, }
        """,
        verb="mirror",
    )


def test_a_comment_behind_a_variant_stays_with_it() -> None:
    check_transformed(
        """
        enum Storage {
            Cuda(CudaStorage), // on the card
            Cpu,
        }
        """,
        """
        enum Storage {
            Cuda(CudaStorage), // on the card
            Rocm(RocmStorage),
            Cpu,
        }
        """,
        verb="mirror",
    )


def test_a_variant_with_a_number_of_its_own_is_refused() -> None:
    check_refused(
        """
        enum Code {
            Cpu = 0,
            Cuda = 1,
        }
        """,
        "the variant has an explicit discriminant",
        verb="mirror",
    )


def test_statics_stay_in_their_group() -> None:
    check_transformed(
        """
        static CPU: Mutex<u8> = Mutex::new(0);
        static CUDA_DEVICE: Mutex<Option<Device>> = Mutex::new(None);
        static METAL_DEVICE: Mutex<Option<Device>> = Mutex::new(None);

        fn f() {}
        """,
        """
        static CPU: Mutex<u8> = Mutex::new(0);
        static CUDA_DEVICE: Mutex<Option<Device>> = Mutex::new(None);
        static METAL_DEVICE: Mutex<Option<Device>> = Mutex::new(None);

        static ROCM_DEVICE: Mutex<Option<Device>> = Mutex::new(None);

        fn f() {}
        """,
        verb="mirror",
        kind="static",
    )


def test_modules_are_sorted_in_as_rustfmt_does() -> None:
    check_transformed(
        """
        mod conv;
        #[cfg(feature = "cuda")]
        pub mod cuda_backend;
        mod device;
        #[cfg(feature = "metal")]
        pub mod metal_backend;
        mod shape;

        pub use shape::Shape;
        """,
        """
        mod conv;
        #[cfg(feature = "cuda")]
        pub mod cuda_backend;
        mod device;
        #[cfg(feature = "metal")]
        pub mod metal_backend;
        #[cfg(feature = "rocm")]
        pub mod rocm_backend;
        mod shape;

        pub use shape::Shape;
        """,
        verb="mirror",
    )


def test_a_module_that_sorts_last_ends_its_group() -> None:
    check_transformed(
        """
        mod alpha;
        #[path = "cuda/mod.rs"]
        mod cuda; // the fast one

        mod zeta;
        """,
        """
        mod alpha;
        #[path = "cuda/mod.rs"]
        mod cuda; // the fast one
        #[path = "rocm/mod.rs"]
        mod rocm;

        mod zeta;
        """,
        verb="mirror",
    )


def test_a_module_inside_a_module_is_indented() -> None:
    check_transformed(
        """
        mod backends {
            mod cuda;
            mod zeta;
        }
        """,
        """
        mod backends {
            mod cuda;
            mod rocm;
            mod zeta;
        }
        """,
        verb="mirror",
    )


def test_an_inline_module_is_copied() -> None:
    check_transformed(
        """
        mod cuda {
            pub fn a() -> CudaDevice {
                CudaDevice
            }
        }
        """,
        """
        mod cuda {
            pub fn a() -> CudaDevice {
                CudaDevice
            }
        }
        mod rocm {
            pub fn a() -> RocmDevice {
                RocmDevice
            }
        }
        """,
        verb="mirror",
    )


def test_a_new_module_can_be_declared_where_rustfmt_wants_it() -> None:
    source = parsed("use x::Y;\n\nmod alpha;\nmod zeta;\n")
    edit = declare_module(source, "mod rocm;")
    assert source.text[: edit.start].decode() == "use x::Y;\n\nmod alpha;\n"
    assert edit.text == "mod rocm;\n"


def test_a_text_that_declares_no_module_is_refused() -> None:
    source = parsed("mod alpha;\n")
    with pytest.raises(CannotMirror, match="the text for it declares no module"):
        insert_module(source, source.root.children[0], "fn f() {}")


def test_a_macro_call_between_items_is_copied_with_its_semicolon() -> None:
    check_transformed(
        """
        impl<C: Op1> Op1 for Wrapped<C> {
            forward_op!(cpu_fwd, CpuStorage);
            forward_op!(cuda_fwd, CudaStorage);
            forward_op!(metal_fwd, MetalStorage);
        }
        """,
        """
        impl<C: Op1> Op1 for Wrapped<C> {
            forward_op!(cpu_fwd, CpuStorage);
            forward_op!(cuda_fwd, CudaStorage);
            forward_op!(metal_fwd, MetalStorage);
            forward_op!(rocm_fwd, RocmStorage);
        }
        """,
        verb="mirror",
    )


def test_a_macro_statement_is_copied() -> None:
    check_transformed(
        """
        fn apply(dst: &mut Storage) -> Result<()> {
            inplace_dispatch!(dst, Cpu, cpu_fwd);
            inplace_dispatch!(dst, Cuda, cuda_fwd);
            inplace_dispatch!(dst, Metal, metal_fwd);
            Ok(())
        }
        """,
        """
        fn apply(dst: &mut Storage) -> Result<()> {
            inplace_dispatch!(dst, Cpu, cpu_fwd);
            inplace_dispatch!(dst, Cuda, cuda_fwd);
            inplace_dispatch!(dst, Metal, metal_fwd);
            inplace_dispatch!(dst, Rocm, rocm_fwd);
            Ok(())
        }
        """,
        verb="mirror",
    )


def test_a_call_that_registers_a_function_through_a_macro_is_copied() -> None:
    check_transformed(
        """
        fn module(m: &Module) -> Result<()> {
            m.add(wrap!(cuda_is_available, m)?)?;
            m.add(wrap!(metal_is_available, m)?)?;
            Ok(())
        }
        """,
        """
        fn module(m: &Module) -> Result<()> {
            m.add(wrap!(cuda_is_available, m)?)?;
            m.add(wrap!(metal_is_available, m)?)?;
            m.add(wrap!(rocm_is_available, m)?)?;
            Ok(())
        }
        """,
        verb="mirror",
    )


def test_a_macro_in_an_expression_has_no_sibling() -> None:
    check_refused(
        """
        fn f() -> Vec<u8> {
            let all = vec![Kind::Cuda];
            all
        }
        """,
        "a macro call inside an expression cannot have a ROCm sibling",
        verb="mirror",
    )


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("let x = d.is_cuda();", "call expression"),
        ("let x = new_cuda(0);", "call expression"),
        ("if d.is_cuda() { f(); }", "if expression"),
        ("let x = Kind::Cuda;", "identifier"),
        ("while d.is_cuda() {}", "call expression"),
    ],
)
def test_an_expression_has_no_sibling(statement: str, what: str) -> None:
    snippet = f"fn f(d: &Device) {{ {statement} }}\n"
    check_refused(snippet, f"nothing can stand beside this {what}", verb="mirror")
    check_refused(snippet, f"nothing can stand beside this {what}", verb="override", text="rocm();")


@pytest.mark.parametrize("cfg", [False, True])
def test_an_if_let_without_else_is_a_statement(cfg: bool) -> None:  # noqa: FBT001
    gate = '    #[cfg(feature = "rocm")]\n' if cfg else ""
    before = "fn f(d: &Device) {\n    if let Device::Cuda(_) = d {\n        d.wait();\n    }\n"
    after = f"{before}{gate}    if let Device::Rocm(_) = d {{\n        d.wait();\n    }}\n"
    check_transformed(f"{before}    g();\n}}\n", f"{after}    g();\n}}\n", verb="mirror", cfg=cfg)


def test_an_if_let_with_an_else_has_no_sibling() -> None:
    check_refused(
        "fn f(d: &Device) { if let Device::Cuda(_) = d { g(); } else { h(); } }\n",
        "nothing can stand beside this if expression",
        verb="mirror",
    )


def test_an_attribute_has_no_sibling() -> None:
    check_refused(
        """
        #[cfg_attr(feature = "cuda", derive(Clone))]
        struct S;
        """,
        "nothing can stand beside this attribute item",
        verb="mirror",
    )


def test_a_file_behind_cudas_feature_has_no_sibling() -> None:
    check_refused(
        """
        //! About nothing.
        #![cfg(feature = "cuda")]
        fn f() {}
        """,
        "the construct is not one that a verb can take",
        verb="mirror",
    )


def test_a_field_behind_cudas_feature_is_copied_with_its_comma() -> None:
    check_transformed(
        """
        struct Cache {
            cpu: u8,
            #[cfg(feature = "cuda")]
            kernels: CudaKernels,
            size: usize,
        }
        """,
        """
        struct Cache {
            cpu: u8,
            #[cfg(feature = "cuda")]
            kernels: CudaKernels,
            #[cfg(feature = "rocm")]
            kernels: RocmKernels,
            size: usize,
        }
        """,
        verb="mirror",
    )


def test_a_templates_text_stands_where_the_copy_would_and_is_indented() -> None:
    check_transformed(
        """
        impl Device {
            fn new_cuda(ordinal: usize) -> Result<Self> {
                Ok(Self::Cuda(CudaDevice::new(ordinal)?))
            }

            fn new_metal(ordinal: usize) -> Result<Self> {
                Ok(Self::Metal(MetalDevice::new(ordinal)?))
            }

            fn other() {}
        }
        """,
        """
        impl Device {
            fn new_cuda(ordinal: usize) -> Result<Self> {
                Ok(Self::Cuda(CudaDevice::new(ordinal)?))
            }

            fn new_metal(ordinal: usize) -> Result<Self> {
                Ok(Self::Metal(MetalDevice::new(ordinal)?))
            }

            /// Devices of one GPU share a stream.
            fn new_rocm(ordinal: usize) -> Result<Self> {
                let found = find(ordinal)?;

                Ok(Self::Rocm(found))
            }

            fn other() {}
        }
        """,
        verb="override",
        text="""\
        /// Devices of one GPU share a stream.
        fn new_rocm(ordinal: usize) -> Result<Self> {
            let found = find(ordinal)?;

            Ok(Self::Rocm(found))
        }
        """,
    )


def test_a_variant_that_an_override_adds_is_behind_the_feature() -> None:
    check_transformed(
        """
        pub enum Error {
            #[error(transparent)]
            Cuda(Box<dyn std::error::Error>),
        }
        """,
        """
        pub enum Error {
            #[error(transparent)]
            Cuda(Box<dyn std::error::Error>),
            #[cfg(feature = "rocm")]
            #[error(transparent)]
            Rocm(crate::RocmError),
        }
        """,
        verb="override",
        cfg=True,
        text="""\
        #[error(transparent)]
        Rocm(crate::RocmError)
        """,
    )


def test_a_function_whose_name_is_taken_begins_with_the_template() -> None:
    check_transformed(
        """
        #[cfg(feature = "cuda")]
        pub fn total(x: &Tensor) -> usize {
            // Counted on the device.
            let x = x.as_cuda();
            x.len()
        }
        """,
        """
        #[cfg(feature = "cuda")]
        pub fn total(x: &Tensor) -> usize {
            #[cfg(feature = "rocm")]
            if x.is_rocm() {
                return rocm::total(x);
            }
            // Counted on the device.
            let x = x.as_cuda();
            x.len()
        }
        """,
        verb="override",
        kind="fn",
        text="""\
        #[cfg(feature = "rocm")]
        if x.is_rocm() {
            return rocm::total(x);
        }
        """,
    )


@pytest.mark.parametrize("body", ["{}", ";"])
def test_a_function_without_a_body_cannot_begin_with_a_template(body: str) -> None:
    item = f'#[cfg(feature = "cuda")]\nfn total(){body}'
    check_refused(f"trait T {{\n{item}\n}}\n", "no statement", verb="override", kind="fn", text="go();")


def test_templates_may_build_on_the_mirrored_text() -> None:
    source = parsed('/// On CUDA.\nfn cuda_len(s: &CudaSlice) -> usize {\n    s.len("cpu")\n}\n')
    site = find_sites(source)[0]
    style = Style(protected=frozenset({"CudaSlice"}), replace={"cpu": "gpu"})
    assert mirrored_text(source, site, style) == (
        '/// On ROCm.\nfn rocm_len(s: &CudaSlice) -> usize {\n    s.len("gpu")\n}'
    )


def test_items_keep_windows_line_ends() -> None:
    before = b"enum S {\r\n    /// On CUDA.\r\n    Cuda(C),\r\n\r\n    Other,\r\n}\r\n"
    after = before.replace(b"    Other", b"    /// On ROCm.\r\n    Rocm(C),\r\n\r\n    Other")
    check_transformed(before, after, verb="mirror")
    check_transformed(
        b"mod cuda;\r\nmod zeta;\r\n\r\nmod alpha;\r\n",
        b"mod cuda;\r\nmod rocm;\r\nmod zeta;\r\n\r\nmod alpha;\r\n",
        verb="mirror",
    )


def test_an_item_behind_text_that_is_not_ascii() -> None:
    check_transformed(
        """
        // größer: 寸法 µ
        fn new_cuda(ordinal: usize) -> &str { "µ" }
        """,
        """
        // größer: 寸法 µ
        fn new_cuda(ordinal: usize) -> &str { "µ" }
        fn new_rocm(ordinal: usize) -> &str { "µ" }
        """,
        verb="mirror",
    )


def test_no_edit_is_made_for_a_site_that_is_gone() -> None:
    before = parsed("fn new_cuda() {}\n")
    with pytest.raises(AssertionError, match="no such site"):
        made(before, "mirror", kind="enum")


def test_an_item_that_the_grammar_cannot_parse_is_refused() -> None:
    gap = "fn cuda_f<'a>(f: Box<dyn 'a + Fn(&T)>) {}\n"
    for verb in ("mirror", "swap"):
        check_refused(gap, "the Rust grammar cannot parse a part of it", verb=verb)


# --- macros ----------------------------------------------------------------------------------------------------------


def test_an_override_of_a_macro_stands_behind_all_that_it_expands_to() -> None:
    check_transformed(
        """
        macro_rules! both {
            // Names.
            ($name: ident, $cuda: ident) => {
                #[test]
                fn $name() {}

                #[cfg(feature = "cuda")]
                fn $cuda() {}
            };
        }
        """,
        """
        macro_rules! both {
            // Names.
            ($name: ident, $cuda: ident) => {
                #[test]
                fn $name() {}

                #[cfg(feature = "cuda")]
                fn $cuda() {}

                mod $cuda {
                    fn rocm() {}
                }
            };
        }
        """,
        verb="override",
        text="mod $cuda {\n    fn rocm() {}\n}\n",
    )


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("(cuda) => { one(); }; (metal) => { two(); };", "more than one rule"),
        ("(cuda) => {};", "expands to nothing"),
    ],
)
def test_a_macro_without_one_place_for_the_text_is_refused(rules: str, why: str) -> None:
    check_refused(f"macro_rules! each {{ {rules} }}\n", why, verb="override", text="three();")
