"""Which construct a CUDA token belongs to, and that every token belongs to exactly one."""

from __future__ import annotations

import pytest
from check import check_noop, check_sites, parsed

from codegen.syntax.matches import descendants
from codegen.syntax.sites import find_sites


def body(statement: str) -> str:
    """A function around a statement."""
    return f"fn f(d: &Device) {{ {statement} }}\n"


def test_text_that_names_no_backend_has_no_site() -> None:
    check_noop("fn f(d: &Device) -> bool { d.is_cpu() }\n")


def test_comments_are_no_sites() -> None:
    check_noop(
        """
        //! About CUDA.
        /// Cuda, `cuda`.
        fn f() {
            // cuda
            /* cuda */
            vec![1 /* cuda */];
        }
        // metal
        """
    )


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        # --- items ---
        ("enum Device { Cpu, Cuda(CudaDevice) }", ("enum Cuda @Device",)),
        ('enum Error { #[error("cuda")] Cuda(CudaError) }', ("enum Cuda @Error",)),
        ('enum E { #[cfg(feature = "cuda")] Dnn(X) }', ("enum Dnn @E",)),
        ("enum E { A(CudaDevice), B }", ("text CudaDevice @E",)),
        ("fn new_cuda() -> CudaDevice { CudaDevice }", ("fn new_cuda",)),
        ("trait Op { fn cuda_fwd(&self) -> CudaStorage; }", ("fwd cuda_fwd @Op",)),
        ("impl Op for X { fn cuda_fwd_t(&self) {} }", ("fwd cuda_fwd_t @X",)),
        ("pub fn cuda_fwd_free() {}", ("fwd cuda_fwd_free",)),
        ('#[cfg(feature = "cuda")]\nfn f() { g() }', ("fn f",)),
        ('#[cfg(not(feature = "cuda"))]\nfn f() {}', ("fn f",)),
        ('#[cfg(any(feature = "cuda", feature = "metal"))]\nfn f() { is_cuda() }', ("fn f",)),
        ("mod cuda_backend;", ("mod cuda_backend",)),
        ('#[cfg(feature = "cuda")]\nmod fast;', ("mod fast",)),
        ("mod cuda { fn f() { is_cuda(); } }", ("mod cuda",)),
        ("static CUDA_N: u8 = 1;", ("static CUDA_N",)),
        ("trait T { const CUDA: u8 = 1; }", ("static CUDA @T",)),
        ("use crate::{cuda, CudaDevice};", ("use",)),
        ('#[cfg(feature = "cuda")]\nuse crate::x;', ("use",)),
        ("use crate::cuda_backend::*;", ("use",)),
        ("use crate::cuda as gpu;", ("use",)),
        ("macro_rules! m { ($x:expr) => { Device::Cuda($x) } }", ("macro-rules m",)),
        ("fn f() { macro_rules! go { () => { cuda() } } go!(); }", ("macro-rules go @f",)),
        ("forward!(cuda_fwd, X);", ("statement forward",)),
        ("impl Op for X { forward!(cuda_fwd, X); }", ("macro-arg forward @X",)),
        ('#[cfg(feature = "cuda")]\nforward!(x);', ("cfg-item",)),
        ('impl Op for X { #[cfg(feature = "cuda")] forward!(x); }', ("statement",)),
        ('cfg_if::cfg_if! { if #[cfg(feature = "cuda")] { fn a() {} } }', ("macro-arg cfg_if::cfg_if",)),
        ('#[cfg(feature = "cuda")]\nimpl X { fn is_cuda() {} }', ("cfg-item",)),
        ('#[cfg(feature = "cuda")]\nstruct S { cuda: CudaDevice }', ("cfg-item S",)),
        ('struct S { #[cfg(feature = "cuda")] func: CudaFunc, x: u8 }', ("cfg-item func @S",)),
        # --- what only its own tokens stand for ---
        ("impl From<CudaError> for Error {}", ("text CudaError @Error",)),
        ("struct Foo<T = CudaDevice>(Option<CudaX>);", ("text CudaDevice @Foo", "text CudaX @Foo")),
        ("fn g<T: CudaTrait>(x: T) where T: CudaOther {}", ("text CudaTrait @g", "text CudaOther @g")),
        ("type A = CudaDevice;", ("text CudaDevice",)),
        ("impl T for X { type Cuda = u8; }", ("text Cuda @X",)),
        ("struct S { cuda: u8 }", ("text cuda @S",)),
        ("union U { cuda: u8 }", ("text cuda",)),
        ("extern crate cudarc;", ("text cudarc",)),
        ('extern "C" { fn cudaMalloc(n: usize); }', ("fn cudaMalloc",)),
        ("fn f<'cuda>(x: &'cuda u8) {}", ("text cuda @f", "text cuda @f")),
        ("fn f(g: fn(&CudaDevice)) {}", ("text CudaDevice @f",)),
        ("fn f(Device::Cuda(x): Device) {}", ("text Cuda @f",)),
        ('fn f(#[cfg(feature = "cuda")] x: u8) {}', ("cfg-item @f",)),
        ("const ALL: [Place; 2] = [Place::Cpu, Place::Cuda];", ("text Cuda",)),
    ],
)
def test_items(snippet: str, expected: tuple[str, ...]) -> None:
    check_sites(snippet + "\n", *expected)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # --- matches ---
        ("match d { Device::Cuda(_) => 1, _ => 2 };", ("match",)),
        ("match d { crate::Device::Cuda(_) => 1, _ => 2 };", ("match",)),
        ("match d { &Device::Cuda(_) => 1, _ => 2 };", ("match",)),
        ("match d { x @ Device::Cuda { .. } => 1, _ => 2 };", ("match",)),
        ("match d.location() { DeviceLocation::Cuda { gpu_id } => gpu_id, _ => 2 };", ("match",)),
        ("match &(a, b) { (Device::Cuda(_), Device::Cuda(_)) => 1, _ => 2 };", ("match",)),
        ("match a { Some(Device::Cuda(_)) => 1, _ => 2 };", ("match",)),
        ("match n { n if kind(n) == Kind::Cuda => 1, _ => 2 };", ("match",)),
        ('match s { "cuda" => 1, _ => 2 };', ("match-str",)),
        ('match s { r"cuda" => 1, b"cuda" => 3, _ => 2 };', ("match-str",)),
        ('match s { "cuda:0" => 1, _ => 2 };', ("text cuda:0 @f",)),
        ('match d { #[cfg(feature = "cuda")] K::A => is_cuda(), K::B => 0 };', ("cfg-item",)),
        ("match d { K::A => cuda::go(), K::B => 2 };", ("call go @f",)),
        ("match d.as_cuda_device() { Ok(c) => 1, _ => 2 };", ("call as_cuda_device",)),
        ("match d.is_cuda() { true => 1, _ => 2 };", ("condition is_cuda",)),
        ("match n { n if n.is_cuda() => 1, _ => 2 };", ("condition is_cuda",)),
        ("match n { n if let Device::Cuda(_) = d => 1, _ => 2 };", ("match",)),
        # --- variants that were imported by name: never missed, but nothing says which enum they are of ---
        ("match d { Cpu => 1, Cuda(_) => 2, Metal(_) => 3 };", ("text Cuda @f",)),
        ("if let Cuda(c) = d { g(c); }", ("text Cuda @f",)),
        # --- let ---
        ("if let Device::Cuda(c) = d { g(c); }", ("if-let",)),
        ("if let Device::Cuda(c) = d { cuda(c); } else { g(); }", ("if-let",)),
        ("if let Some(Device::Cuda(c)) = d && fast { g(c); }", ("if-let",)),
        ("if let Device::Metal(_) = d { 1 } else if let Device::Cuda(_) = d { 2 } else { 3 };", ("if-let",)),
        ("while let Device::Cuda(c) = d { g(c); }", ("if-let",)),
        ("let Device::Cuda(c) = d else { return; };", ("if-let",)),
        ("let Device::Cuda(c) = d else { return is_cuda(); };", ("if-let", "condition is_cuda")),
        ("let Wrap::Cuda(c) = d;", ("if-let",)),
        # --- conditions ---
        ("if d.is_cuda() { g(); }", ("condition",)),
        ("if d.is_cuda() { cuda(); } else { g(); }", ("condition",)),
        ("if d.is_cuda() { g(); } else { cuda(); }", ("condition", "call cuda")),
        ("if d.is_metal() { 1 } else if d.is_cuda() { 2 } else { 3 };", ("condition",)),
        ("if a() { if d.is_cuda() { 2 } }", ("condition",)),
        ("if let Some(x) = y && d.is_cuda() { g(); }", ("condition is_cuda",)),
        ("while d.is_cuda() { g(); }", ("condition is_cuda",)),
        ("if matches!(d, Device::Cuda(_)) { g(); }", ("condition",)),
        ("if match d { Device::Cuda(_) => true, _ => false } { g(); }", ("match",)),
        ('if cfg!(feature = "cuda") { g(); }', ("cfg!",)),
        ("if cfg!(debug_assertions) && d.is_cuda() { g(); }", ("condition",)),
        ("let x = d.is_cuda() && d.ok();", ("condition is_cuda",)),
        ("let g = |d: &Device| d.is_cuda();", ("condition is_cuda",)),
        ("v.iter().any(|d| d.is_cuda());", ("condition is_cuda",)),
        ("v.iter().all(Device::is_cuda);", ("text is_cuda @f",)),
        ("unsafe { d.is_cuda() };", ("condition is_cuda",)),
        ("async { d.is_cuda() };", ("condition is_cuda",)),
        ("let x = const { is_cuda() };", ("condition is_cuda",)),
        # --- macros ---
        ("let x = matches!(d, Device::Cuda(_));", ("matches! matches",)),
        ("let x = std::matches!(d, Device::Cuda(_));", ("matches! std::matches",)),
        ('let x = cfg!(feature = "cuda");', ("cfg! cfg",)),
        ("inplace_dispatch!(dst, Cuda, cuda_fwd);", ("statement inplace_dispatch",)),
        ('println!("{}", match d { Device::Cuda(_) => 1, _ => 2 });', ("statement println",)),
        ("assert!(d.is_cuda());", ("statement assert",)),
        ("let x = vec![Kind::Cuda];", ("macro-arg vec",)),
        ("m.add(wrap!(cuda_is_available, m))?;", ("statement wrap",)),
        ('bail!("cuda only")', ("macro-arg bail",)),
        # --- calls and the rest ---
        ("let x = Device::new_cuda(0)?;", ("call new_cuda",)),
        ("let x = Device::cuda_if_available(0)?;", ("call cuda_if_available",)),
        ("let x = Device::Cuda(c);", ("call Cuda",)),
        ("let x = Device::new(CudaConfig::default()).or(cuda());", ("call default", "call cuda")),
        ('let x = build().arg("-DCUDA").go();', ("text -DCUDA @f",)),
        ("let h = |d: CudaDevice| d;", ("text CudaDevice @f",)),
        ("let g = |Wrap::Cuda(x)| x;", ("text Cuda @f",)),
        ("for Device::Cuda(x) in v {}", ("text Cuda @f",)),
        ("for cuda in v.cuda_iter() {}", ("text cuda @f", "call cuda_iter")),
        ('let x = s == "cuda" || s.starts_with("cuda:");', ("text cuda @f", "text cuda: @f")),
        ('let x = r#"uses "cuda" here"#;', ("text @f",)),
        ('let x = S { cuda: 2, #[cfg(feature = "cuda")] b: cuda() };', ("text cuda @f", "cfg-item")),
        ("'cuda: loop { break 'cuda; }", ("text cuda @f", "text cuda @f")),
        ('#[cfg(feature = "cuda")] init();', ("cfg-item",)),
        ('#[cfg(feature = "cuda")] { a(); }', ("cfg-item",)),
        ('#[cfg(feature = "cuda")] let x = cuda();', ("cfg-item",)),
        ('#[cfg(feature = "cuda")] return cuda();', ("cfg-item",)),
    ],
)
def test_statements(statement: str, expected: tuple[str, ...]) -> None:
    check_sites(body(statement), *expected)


