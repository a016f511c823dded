"""The emulator's API crate: what a table becomes in Rust."""

from __future__ import annotations

from textwrap import dedent

from codegen.paths import repository_root
from codegen.render.emulator_api import emulator_api
from codegen.spec.hip_api import parse_hip_api

TABLE = """\
libraries:
  - {name: amdhip64, prefix: hip, header: hip.h, status: hipError_t}
  - {name: MIOpen, prefix: miopen, header: miopen.h, status: miopenStatus_t}
functions:
  - {name: hipOld, until: "5.7", phases: [], params: {}}
  - {name: hipRun, phases: [], params: {function: hipFn_t, pair: const hipPair*}}
  - {name: hipStop, phases: [], params: {}, returns: void}
  - {name: miopenRun, phases: [], params: {stream: hipStream_t}}
enums:
  - {name: hipError_t, values: {hipSuccess: 0, hipBad: 2, hipBadToo: 2, hipGone: {value: 3, until: "6.4"}}}
  - {name: miopenStatus_t, values: {miopenSuccess: 0}}
constants:
  - {about: the default stream, library: amdhip64, c: hipStream_t, values: {hipStreamLegacy: 1}}
structs:
  - {name: hipBits, size: 4, bits: [hipFirst, hipSecond]}
  - {name: hipHidden, size: 2, align: 2}
  - name: hipPair
    size: 16
    fields: [{name: type, c: int, offset: 0}, {name: data, c: "void*", offset: 8}]
types:
  - {name: hipFn_t, c: "void (*)(void*)"}
  - {name: hipStream_t, c: struct ihipStream_t*}
"""


def made() -> dict[str, str]:
    texts = emulator_api(parse_hip_api(TABLE.encode()).api, repository_root())
    assert list(texts) == ["emulator/api/src/amdhip64.rs", "emulator/api/src/miopen.rs"]
    return {path.rsplit("/", 1)[1]: text for path, text in texts.items()}


def check_has(text: str, part: str) -> None:
    assert dedent(part).strip() in text


def test_handles_are_pointers_to_what_only_the_library_knows() -> None:
    hip = made()["amdhip64.rs"]
    check_has(hip, "pub struct ihipStream_t {\n    _private: [u8; 0],\n}")
    check_has(hip, "pub type hipStream_t = *mut ihipStream_t;")
    check_has(hip, "pub const hipStreamLegacy: hipStream_t = std::ptr::without_provenance_mut(1);")


def test_enumerators_of_the_current_release_and_the_first_name_of_each_value() -> None:
    hip = made()["amdhip64.rs"]
    check_has(hip, "pub const hipBadToo: hipError_t = 2;")
    assert "hipGone" not in hip
    check_has(hip, '= &[(hipSuccess, c"hipSuccess"), (hipBad, c"hipBad")];')


def test_structs_assert_their_layout() -> None:
    hip = made()["amdhip64.rs"]
    check_has(
        hip,
        """
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct hipPair {
            pub r#type: c_int,
            pub data: *mut c_void,
        }

        const _: () = {
            assert!(size_of::<hipPair>() == 16);
            assert!(offset_of!(hipPair, r#type) == 0);
            assert!(offset_of!(hipPair, data) == 8);
        };
        """,
    )
    check_has(
        hip, "#[repr(C, align(2))]\n#[derive(Clone, Copy, Debug)]\npub struct hipHidden {\n    pub bytes: [u8; 2],\n}"
    )
    check_has(hip, "pub const hipSecond: c_uint = 0x2;")


def test_signatures_are_those_of_the_current_release() -> None:
    hip = made()["amdhip64.rs"]
    check_has(hip, 'pub type hipRun = unsafe extern "C" fn(function: hipFn_t, pair: *const hipPair) -> hipError_t;')
    check_has(hip, 'pub type hipStop = unsafe extern "C" fn();')
    check_has(hip, "$crate::implements!(amdhip64:\n            hipRun,\n            hipStop,\n        );")
    assert "hipOld" not in hip


def test_a_library_uses_the_types_of_another() -> None:
    miopen = made()["miopen.rs"]
    check_has(miopen, "use crate::amdhip64::hipStream_t;")
    check_has(miopen, 'pub type miopenRun = unsafe extern "C" fn(stream: hipStream_t) -> miopenStatus_t;')
