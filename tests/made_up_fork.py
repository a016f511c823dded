"""A made-up fork of Candle: one more backend, one more element type, a crate of its own, and code that no rule knows.

It is made of a tree at hand, the made-up one or a real release, when a test runs: every line that is added is our own.
The backend is called Vulkan and can hold nothing, so that its arms need no answer; the element type is a copy of one
that Candle only stores.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from codegen.syntax.matches import arms_of, descendants, pattern_of
from codegen.syntax.sites import find_sites
from codegen.syntax.source import Source, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tree_sitter import Node

BACKEND, STORED = "Vulkan", "F8E5M2"
OF_STORED = "F8E8M0"
"""The stored type of Candle that the fork's own is made after."""
_OTHER_BACKENDS = re.compile(r"/(cuda|metal)_backend/|/quantized/(dummy_)?(cuda|metal)\.rs$|/dummy_[a-z]+_backend\.rs$")
_ENUMS = frozenset({"Device", "Storage", "DeviceLocation"})
_FIELDS = {"Device": "(crate::vulkan_backend::VulkanDevice)", "Storage": "(crate::vulkan_backend::VulkanStorage)"}

CORE_MODULES = {
    "vulkan_backend.rs": """\
//! A backend that this build cannot have: there is no value of its types.

#[derive(Debug, Clone)]
pub enum VulkanDevice {}

#[derive(Debug)]
pub enum VulkanStorage {}

impl crate::Device {
    pub fn is_vulkan(&self) -> bool {
        matches!(self, Self::Vulkan(_))
    }
}
""",
    "probe.rs": """\
//! What the fork asks devices for.
use crate::{Device, DeviceLocation, Result};

pub static CUDA_ALIASES: &[&str] = &["first", "second"];
pub const PREFERRED: &str = "cuda";

pub fn cuda_label() -> &'static str {
    "cuda card"
}

pub fn from_name(name: &str) -> Result<Device> {
    match name {
        "cpu" => Ok(Device::Cpu),
        "cuda" => Device::new_cuda(0),
        other => crate::bail!("no device is called {other}"),
    }
}

/// The numbers that another library has for devices.
pub fn number(device: &Device) -> i32 {
    match device {
        Device::Cpu => 1,
        Device::Cuda(_) => 2,
        Device::Metal(_) => 8,
        Device::Vulkan(_) => 7,
    }
}

pub fn place(location: DeviceLocation) -> String {
    match location {
        DeviceLocation::Cpu => "cpu".to_string(),
        DeviceLocation::Cuda { gpu_id } => format!("cuda:{gpu_id}"),
        DeviceLocation::Metal { gpu_id } => format!("metal:{gpu_id}"),
        DeviceLocation::Vulkan { gpu_id } => format!("vulkan:{gpu_id}"),
    }
}

pub fn is_fast(device: &Device) -> bool {
    matches!(device, Device::Cuda(_) | Device::Vulkan(_))
}

pub fn has_streams(device: &Device) -> bool {
    if device.is_cuda() {
        return true;
    }
    false
}

pub fn lanes(device: &Device) -> usize {
    if device.is_cuda() || device.is_vulkan() {
        32
    } else {
        1
    }
}

pub fn is_built() -> bool {
    if cfg!(feature = "cuda") {
        return true;
    }
    cfg!(feature = "metal")
}

pub fn describe(device: &Device) -> String {
    let mut said = "plain".to_string();
    if let Device::Cuda(_) = device {
        said = "with a card".to_string();
    }
    said
}

pub fn any_card() -> bool {
    crate::utils::cuda_is_available()
}

pub fn pick() -> Result<Device> {
    Device::cuda_if_available(0)
}

#[cfg(feature = "cuda")]
pub fn has_graphs() -> bool {
    true
}

#[cfg(not(feature = "cuda"))]
pub fn has_graphs() -> bool {
    false
}

#[cfg(feature = "cuda")]
pub fn cuda_context(context: &cudarc::driver::CudaContext) -> usize {
    context.ordinal()
}

#[macro_export]
macro_rules! on_cuda {
    ($body:expr) => {
        if cfg!(feature = "cuda") {
            $body
        }
    };
}
""",
}

NN_PROBE = """\
//! What the fork's layers ask devices for.
use candle::{Device, Result, Tensor};

pub fn block_size(device: &Device) -> usize {
    if device.is_cuda() {
        256
    } else {
        64
    }
}

pub fn prefers_half(xs: &Tensor) -> bool {
    xs.device().is_cuda() && xs.rank() > 1
}

pub fn kernel_name(device: &Device) -> &'static str {
    match device {
        Device::Cuda(_) => "cuda_probe",
        _ => "plain_probe",
    }
}

pub fn cuda_default() -> Result<Device> {
    Device::new_cuda(0)
}

pub fn is_gpu_build() -> bool {
    cfg!(any(feature = "cuda", feature = "metal"))
}

pub fn card_and_number(device: &Device) -> Option<(usize, u8)> {
    if let Device::Cuda(_) = device {
        return Some((0, 2));
    }
    None
}

pub fn gpu_or_cpu() -> Result<Device> {
    Device::cuda_if_available(0)
}
"""

