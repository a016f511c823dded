"""Laws of the scan and the verbs, on files put together at random."""

from __future__ import annotations

from dataclasses import dataclass

from check import CALL, check_claims, check_insertions
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.syntax import verbs
from codegen.syntax.matches import arms_of, captures, names_backend, pattern_of
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source
from codegen.syntax.verbs import CannotMirror, Style, TextEdit, apply_edits

ENUMS = ("Device", "crate::Storage", "Self", "Place")
DEVICES = ("Cpu", "Cuda", "Metal", "Tpu")
PAYLOADS = ("(_)", "(x)", " { .. }", " { gpu_id }", "((a, b))", "")

COMMENTS = st.sampled_from(["", " // Cuda", " /* cuda */", " // größer, Metal"])
CONDITIONS = st.sampled_from(
    [
        "d.is_cuda()",
        "!d.is_cuda()",
        "d.is_metal()",
        "d.is_cuda() && fast",
        "fast == d.is_cuda()",
        "d.is_cuda() || d.is_metal()",
        "matches!(d, Device::Cuda(_))",
        'cfg!(feature = "cuda")',
        "let Device::Cuda(_) = d",
        "let Device::Metal(m) = d",
        "let Some(x) = y && d.is_cuda()",
        "ready()",
    ]
)
CALLS = st.sampled_from(
    [
        "g();",
        "let x = Device::new_cuda(0)?;",
        'println!("cuda {}", 1);',
        "inplace!(dst, Cuda, cuda_fwd);",
        'let s = "größe cuda";',
        "let c = |d: CudaDevice| d.is_cuda();",
        "let Device::Cuda(c) = d else { return cuda(); };",
        '#[cfg(feature = "cuda")]\n    init_cuda();',
        'let x = r#"CUDA"#;',
        "use crate::{CudaDevice, Shape};",
    ]
)
ITEMS = st.sampled_from(
    [
        "use crate::{CpuStorage, CudaStorage, MetalStorage};",
        "use crate::cuda_backend::CudaDevice;",
        '#[cfg(feature = "cuda")]\npub mod cuda_backend;',
        "mod zeta;",
        "static CUDA_N: u8 = 1;",
        "enum Kind {\n    /// On CUDA.\n    Cuda(CudaDevice), // cuda\n    Cpu,\n}",
        "enum Kind { Cpu, Cuda }",
        'struct Cache {\n    #[cfg(feature = "cuda")]\n    func: CudaFunc,\n    size: usize,\n}',
        "impl Op for X {\n    /// On CUDA.\n    fn cuda_fwd(&self) -> CudaStorage {\n        todo()\n    }\n}",
        "impl From<CudaError> for Error {}",
        '#[cfg_attr(feature = "cuda", derive(Clone))]\nstruct S;',
        "macro_rules! both { ($d:expr) => { Device::Cuda($d) }; }",
        "struct Holder<'a>(Arc<dyn 'a + Fn(&T) -> T>);",
        "// Cuda µ\nconst PLAIN: u8 = 1;",
        "forward!(cuda_fwd, CudaStorage);",
    ]
)


def paths(device: str) -> st.SearchStrategy[str]:
    """A pattern for one device."""
    return st.builds(
        lambda enum, payload: f"{enum}::{device}{payload}", st.sampled_from(ENUMS), st.sampled_from(PAYLOADS)
    )


PATHS = st.sampled_from(DEVICES).flatmap(paths)
SIMPLE = st.one_of(PATHS, PATHS.map(lambda path: f"all @ {path}"), PATHS.map(lambda path: f"&{path}"), st.just("_"))
OR_PATTERNS = st.lists(PATHS, min_size=2, max_size=3).map(" | ".join)
PATTERNS = st.one_of(
    SIMPLE,
    OR_PATTERNS,
    st.builds("({}, {})".format, SIMPLE, st.one_of(SIMPLE, OR_PATTERNS)),
    st.builds("Some({})".format, SIMPLE),
    st.sampled_from(['"cpu"', '"cuda"', "None", "other", "other if other.is_cuda()"]),
)


