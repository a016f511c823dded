//! What RDNA3 calls instructions that other sets have under another name. What they do is said under RDNA3's names.

use isa::table::{InstructionSet, Opcode};

/// CDNA's names, without those of encodings, and RDNA3's.
const OF_CDNA: &[(&str, &str)] = &[
    ("S_ANDN2_B32", "S_AND_NOT1_B32"),
    ("S_ANDN2_B64", "S_AND_NOT1_B64"),
    ("S_ANDN2_SAVEEXEC_B64", "S_AND_NOT1_SAVEEXEC_B64"),
    ("S_FF1_I32_B32", "S_CTZ_I32_B32"),
    ("S_FF1_I32_B64", "S_CTZ_I32_B64"),
    ("S_FLBIT_I32_B32", "S_CLZ_I32_U32"),
    ("S_ORN2_B32", "S_OR_NOT1_B32"),
    ("S_ORN2_B64", "S_OR_NOT1_B64"),
    ("V_ADDC_CO_U32", "V_ADD_CO_CI_U32"),
    ("V_ADD_U16", "V_ADD_NC_U16"),
    ("V_ADD_U32", "V_ADD_NC_U32"),
    ("V_FFBH_I32", "V_CLS_I32"),
    ("V_FFBH_U32", "V_CLZ_I32_U32"),
    ("V_FFBL_B32", "V_CTZ_I32_B32"),
    ("V_MAD_LEGACY_U16", "V_MAD_U16"),
    ("V_MAD_MIXHI_F16", "V_FMA_MIXHI_F16"),
    ("V_MAD_MIXLO_F16", "V_FMA_MIXLO_F16"),
    ("V_MAD_MIX_F32", "V_FMA_MIX_F32"),
    ("V_SUBBREV_CO_U32", "V_SUBREV_CO_CI_U32"),
    ("V_SUBB_CO_U32", "V_SUB_CO_CI_U32"),
    ("V_SUBREV_U16", "V_SUBREV_NC_U16"),
    ("V_SUBREV_U32", "V_SUBREV_NC_U32"),
    ("V_SUB_U16", "V_SUB_NC_U16"),
    ("V_SUB_U32", "V_SUB_NC_U32"),
];

/// RDNA4's names, likewise.
const OF_RDNA4: &[(&str, &str)] = &[
    ("S_ADD_CO_I32", "S_ADD_I32"),
    ("S_ADD_CO_U32", "S_ADD_U32"),
    ("S_ADD_CO_CI_U32", "S_ADDC_U32"),
    ("S_ADDK_CO_I32", "S_ADDK_I32"),
    ("S_SUB_CO_I32", "S_SUB_I32"),
    ("S_SUB_CO_U32", "S_SUB_U32"),
    ("S_SUB_CO_CI_U32", "S_SUBB_U32"),
    ("V_MAD_CO_U64_U32", "V_MAD_U64_U32"),
    ("V_MAX_NUM_F16", "V_MAX_F16"),
    ("V_MAX_NUM_F32", "V_MAX_F32"),
    ("V_MAX_NUM_F64", "V_MAX_F64"),
    ("V_MAX3_NUM_F32", "V_MAX3_F32"),
    ("V_MIN_NUM_F16", "V_MIN_F16"),
    ("V_MIN_NUM_F32", "V_MIN_F32"),
    ("V_MIN_NUM_F64", "V_MIN_F64"),
    ("V_MIN3_NUM_F32", "V_MIN3_F32"),
    ("V_PK_MAX_NUM_F16", "V_PK_MAX_F16"),
];

/// Parts of CDNA's names for instructions of memory and LDS, and RDNA3's. The first that fit count.
const OF_TRANSFERS: &[(&str, &str)] = &[
    ("DS_READ2ST64", "DS_LOAD_2ADDR_STRIDE64"),
    ("DS_READ2", "DS_LOAD_2ADDR"),
    ("DS_READ", "DS_LOAD"),
    ("DS_WRITE2ST64", "DS_STORE_2ADDR_STRIDE64"),
    ("DS_WRITE2", "DS_STORE_2ADDR"),
    ("DS_WRITE", "DS_STORE"),
    ("DWORDX16", "B512"),
    ("DWORDX8", "B256"),
    ("DWORDX4", "B128"),
    ("DWORDX3", "B96"),
    ("DWORDX2", "B64"),
    ("DWORD", "B32"),
    ("LOAD_UBYTE", "LOAD_U8"),
    ("LOAD_SBYTE", "LOAD_I8"),
    ("LOAD_USHORT", "LOAD_U16"),
    ("LOAD_SSHORT", "LOAD_I16"),
    ("LOAD_SHORT", "LOAD_B16"),
    ("STORE_BYTE", "STORE_B8"),
    ("STORE_SHORT", "STORE_B16"),
];

