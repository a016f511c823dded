"""Or-in: what asks for CUDA (or, at Metal-only sites, for Metal) asks for ROCm as well."""

from __future__ import annotations

import pytest
from check import check_refused, check_transformed


def check_condition(before: str, after: str) -> None:
    """`before`, a statement of a function, is widened to `after`."""
    check_transformed(
        f"fn f(d: &Device) {{\n    {before}\n}}\n", f"fn f(d: &Device) {{\n    {after}\n}}\n", verb="or-in"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if d.is_cuda() { g(); }", "if d.is_cuda() || d.is_rocm() { g(); }"),
        ("if !d.is_cuda() { g(); }", "if !(d.is_cuda() || d.is_rocm()) { g(); }"),
        ("if d.is_cuda() && fast { g(); }", "if (d.is_cuda() || d.is_rocm()) && fast { g(); }"),
        ("if fast && d.is_cuda() { g(); }", "if fast && (d.is_cuda() || d.is_rocm()) { g(); }"),
        ("if d.is_cuda() || d.is_metal() { g(); }", "if d.is_cuda() || d.is_rocm() || d.is_metal() { g(); }"),
        ("if d.is_metal() || d.is_cuda() { g(); }", "if d.is_metal() || d.is_cuda() || d.is_rocm() { g(); }"),
        ("if (d.is_cuda()) && fast { g(); }", "if (d.is_cuda() || d.is_rocm()) && fast { g(); }"),
        ("if fast == d.is_cuda() { g(); }", "if fast == (d.is_cuda() || d.is_rocm()) { g(); }"),
        ("if d.is_cuda() as u8 > n { g(); }", "if (d.is_cuda() || d.is_rocm()) as u8 > n { g(); }"),
        (
            "if d.is_cuda() && e.is_cuda() { g(); }",
            "if (d.is_cuda() || d.is_rocm()) && (e.is_cuda() || e.is_rocm()) { g(); }",
        ),
        (
            "if d.is_cuda() && let Some(n) = n { g(n); }",
            "if (d.is_cuda() || d.is_rocm()) && let Some(n) = n { g(n); }",
        ),
        ("let x = d.is_cuda().then(g);", "let x = (d.is_cuda() || d.is_rocm()).then(g);"),
        ("let x = d.device().is_cuda();", "let x = d.device().is_cuda() || d.device().is_rocm();"),
        ("let x = g(d.is_cuda(), 1);", "let x = g(d.is_cuda() || d.is_rocm(), 1);"),
        ("x = d.is_cuda();", "x = d.is_cuda() || d.is_rocm();"),
        ("x |= d.is_cuda();", "x |= d.is_cuda() || d.is_rocm();"),
        ("let g = |d: &Device| d.is_cuda();", "let g = |d: &Device| d.is_cuda() || d.is_rocm();"),
        ("while d.is_cuda() { g(); }", "while d.is_cuda() || d.is_rocm() { g(); }"),
        ("match d.is_cuda() { true => 1, _ => 2 };", "match d.is_cuda() || d.is_rocm() { true => 1, _ => 2 };"),
        ("match n { n if d.is_cuda() => 1, _ => 2 };", "match n { n if d.is_cuda() || d.is_rocm() => 1, _ => 2 };"),
        ("return d.is_cuda();", "return d.is_cuda() || d.is_rocm();"),
        ("d.is_cuda()", "d.is_cuda() || d.is_rocm()"),
        ("let x = S { gpu: d.is_cuda() };", "let x = S { gpu: d.is_cuda() || d.is_rocm() };"),
        ("let x = [d.is_cuda()];", "let x = [d.is_cuda() || d.is_rocm()];"),
        ("let x = (d.is_cuda(), 1);", "let x = (d.is_cuda() || d.is_rocm(), 1);"),
        (
            "if utils::cuda_is_available() { g(); }",
            "if utils::cuda_is_available() || utils::rocm_is_available() { g(); }",
        ),
        ("if g() { 1 } else if d.is_cuda() { 2 }", "if g() { 1 } else if d.is_cuda() || d.is_rocm() { 2 }"),
    ],
)
def test_calls(before: str, after: str) -> None:
    check_condition(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'if cfg!(feature = "cuda") { g(); }',
            'if cfg!(feature = "cuda") || cfg!(feature = "rocm") { g(); }',
        ),
        ('let x = !cfg!(feature = "cuda");', 'let x = !(cfg!(feature = "cuda") || cfg!(feature = "rocm"));'),
    ],
)
def test_compiled_features(before: str, after: str) -> None:
    check_condition(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("let x = matches!(d, Device::Cuda(_));", "let x = matches!(d, Device::Cuda(_) | Device::Rocm(_));"),
        (
            "let x = matches!(d, Device::Cuda(_) | Device::Metal(_));",
            "let x = matches!(d, Device::Cuda(_) | Device::Rocm(_) | Device::Metal(_));",
        ),
        (
            "let x = matches!(d, Device::Cuda(_) if fast);",
            "let x = matches!(d, Device::Cuda(_) | Device::Rocm(_) if fast);",
        ),
        (
            "let x = matches!((d, e), (Device::Cuda(_), Device::Cpu),);",
            "let x = matches!((d, e), (Device::Cuda(_), Device::Cpu) | (Device::Rocm(_), Device::Cpu),);",
        ),
        (
            "if d.is_cuda() && matches!(e, Place::Cuda { .. }) { g(); }",
            "if (d.is_cuda() || d.is_rocm()) && matches!(e, Place::Cuda { .. } | Place::Rocm { .. }) { g(); }",
        ),
        (
            'let x = std::matches!(s, "größe" | "cuda");',
            'let x = std::matches!(s, "größe" | "cuda" | "rocm");',
        ),
    ],
)
def test_matches_macros(before: str, after: str) -> None:
    check_condition(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if let Device::Cuda(_) = d { g(); }", "if let Device::Cuda(_) | Device::Rocm(_) = d { g(); }"),
        (
            "if let Device::Cuda(_) | Device::Metal(_) = d { g(); }",
            "if let Device::Cuda(_) | Device::Rocm(_) | Device::Metal(_) = d { g(); }",
        ),
        (
            "if let Place::Cuda { .. } = d && e.is_cuda() { g(); }",
            "if let Place::Cuda { .. } | Place::Rocm { .. } = d && (e.is_cuda() || e.is_rocm()) { g(); }",
        ),
        ("while let Device::Cuda(_) = d { g(); }", "while let Device::Cuda(_) | Device::Rocm(_) = d { g(); }"),
        (
            "let Device::Cuda(_) = d else { return };",
            "let (Device::Cuda(_) | Device::Rocm(_)) = d else { return };",
        ),
        (
            "let (Device::Cuda(_) | Device::Cpu) = d else { return };",
            "let (Device::Cuda(_) | Device::Rocm(_) | Device::Cpu) = d else { return };",
        ),
    ],
)
def test_patterns(before: str, after: str) -> None:
    check_condition(before, after)


