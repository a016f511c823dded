//! Each rule, with the words of instructions as AMD's assembler writes them.

use super::*;

/// A card, two instructions, how many wait states they need between them, and the beginning of what is said with one fewer.
type Case = (&'static str, &'static [u32], &'static [u32], u32, &'static str);

const NOTHING: u32 = 0xbf80_0000;

/// What a wave of the card says to the instructions, one after another.
fn noted(card: &str, instructions: &[&[u32]]) -> Result<(), String> {
    let program = Program::new(card, 0, instructions.concat())?;
    let (mut hazards, mut place) = (Hazards::default(), 0);
    for words in instructions {
        let step = program.step(place).ok_or("no instruction")?;
        hazards.note(&program, place, &step.spacing)?;
        place += words.len();
    }
    Ok(())
}

/// Two instructions that so many wait states stand between.
fn apart(card: &str, first: &[u32], second: &[u32], states: u32) -> Result<(), String> {
    // One takes 16 at most.
    let waits: Vec<_> = (0..states).step_by(16).map(|done| [NOTHING + (states - done).min(16) - 1]).collect();
    let all: Vec<_> = [first].into_iter().chain(waits.iter().map(|wait| &wait[..])).chain([second]).collect();
    noted(card, &all)
}

#[test]
fn no_more_wait_states_are_needed_than_the_rules_say_and_no_fewer() {
    for (card, first, second, needed, told) in CASES {
        let case = format!("{card} {first:x?} {second:x?}");
        assert_eq!(apart(card, first, second, *needed), Ok(()), "{case}");
        if let Some(fewer) = needed.checked_sub(1) {
            let problem = apart(card, first, second, fewer).expect_err(&case);
            let states = if fewer == 1 { "1 wait state".into() } else { format!("{fewer} wait states") };
            let are = if *needed == 1 { "is" } else { "are" };
            assert!(problem.starts_with(&format!("{told} {states} after ")), "{case}: {problem}");
            assert!(problem.ends_with(&format!(", and {needed} {are} needed")), "{case}: {problem}");
        }
    }
}

#[test]
fn every_rule_of_cdna_is_broken_by_a_case() {
    let used = |rule: &Rule, card: &str| {
        CASES.iter().filter(|(of, ..)| *of == card).any(|(_, first, second, ..)| {
            let program = Program::new(card, 0, [*first, *second].concat()).expect("its set is known");
            let (first, second) = (program.step(0).expect("a step"), program.step(first.len()).expect("a step"));
            let does = |done: &&Done| {
                done.former == rule.former
                    && rule.product.is_none_or(|product| done.product.is_some_and(|(of, _)| of == product))
            };
            let done: Vec<_> = first.spacing.done.iter().filter(does).collect();
            let needs =
                second.spacing.needs.iter().filter(|need| need.rules.iter().any(|other| std::ptr::eq(*other, rule)));
            needs.into_iter().any(|need| done.iter().any(|done| need.states(done, |_| 1) > 0))
        })
    };
    let cards = ["gfx90a", "gfx942"];
    for card in cards {
        let set = isa::of_card(card).expect("its set is known");
        let unused: Vec<_> = Rule::of(set, card).filter(|rule| !used(rule, card)).collect();
        // Floats are a matter of CDNA3's; what is behind a third instruction has a test of its own.
        let of_others =
            |rule: &Rule| (rule.product == Some(Product::Single) && card == "gfx90a") || rule.across.is_some();
        let unused: Vec<_> =
            unused.iter().filter(|rule| !of_others(rule)).map(|rule| (rule.former, rule.product, rule.later)).collect();
        assert!(unused.is_empty(), "{card}: {unused:?}");
    }
}

#[test]
fn what_was_written_again_since_does_not_count() {
    // v_exp_f32 v5, v1; v_mov_b32 v5, v2; v_add_f32 v3, v5, v2
    assert_eq!(noted("gfx942", &[&[0x7e0a_4101], &[0x7e0a_0302], &[0x0606_0505]]), Ok(()));
}