def matches(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A match whose arms have values of a strategy, in several layouts."""
    arm = st.builds(
        lambda gate, pattern, guard, value, comment: f"{gate}{pattern}{guard} => {value},{comment}\n",
        st.sampled_from(["", "", "", '#[cfg(feature = "cuda")]\n', '#[cfg(not(feature = "cuda"))]\n']),
        PATTERNS,
        st.sampled_from(["", "", " if fast"]),
        value,
        COMMENTS,
    )
    return st.builds(
        lambda arms, last: "match d {\n" + "".join(arms) + last + "}",
        st.lists(arm, min_size=1, max_size=4),
        st.sampled_from(["", "_ => 0\n", "Device::Cuda(_) => S { a: 1 }\n", "Device::Cuda(_) => 1 // cuda\n"]),
    )


VALUES = st.recursive(
    st.sampled_from(["1", "g(x)", "{ g(); }", "d.is_cuda()", "CudaDevice::new()", "S { cuda: 1 }"]),
    matches,
    max_leaves=6,
)
STATEMENTS = st.one_of(
    CALLS,
    matches(VALUES).map(lambda text: f"{text};"),
    st.builds("let x = {};".format, matches(VALUES)),
    st.builds("if {} {{ {} }}".format, CONDITIONS, CALLS),
    st.builds("if {} {{ {} }} else if {} {{ g(); }}".format, CONDITIONS, CALLS, CONDITIONS),
    st.builds("while {} {{ {} }}".format, CONDITIONS, CALLS),
)
FUNCTIONS = st.builds(
    lambda head, body, tail: f"{head} {{\n    " + "\n    ".join(body) + f"\n    {tail}\n}}",
    st.sampled_from(["fn f(d: &Device) -> R", "fn as_cuda(d: &Device) -> R", '#[cfg(feature = "cuda")]\nfn g() -> R']),
    st.lists(STATEMENTS, max_size=3),
    st.one_of(st.just(""), matches(VALUES), CONDITIONS.filter(lambda text: not text.startswith("let"))),
)
FILES = st.builds(
    lambda inner, items, end: inner + "\n\n".join(items) + end,
    st.sampled_from(["", "", "//! Cuda\n", '#![cfg(feature = "cuda")]\n']),
    st.lists(st.one_of(ITEMS, FUNCTIONS), min_size=1, max_size=4),
    st.sampled_from(["", "\n"]),
)

LAWS = settings(max_examples=60, deadline=None)


@dataclass(frozen=True, slots=True)
class Planned:
    """A file, and what the verbs make of it."""

    source: Source
    edits: list[TextEdit]


def planned(text: str, style: Style) -> Planned:
    """Every outermost site by its verb; what a verb refuses is left."""
    source = Source.parse("x.rs", text.encode())
    edits: list[TextEdit] = []
    for site in find_sites(source):
        if site.within is not None or _lies_in_an_error(source, site.start, site.end):
            continue
        try:
            if site.kind in ("match", "match-str"):
                edits += verbs.mirror_match(source, site, style)
            elif site.kind in ("condition", "matches!", "cfg!", "if-let"):
                edits += verbs.or_in_condition(source, site, style)
            elif site.kind == "use":
                edits += verbs.extend_use(source, site, "RocmDevice RocmStorage", style)
            elif site.exhaustive:
                edits += verbs.swap_function(source, site, style)
            else:
                edits += verbs.mirror_item(source, site, style)
        except CannotMirror:
            continue
    return Planned(source, edits)


def _lies_in_an_error(source: Source, start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in source.error_ranges())


@given(FILES)
@LAWS
def test_every_cuda_token_is_claimed_by_one_site(text: str) -> None:
    check_claims(Source.parse("x.rs", text.encode()))


@given(FILES)
@LAWS
def test_finding_sites_depends_on_the_text_alone(text: str) -> None:
    source = Source.parse("x.rs", text.encode())
    sites = find_sites(source)
    assert sites == find_sites(source) == find_sites(Source.parse("x.rs", text.encode()))
    assert len({(site.start, site.end, site.kind) for site in sites}) == len(sites)
    for site in sites:
        assert 0 <= site.start < site.end <= len(source.text)
        assert site.within is None or any(other.start == site.within and other.end >= site.end for other in sites)


@given(FILES, st.booleans())
@LAWS
def test_edits_only_insert_and_add_no_error(text: str, cfg: bool) -> None:  # noqa: FBT001 - drawn
    made = planned(text, Style(cfg=cfg))
    check_insertions(made.source, made.edits)


@given(FILES, st.booleans())
@LAWS
def test_mirroring_keeps_the_arms_of_every_match(text: str, cfg: bool) -> None:  # noqa: FBT001 - drawn
    source = Source.parse("x.rs", text.encode())
    for site in find_sites(source):
        if site.kind != "match" or site.metal_only or _lies_in_an_error(source, site.start, site.end):
            continue
        try:
            edits = verbs.mirror_match(source, site, Style(cfg=cfg))
        except CannotMirror:
            continue
        after = Source.parse("x.rs", apply_edits(source.text, edits).encode())
        start, end = site.start, site.end + sum(len(edit.text.encode()) for edit in edits)
        match = after.node_at(start, end, "match_expression")
        kept = [pattern_of(arm) for arm in arms_of(match) if not _is_new(pattern_of(arm).text or b"")]
        assert len(kept) == len(arms_of(source.node_at(site.start, site.end, "match_expression")))
        names_rocm = any(b"ocm" in (pattern_of(arm).text or b"") for arm in arms_of(match))
        assert names_rocm or cfg


def _is_new(pattern: bytes) -> bool:
    """True for a pattern that names ROCm and no longer CUDA, or that repeats the devices beside ROCm."""
    return b"ocm" in pattern and b"uda" not in pattern


@given(FILES, st.booleans())
@LAWS
def test_a_stand_in_names_every_device_once(text: str, cfg: bool) -> None:  # noqa: FBT001 - drawn
    source = Source.parse("x.rs", text.encode())
    for site in find_sites(source):
        if site.kind != "match" or site.metal_only or _lies_in_an_error(source, site.start, site.end):
            continue
        edits = verbs.stand_in_match(source, site, Style(cfg=cfg), CALL)
        check_insertions(source, edits)
        patterns = [edit.text.split(" => ")[0].split("\n")[-1].strip() for edit in edits if "=>" in edit.text]
        assert len(set(patterns)) == len(patterns)
        assert all("Rocm" in pattern or '"rocm"' in pattern for pattern in patterns)


@given(FILES)
@LAWS
def test_the_sites_of_a_match_are_the_matches_that_name_cuda(text: str) -> None:
    source = Source.parse("x.rs", text.encode())
    found = {site.start for site in find_sites(source) if site.kind in ("match", "match-str") and not site.metal_only}
    expected = {
        match.start_byte
        for match in captures("(match_expression) @m", "m", source.root)
        if any(names_backend(pattern_of(arm), "cuda") for arm in arms_of(match))
    }
    assert found == expected