/// Atomic operations on memory, and the type that RDNA3 says as well.
const OF_ATOMICS: &[(&str, &str)] = &[
    ("ADD", "ADD_U"),
    ("SUB", "SUB_U"),
    ("SMIN", "MIN_I"),
    ("UMIN", "MIN_U"),
    ("SMAX", "MAX_I"),
    ("UMAX", "MAX_U"),
    ("AND", "AND_B"),
    ("OR", "OR_B"),
    ("XOR", "XOR_B"),
    ("SWAP", "SWAP_B"),
    ("CMPSWAP", "CMPSWAP_B"),
];

/// RDNA3's name for an instruction of a set, also for one of two in one; its own if RDNA3 has none.
pub fn usual(set: &InstructionSet, opcode: &Opcode) -> String {
    of_stem(set, &opcode.stem().replace("V_DUAL_", "V_"))
}

fn of_stem(set: &InstructionSet, name: &str) -> String {
    let renamed = match set.name {
        "rdna3" => &[],
        "rdna4" => OF_RDNA4,
        _ => OF_CDNA,
    };
    if let Some((_, usual)) = renamed.iter().find(|(own, _)| *own == name) {
        return (*usual).into();
    }
    if set.is_rdna() {
        return name.into();
    }
    if let Some((memory, operation)) = name.split_once("_ATOMIC_") {
        let (kind, bits) = operation.strip_suffix("_X2").map_or((operation, 32), |kind| (kind, 64));
        let usual = OF_ATOMICS.iter().find(|(own, _)| *own == kind);
        return usual.map_or(name.into(), |(_, usual)| format!("{memory}_ATOMIC_{usual}{bits}"));
    }
    if !["DS_", "S_LOAD_", "GLOBAL_", "FLAT_", "BUFFER_"].iter().any(|start| name.starts_with(start)) {
        return name.into();
    }
    OF_TRANSFERS.iter().fold(name.to_string(), |name, (own, usual)| name.replacen(own, usual, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_names_of_rdna3() {
        let cdna = isa::of_card("gfx942").expect("it has a set");
        for (own, expected) in [
            ("V_ADD_U32", "V_ADD_NC_U32"),
            ("V_ADD_F32", "V_ADD_F32"),
            ("DS_READ2ST64_B32", "DS_LOAD_2ADDR_STRIDE64_B32"),
            ("DS_READ2_B64", "DS_LOAD_2ADDR_B64"),
            ("DS_READ_U8", "DS_LOAD_U8"),
            ("DS_WRITE_B128", "DS_STORE_B128"),
            ("S_LOAD_DWORDX16", "S_LOAD_B512"),
            ("S_LOAD_DWORD", "S_LOAD_B32"),
            ("GLOBAL_LOAD_SSHORT", "GLOBAL_LOAD_I16"),
            ("GLOBAL_STORE_BYTE_D16_HI", "GLOBAL_STORE_B8_D16_HI"),
            ("GLOBAL_ATOMIC_UMAX", "GLOBAL_ATOMIC_MAX_U32"),
            ("GLOBAL_ATOMIC_ADD_X2", "GLOBAL_ATOMIC_ADD_U64"),
            ("GLOBAL_ATOMIC_ADD_F64", "GLOBAL_ATOMIC_ADD_F64"),
            ("FLAT_ATOMIC_CMPSWAP", "FLAT_ATOMIC_CMPSWAP_B32"),
            ("BUFFER_LOAD_DWORDX4", "BUFFER_LOAD_B128"),
            ("BUFFER_LOAD_SHORT_D16_HI", "BUFFER_LOAD_B16_D16_HI"),
            ("BUFFER_STORE_SHORT", "BUFFER_STORE_B16"),
        ] {
            assert_eq!(of_stem(cdna, own), expected);
        }
        let rdna = isa::of_card("gfx1100").expect("it has a set");
        assert_eq!(of_stem(rdna, "V_ADD_CO_U32"), "V_ADD_CO_U32");
        let newer = isa::of_card("gfx1201").expect("it has a set");
        assert_eq!(of_stem(newer, "S_ADD_CO_CI_U32"), "S_ADDC_U32");
    }
}