#[test]
fn rdna_waits_for_vector_instructions() {
    const EXP: &[u32] = &[0x7e0a_4b01]; // v_exp_f32 v5, v1
    const ADD: &[u32] = &[0x0606_0b05]; // v_add_f32 v3, v5, v5
    const MOVE: &[u32] = &[0x7e12_0309]; // v_mov_b32 v9, v9
    const WAIT: &[u32] = &[0xbf88_0fff]; // s_waitcnt_depctr va_vdst(0)
    const NO_WAIT: &[u32] = &[NOTHING];
    let early = Err("v5 is used 0 vector instructions after V_EXP_F32 wrote it, and 6 are needed".to_string());
    assert_eq!(noted("gfx1100", &[EXP, ADD]), early);
    assert_eq!(noted("gfx1100", &[EXP, NO_WAIT, NO_WAIT, ADD]), early);
    assert_eq!(noted("gfx1100", &[EXP, WAIT, ADD]), Ok(()));
    assert!(noted("gfx1100", &[EXP, MOVE, MOVE, MOVE, MOVE, MOVE, ADD]).is_err());
    assert_eq!(noted("gfx1100", &[EXP, MOVE, MOVE, MOVE, MOVE, MOVE, MOVE, ADD]), Ok(()));
    const LOG: &[u32] = &[0x7e12_4f09]; // v_log_f32 v9, v9
    assert!(noted("gfx1100", &[EXP, LOG, ADD]).is_err());
    assert_eq!(noted("gfx1100", &[EXP, LOG, WAIT, LOG, ADD]), Ok(()));
    assert_eq!(noted("gfx1151", &[EXP, ADD]), Ok(()));
    const CMPX: &[u32] = &[0x7d22_0501]; // v_cmpx_lt_f32 v1, v2
    const PERMUTE: &[u32] = &[0xd65c_0003, 0x0004_0104]; // v_permlanex16_b32 v3, v4, s0, s1
    assert!(noted("gfx1100", &[CMPX, PERMUTE]).is_err());
    assert_eq!(noted("gfx1100", &[CMPX, MOVE, PERMUTE]), Ok(()));
    const PRODUCT: &[u32] = &[0xcc40_4008, 0x1c22_3110]; // v_wmma_f32_16x16x16_f16 v[8:15], v[16:..], v[24:..], v[8:15]
    const NEXT: &[u32] = &[0xcc40_4028, 0x1ca2_3108]; // v_wmma_f32_16x16x16_f16 v[40:47], v[8:..], v[24:..], v[40:47]
    for card in ["gfx1100", "gfx1151", "gfx1201"] {
        assert_eq!(
            noted(card, &[PRODUCT, NEXT]),
            Err("v8 is used 0 vector instructions after V_WMMA_F32_16X16X16_F16 wrote it, and 1 is needed".into())
        );
        assert_eq!(noted(card, &[PRODUCT, MOVE, NEXT]), Ok(()));
        assert_eq!(noted(card, &[PRODUCT, PRODUCT]), Ok(()), "what it adds to may be the last result");
    }
}

#[test]
fn a_product_of_doubles_takes_the_place_of_a_wait_on_cdna2() {
    let steps: [&[u32]; 3] = [&[0x020a_0501], &DOUBLE, &STORE];
    assert!(
        noted("gfx90a", &steps).is_err_and(|problem| problem.starts_with("v5 is used 1 wait state after V_ADD_F32"))
    );
    assert_eq!(noted("gfx942", &steps), Ok(()));
    assert_eq!(noted("gfx90a", &[steps[0], &[NOTHING], steps[2]]), Ok(()));
    assert_eq!(noted("gfx90a", &[steps[0], steps[1], &[NOTHING], steps[2]]), Ok(()));
}

#[test]
fn a_scan_finds_what_comes_too_early_behind_a_jump_and_what_waits() {
    // v_exp_f32 v5, v1; s_cbranch_scc0 +1; s_nop 0; v_add_f32 v3, v5, v2
    let words = vec![0x7e0a_4101, 0xbf84_0001, NOTHING, 0x0206_0505];
    let found = scan::scan(&Program::new("gfx942", 0x100, words).expect("its set is known"));
    assert!(found.faults.is_empty(), "{found:?}");
    assert_eq!(found.nops.into_iter().collect::<Vec<_>>(), [(0x108, false)]);
    // v_readfirstlane_b32 s4, v1; s_cbranch_scc0 +1; s_nop 0; v_add_f32 v3, s4, v2
    let words = vec![0x7e08_0501, 0xbf84_0001, NOTHING, 0x0206_0404];
    let found = scan::scan(&Program::new("gfx942", 0x100, words.clone()).expect("its set is known"));
    let told = "V_ADD_F32: s4 is used 1 wait state after V_READFIRSTLANE_B32 wrote it, and 2 are needed";
    assert_eq!(found.faults.into_iter().collect::<Vec<_>>(), [(0x10c, told.to_string())]);
    assert_eq!(found.nops.into_iter().collect::<Vec<_>>(), [(0x108, true)]);
    // The same with a jump in place of the S_NOP, which counts even where it is not made.
    let words = vec![words[0], words[1], 0xbf82_0000, words[3]];
    let found = scan::scan(&Program::new("gfx942", 0x100, words).expect("its set is known"));
    assert!(found.faults.is_empty(), "{found:?}");
}