def test_a_made_up_construct_is_never_missed() -> None:
    check_sites("pub(in crate::cuda_things) fn f() {}\n", "text cuda_things")


def test_each_arm_answers_for_itself_and_the_match_is_one_site() -> None:
    check_sites(
        """
        fn f(d: &Device, e: &Device) {
            match d {
                Device::Cuda(_) => cuda(),
                Device::Cpu => other_cuda(),
                #[cfg(feature = "cuda")]
                Device::Cuda(c) => is_cuda(c),
                _ => e.is_cuda(),
            }
        }
        """,
        "match",
        "call other_cuda",
        "condition is_cuda",
    )


def test_a_match_inside_another_site_says_so() -> None:
    sites = check_sites(
        """
        fn f(d: &Device, e: &Device) {
            match d {
                Device::Cuda(_) => match e {
                    Device::Cuda(_) => 1,
                    _ => 2,
                },
                _ => match e {
                    Device::Cuda(_) => 3,
                    _ => 4,
                },
            }
        }
        """,
        "match",
        "match",
        "match",
    )
    outer, inner, other = sites
    assert [site.within for site in sites] == [None, outer.start, None]
    assert outer.start < inner.start < other.start


def test_the_innermost_holder_counts() -> None:
    sites = check_sites(
        """
        #[cfg(feature = "cuda")]
        fn f(d: &Device) {
            match d {
                Device::Cuda(_) => match d {
                    Device::Cuda(_) => 1,
                    _ => 2,
                },
                _ => 3,
            }
        }
        """,
        "fn",
        "match",
        "match",
    )
    function, outer, inner = sites
    assert (outer.within, inner.within) == (function.start, outer.start)


