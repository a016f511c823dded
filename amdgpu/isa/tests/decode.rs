//! Single instructions; tests/rocm/test_decoder.py has all that the kernels contain.

use isa::constants::Waits;
use isa::decode::decode;
use isa::of_card;
use isa::text::text;

/// Bytes and text of the instruction at the beginning of the words.
fn read(card: &str, lanes: u32, words: &[u32]) -> (usize, String) {
    let set = of_card(card).expect("a card that is known");
    let found = decode(set, words).expect("an instruction");
    (found.bytes, text(set, &found, lanes))
}

#[test]
fn what_stands_behind_an_instruction_belongs_to_it() {
    let next = 0xbf80_0000;
    let literal = [0x1002_02ff, 0x4f7f_fffe, next];
    assert_eq!(read("gfx1100", 32, &literal), (8, "v_mul_f32_e32 v1, 0x4f7ffffe, v1".into()));
    let two = [0xc8e2_12ff, 0x0908_1094, 0x7b80_0000, next];
    let halves = "v_dual_mul_f32 v9, 0x7b800000, v9 :: v_dual_lshlrev_b32 v8, 20, v8";
    assert_eq!(read("gfx1100", 32, &two), (12, halves.into()));
    let parts = [0x2620_04f9, 0x8608_0604, next];
    let selected = "dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:DWORD";
    assert_eq!(read("gfx942", 64, &parts), (8, format!("v_and_b32_sdwa v16, sext(v4), s2 {selected}")));
    assert_eq!(read("gfx1100", 32, &[next]), (4, "s_nop 0".into()));
}

#[test]
fn masks_are_as_wide_as_waves() {
    let compare = [0xd45e_0000, 0x0000_2808];
    assert_eq!(read("gfx1100", 32, &compare).1, "v_cmp_ge_u64_e64 s0, s[8:9], s[20:21]");
    assert_eq!(read("gfx1100", 64, &compare).1, "v_cmp_ge_u64_e64 s[0:1], s[8:9], s[20:21]");
}

#[test]
fn counts_to_wait_for_have_the_places_of_their_family() {
    let counts = |card, constant| {
        let counts = Waits::of(of_card(card).expect("it is known"), constant);
        [counts.vector, counts.exports, counts.lds]
    };
    // RDNA4's programs wait for one kind at a time, but AMD's own copies of memory do not.
    for card in ["gfx1100", "gfx1201"] {
        assert_eq!(counts(card, 0xfc07), [63, 7, 0]);
        assert_eq!(counts(card, 0x07f6), [1, 6, 63]);
    }
    assert_eq!(counts("gfx942", 0xc07f), [63, 7, 0]);
    assert_eq!(counts("gfx942", 0x0f61), [1, 6, 15]);
}

#[test]
fn words_that_are_no_instruction_are_said() {
    let set = of_card("gfx1100").expect("it is known");
    let problem = decode(set, &[0xffff_ffff]).expect_err("there is none");
    assert_eq!(problem.to_string(), "0xffffffff is no instruction");
    // Its literal is missing.
    assert!(decode(set, &[0x1002_02ff]).is_err());
    assert!(decode(set, &[]).is_err());
    assert!(of_card("gfx803").is_none());
}