OWN_CRATE = {
    "Cargo.toml": """\
[package]
name = "candle-probe"
version.workspace = true
edition.workspace = true

[dependencies]
candle = { workspace = true }

[features]
default = []
cuda = ["candle/cuda"]
cuda-graphs = ["cuda"]
""",
    "src/lib.rs": """\
use candle::{Device, Result};

pub fn any() -> Result<Device> {
    Device::cuda_if_available(0)
}

pub fn warps(device: &Device) -> bool {
    device.is_cuda()
}

pub fn scale(device: &Device) -> f64 {
    if device.is_cuda() {
        2.0
    } else {
        1.0
    }
}
""",
}

BENCH = """\
#[cfg(feature = "cuda")]
use {core}::backend::BackendDevice;
use {core}::{{Device, Result}};

pub fn wait(device: &Device) -> Result<()> {{
    match device {{
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => device.synchronize(),
        _ => Ok(()),
    }}
}}
"""


def make_fork(root: Path) -> None:
    """Turn the Candle tree in a folder into the fork."""
    for path in sorted(root.rglob("*.rs")):
        name = path.relative_to(root).as_posix()
        if _OTHER_BACKENDS.search(name) or name.startswith("target/"):
            continue
        content = path.read_bytes()
        changed = _with_element_type(_with_backend(name, content))
        if changed != content:
            path.write_bytes(changed)
    core, nn = root / "candle-core/src", root / "candle-nn/src"
    for file, text in CORE_MODULES.items():
        (core / file).write_text(text, encoding="utf-8")
    _append(core / "lib.rs", "\npub mod probe;\npub mod vulkan_backend;\n")
    (nn / "probe.rs").write_text(NN_PROBE, encoding="utf-8")
    _append(nn / "lib.rs", "\npub mod probe;\n")
    for crate, name in (("candle-core", "candle_core"), ("candle-nn", "candle")):
        bench = root / crate / "benches/benchmarks/probe.rs"
        bench.parent.mkdir(parents=True, exist_ok=True)
        bench.write_text(BENCH.format(core=name), encoding="utf-8")
        modules = bench.with_name("mod.rs")
        if modules.exists():
            _append(modules, "\npub mod probe;\n")
    for file, text in OWN_CRATE.items():
        (root / "candle-probe" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "candle-probe" / file).write_text(text, encoding="utf-8")
    manifest = root / "Cargo.toml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(re.sub(r"(?m)^members = \[", 'members = ["candle-probe", ', text, count=1), encoding="utf-8")


def _append(path: Path, text: str) -> None:
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(before + text, encoding="utf-8")


def _with_backend(path: str, text: bytes) -> bytes:
    """Every match that rustc wants complete gets an arm for the backend, and the enums the variant."""
    source = Source.parse(path, text)
    added: list[tuple[int, str]] = []
    for site in find_sites(source):
        if site.exhaustive and site.kind == "match" and set(site.enums) <= _ENUMS:
            match = source.node_at(site.start, site.end, "match_expression")
            added.append((match.end_byte - 1, f"{_arm(match)} => unreachable!(),\n"))
        if site.kind == "enum" and (name := site.item.rpartition("::")[2]) in _ENUMS:
            fields = _FIELDS.get(name, " { gpu_id: usize }")
            added.append((site.start, f"{BACKEND}{fields},\n    "))
    return _inserted(text, added)


def _arm(match: Node) -> str:
    """The pattern of the arm for Metal, as one for the backend that binds nothing."""
    for arm in arms_of(match):
        found = re.search(r"([A-Za-z_:]+)::(Metal|Cuda)\b\s*([({]?)", text_of(pattern_of(arm)))
        if found is not None:
            return f"{found[1]}::{BACKEND}" + {"(": "(..)", "{": " { .. }", "": ""}[found[3]]
    raise AssertionError(text_of(match))


def _with_element_type(text: bytes) -> bytes:
    """Wherever a match or an enum has the stored type, it has the fork's too."""
    if OF_STORED.encode() not in text:
        return text
    source = Source.parse("", text)
    added = list(_arms_and_variants(source))
    return _inserted(text, added)


def _arms_and_variants(source: Source) -> Iterator[tuple[int, str]]:
    outer = -1
    for node in descendants(source.root, "match_arm", "enum_variant"):
        if node.end_byte <= outer:
            continue
        if node.type == "enum_variant" and text_of(node).startswith(OF_STORED):
            yield node.start_byte, f"{_renamed(text_of(node))},\n    "
        if node.type != "match_arm" or not re.search(OF_STORED, text_of(pattern_of(node)), re.IGNORECASE):
            continue
        pattern = pattern_of(node)
        if "|" in text_of(pattern):
            last = re.split(r"\|", text_of(pattern))[-1].strip()
            yield pattern.end_byte, f" | {_renamed(last)}"
        else:
            comma = "" if text_of(node).endswith((",", "}")) else ","
            yield node.start_byte, f"{_renamed(text_of(node))}{comma}\n"
            outer = node.end_byte


def _renamed(text: str) -> str:
    return re.sub(rf"\b{OF_STORED.lower()}\b", STORED.lower(), re.sub(rf"\b{OF_STORED}\b", STORED, text))


def _inserted(text: bytes, added: list[tuple[int, str]]) -> bytes:
    for at, more in sorted(added, reverse=True):
        text = text[:at] + more.encode() + text[at:]
    return text
