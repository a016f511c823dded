"""Metal-only sites: rustc says nothing there, and ROCm silently takes CUDA's side."""

from __future__ import annotations

import pytest
from check import check_noop, parsed

from codegen.syntax.sites import find_sites


def metal_only(statement: str) -> list[str]:
    """Kinds of the Metal-only sites of a statement."""
    sites = find_sites(parsed(f"fn f(d: &Device) {{ {statement} }}\n"))
    return [site.kind for site in sites if site.metal_only]


@pytest.mark.parametrize(
    ("statement", "kinds"),
    [
        ("if d.is_metal() { g(); }", ["condition"]),
        ("if !d.is_metal() && fast { g(); } else { h(); }", ["condition"]),
        ("if let Device::Metal(m) = d { g(m); }", ["if-let"]),
        ("if let Some(x) = y && d.is_metal() { g(); }", ["if-let"]),
        ("while let Device::Metal(m) = d { g(m); }", ["if-let"]),
        ("let Device::Metal(m) = d else { return; };", ["if-let"]),
        ("while d.is_metal() { g(); }", ["condition"]),
        ("let x = d.is_metal();", ["condition"]),
        ("let x = d.is_metal() && fast;", ["condition"]),
        ("g(d.is_metal());", ["condition"]),
        ("d.is_metal()", ["condition"]),
        ("v.iter().any(|d| d.is_metal());", ["condition"]),
        ("match n { n if d.is_metal() => 1, _ => 2 };", ["condition"]),
        ("match d { Device::Metal(_) => 1, _ => 2 };", ["match"]),
        ("match d { Device::Metal(_) => 1, Device::Cpu => 2 };", ["match"]),
        ('match s { "metal" => 1, _ => 2 };', ["match-str"]),
        ("let x = matches!(d, Device::Metal(_));", ["matches!"]),
        ("if matches!(d, Device::Metal(_)) { g(); }", ["condition"]),
        ('if cfg!(feature = "metal") { g(); }', ["cfg!"]),
        ('let x = cfg!(feature = "metal");', ["cfg!"]),
        ("assert!(!d.is_metal());", ["statement"]),
        ("let x = vec![Kind::Metal];", ["macro-arg"]),
        ("match k { K::A => if d.is_metal() { 1 } else { 2 }, _ => 3 };", ["condition"]),
        ("match d { Device::Cuda(_) => 1, Device::Cpu => d.is_metal() as u8, _ => 2 };", ["condition"]),
    ],
)
def test_what_knows_metal_and_not_cuda(statement: str, kinds: list[str]) -> None:
    assert metal_only(statement) == kinds


@pytest.mark.parametrize(
    "statement",
    [
        "if d.is_metal() || d.is_cuda() { g(); }",
        "if d.is_metal() { 1 } else if d.is_cuda() { 2 } else { 3 };",
        "if d.is_cuda() { 1 } else if d.is_metal() { 2 } else { 3 };",
        "let x = d.is_metal() || d.is_cuda();",
        "d.is_cuda() || d.is_metal()",
        "let x = matches!(d, Device::Cuda(_) | Device::Metal(_));",
        "let x = matches!(d, Device::Metal(_)) || d.is_cuda();",
        "match d { Device::Metal(m) => m.is_metal(), Device::Cuda(_) => 1, _ => 2 };",
        "match d { Device::Metal(_) | Device::Cuda(_) => 1, _ => 2 };",
        "let (Device::Metal(_) | Device::Cuda(_)) = d else { return; };",
        'let x = cfg!(any(feature = "metal", feature = "cuda"));',
        'println!("metal");',
        "let x = metal_count();",
    ],
)
def test_where_cuda_has_the_counterpart_nothing_is_reported(statement: str) -> None:
    assert metal_only(statement) == []


@pytest.mark.parametrize(
    "snippet",
    [
        "fn metal_fwd(d: &D) { if d.is_metal() { g(); } }",
        '#[cfg(feature = "metal")]\nfn f(d: &D) { match d { D::Metal(_) => 1, _ => 2 } }',
        '#[cfg(feature = "metal")]\nmod m { fn f(d: &D) { let x = d.is_metal(); } }',
        '#![cfg(feature = "metal")]\nfn f(d: &D) { let x = matches!(d, D::Metal(_)); }',
        '#[cfg(feature = "metal")]\nuse crate::metal_backend;',
        'fn f() { #[cfg(feature = "metal")] g(); }',
        "enum E { Metal(M) }",
        "mod metal_backend;",
    ],
)
def test_metals_own_code_is_no_site(snippet: str) -> None:
    check_noop(snippet + "\n")


def test_code_of_cuda_and_metal_together_is_not_metals_own() -> None:
    snippet = '#[cfg(any(feature = "cuda", feature = "metal"))]\nmod m { fn f(d: &D) { let x = d.is_metal(); } }\n'
    assert [site.kind for site in find_sites(parsed(snippet))] == ["mod"]


def test_a_metal_forward_without_cudas() -> None:
    sites = find_sites(
        parsed(
            """
            impl Op for Sdpa {
                fn cpu_fwd(&self) {}
                fn metal_fwd(&self) {}
            }
            impl Op for Add {
                fn cuda_fwd(&self) {}
                fn metal_fwd(&self) {}
            }
            """
        )
    )
    assert [(site.kind, site.name, site.item, site.metal_only) for site in sites] == [
        ("fwd", "metal_fwd", "Sdpa", True),
        ("fwd", "cuda_fwd", "Add", False),
    ]


def test_the_enum_that_a_metal_only_pattern_names() -> None:
    for statement in ("let Device::Metal(m) = d else { return; };", "if let Device::Metal(m) = d { g(m); }"):
        (site,) = find_sites(parsed(f"fn f(d: &Device) {{ {statement} }}\n"))
        assert site.enums == ("Device",)


def test_a_complete_metal_only_match_is_demanded() -> None:
    (site,) = find_sites(parsed("fn f(d: &D) { match d { D::Metal(_) => 1, D::Cpu => 2 } }\n"))
    assert site.exhaustive
    (site,) = find_sites(parsed("fn f(d: &D) { match d { D::Metal(_) => 1, _ => 2 } }\n"))
    assert not site.exhaustive
