//! `execute CARD FILE KERNEL GRID BLOCK LDS ARGUMENTS [ADDRESS=FILE ..]` runs a kernel on memory that files hold, and writes
//! the memory back. GRID and BLOCK are three numbers with commas between them, ARGUMENTS are hexadecimal digits.

use std::process::ExitCode;
use std::{env, fs};

use wave::kernel::{Code, Launch};
use wave::memory::Regions;

/// Where arguments and packet lie.
const ARGUMENTS: u64 = 0x1000;
const PACKET: u64 = 0x8000;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match execute(&arguments) {
        Ok(executed) => {
            println!("{executed} instructions");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(arguments: &[String]) -> Result<u64, Box<dyn std::error::Error>> {
    let [card, file, name, grid, block, lds, given, regions @ ..] = arguments else {
        return Err("usage: execute CARD FILE KERNEL GRID BLOCK LDS ARGUMENTS [ADDRESS=FILE ..]".into());
    };
    let kernel = Code::new(fs::read(file)?, card)?.kernel(name)?;
    let (grid, block) = (three(grid)?, three(block)?);
    let launch = Launch { grid, block, threads: None, lds: lds.parse()?, arguments: ARGUMENTS, packet: PACKET };
    let mut memory = Regions::default();
    memory.add(ARGUMENTS, bytes(given)?);
    memory.add(PACKET, launch.packet_bytes().to_vec());
    let mut files = Vec::new();
    for region in regions {
        let (address, file) = region.split_once('=').ok_or("a region is ADDRESS=FILE")?;
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
        memory.add(address, fs::read(file)?);
        files.push((address, file));
    }
    let executed = kernel.run(&launch, &mut memory)?;
    for (address, file) in files {
        fs::write(file, memory.at(address).ok_or("the region is lost")?)?;
    }
    Ok(executed)
}

fn three(text: &str) -> Result<[u32; 3], Box<dyn std::error::Error>> {
    let numbers: Vec<u32> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    numbers.try_into().map_err(|_| format!("{text} is not three numbers").into())
}

fn bytes(digits: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let pairs = (0..digits.len()).step_by(2);
    let byte = |place: usize| u8::from_str_radix(digits.get(place..place + 2).unwrap_or("?"), 16);
    Ok(pairs.map(byte).collect::<Result<_, _>>()?)
}
