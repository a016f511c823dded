//! Names of kernels, from the code object that ROCr has copied into the GPU's memory with its first segment.

use crate::memory::Window;
use crate::packet::{number, word};

/// What the name of a kernel's descriptor ends with.
const DESCRIPTOR: &str = ".kd";
const MAGIC: [u8; 4] = *b"\x7fELF";
/// Bytes of a header of a segment, of a dynamic entry, and of a symbol.
const SEGMENT: u64 = 56;
const ENTRY: u64 = 16;
const SYMBOL: u64 = 24;
/// The kind of the segment with dynamic entries.
const DYNAMIC: u32 = 2;
/// Tags of dynamic entries.
const END: u64 = 0;
const HASH: u64 = 4;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
/// More of them are no table, but something else that lies there.
const MOST: u64 = 1 << 16;
/// Bytes that a name has at most.
const LONGEST: u64 = 4096;

/// The name of the kernel whose descriptor lies at an address; none where nothing there has names, as AMD's own copies.
pub fn kernel_name(descriptor: u64, window: &mut Window) -> Option<String> {
    let (base, _) = window.around(descriptor).ok()?;
    let header: [u8; 64] = window.number(base).ok()?;
    if header[..4] != MAGIC {
        return None;
    }
    let table = Table::of(base, &header, window)?;
    (0..table.count).find_map(|index| {
        let symbol: [u8; SYMBOL as usize] = window.number(base + table.symbols + index * SYMBOL).ok()?;
        let (name, value) = (word(&symbol, 0), number(&symbol, 8));
        if value != descriptor - base || name == 0 {
            return None;
        }
        let name = text(base + table.strings + u64::from(name), window)?;
        name.strip_suffix(DESCRIPTOR).map(str::to_owned)
    })
}

/// Where symbols and their names lie behind the first byte.
struct Table {
    symbols: u64,
    strings: u64,
    count: u64,
}

impl Table {
    fn of(base: u64, header: &[u8; 64], window: &mut Window) -> Option<Self> {
        let first = number(header, 32);
        let segments = u64::from(word(header, 56) as u16);
        let dynamic = (0..segments).find_map(|index| {
            let segment: [u8; SEGMENT as usize] = window.number(base + first + index * SEGMENT).ok()?;
            (word(&segment, 0) == DYNAMIC).then(|| number(&segment, 16))
        })?;
        let (mut symbols, mut strings, mut hash) = (None, None, None);
        for index in 0..MOST {
            let entry: [u8; ENTRY as usize] = window.number(base + dynamic + index * ENTRY).ok()?;
            let value = number(&entry, 8);
            match number(&entry, 0) {
                END => break,
                HASH => hash = Some(value),
                STRINGS => strings = Some(value),
                SYMBOLS => symbols = Some(value),
                _ => {}
            }
        }
        // The hash table begins with the numbers of its buckets and of symbols.
        let count = u32::from_le_bytes(window.number(base + hash? + 4).ok()?);
        let count = u64::from(count).min(MOST);
        Some(Self { symbols: symbols?, strings: strings?, count })
    }
}

/// What lies there up to a zero.
fn text(address: u64, window: &mut Window) -> Option<String> {
    let mut bytes = vec![];
    for place in address..address + LONGEST {
        match window.number::<1>(place).ok()? {
            [0] => return String::from_utf8(bytes).ok(),
            [byte] => bytes.push(byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::Allocations;

    const AT: u64 = 0x1000;

    /// A code object as ROCr copies it, with descriptors at 0x300 and 0x340, and a symbol that is no descriptor.
    fn code_object() -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        let mut put = |place: usize, content: &[u8]| bytes[place..place + content.len()].copy_from_slice(content);
        put(0, &MAGIC);
        put(32, &64u64.to_le_bytes());
        put(56, &2u16.to_le_bytes());
        put(64, &1u32.to_le_bytes());
        put(64 + 56, &DYNAMIC.to_le_bytes());
        put(64 + 56 + 16, &0x100u64.to_le_bytes());
        for (number, (tag, value)) in
            [(HASH, 0x180u64), (SYMBOLS, 0x200), (STRINGS, 0x280), (END, 0)].iter().enumerate()
        {
            put(0x100 + 16 * number, &tag.to_le_bytes());
            put(0x108 + 16 * number, &value.to_le_bytes());
        }
        put(0x184, &4u32.to_le_bytes());
        put(0x280, b"\0scale_f32.kd\0fill_f32.kd\0other\0");
        for (number, (name, value)) in [(27u32, 0x380u64), (1, 0x300), (14, 0x340)].iter().enumerate() {
            let place = 0x200 + 24 * (number + 1);
            put(place, &name.to_le_bytes());
            put(place + 8, &value.to_le_bytes());
        }
        bytes
    }

    fn named(object: &[u8], descriptor: u64) -> Option<String> {
        let allocations = Arc::new(Allocations::default());
        allocations.set(AT, object.len() as u64);
        let base = (object.as_ptr().expose_provenance() as u64).wrapping_sub(AT);
        kernel_name(AT + descriptor, &mut Window::new(base, allocations))
    }

    #[test]
    fn a_descriptor_has_the_name_of_its_symbol() {
        let object = code_object();
        assert_eq!(named(&object, 0x300).as_deref(), Some("scale_f32"));
        assert_eq!(named(&object, 0x340).as_deref(), Some("fill_f32"));
        assert_eq!(named(&object, 0x380), None);
        assert_eq!(named(&object, 0x3c0), None);
    }

    #[test]
    fn what_is_no_code_object_has_no_names() {
        let mut object = code_object();
        object[0] = 0;
        assert_eq!(named(&object, 0x300), None);
        let mut object = code_object();
        object[0x180 + 4..0x188].copy_from_slice(&u32::MAX.to_le_bytes());
        object[0x200..0x280].fill(0xff);
        assert_eq!(named(&object, 0x300), None);
        let object = &code_object()[..0x240];
        assert_eq!(named(object, 0x200), None);
    }
}