def test_places_and_names() -> None:
    (site,) = check_sites(
        """
        mod m {
            impl<T: Größe> Storage<T> {
                fn f(&self) { /* µ */ let x = self.device().is_cuda(); }
            }
        }
        """,
        "condition is_cuda @m::Storage::f",
    )
    assert (site.line, site.column) == (4, 39)
    assert site.id == "snippet.rs:4:39"
    assert site.snippet == "self.device().is_cuda()"


def test_gates_are_collected_from_the_outside_in() -> None:
    (site,) = check_sites(
        """
        #![cfg(unix)]
        #[cfg(test)]
        mod tests {
            #![cfg(feature = "slow")]
            fn f(d: &Device) {
                match k {
                    #[cfg(feature = "fast")]
                    K::A => {
                        #[cfg(not(feature = "small"))]
                        g(d.is_cuda());
                    }
                    _ => {}
                }
            }
        }
        """,
        "condition is_cuda @tests::f",
    )
    expected = 'unix, test, feature = "slow", feature = "fast", not(feature = "small")'
    assert site.gate == expected


def test_a_gate_on_a_tail_expression_counts() -> None:
    (site,) = check_sites(
        """
        fn f(d: &Device) -> u8 {
            #[cfg(feature = "x")]
            match d {
                Device::Cuda(_) => 1,
                _ => 2,
            }
        }
        """,
        "match",
    )
    assert site.gate == 'feature = "x"'


