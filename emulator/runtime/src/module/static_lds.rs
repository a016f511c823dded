//! Which LDS objects each kernel of a module uses.
//!
//! `__shared__` variables of all kernels share one thread-local segment. What a block of one kernel has is what its
//! functions refer to: read from the relocations that the linker leaves in the image (`-Wl,-q`), from function to
//! function. A real compiler reports the same figure as `.group_segment_fixed_size`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use object::elf::{FileHeader64, R_X86_64_PC32, R_X86_64_PLT32, SHT_SYMTAB, STT_FUNC};
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{Endianness, elf};

/// LDS objects by function, and which function refers to which.
#[derive(Debug, Default)]
pub struct References {
    /// Addresses of functions as the image has them, by start.
    functions: BTreeMap<u64, Range<u64>>,
    calls: BTreeMap<u64, BTreeSet<u64>>,
    objects: BTreeMap<u64, BTreeSet<(u64, u64)>>,
}

impl References {
    /// Reads an image.
    ///
    /// # Errors
    /// If it is no ELF file or a broken one.
    pub fn read(image: &[u8]) -> object::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(image)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, image)?;
        let symbols = sections.symbols(endian, image, SHT_SYMTAB)?;
        let mut references = Self::default();
        for symbol in symbols.iter().filter(|symbol| symbol.st_type() == STT_FUNC) {
            let start = symbol.st_value(endian);
            references.functions.insert(start, start..start + symbol.st_size(endian));
        }
        for section in sections.iter() {
            let Some((relocations, _)) = section.rela(endian, image)? else { continue };
            for relocation in relocations {
                let Some(function) = references.function_at(relocation.r_offset(endian)) else { continue };
                let Some(index) = relocation.symbol(endian, false) else { continue };
                let symbol = symbols.symbol(index)?;
                match (symbol.st_type(), relocation.r_type(endian, false)) {
                    (elf::STT_TLS, _) => {
                        let object = (symbol.st_value(endian), symbol.st_size(endian));
                        references.objects.entry(function).or_default().insert(object);
                    }
                    // Relative to the end of the four bytes that hold it.
                    (STT_FUNC | elf::STT_SECTION, R_X86_64_PC32 | R_X86_64_PLT32) => {
                        let symbol_address = symbol.st_value(endian);
                        let target = symbol_address.wrapping_add_signed(relocation.r_addend(endian) + 4);
                        if let Some(callee) = references.function_at(target) {
                            references.calls.entry(function).or_default().insert(callee);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(references)
    }

    fn function_at(&self, address: u64) -> Option<u64> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        function.contains(&address).then_some(*start)
    }

    /// The objects that the function at `address` and all that it calls use: ranges of the thread-local segment.
    pub fn of_function(&self, address: u64) -> Vec<Range<usize>> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<_> = self.function_at(address).into_iter().collect();
        while let Some(function) = open.pop() {
            if reached.insert(function) {
                open.extend(self.calls.get(&function).into_iter().flatten());
            }
        }
        let objects: BTreeSet<_> = reached.iter().filter_map(|function| self.objects.get(function)).flatten().collect();
        objects.into_iter().map(|&(start, size)| start as usize..(start + size) as usize).collect()
    }
}
