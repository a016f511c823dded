//! What a code object says of its kernels' parameters
//! (<https://llvm.org/docs/AMDGPUUsage.html#code-object-v5-metadata>): a map in MessagePack, in a note of an ELF file.
use std::collections::HashMap;
use std::sync::Arc;

const ELF: &[u8] = b"\x7fELF\x02\x01";
/// A program header for notes.
const NOTES: u32 = 4;
const NOTE_NAME: &[u8] = b"AMDGPU\0";
const NOTE_METADATA: u32 = 32;
/// Deeper than the metadata goes.
const MAX_DEPTH: usize = 16;

/// What a kernel takes in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// In bytes.
    pub(crate) size: usize,
    /// Whether it is the address of memory on the device.
    pub(crate) is_memory: bool,
}

/// The parameters of each kernel by its name, without those that the runtime fills in; None where the code does not say
/// so in AMD's way, as a bundle of code objects and the code of other devices.
pub(super) fn parameters(code: &[u8]) -> Option<HashMap<String, Arc<[Parameter]>>> {
    let metadata = Reader(note(code)?).value(0)?;
    let kernels = metadata.get("amdhsa.kernels")?.items()?;
    let described = kernels.iter().map(|kernel| {
        let name = kernel.get(".name")?.text()?.to_string();
        // A kernel without any has no list.
        let arguments = match kernel.get(".args") {
            Some(arguments) => arguments.items()?,
            None => &[],
        };
        let described = arguments.iter().map(|argument| {
            let kind = argument.get(".value_kind")?.text()?;
            let size = usize::try_from(argument.get(".size")?.number()?).ok()?;
            let is_memory = kind == "global_buffer";
            Some((!kind.starts_with("hidden_")).then_some(Parameter { size, is_memory }))
        });
        let described: Option<Vec<Option<Parameter>>> = described.collect();
        Some((name, described?.into_iter().flatten().collect()))
    });
    described.collect()
}

/// The bytes of the metadata.
fn note(code: &[u8]) -> Option<&[u8]> {
    if !code.starts_with(ELF) {
        return None;
    }
    let start = usize::try_from(u64_at(code, 32)?).ok()?;
    let start = (start < code.len()).then_some(start)?;
    let (size, count) = (u16_at(code, 54)?, u16_at(code, 56)?);
    let headers = (0..usize::from(count)).map(|i| start + i * usize::from(size));
    let found = headers.filter(|header| u32_at(code, *header) == Some(NOTES));
    found.into_iter().find_map(|header| {
        let offset = usize::try_from(u64_at(code, header + 8)?).ok()?;
        let size = usize::try_from(u64_at(code, header + 32)?).ok()?;
        metadata_in(code.get(offset..offset.checked_add(size)?)?)
    })
}

fn metadata_in(mut notes: &[u8]) -> Option<&[u8]> {
    while !notes.is_empty() {
        let (name_size, size) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let kind = u32_at(notes, 8)?;
        let name = notes.get(12..12 + name_size)?;
        let start = 12 + name_size.next_multiple_of(4);
        let description = notes.get(start..start + size)?;
        if (name, kind) == (NOTE_NAME, NOTE_METADATA) {
            return Some(description);
        }
        notes = notes
            .get(start + size.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    None
}

fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    let found = bytes.get(place..)?.first_chunk()?;
    Some(u16::from_le_bytes(*found))
}

fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    let found = bytes.get(place..)?.first_chunk()?;
    Some(u32::from_le_bytes(*found))
}

fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    let found = bytes.get(place..)?.first_chunk()?;
    Some(u64::from_le_bytes(*found))
}