def test_a_comment_in_the_condition_is_left_alone() -> None:
    check_transformed(
        """
        fn f(d: &Device) {
            if d.is_cuda() /* cuda only */ && fast {
                g();
            }
        }
        """,
        """
        fn f(d: &Device) {
            if (d.is_cuda() || d.is_rocm()) /* cuda only */ && fast {
                g();
            }
        }
        """,
        verb="or-in",
    )


def test_the_rest_of_the_chain_is_left_alone() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> DType {
            if d.is_cuda() {
                // CUDA has it
                DType::BF16
            } else {
                DType::F32
            }
        }
        """,
        """
        fn f(d: &Device) -> DType {
            if d.is_cuda() || d.is_rocm() {
                // CUDA has it
                DType::BF16
            } else {
                DType::F32
            }
        }
        """,
        verb="or-in",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if d.is_metal() { g(); }", "if d.is_metal() || d.is_rocm() { g(); }"),
        ("if !d.is_metal() && fast { g(); }", "if !(d.is_metal() || d.is_rocm()) && fast { g(); }"),
        ("let x = d.is_metal();", "let x = d.is_metal() || d.is_rocm();"),
        ("let x = matches!(d, Device::Metal(_));", "let x = matches!(d, Device::Metal(_) | Device::Rocm(_));"),
        ("if let Device::Metal(_) = d { g(); }", "if let Device::Metal(_) | Device::Rocm(_) = d { g(); }"),
        ('let x = cfg!(feature = "metal");', 'let x = cfg!(feature = "metal") || cfg!(feature = "rocm");'),
    ],
)
def test_a_metal_only_condition_asks_for_metals_twin(before: str, after: str) -> None:
    check_condition(before, after)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("if let Device::Cuda(c) = d { c.go(); }", "`Device::Cuda(c)` binds what only CUDA has"),
        ("let Device::Cuda(c) = d else { return };", "`Device::Cuda(c)` binds what only CUDA has"),
        ("let x = matches!(d, Device::Cuda(c) if c.ok());", "`Device::Cuda(c)` binds what only CUDA has"),
        ("let x = matches!(cuda_of(d), Some(_));", "`cuda_of` names CUDA in a form that it cannot widen"),
        ("if d.is_cuda() && has_cuda_graphs() { g(); }", "`has_cuda_graphs` names CUDA in a form that it cannot widen"),
        ("if d.is_cuda() && d.kind == Kind::Cuda { g(); }", "`Cuda` names CUDA in a form that it cannot widen"),
        ("if cuda_count() > 0 { g(); }", "`cuda_count` names CUDA in a form that it cannot widen"),
        ("if matches!(d, Device::Cuda(_) if d.is_cuda()) { g(); }", "`is_cuda` names CUDA in a form that it cannot"),
        ("if d.is_cuda() { cuda_go(); }", "the consequence names CUDA too, so ROCm needs one of its own: chain it"),
        ("while let Device::Cuda(_) = d { cuda_go(); }", "the consequence names CUDA too"),
        ("if d.is_metal() { metal_go(); }", "the consequence names Metal too, so ROCm needs one of its own: chain it"),
        ("let x = d.is_cuda()?;", "the answer of `d.is_cuda()` is not a plain truth value"),
        ("let x = Device::new_cuda(0);", "`new_cuda` names CUDA in a form that it cannot widen"),
        ("if d.is_cuda() && g::<dyn 'a + Fn(&T)>() { g(); }", "the Rust grammar cannot parse a part of it"),
        ("let x = matches!(d, @ Cuda);", "the pattern of `matches!(d, @ Cuda)` cannot be parsed"),
    ],
)
def test_what_cannot_be_widened_is_refused(statement: str, message: str) -> None:
    check_refused(f"fn f(d: &Device) {{ {statement} }}\n", message, verb="or-in")


# --- chain: ROCm gets a branch of its own -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "if d.is_cuda() { cuda(d) } else if d.is_metal() { g() } else { h() }",
            "if d.is_cuda() { cuda(d) } else if d.is_rocm() { rocm(d) } else if d.is_metal() { g() } else { h() }",
        ),
        ("if d.is_cuda() && n > 1 { g(); }", "if d.is_cuda() && n > 1 { g(); } else if d.is_rocm() && n > 1 { g(); }"),
        (
            "if fast { g() } else if d.is_cuda() { by_cuda(d) } else { plain(d) }",
            "if fast { g() } else if d.is_cuda() { by_cuda(d) } else if d.is_rocm() { by_rocm(d) } else { plain(d) }",
        ),
        (
            'if cfg!(feature = "cuda") { cuda() } else { cpu() }',
            'if cfg!(feature = "cuda") { cuda() } else if cfg!(feature = "rocm") { rocm() } else { cpu() }',
        ),
    ],
)
def test_chain(before: str, after: str) -> None:
    check_transformed(
        f"fn f(d: &Device) {{\n    {before}\n}}\n", f"fn f(d: &Device) {{\n    {after}\n}}\n", verb="chain"
    )


def test_the_branches_keep_their_lines() -> None:
    check_transformed(
        """
        fn f(d: &Device) -> T {
            if d.is_cuda() {
                // By the fast way.
                by_cuda(d)
            } else {
                plain(d)
            }
        }
        """,
        """
        fn f(d: &Device) -> T {
            if d.is_cuda() {
                // By the fast way.
                by_cuda(d)
            } else if d.is_rocm() {
                // By the fast way.
                by_rocm(d)
            } else {
                plain(d)
            }
        }
        """,
        verb="chain",
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("while d.is_cuda() { g(); }", "only an `if` can have one more branch"),
        ("let x = d.is_cuda();", "only an `if` can have one more branch"),
        ("if d.is_metal() { g(); }", "its condition does not ask for CUDA"),
        ("if d.is_cuda() { g::<dyn 'a + Fn(&T)>() }", "the Rust grammar cannot parse a part of it"),
    ],
)
def test_what_cannot_be_chained_is_refused(statement: str, message: str) -> None:
    check_refused(f"fn f(d: &Device) {{ {statement} }}\n", message, verb="chain")


def test_what_only_cuda_has_is_not_chained() -> None:
    check_refused(
        "fn f(d: &Device) { if d.is_cuda() { cublas(d) } }\n",
        "it uses CUDA's own API (cublas)",
        verb="chain",
        protected=("cublas",),
    )


# --- chain: Device::cuda_if_available ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "let d = candle::Device::cuda_if_available(0)?;",
            (
                "let d = candle::Device::cuda_if_available(0).and_then(|found| match found { "
                "candle::Device::Cpu => candle::Device::rocm_if_available(0), found => Ok(found) })?;"
            ),
        ),
        (
            "Device::cuda_if_available(args.gpu)",
            (
                "Device::cuda_if_available(args.gpu).and_then(|found| match found { "
                "Device::Cpu => Device::rocm_if_available(args.gpu), found => Ok(found) })"
            ),
        ),
    ],
)
@pytest.mark.parametrize("cfg", [False, True])
def test_where_cuda_is_not_found_rocm_is_asked(before: str, after: str, cfg: bool) -> None:  # noqa: FBT001
    check_transformed(
        f"fn f(d: &Device) {{\n    {before}\n}}\n",
        f"fn f(d: &Device) {{\n    {after}\n}}\n",
        verb="chain",
        kind="call",
        cfg=cfg,
    )


@pytest.mark.parametrize(
    "statement", ["let d = Device::new_cuda(0)?;", "let d = cuda_if_available(0)?;", "let d = s.cuda_if_available(0)?;"]
)
def test_no_other_call_is_chained(statement: str) -> None:
    check_refused(
        f"fn f() {{ {statement} }}\n",
        "only an `if` can have one more branch, and `Device::cuda_if_available`",
        verb="chain",
        kind="call",
    )


# --- chain with every branch behind the feature -----------------------------------------------------------------------


def test_a_gated_branch_that_makes_a_device_is_behind_the_feature() -> None:
    check_transformed(
        """
        fn f() -> Result<Device> {
            if cuda_is_available() {
                Device::new_cuda(0)
            } else {
                Ok(Device::Cpu)
            }
        }
        """,
        """
        fn f() -> Result<Device> {
            if cuda_is_available() {
                Device::new_cuda(0)
            } else if rocm_is_available() { #[cfg(feature = "rocm")] {
                Device::new_rocm(0)
            } #[cfg(not(feature = "rocm"))] { unreachable!() } } else {
                Ok(Device::Cpu)
            }
        }
        """,
        verb="chain",
        cfg=True,
    )


def test_a_gated_branch_that_every_build_has_needs_no_gate() -> None:
    check_transformed(
        "fn f(d: &Device) { if d.is_cuda() { by_cuda(d) } }\n",
        "fn f(d: &Device) { if d.is_cuda() { by_cuda(d) } else if d.is_rocm() { by_rocm(d) } }\n",
        verb="chain",
        cfg=True,
    )


# --- or-in: what is compiled for CUDA ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('#[cfg(feature = "cuda")]', '#[cfg(any(feature = "cuda", feature = "rocm"))]'),
        ('#[cfg(not(feature = "cuda"))]', '#[cfg(not(any(feature = "cuda", feature = "rocm")))]'),
        (
            '#[cfg(all(unix, feature="cuda"))]\n#[inline]',
            '#[cfg(all(unix, any(feature="cuda", feature="rocm")))]\n#[inline]',
        ),
        (
            '/// On "größe": feature = "cuda".\n#[cfg(feature = "cuda")]',
            '/// On "größe": feature = "cuda".\n#[cfg(any(feature = "cuda", feature = "rocm"))]',
        ),
    ],
)
def test_an_item_that_is_there_with_cuda_is_there_with_rocm(before: str, after: str) -> None:
    item = "fn on_gpu() -> bool {\n    true\n}\n"
    check_transformed(f"{before}\n{item}", f"{after}\n{item}", verb="or-in", kind="fn")


def test_what_stands_in_for_cuda_may_say_so() -> None:
    item = 'fn on_gpu() {\n    panic!("only for the cuda backend")\n}\n'
    check_transformed(
        f'#[cfg(not(feature = "cuda"))]\n{item}',
        f'#[cfg(not(any(feature = "cuda", feature = "rocm")))]\n{item}',
        verb="or-in",
        kind="fn",
    )


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ('#[cfg(feature = "cuda")]\nfn f() { cuda_go() }', "it names CUDA itself"),
        ("fn on_cuda() {}", "it names CUDA itself"),
        ('#[cfg(feature = "cuda-graphs")]\nfn f() {}', "no `cfg` of it asks for CUDA"),
    ],
)
def test_an_item_of_cudas_own_is_not_shared(item: str, message: str) -> None:
    check_refused(f"{item}\n", message, verb="or-in", kind="fn")


# --- override: a question that is answered when compiling -------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'if cfg!(feature = "cuda") { a() } else { b() }',
            'if cfg!(feature = "cuda") && !asked(d) { a() } else { b() }',
        ),
        ('if n > 1 && cfg!(feature = "cuda") { a() }', 'if n > 1 && cfg!(feature = "cuda") && !asked(d) { a() }'),
        (
            'if cfg!(feature = "metal") || cfg!(feature = "cuda") { a() }',
            'if cfg!(feature = "metal") || cfg!(feature = "cuda") && !asked(d) { a() }',
        ),
        ('let x = cfg!(feature = "cuda");', 'let x = cfg!(feature = "cuda") && !asked(d);'),
    ],
)
def test_a_cfg_goes_on_with_an_override(before: str, after: str) -> None:
    check_transformed(
        f"fn f(d: &Device) {{\n    {before}\n}}\n",
        f"fn f(d: &Device) {{\n    {after}\n}}\n",
        verb="override",
        text="&& !asked(d)\n",
    )


def test_an_override_of_several_cfgs_is_refused() -> None:
    check_refused(
        'fn f() { if cfg!(feature = "cuda") && !cfg!(feature = "cuda-graphs") { a() } }\n',
        "2 `cfg!` ask for CUDA here",
        verb="override",
        text="&& !asked(d)\n",
    )