def test_a_plain_comment_does_not_hide_a_gate() -> None:
    (site,) = check_sites('#[cfg(feature = "cuda")]\n// why\nfn f() {}\n', "fn f")
    assert site.gate == 'feature = "cuda"'


def test_a_file_behind_cudas_feature_is_one_site() -> None:
    source = parsed('//! Tests.\n#![cfg(feature = "cuda")]\nuse x::CudaDevice;\nfn f() { is_cuda(); }\n')
    (site,) = find_sites(source)
    assert (site.kind, site.name, site.line, site.gate) == ("cfg-item", "cfg", 2, 'feature = "cuda"')
    assert source.slice(site.start, site.end).endswith("is_cuda(); }\n")


def test_matches_in_a_file_behind_cudas_feature_are_inside_it() -> None:
    sites = check_sites(
        """
        #![cfg(feature = "cuda")]
        fn f(d: &Device) {
            match d {
                Device::Cpu => 1,
                Device::Cuda(_) => 2,
            }
        }
        """,
        "cfg-item",
        "match",
    )
    assert sites[1].within == sites[0].start
    assert sites[1].gate == 'feature = "cuda"'


def test_an_inner_gate_ends_with_its_block() -> None:
    check_sites(
        """
        mod m {
            #![cfg(feature = "cuda")]
            fn f() { is_cuda(); }
        }
        fn g() { is_cuda(); }
        """,
        "cfg-item cfg @m",
        "condition is_cuda @g",
    )


