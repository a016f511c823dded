//! AMD's instruction sets, as far as the cards of this project have them: decoding machine code, and its text.
//!
//! Formats, fields and opcodes are tables, which `codegen.amdgpu` makes of AMD's documents when this is built.

pub mod constants;
pub mod decode;
pub mod operand;
pub mod table;
pub mod text;

mod rdna3 {
    use crate::table::*;
    include!(env!("TABLE_RDNA3"));
}

mod rdna4 {
    use crate::table::*;
    include!(env!("TABLE_RDNA4"));
}

mod cdna2 {
    use crate::table::*;
    include!(env!("TABLE_CDNA2"));
}

mod cdna3 {
    use crate::table::*;
    include!(env!("TABLE_CDNA3"));
}

/// The instruction set of a card: "gfx1100".
pub fn of_card(card: &str) -> Option<&'static table::InstructionSet> {
    match card {
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1151" => Some(&rdna3::SET),
        "gfx1200" | "gfx1201" => Some(&rdna4::SET),
        "gfx90a" => Some(&cdna2::SET),
        "gfx942" => Some(&cdna3::SET),
        _ => None,
    }
}