const DOUBLE: [u32; 2] = [0xd3ef0008, 0x42a0500];
const STORE: [u32; 2] = [0xdc708000, 0x7f0500];

const CASES: &[Case] = &[
    // v_readfirstlane_b32 s4, v1; global_load_dword v2, v3, s[4:5]
    ("gfx90a", &[0x7e080501], &[0xdc508000, 0x2040003], 5, "s4 is used"),
    // v_cmp_lt_f32 vcc, v1, v2; v_readlane_b32 s0, v3, vcc_lo
    ("gfx90a", &[0x7c820501], &[0xd2890000, 0xd503], 4, "vcc_lo is used"),
    // v_readfirstlane_b32 s4, v1; v_writelane_b32 v2, 1, s4
    ("gfx90a", &[0x7e080501], &[0xd28a0002, 0x881], 4, "s4 is used"),
    // v_div_scale_f32 v1, vcc, v2, v2, v3; v_div_fmas_f32 v4, v5, v6, v7
    ("gfx90a", &[0xd1e06a01, 0x40e0502], &[0xd1e20004, 0x41e0d05], 4, "vcc_lo is used"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mov_b32_dpp v3, v4 row_shl:1
    ("gfx90a", &[0x7ca20501], &[0x7e0602fa, 0xff010104], 5, "exec is used"),
    // v_add_f32 v5, v1, v2; v_mov_b32_dpp v3, v5 row_shl:1
    ("gfx90a", &[0x20a0501], &[0x7e0602fa, 0xff010105], 2, "v5 is used"),
    // s_mov_b32 m0, s1; s_sendmsg 1
    ("gfx90a", &[0xbefc0001], &[0xbf900001], 1, "m0 is used"),
    // s_setreg_imm32_b32 hwreg(HW_REG_MODE), 3; s_getreg_b32 s0, hwreg(HW_REG_MODE)
    ("gfx90a", &[0xba00f801, 0x3], &[0xb880f801], 2, "hardware register 1 is used"),
    // v_cmp_lt_f32 vcc, v1, v2; v_mov_b32 v3, src_vccz
    ("gfx90a", &[0x7c820501], &[0x7e0602fb], 5, "vcc_lo is used"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mov_b32 v3, src_execz
    ("gfx90a", &[0x7ca20501], &[0x7e0602fc], 5, "exec is used"),
    // global_store_dwordx4 v[0:1], v[4:7], off; v_mov_b32 v6, v1
    ("gfx90a", &[0xdc7c8000, 0x7f0400], &[0x7e0c0301], 1, "v6 is written"),
    // v_dot2c_f32_f16 v5, v1, v2; v_add_f32 v3, v5, v5
    ("gfx90a", &[0x6e0a0501], &[0x2060b05], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_dot2c_f32_f16 v3, v5, v2
    ("gfx90a", &[0x6e0a0501], &[0x6e060505], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_mov_b32 v5, v2
    ("gfx90a", &[0x6e0a0501], &[0x7e0a0302], 3, "v5 is written"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]
    ("gfx90a", &[0x7ca20501], &[0xd3c20008, 0x4120300], 4, "exec is used"),
    // v_add_f32 v5, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v5, v1, 0
    ("gfx90a", &[0x20a0501], &[0xd3c20008, 0x2020305], 2, "v5 is used"),
    // v_add_f32 v5, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]
    ("gfx90a", &[0x20a0501], &[0xd3c20008, 0x4120300], 2, "v5 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[10:11], v[8:9], v[2:3], v[4:5]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd3ef000a, 0x4120508], 6, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[10:11], v[0:1], v[2:3], v[8:9]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd3ef000a, 0x4220500], 4, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[8:15]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd3ee0018, 0x4220500], 4, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_add_f64 v[0:1], v[8:9], v[8:9]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd2800000, 0x21108], 6, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; global_store_dwordx2 v[0:1], v[8:9], off
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xdc748000, 0x7f0800], 9, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mov_b32 v9, v0
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0x7e120300], 6, "v9 is written"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_fma_f64 v[0:1], v[2:3], v[2:3], v[2:3]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd1cc0000, 0x40a0502], 2, "the unit for doubles is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_4x4x4f64 v[30:31], v[8:9], v[2:3], v[4:5]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd3ef001e, 0x4120508], 11, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_4x4x4f64 v[30:31], v[0:1], v[2:3], v[8:9]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd3ef001e, 0x4220500], 9, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_add_f64 v[0:1], v[8:9], v[8:9]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd2800000, 0x21108], 11, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; ds_write_b64 v0, v[8:9]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd89a0000, 0x800], 18, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mov_b32 v9, v0
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0x7e120300], 11, "v9 is written"),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v5, v0
    ("gfx90a", &[0xd3ca0008, 0x4120500], &[0x7e0a0300], 1, "v5 is written"),
    // v_mfma_f32_32x32x8f16 v[16:31], v[0:1], v[2:3], v[32:47]; v_mov_b32 v33, v0
    ("gfx90a", &[0xd3cc0010, 0x4820500], &[0x7e420300], 15, "v33 is written"),
    // v_readfirstlane_b32 s4, v1; global_load_dword v2, v3, s[4:5]
    ("gfx942", &[0x7e080501], &[0xdc508000, 0x2040003], 5, "s4 is used"),
    // v_cmp_lt_f32 vcc, v1, v2; v_readlane_b32 s0, v3, vcc_lo
    ("gfx942", &[0x7c820501], &[0xd2890000, 0xd503], 4, "vcc_lo is used"),
    // v_readfirstlane_b32 s4, v1; v_writelane_b32 v2, 1, s4
    ("gfx942", &[0x7e080501], &[0xd28a0002, 0x881], 4, "s4 is used"),
    // v_div_scale_f32 v1, vcc, v2, v2, v3; v_div_fmas_f32 v4, v5, v6, v7
    ("gfx942", &[0xd1e06a01, 0x40e0502], &[0xd1e20004, 0x41e0d05], 4, "vcc_lo is used"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mov_b32_dpp v3, v4 row_shl:1
    ("gfx942", &[0x7ca20501], &[0x7e0602fa, 0xff010104], 5, "exec is used"),
    // v_add_f32 v5, v1, v2; v_mov_b32_dpp v3, v5 row_shl:1
    ("gfx942", &[0x20a0501], &[0x7e0602fa, 0xff010105], 2, "v5 is used"),
    // s_mov_b32 m0, s1; s_sendmsg 1
    ("gfx942", &[0xbefc0001], &[0xbf900001], 1, "m0 is used"),
    // s_setreg_imm32_b32 hwreg(HW_REG_MODE), 3; s_getreg_b32 s0, hwreg(HW_REG_MODE)
    ("gfx942", &[0xba00f801, 0x3], &[0xb880f801], 2, "hardware register 1 is used"),
    // v_cmp_lt_f32 vcc, v1, v2; v_mov_b32 v3, src_vccz
    ("gfx942", &[0x7c820501], &[0x7e0602fb], 5, "vcc_lo is used"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mov_b32 v3, src_execz
    ("gfx942", &[0x7ca20501], &[0x7e0602fc], 5, "exec is used"),
    // global_store_dwordx4 v[0:1], v[4:7], off; v_mov_b32 v6, v1
    ("gfx942", &[0xdc7c8000, 0x7f0400], &[0x7e0c0301], 2, "v6 is written"),
    // v_dot2c_f32_f16 v5, v1, v2; v_add_f32 v3, v5, v5
    ("gfx942", &[0x6e0a0501], &[0x2060b05], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_dot2c_f32_f16 v3, v5, v2
    ("gfx942", &[0x6e0a0501], &[0x6e060505], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_mov_b32 v5, v2
    ("gfx942", &[0x6e0a0501], &[0x7e0a0302], 3, "v5 is written"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]
    ("gfx942", &[0x7ca20501], &[0xd3c20008, 0x4120300], 4, "exec is used"),
    // v_add_f32 v5, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v5, v1, 0
    ("gfx942", &[0x20a0501], &[0xd3c20008, 0x2020305], 0, ""),
    // v_add_f32 v5, v1, v2; v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]
    ("gfx942", &[0x20a0501], &[0xd3c20008, 0x4120300], 0, ""),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[10:11], v[8:9], v[2:3], v[4:5]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd3ef000a, 0x4120508], 6, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[10:11], v[0:1], v[2:3], v[8:9]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd3ef000a, 0x4220500], 4, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[8:15]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd3ee0018, 0x4220500], 4, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_add_f64 v[0:1], v[8:9], v[8:9]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd2800000, 0x21108], 6, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; global_store_dwordx2 v[0:1], v[8:9], off
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xdc748000, 0x7f0800], 9, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mov_b32 v9, v0
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0x7e120300], 6, "v9 is written"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_fma_f64 v[0:1], v[2:3], v[2:3], v[2:3]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd1cc0000, 0x40a0502], 2, "the unit for doubles is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_4x4x4f64 v[30:31], v[8:9], v[2:3], v[4:5]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd3ef001e, 0x4120508], 11, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_4x4x4f64 v[30:31], v[0:1], v[2:3], v[8:9]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd3ef001e, 0x4220500], 9, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_add_f64 v[0:1], v[8:9], v[8:9]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd2800000, 0x21108], 11, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; ds_write_b64 v0, v[8:9]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd89a0000, 0x800], 18, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mov_b32 v9, v0
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0x7e120300], 11, "v9 is written"),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v5, v0
    ("gfx942", &[0xd3ca0008, 0x4120500], &[0x7e0a0300], 1, "v5 is written"),
    // v_mfma_f32_32x32x8f16 v[16:31], v[0:1], v[2:3], v[32:47]; v_mov_b32 v33, v0
    ("gfx942", &[0xd3cc0010, 0x4820500], &[0x7e420300], 7, "v33 is written"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v0, v9
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0x7e000309], 11, "v9 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v0, v9
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0x7e000309], 7, "v9 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v9, v0
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0x7e120300], 11, "v9 is written"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v9, v0
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0x7e120300], 7, "v9 is written"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; ds_write_b32 v0, v9
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd81a0000, 0x900], 11, "v9 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; ds_write_b32 v0, v9
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd81a0000, 0x900], 7, "v9 is used"),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v0, v9
    ("gfx90a", &[0xd3ca0008, 0x4120500], &[0x7e000309], 5, "v9 is used"),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v0, v9
    ("gfx942", &[0xd3ca0008, 0x4120500], &[0x7e000309], 5, "v9 is used"),
    // v_mfma_f32_32x32x8f16 v[16:31], v[0:1], v[2:3], v[32:47]; v_mov_b32 v0, v16
    ("gfx90a", &[0xd3cc0010, 0x4820500], &[0x7e000310], 19, "v16 is used"),
    // v_mfma_f32_32x32x8f16 v[16:31], v[0:1], v[2:3], v[32:47]; v_mov_b32 v0, v16
    ("gfx942", &[0xd3cc0010, 0x4820500], &[0x7e000310], 11, "v16 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[8:9], v[2:3], v[4:7]
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x4120508], 11, "v8 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[8:9], v[2:3], v[4:7]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x4120508], 7, "v8 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[10:13]
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x42a0500], 8, "v10 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[10:13]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x42a0500], 5, "v10 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x4220500], 0, ""),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3ca0030, 0x4220500], 0, ""),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx90a", &[0xd3ca0008, 0x4120500], &[0xd3ca0030, 0x4220500], 0, ""),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx942", &[0xd3ca0008, 0x4120500], &[0xd3ca0030, 0x4220500], 2, "v8 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f64_4x4x4f64 v[50:51], v[0:1], v[2:3], v[8:9]
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd3ef0032, 0x4220500], 9, "v8 is used"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd3ca0030, 0x4220500], 0, ""),
    // v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v0, v9
    ("gfx942", &[0xd3c20008, 0x4120300], &[0x7e000309], 4, "v9 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v0, v9
    ("gfx942", &[0xd3c50008, 0x4120300], &[0x7e000309], 10, "v9 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v0, v9
    ("gfx90a", &[0xd3c50008, 0x4120300], &[0x7e000309], 11, "v9 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v5, v9
    ("gfx942", &[0xd3c50008, 0x4120300], &[0x7e0a0309], 10, "v9 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v5, v0
    ("gfx942", &[0xd3c50008, 0x4120300], &[0x7e0a0300], 0, ""),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[10:13]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3c20030, 0x42a0300], 8, "v10 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[10:13]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3ca0030, 0x42a0500], 0, ""),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[10:13]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3c20030, 0x42a0300], 5, "v10 is used"),
    // v_mfma_f32_16x16x8_xf32 v[8:11], v[0:1], v[2:3], v[4:7]; v_mov_b32 v0, v9
    ("gfx942", &[0xd3be0008, 0x4120500], &[0x7e000309], 7, "v9 is used"),
    // v_mfma_f32_32x32x4_xf32 v[16:31], v[0:1], v[2:3], v[32:47]; v_mov_b32 v0, v16
    ("gfx942", &[0xd3bf0010, 0x4820500], &[0x7e000310], 11, "v16 is used"),
    // v_readfirstlane_b32 s4, v1; v_add_f32 v3, s4, v2
    ("gfx942", &[0x7e080501], &[0x2060404], 2, "s4 is used"),
    // v_readfirstlane_b32 s4, v1; v_add_f32 v3, s4, v2
    ("gfx90a", &[0x7e080501], &[0x2060404], 0, ""),
    // v_cmp_lt_f32 vcc, v1, v2; v_cndmask_b32 v3, v4, v5, vcc
    ("gfx942", &[0x7c820501], &[0x60b04], 0, ""),
    // v_cmp_lt_f32 vcc, v1, v2; v_cndmask_b32 v3, v4, v5, vcc
    ("gfx90a", &[0x7c820501], &[0x60b04], 0, ""),
    // v_cmpx_lt_f32 vcc, v1, v2; v_readfirstlane_b32 s0, v3
    ("gfx942", &[0x7ca20501], &[0x7e000503], 4, "exec is used"),
    // v_cmpx_lt_f32 vcc, v1, v2; v_readfirstlane_b32 s0, v3
    ("gfx90a", &[0x7ca20501], &[0x7e000503], 0, ""),
    // v_add_f32 v5, v1, v2; v_readfirstlane_b32 s0, v5
    ("gfx942", &[0x20a0501], &[0x7e000505], 1, "v5 is used"),
    // v_add_f32 v5, v1, v2; v_readfirstlane_b32 s0, v5
    ("gfx90a", &[0x20a0501], &[0x7e000505], 0, ""),
    // v_exp_f32 v5, v1; v_add_f32 v3, v5, v2
    ("gfx942", &[0x7e0a4101], &[0x2060505], 1, "v5 is used"),
    // v_exp_f32 v5, v1; v_add_f32 v3, v5, v2
    ("gfx90a", &[0x7e0a4101], &[0x2060505], 0, ""),
    // v_exp_f32 v5, v1; v_log_f32 v3, v5
    ("gfx942", &[0x7e0a4101], &[0x7e064305], 0, ""),
    // v_exp_f32 v5, v1; v_log_f32 v3, v5
    ("gfx90a", &[0x7e0a4101], &[0x7e064305], 0, ""),
    // v_add_f16_sdwa v5, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD; v_add_f32 v3, v5, v2
    ("gfx942", &[0x3e0a04f9, 0x6060501], &[0x2060505], 1, "v5 is used"),
    // v_add_f16_sdwa v5, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD; v_add_f32 v3, v5, v2
    ("gfx90a", &[0x3e0a04f9, 0x6060501], &[0x2060505], 0, ""),
    // v_mad_f16 v5, v1, v2, v3 op_sel:[0,0,0,1]; v_add_f32 v3, v5, v2
    ("gfx942", &[0xd2034005, 0x40e0501], &[0x2060505], 1, "v5 is used"),
    // v_mad_f16 v5, v1, v2, v3 op_sel:[0,0,0,1]; v_add_f32 v3, v5, v2
    ("gfx90a", &[0xd2034005, 0x40e0501], &[0x2060505], 0, ""),
    // v_dot2c_f32_f16 v5, v1, v2; v_dot2c_f32_f16 v5, v3, v2
    ("gfx90a", &[0x6e0a0501], &[0x6e0a0503], 0, ""),
    // buffer_store_dwordx4 v[4:7], v0, s[0:3], s4 offen; v_mov_b32 v6, v1
    ("gfx90a", &[0xe07c1000, 0x4000400], &[0x7e0c0301], 0, ""),
    // buffer_store_dwordx4 v[4:7], v0, s[0:3], 0 offen; v_mov_b32 v6, v1
    ("gfx90a", &[0xe07c1000, 0x80000400], &[0x7e0c0301], 1, "v6 is written"),
    // global_store_dwordx2 v[0:1], v[4:5], off; v_mov_b32 v5, v1
    ("gfx90a", &[0xdc748000, 0x7f0400], &[0x7e0a0301], 0, ""),
    // v_dot2c_f32_f16 v5, v1, v2; ds_write_b32 v0, v5
    ("gfx90a", &[0x6e0a0501], &[0xd81a0000, 0x500], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_dot4c_i32_i8 v5, v3, v2
    ("gfx90a", &[0x6e0a0501], &[0x720a0503], 3, "v5 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[10:17]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd3ee0018, 0x42a0500], 9, "v10 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[8:15]
    ("gfx90a", &[0xd3ee0008, 0x4420500], &[0xd3ee0018, 0x4220500], 0, ""),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[8:9]
    ("gfx90a", &[0xd3ef0008, 0x4120500], &[0xd3ef0008, 0x4220500], 4, "v8 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[10:17]
    ("gfx90a", &[0xd3cd0008, 0x4120500], &[0xd3ee0018, 0x42a0500], 9, "v10 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; ds_write_b32 v0, v5
    ("gfx942", &[0x6e0a0501], &[0xd81a0000, 0x500], 3, "v5 is used"),
    // v_dot2c_f32_f16 v5, v1, v2; v_dot4c_i32_i8 v5, v3, v2
    ("gfx942", &[0x6e0a0501], &[0x720a0503], 3, "v5 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[10:17]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd3ee0018, 0x42a0500], 9, "v10 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[8:15]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd3ee0018, 0x4220500], 0, ""),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[8:9]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd3ef0008, 0x4220500], 4, "v8 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[10:17]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3ee0018, 0x42a0500], 5, "v10 is used"),
    // v_mfma_f32_16x16x16f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f64_4x4x4f64 v[50:51], v[0:1], v[2:3], v[8:9]
    ("gfx942", &[0xd3cd0008, 0x4120500], &[0xd3ef0032, 0x4220500], 5, "v8 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f64_4x4x4f64 v[50:51], v[0:1], v[2:3], v[8:9]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3ef0032, 0x4220500], 8, "v8 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f64_16x16x4f64 v[24:31], v[0:1], v[2:3], v[10:17]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3ee0018, 0x42a0500], 8, "v10 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[8:9], v[2:3], v[4:7]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3ca0030, 0x4120508], 10, "v8 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; ds_write_b32 v0, v9
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd81a0000, 0x900], 10, "v9 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mov_b32 v9, v0
    ("gfx942", &[0xd3c50008, 0x4120300], &[0x7e120300], 10, "v9 is written"),
    // v_mfma_f64_4x4x4f64 v[8:9], v[0:1], v[2:3], v[4:5]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[8:11]
    ("gfx942", &[0xd3ef0008, 0x4120500], &[0xd3c20030, 0x4220300], 4, "v8 is used"),
    // v_mfma_f64_16x16x4f64 v[8:15], v[0:1], v[2:3], v[16:23]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[8:11]
    ("gfx942", &[0xd3ee0008, 0x4420500], &[0xd3c20030, 0x4220300], 9, "v8 is used"),
    // v_mfma_f32_4x4x4f16 v[8:11], v[0:1], v[2:3], v[4:7]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[8:11]
    ("gfx942", &[0xd3ca0008, 0x4120500], &[0xd3c20030, 0x4220300], 2, "v8 is used"),
    // v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[8:11]
    ("gfx942", &[0xd3c20008, 0x4120300], &[0xd3c20030, 0x4220300], 2, "v8 is used"),
    // v_mfma_f32_4x4x1f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x4f16 v[48:51], v[0:1], v[2:3], v[8:11]
    ("gfx942", &[0xd3c20008, 0x4120300], &[0xd3ca0030, 0x4220500], 2, "v8 is used"),
    // v_mfma_f32_16x16x4f32 v[8:11], v0, v1, v[4:7]; v_mfma_f32_4x4x1f32 v[48:51], v0, v1, v[8:11]
    ("gfx942", &[0xd3c50008, 0x4120300], &[0xd3c20030, 0x4220300], 0, ""),
    // v_mad_f16 v5, v1, v2, v3 op_sel:[0,0,0,1]; v_mad_f16 v5, v1, v2, v3 op_sel:[0,0,0,1]
    ("gfx942", &[0xd2034005, 0x40e0501], &[0xd2034005, 0x40e0501], 1, "v5 is written"),
];