@pytest.mark.parametrize(
    ("attribute", "kind", "name"),
    [
        ('#[cfg_attr(feature = "cuda", derive(Clone))]', "cfg-item", "cfg_attr"),
        ('#[doc = "cuda"]', "text", "doc"),
        ("#[cuda_kernel]", "text", "cuda_kernel"),
        ('#[some::tool(name = "cuda")]', "text", "some::tool"),
    ],
)
def test_other_attributes_do_not_swallow_their_item(attribute: str, kind: str, name: str) -> None:
    check_sites(f"{attribute}\nenum Device {{ Cpu, Cuda }}\n", f"{kind} {name}", "enum Cuda")
    check_sites(f"{attribute}\nmod m {{ fn f() {{ is_cuda(); }} }}\n", f"{kind} {name}", "condition is_cuda")


@pytest.mark.parametrize(
    ("attribute", "kind"), [('#![cfg_attr(feature = "cuda", feature(test))]', "cfg-item"), ('#![doc = "cuda"]', "text")]
)
def test_other_inner_attributes_do_not_swallow_the_file(attribute: str, kind: str) -> None:
    check_sites(f"{attribute}\nfn f() {{ is_cuda(); }}\n", kind, "condition is_cuda")


@pytest.mark.parametrize(
    ("pattern", "enums"),
    [
        ("Device::Cuda(_)", ("Device",)),
        ("crate::device::Device::Cuda(_)", ("Device",)),
        ("Storage::<f32>::Cuda(_)", ("Storage",)),
        ("<Storage as Backend>::Cuda", ("Storage",)),
        ("(Storage::Cuda(_), Device::Cuda(_))", ("Device", "Storage")),
        ("(Storage::Cuda(_), Device::Metal(_))", ("Device", "Storage")),
        ("(Storage::Cuda(_), DType::F32)", ("Storage",)),
        ("Self::Cuda(_)", ("Wrapper",)),
    ],
)
def test_the_enums_that_patterns_name(pattern: str, enums: tuple[str, ...]) -> None:
    snippet = f"impl<'a> Wrapper<'a> {{ fn f(&self) {{ match self {{ {pattern} => 1, _ => 2 }} }} }}\n"
    (site,) = check_sites(snippet, "match")
    assert site.enums == enums


def test_self_in_a_trait_is_nobody() -> None:
    (site,) = check_sites("trait T { fn f(&self) { match self { Self::Cuda(_) => 1, _ => 2 } } }\n", "match")
    assert site.enums == ("Self",)


