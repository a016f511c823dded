"""Public items of made-up crates: by which paths a program reaches them, and which it cannot reach."""

from __future__ import annotations

import textwrap

import pytest

from codegen.errors import InputOutputError
from codegen.syntax import public_items as module
from codegen.syntax.public_items import PublicItem, public_items
from codegen.syntax.source import Source


def items(files: dict[str, str], *options: str) -> list[PublicItem]:
    """The public items of a crate whose files lie in src/; the crate itself is left out."""

    def source(path: str) -> Source | None:
        text = files.get(path.removeprefix("src/"))
        return None if text is None else Source.parse(path, textwrap.dedent(text).encode())

    found = public_items("crate_x", "src/lib.rs", source, options)
    assert [item.path for item in found[:1]] == ["crate_x"], "the crate"
    return list(found[1:])


def paths(files: dict[str, str], *options: str) -> dict[str, str]:
    """`kind` by the paths, which are parted by blanks."""
    return {" ".join(item.paths).replace("crate_x::", ""): item.kind for item in items(files, *options)}


def test_modules_in_files_in_folders_and_inline() -> None:
    files = {
        "lib.rs": "pub mod a; pub mod b; mod hidden; pub mod c { pub mod d; pub fn e() {} }",
        "a.rs": "pub mod x; pub fn f() {}",
        "a/x.rs": "pub fn g() {}",
        "b/mod.rs": "pub mod y;",
        "b/y.rs": "pub fn h() {} fn private() {} pub(crate) fn inner() {}",
        "hidden.rs": "pub fn nobody() {}",
        "c/d.rs": "pub fn i() {}",
    }

    assert paths(files) == {
        "a": "mod",
        "a::f": "fn",
        "a::x": "mod",
        "a::x::g": "fn",
        "b": "mod",
        "b::y": "mod",
        "b::y::h": "fn",
        "c": "mod",
        "c::d": "mod",
        "c::d::i": "fn",
        "c::e": "fn",
    }


def test_a_module_whose_file_an_attribute_names() -> None:
    files = {
        "lib.rs": """
            #[path = "shelf/x.rs"]
            pub mod a;
            pub mod b { #[path = "y.rs"] pub mod c; }
            #[path = "../outside.rs"]
            pub mod d;
        """,
        # Its own modules lie beside it.
        "shelf/x.rs": "pub fn f() {} pub mod z;",
        "shelf/z.rs": "pub fn g() {}",
        "b/y.rs": "pub fn h() {}",
        "a.rs": "pub fn nobody() {}",
    }

    assert paths(files) == {
        "a": "mod",
        "a::f": "fn",
        "a::z": "mod",
        "a::z::g": "fn",
        "b": "mod",
        "b::c": "mod",
        "b::c::h": "fn",
    }


def test_a_module_without_a_file_has_no_items() -> None:
    assert paths({"lib.rs": "pub mod gone; pub fn f() {}"}) == {"f": "fn"}
    assert public_items("crate_x", "src/lib.rs", lambda _: None, ()) == ()


def test_re_exports() -> None:
    files = {
        "lib.rs": """
            mod device;
            pub mod backend;
            pub use backend as short;
            pub use device::{Device, inner::*};
            pub use short::Storage as Stored;
            pub use other_crate;
            pub use other_crate::thing as that;
            use device::Unseen;
        """,
        "device.rs": "pub struct Device; pub struct Unseen; pub mod inner { pub fn f() {} fn g() {} }",
        "backend.rs": "pub struct Storage;",
    }

    assert paths(files) == {
        "Device": "struct",
        "Stored backend::Storage short::Storage": "struct",
        "backend short": "mod",
        "f": "fn",
        "other_crate": "use",
        "that": "use",
    }


def test_paths_through_crate_self_and_super() -> None:
    files = {
        "lib.rs": "mod a; pub mod b; pub use self::a::A;",
        "a.rs": "pub struct A; pub fn f() {}",
        "b.rs": "pub use super::a::f; pub use crate::a::A as B;",
    }

    assert paths(files) == {"A b::B": "struct", "b": "mod", "b::f": "fn"}


def test_only_public_items_of_a_name_are_re_exported() -> None:
    files = {"lib.rs": "mod a; pub use a::x;", "a.rs": "pub fn x() {} struct x; pub(crate) mod x { pub fn y() {} }"}

    assert paths(files) == {"x": "fn"}


