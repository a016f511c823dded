//! A kernel of a code object, and its launches.

use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSymbol};

use crate::Fault;
use crate::block::Block;
use crate::memory::Memory;
use crate::program::Program;
use crate::state::{BLOCK_X, BLOCK_YZ, Left, Wave, ones, others};

/// A code object, loaded.
#[derive(Debug)]
pub struct Code {
    bytes: Vec<u8>,
    program: Arc<Program>,
}

/// A kernel that can be launched.
#[derive(Clone, Debug)]
pub struct Kernel {
    program: Arc<Program>,
    entry: usize,
    lanes: usize,
    lds: usize,
    /// The bits that say which scalar registers are set at first.
    given: u16,
    /// How many scalar registers that are, and from bit 7 on which of the block's numbers stand behind them.
    resources: u32,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// All threads in each direction, where the last blocks have fewer.
    pub threads: Option<[u32; 3]>,
    /// Bytes of LDS beyond those that the kernel has.
    pub lds: usize,
    /// Where its arguments lie.
    pub arguments: u64,
    /// Where the packet lies that launches it.
    pub packet: u64,
    /// Instructions that a wave may execute from one barrier to the next: what takes longer does not end.
    pub patience: u64,
    /// Whether what depends on registers or LDS that nothing has written is an error.
    pub compares: bool,
}

impl Launch {
    /// The bytes of the packet, as far as kernels read it: the sizes of blocks and grid.
    pub fn packet_bytes(&self) -> [u8; 64] {
        let mut packet = [0; 64];
        for (place, count) in self.block.iter().enumerate() {
            packet[4 + 2 * place..6 + 2 * place].copy_from_slice(&(*count as u16).to_le_bytes());
        }
        let whole = [0, 1, 2].map(|axis| self.grid[axis] * self.block[axis]);
        for (place, threads) in self.threads.unwrap_or(whole).iter().enumerate() {
            packet[12 + 4 * place..16 + 4 * place].copy_from_slice(&threads.to_le_bytes());
        }
        packet
    }
}

/// Bits of a descriptor's properties, and the scalar registers that each stands for, in their order.
const GIVEN: [(u16, usize); 7] = [(0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)];
const PACKET: u16 = 1;
const ARGUMENTS: u16 = 3;
/// The bit that says that waves have 32 lanes.
const WAVE32: u16 = 10;

impl Code {
    /// The code object with these bytes, for a card.
    ///
    /// # Errors
    /// In words, if it is none.
    pub fn new(bytes: Vec<u8>, card: &str) -> Result<Self, String> {
        let file = object::File::parse(&*bytes).map_err(|error| error.to_string())?;
        let text = file.section_by_name(".text").ok_or("no section .text")?;
        let data = text.data().map_err(|error| error.to_string())?;
        let words = data.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
        let program = Program::new(card, text.address(), words.collect())?;
        Ok(Self { program: Arc::new(program), bytes })
    }

    /// What its kernels are made of.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// In words, if there is none.
    pub fn kernel(&self, name: &str) -> Result<Kernel, String> {
        let file = object::File::parse(&*self.bytes).map_err(|error| error.to_string())?;
        let descriptor = format!("{name}.kd");
        let found = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(&descriptor);
        let symbol = file.symbols().find(found).ok_or_else(|| format!("no kernel {name}"))?;
        let bytes = bytes_at(&file, symbol.address(), 64).ok_or("no descriptor")?;
        Ok(Kernel::new(Arc::clone(&self.program), symbol.address(), bytes.try_into().expect("64 bytes")))
    }
}

impl Kernel {
    /// The kernel whose descriptor has these bytes and this address, which counts as the program's addresses do.
    pub fn new(program: Arc<Program>, address: u64, descriptor: &[u8; 64]) -> Self {
        let word = |place: usize| u32::from_le_bytes(descriptor[place..place + 4].try_into().expect("4 bytes"));
        let given = u16::from_le_bytes([descriptor[56], descriptor[57]]);
        Self {
            entry: Self::entry(address, descriptor).wrapping_sub(program.start) as usize / 4,
            program,
            lanes: if given >> WAVE32 & 1 != 0 { 32 } else { 64 },
            lds: word(0) as usize,
            given,
            resources: word(52),
        }
    }