/// A value in MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>).
#[derive(Debug)]
enum Value<'a> {
    Number(u64),
    Text(&'a str),
    Items(Vec<Value<'a>>),
    Entries(Vec<(Value<'a>, Value<'a>)>),
    /// Of a kind that is not looked into.
    Other,
}

impl<'a> Value<'a> {
    fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Self::Entries(entries) = self else {
            return None;
        };
        let found = entries.iter().find(|(found, _)| found.text() == Some(key));
        found.map(|(_, value)| value)
    }

    fn items(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Items(items) => Some(items),
            _ => None,
        }
    }

    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(found)
    }

    /// A number of so many bytes, the first one the most significant.
    fn big_endian(&mut self, count: usize) -> Option<u64> {
        let bytes = self.bytes(count)?.iter();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn length(&mut self, count: usize) -> Option<usize> {
        usize::try_from(self.big_endian(count)?).ok()
    }

    fn text(&mut self, length: usize) -> Option<Value<'a>> {
        let text = std::str::from_utf8(self.bytes(length)?).ok()?;
        Some(Value::Text(text))
    }

    fn items(&mut self, length: usize, depth: usize) -> Option<Value<'a>> {
        let items = (0..length).map(|_| self.value(depth + 1));
        Some(Value::Items(items.collect::<Option<_>>()?))
    }

    fn entries(&mut self, length: usize, depth: usize) -> Option<Value<'a>> {
        let entries = (0..length).map(|_| Some((self.value(depth + 1)?, self.value(depth + 1)?)));
        Some(Value::Entries(entries.collect::<Option<_>>()?))
    }

    fn skipped(&mut self, count: usize) -> Option<Value<'a>> {
        self.bytes(count)?;
        Some(Value::Other)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let [first] = *self.bytes(1)?.first_chunk()?;
        match first {
            0x00..=0x7f => Some(Value::Number(first.into())),
            0x80..=0x8f => self.entries(usize::from(first & 0xf), depth),
            0x90..=0x9f => self.items(usize::from(first & 0xf), depth),
            0xa0..=0xbf => self.text(usize::from(first & 0x1f)),
            0xcc..=0xcf => Some(Value::Number(self.big_endian(1 << (first - 0xcc))?)),
            0xd9..=0xdb => {
                let length = self.length(1 << (first - 0xd9))?;
                self.text(length)
            }
            0xdc | 0xdd => {
                let length = self.length(2 << (first - 0xdc))?;
                self.items(length, depth)
            }
            0xde | 0xdf => {
                let length = self.length(2 << (first - 0xde))?;
                self.entries(length, depth)
            }
            0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Some(Value::Other),
            0xca => self.skipped(4),
            0xcb => self.skipped(8),
            0xd0..=0xd3 => self.skipped(1 << (first - 0xd0)),
            0xc4..=0xc6 => {
                let length = self.length(1 << (first - 0xc4))?;
                self.skipped(length)
            }
            // Extensions, which the metadata has none of.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let length = u8::try_from(text.len()).expect("a short text");
        let head = if length < 32 {
            vec![0xa0 | length]
        } else {
            vec![0xd9, length]
        };
        [head, text.as_bytes().to_vec()].concat()
    }

    fn items(items: &[Vec<u8>]) -> Vec<u8> {
        let length = u8::try_from(items.len()).expect("few items");
        [vec![0xdc, 0, length], items.concat()].concat()
    }

    fn entries(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let length = u8::try_from(entries.len()).expect("few entries");
        let written = entries
            .iter()
            .map(|(key, value)| [text(key), value.clone()].concat());
        [vec![0x80 | length], written.collect::<Vec<_>>().concat()].concat()
    }

    fn argument(kind: &str, size: u8) -> Vec<u8> {
        // Also what is not looked into: nothing, a signed number, a float, bytes.
        let further = [
            vec![0xc0],
            vec![0xd1, 1, 2],
            vec![0xca, 0, 0, 0, 0],
            vec![0xc4, 1, 7],
        ];
        entries(&[
            (".offset", vec![0xcd, 1, 0]),
            (".further", items(&further)),
            (".size", vec![size]),
            (".value_kind", text(kind)),
        ])
    }

    fn kernel(name: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut described = vec![
            (".name", text(name)),
            (".symbol", text(&format!("{name}.kd"))),
        ];
        if !arguments.is_empty() {
            described.push((".args", items(arguments)));
        }
        entries(&described)
    }

    fn metadata(kernels: &[Vec<u8>]) -> Vec<u8> {
        entries(&[
            (
                "amdhsa.target",
                text("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"),
            ),
            ("amdhsa.kernels", items(kernels)),
        ])
    }

    fn note_of(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let padded = |bytes: &[u8]| {
            [
                bytes,
                &vec![0; bytes.len().next_multiple_of(4) - bytes.len()],
            ]
            .concat()
        };
        let sizes = [name.len() as u32, description.len() as u32, kind];
        let head = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        [head, padded(name), padded(description)].concat()
    }

    /// An ELF file with a program header of another kind, and one for these notes.
    fn object(notes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 56];
        file[..6].copy_from_slice(ELF);
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&2u16.to_le_bytes());
        file[64..68].copy_from_slice(&1u32.to_le_bytes());
        let (header, start) = (64 + 56, file.len() as u64);
        file[header..header + 4].copy_from_slice(&NOTES.to_le_bytes());
        file[header + 8..header + 16].copy_from_slice(&start.to_le_bytes());
        file[header + 32..header + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        [file, notes.to_vec()].concat()
    }

    fn described() -> Vec<u8> {
        let add = [
            argument("global_buffer", 8),
            argument("by_value", 4),
            argument("hidden_block_count_x", 4),
        ];
        metadata(&[kernel("add", &add), kernel("nothing", &[])])
    }

    #[test]
    fn kernels_say_what_they_take() {
        let other = note_of(b"GNU\0", 3, b"build");
        let own = note_of(NOTE_NAME, NOTE_METADATA, &described());
        let found = parameters(&object(&[other, own].concat())).expect("metadata");
        let parameter = |size, is_memory| Parameter { size, is_memory };
        assert_eq!(found.len(), 2);
        assert_eq!(found["add"][..], [parameter(8, true), parameter(4, false)]);
        assert_eq!(found["nothing"][..], []);
    }

    #[test]
    fn what_is_no_such_code_says_nothing() {
        let own = object(&note_of(NOTE_NAME, NOTE_METADATA, &described()));
        assert!(parameters(&own).is_some());
        // Cut anywhere, it is no error.
        for length in 0..own.len() - 1 {
            assert!(parameters(&own[..length]).is_none(), "{length} bytes");
        }
        for notes in [
            vec![],
            note_of(b"GNU\0", NOTE_METADATA, &described()),
            vec![0xff; 40],
        ] {
            assert!(parameters(&object(&notes)).is_none());
        }
        assert!(parameters(b"__CLANG_OFFLOAD_BUNDLE__").is_none());
        // Deeper than anything that AMD writes.
        let deep = [vec![0x91; 100], vec![0]].concat();
        assert!(parameters(&object(&note_of(NOTE_NAME, NOTE_METADATA, &deep))).is_none());
    }
}