def test_what_a_cfg_switches_off() -> None:
    files = {
        "lib.rs": """
            #[cfg(feature = "gpu")]
            pub mod real;
            #[cfg(not(feature = "gpu"))]
            pub mod dummy;
            #[cfg(feature = "gpu")]
            pub use real as gpu;
            #[cfg(not(feature = "gpu"))]
            pub use dummy as gpu;
            mod off;
            pub use off::*;
        """,
        "real.rs": "pub struct D; #[cfg(unix)] impl D { pub fn f(&self) {} #[cfg(windows)] pub fn g(&self) {} }",
        "dummy.rs": "pub struct D;",
        "off.rs": "#![cfg(windows)]\npub fn h() {}",
    }

    assert paths(files, 'feature="gpu"', "unix") == {
        "gpu real": "mod",
        "gpu::D real::D": "struct",
        "gpu::D::f real::D::f": "fn",
    }
    assert paths(files, "unix") == {"dummy gpu": "mod", "dummy::D gpu::D": "struct"}
    by_path = {item.path: item.gates for item in items(files, 'feature="gpu"', "unix")}
    assert by_path["crate_x::gpu::D::f"] == ('feature = "gpu"', "unix")


def test_members_wherever_their_impl_stands() -> None:
    files = {
        "lib.rs": "pub mod scalar; mod gpu; mod named { use crate::scalar::*; impl Scalar { pub fn b() {} } }",
        "scalar.rs": "pub enum Scalar { U8(u8) }",
        "gpu.rs": "impl crate::scalar::Scalar { pub fn a(&self) {} fn private() {} } impl Unknown { pub fn f() {} }",
    }

    assert paths(files) == {
        "scalar": "mod",
        "scalar::Scalar": "enum",
        "scalar::Scalar::U8": "variant",
        "scalar::Scalar::a": "fn",
        "scalar::Scalar::b": "fn",
    }
    parents = {item.path: item.parent for item in items(files)}
    assert parents["crate_x::scalar::Scalar::a"] == "crate_x::scalar::Scalar"
    assert parents["crate_x::scalar::Scalar"] == "crate_x::scalar"


def test_exported_macros_stand_at_the_root() -> None:
    files = {"lib.rs": "mod a;", "a.rs": "#[macro_export]\nmacro_rules! m { () => {} }\nmacro_rules! n { () => {} }"}

    assert paths(files) == {"m": "macro"}


def test_types_that_no_path_leads_to_but_a_function_returns() -> None:
    files = {
        "lib.rs": "mod device; pub use device::Device;",
        "device.rs": """
            pub struct Func; pub struct Store; struct Private;
            impl Func { pub fn builder(&self) -> Builder { x } }
            pub struct Builder;
            pub struct Device;
            impl Device { pub fn load(&self) -> Result<Func> { let s: Store = x; } fn store(&self) -> Store { x } }
            impl Device { pub fn odd(&self) -> Private { x } }
        """,
    }

    found = {item.path.removeprefix("crate_x::"): item.hidden for item in items(files)}
    assert found == {
        "Device": False,
        "Device::load": False,
        "Device::odd": False,
        "device::Builder": True,
        "device::Func": True,
        "device::Func::builder": True,
    }


def test_the_place_the_text_and_the_signature() -> None:
    found = {
        item.path: item
        for item in items({"lib.rs": "pub mod a;\n", "a.rs": "// A.\npub fn e() { }  pub fn f(n: u8) -> u8 { n }\n"})
    }
    item, made = found["crate_x::a::f"], found["crate_x::a"]

    assert str(item.location) == "src/a.rs:2:17"
    assert (item.signature, item.text) == ("fn(u8) -> u8", "pub fn f(n: u8) -> u8 { n }")
    assert (made.signature, made.text, str(made.location)) == ("", "", "src/a.rs:1:1")


def test_modules_that_re_export_one_another() -> None:
    files = {
        "lib.rs": "pub mod a; pub mod b; pub use a::*; pub use f as f; pub use nothing::*;",
        "a.rs": "pub use crate::b::*; pub use super::b; pub fn f() {}",
        "b.rs": "pub use crate::a::*; pub use super::a; pub fn g() {}",
    }

    found = {item.path: item for item in items(files)}
    assert {"crate_x::f", "crate_x::g", "crate_x::a", "crate_x::b"} <= found.keys()
    assert {"crate_x::f", "crate_x::a::f", "crate_x::b::f"} <= {*found["crate_x::f"].paths}


def test_a_hostile_number_of_paths_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"m{number}" for number in range(12)]
    files = {"lib.rs": "".join(f"pub mod {name};" for name in names)}
    files |= {f"{name}.rs": "".join(f"pub use crate::{other};" for other in names) for name in names}

    with pytest.raises(InputOutputError, match=r"src/lib\.rs: too many paths lead to its items"):
        items(files)

    monkeypatch.setattr(module, "MOST_STEPS", 4)
    with pytest.raises(InputOutputError, match="too many paths"):
        items({"lib.rs": "pub fn a() {} pub fn b() {} pub fn c() {} pub fn d() {}"})
    assert len(items({"lib.rs": "pub fn a() {} pub fn b() {} pub fn c() {}"})) == 3