    /// The address of the first instruction. Where a card may have loaded arguments before a kernel begins, that is the
    /// code for cards that have not.
    pub fn entry(address: u64, descriptor: &[u8; 64]) -> u64 {
        address.wrapping_add_signed(i64::from_le_bytes(descriptor[16..24].try_into().expect("8 bytes")))
    }

    /// The code that it is part of.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Bytes of LDS that it has itself.
    pub fn lds(&self) -> usize {
        self.lds
    }

    /// Runs a launch, a block after another. Returns how many instructions were executed, each once for a wave.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn run(&self, launch: &Launch, memory: &mut dyn Memory) -> Result<u64, Fault> {
        let mut executed = 0;
        for z in 0..launch.grid[2] {
            for y in 0..launch.grid[1] {
                for x in 0..launch.grid[0] {
                    let place = [x, y, z];
                    let mut block = Block::new(&self.program, self.waves(launch, place, ones), self.lds + launch.lds);
                    block.patience = launch.patience;
                    if launch.compares {
                        block.compare_with(self.waves(launch, place, others));
                    }
                    block.run(memory)?;
                    executed += block.executed;
                }
            }
        }
        Ok(executed)
    }

    fn waves(&self, launch: &Launch, block: [u32; 3], left: impl Left) -> Vec<Wave> {
        let [width, height, depth] = launch.block.map(|count| count as usize);
        let threads = width * height * depth;
        let wave = |first: usize| {
            let mut wave = Wave::new(self.program.set, self.lanes, left);
            wave.place = self.entry;
            let count = (threads - first).min(self.lanes);
            wave.exec = u64::MAX >> (64 - count);
            for lane in 0..count {
                let thread = first + lane;
                let place =
                    [thread % width, thread / width % height, thread / width / height].map(|place| place as u32);
                wave.vectors[0][lane] = place[0] | place[1] << 10 | place[2] << 20;
                let is_there = |axis: usize| {
                    let number = block[axis] * launch.block[axis] + place[axis];
                    launch.threads.is_none_or(|threads| number < threads[axis])
                };
                if !(0..3).all(is_there) {
                    wave.exec &= !(1 << lane);
                }
            }
            // Lanes that are never on make no difference.
            if count < self.lanes {
                wave.vectors.iter_mut().for_each(|words| words[count..].fill(u32::MAX));
            }
            self.set_scalars(&mut wave, launch, block);
            wave
        };
        (0..threads).step_by(self.lanes).map(wave).collect()
    }

    fn set_scalars(&self, wave: &mut Wave, launch: &Launch, block: [u32; 3]) {
        let mut next = 0;
        for (bit, registers) in GIVEN {
            if self.given >> bit & 1 == 0 {
                continue;
            }
            let value = match bit {
                PACKET => launch.packet,
                ARGUMENTS => launch.arguments,
                _ => 0,
            };
            wave.scalars[next] = value as u32;
            if registers > 1 {
                wave.scalars[next + 1] = (value >> 32) as u32;
            }
            next += registers;
        }
        if self.program.set.name == "rdna4" {
            wave.traps[BLOCK_X] = block[0];
            wave.traps[BLOCK_YZ] = block[1] & 0xffff | block[2] << 16;
            return;
        }
        // The block's numbers stand behind all registers that the kernel has asked for.
        next = (self.resources >> 1 & 31) as usize;
        for (bit, number) in (7..).zip(block) {
            if self.resources >> bit & 1 != 0 {
                wave.scalars[next] = number;
                next += 1;
            }
        }
    }
}

fn bytes_at<'a>(file: &object::File<'a>, address: u64, length: u64) -> Option<&'a [u8]> {
    file.sections().find_map(|section| section.data_range(address, length).ok()?)
}