@pytest.mark.parametrize(
    ("arms", "exhaustive"),
    [
        ("D::Cpu => 0, D::Cuda(_) => 1, D::Metal(_) => 2", True),
        ("D::Cuda(_) => 1, _ => 2", False),
        ("D::Cuda(_) => 1, other => 2", False),
        ("D::Cuda(_) => 1, ref other => 2", False),
        ("D::Cuda(_) => 1, mut other => 2", False),
        ("D::Cuda(_) => 1, other @ _ => 2", False),
        ("D::Cuda(_) => 1, (_) => 2", False),
        ("&D::Cuda(_) => 1, &_ => 2", False),
        ("D::Cuda(_) => 1, _ if g() => 2, D::Cpu => 3", True),
        ("D::Cuda(_) if g() => 1, D::Cuda(_) => 2, D::Cpu => 3", True),
        ("D::Cuda(_) | D::Metal(_) => 1, D::Cpu => 2", True),
        ("D::Cuda(_) | _ => 1", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (a, b) => 2", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (_, _) => 2", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (..) => 2", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (_, ..) => 2", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (.., _) => 2", False),
        ("(D::Cuda(_), D::Cuda(_)) => 1, (D::Cpu, _) => 2, (_, D::Cpu) => 3", True),
        ("(D::Cuda(_), D::Cpu) => 1, (D::Cpu, D::Cpu) => 2, (_, D::Cpu) => 3", False),
        ("(D::Cuda(_), K::A) => 1, (_, K::A) => 2", False),
        ("(D::Cuda(_), K::A) => 1, (_, K::B) => 2, (D::Cpu, K::A) => 3", True),
        ("(D::Cuda(_), K::A) => 1, (_, K::A | K::B) => 2", False),
        ("(D::Cuda(_), K::A | K::B) => 1, (_, K::A) => 2, (_, K::B) => 3", True),
        ("Some(D::Cuda(_)) => 1, Some(_) => 2, None => 3", False),
        ("Some(D::Cuda(_)) => 1, Some(D::Cpu) => 2, None => 3", True),
        ("Some(D::Cuda(_)) => 1, Some(..) | None => 3", False),
        ("Ok(D::Cuda(_)) => 1, Err(_) => 2, Ok(D::Cpu) => 3", True),
        ("x if x == D::Cuda => 1, D::Cpu => 2", False),
        ("D::Cuda { .. } => 1, D::Cpu => 2", True),
        ("D::Cuda => 1, D::Cpu => 2", True),
        ("D::Cuda => 1, CONSTANT => 2", True),
    ],
)
def test_matches_that_rustc_wants_complete(arms: str, exhaustive: bool) -> None:  # noqa: FBT001 - a table
    (site,) = check_sites(body(f"match d {{ {arms} }};"), "match")
    assert site.exhaustive is exhaustive


def test_matches_of_strings_are_never_demanded() -> None:
    (site,) = check_sites(body('match s { "cuda" => 1, "cpu" => 2 };'), "match-str")
    assert not site.exhaustive


def test_a_function_that_holds_a_demanded_match_is_marked() -> None:
    function, _ = check_sites("fn as_cuda(d: &D) { match d { D::Cuda(_) => 1, D::Cpu => 2 } }\n", "fn", "match")
    assert function.exhaustive
    function, _ = check_sites("fn as_cuda(d: &D) { match d { D::Cuda(_) => 1, _ => 2 } }\n", "fn", "match")
    assert not function.exhaustive


def test_tokens_in_text_that_the_grammar_cannot_parse_are_claimed_too() -> None:
    snippet = "struct H<'a>(Arc<dyn 'a + Fn(&CudaT) -> T>);\nfn cuda_f() {}\n"
    source = parsed(snippet)
    assert source.error_ranges()
    sites = check_sites(snippet, "text CudaT @H", "fn cuda_f")
    assert source.error_ranges()[0][0] <= sites[0].end


def test_finding_sites_twice_finds_the_same() -> None:
    source = parsed(body("if d.is_cuda() { g(); } match d { Device::Cuda(_) => 1, _ => 2 }"))
    assert find_sites(source) == find_sites(source)
    assert find_sites(source) == find_sites(parsed(source.text))


def test_of_sites_that_begin_together_the_outer_one_comes_first() -> None:
    """A call of what a match gives begins where the match does, and the match lies in it."""
    statement = 'match d { Device::Cuda(_) => cuda_x(), Device::Cpu => false }.y().cuda_z() || cfg!(feature = "cuda")'

    outer, inner, *_ = find_sites(parsed(body(statement)))

    assert outer.start == inner.start
    assert outer.end > inner.end
    assert (outer.kind, inner.kind) == ("call", "match")


def test_of_nodes_that_begin_together_the_outer_one_comes_first() -> None:
    tree = parsed("fn f() { match x { A | B | C => 1 } }\n").root

    assert [node.text for node in descendants(tree, "or_pattern")] == [b"A | B | C", b"A | B"]
