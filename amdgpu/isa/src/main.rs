//! `disassemble CARD LANES FILE` writes the instructions of a code object: place, bytes and text of each, a line each.

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::{env, fs, io};

use object::{Object, ObjectSection};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [card, lanes, file] = &arguments[..] else {
        eprintln!("usage: disassemble CARD LANES FILE");
        return ExitCode::from(2);
    };
    match disassemble(card, lanes, file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn disassemble(card: &str, lanes: &str, file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let set = isa::of_card(card).ok_or("no instruction set of that card")?;
    let lanes: u32 = lanes.parse()?;
    let bytes = fs::read(file)?;
    let object = object::File::parse(&*bytes)?;
    let section = object.section_by_name(".text").ok_or("no section .text")?;
    let data = section.data()?;
    let words: Vec<_> =
        data.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut place = 0;
    while place < words.len() {
        let address = section.address() + 4 * place as u64;
        let length = match isa::decode::decode(set, &words[place..]) {
            Ok(found) => {
                writeln!(out, "{address:x} {} {}", found.bytes, isa::text::text(set, &found, lanes))?;
                found.bytes / 4
            }
            Err(unknown) => {
                writeln!(out, "{address:x} 4 {unknown}")?;
                1
            }
        };
        place += length;
    }
    Ok(())
}
