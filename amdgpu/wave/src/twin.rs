//! What a kernel makes of registers and LDS that nothing has written. A wave has a twin, for which other things were left
//! there. Where the two would store something else, use another address or go on elsewhere, the kernel depends on what
//! was left, and that is an error. What a value is made of does not matter, if it comes out the same.
//!
//! The twin only does what uses registers that differ; of all others it has no values of its own.

use crate::block::execute;
use crate::memory::Memory;
use crate::program::{Program, Step};
use crate::registers::{Register, Registers};
use crate::role::Role;
use crate::state::Wave;
use crate::vector::Done;

/// The twin of a wave.
#[derive(Debug)]
pub struct Twin {
    wave: Wave,
    /// Those whose values the twin has itself.
    differing: Registers,
    /// Whether the masks and bits differ that instructions use without naming them.
    differs_unnamed: bool,
    /// What the wave's instruction at hand has read and written.
    accesses: Vec<Access>,
}

/// Bytes that were read or written.
#[derive(Clone, Copy, Debug)]
struct Access {
    address: u64,
    count: usize,
    bytes: [u8; 64],
    writes: bool,
}

impl Twin {
    /// Of a wave and what it would be if something else had been left in its registers.
    pub fn new(wave: &Wave, other: Wave) -> Self {
        let vectors = (0..wave.vectors.len()).map(Register::Vector);
        let scalars = (0..wave.scalars.len()).map(Register::Scalar);
        let differing = vectors.chain(scalars).filter(|register| !same(*register, wave, &other)).collect();
        Self { wave: other, differing, differs_unnamed: false, accesses: Vec::new() }
    }

    /// Executes an instruction for the wave, and for the twin where that may make a difference.
    ///
    /// # Errors
    /// What is wrong with the instruction, or what depends on something that was left.
    pub fn execute<'a>(
        &mut self,
        (program, step): (&Program, &Step),
        wave: &mut Wave,
        (lds, left): (&'a mut (dyn Memory + 'a), &mut [u8]),
        memory: &'a mut (dyn Memory + 'a),
    ) -> Done {
        let concerns_lds = matches!(step.role, Role::Lds);
        let unnamed = self.differs_unnamed && !matches!(step.role, Role::Nothing);
        if !concerns_lds && !unnamed && step.touched.both(self.differing).is_empty() {
            return execute(program, step, wave, lds, memory);
        }
        self.follow(wave, step.touched);
        let run = |wave: &mut Wave, memory: &mut dyn Memory| match step.role {
            Role::Lds => execute(program, step, wave, memory, &mut Nothing),
            _ => execute(program, step, wave, &mut Nothing, memory),
        };
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.clear();
        let memory = if concerns_lds { lds } else { memory };
        run(wave, &mut Seen { memory, accesses: &mut accesses })?;
        let same = Same { accesses: accesses.iter() };
        let done = match step.role {
            Role::Lds => run(&mut self.wave, &mut OwnLds { bytes: left, same }),
            _ => run(&mut self.wave, &mut { same }),
        };
        self.accesses = accesses;
        let done = done.and_then(|()| self.compare(wave, step.touched));
        done.map_err(|what| {
            let found = self.blamed(wave, step);
            format!("{what} depends on registers or LDS that nothing has written (here: {found})")
        })
    }

    /// Takes over what does not differ.
    fn follow(&mut self, wave: &Wave, touched: Registers) {
        for register in touched.without(self.differing).iter() {
            copy(register, wave, &mut self.wave);
        }
        (self.wave.exec, self.wave.place) = (wave.exec, wave.place);
        if !self.differs_unnamed {
            (self.wave.vcc, self.wave.scc, self.wave.m0) = (wave.vcc, wave.scc, wave.m0);
        }
    }

    /// Notes what differs now.
    fn compare(&mut self, wave: &Wave, touched: Registers) -> Done {
        let other = &self.wave;
        if other.place != wave.place {
            return Err("where it goes on".into());
        }
        if other.exec != wave.exec {
            return Err("which lanes are on".into());
        }
        let differing = touched.iter().filter(|register| !same(*register, wave, other)).collect();
        self.differing = self.differing.without(touched).with(differing);
        self.differs_unnamed = (other.vcc, other.scc, other.m0) != (wave.vcc, wave.scc, wave.m0);
        Ok(())
    }

    /// The first register that the instruction uses and that differs, and the first lane in which it does.
    fn blamed(&self, wave: &Wave, step: &Step) -> String {
        let lane = |register: &Register| match register {
            Register::Vector(number) => {
                wave.on().find(|lane| wave.vectors[*number][*lane] != self.wave.vectors[*number][*lane])
            }
            _ => None,
        };
        let differing = step.awaited.used.both(self.differing);
        let mut vectors = differing.iter().filter_map(|register| Some((register, lane(&register)?)));
        if let Some((register, lane)) = vectors.next() {
            return format!("lane {lane} of {register}");
        }
        let scalar = differing.iter().find(|register| !matches!(register, Register::Vector(_)));
        scalar.map_or_else(|| "a mask or LDS".into(), |register| register.to_string())
    }
}

fn same(register: Register, wave: &Wave, other: &Wave) -> bool {
    match register {
        Register::Vector(number) => wave.vectors[number] == other.vectors[number],
        Register::Scalar(number) => wave.scalars[number] == other.scalars[number],
        Register::Mask(_) => wave.vcc == other.vcc,
    }
}

fn copy(register: Register, wave: &Wave, other: &mut Wave) {
    match register {
        Register::Vector(number) => other.vectors[number] = wave.vectors[number],
        Register::Scalar(number) => other.scalars[number] = wave.scalars[number],
        Register::Mask(_) => {}
    }
}

/// Memory whose accesses are noted.
struct Seen<'a> {
    memory: &'a mut dyn Memory,
    accesses: &'a mut Vec<Access>,
}

impl Seen<'_> {
    fn note(&mut self, address: u64, bytes: &[u8], writes: bool) {
        let mut access = Access { address, count: bytes.len(), bytes: [0; 64], writes };
        access.bytes[..bytes.len()].copy_from_slice(bytes);
        self.accesses.push(access);
    }
}

impl Memory for Seen<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Done {
        self.memory.read(address, bytes)?;
        self.note(address, bytes, false);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Done {
        self.memory.write(address, bytes)?;
        self.note(address, bytes, true);
        Ok(())
    }

    fn set_atomic(&mut self, is_atomic: bool) {
        self.memory.set_atomic(is_atomic);
    }
}

/// Memory that no instruction uses.
struct Nothing;

impl Memory for Nothing {
    fn read(&mut self, address: u64, _: &mut [u8]) -> Done {
        self.write(address, &[])
    }

    fn write(&mut self, address: u64, _: &[u8]) -> Done {
        Err(format!("an access to {address:#x} was not expected"))
    }
}

/// Memory in which the twin finds what the wave has found, and may write nothing else.
struct Same<'a> {
    accesses: std::slice::Iter<'a, Access>,
}

impl<'a> Same<'a> {
    /// The access of the wave that the twin's has to be like.
    fn next(&mut self, address: u64, count: usize, writes: bool) -> Result<&'a Access, String> {
        let like = |access: &&Access| access.address == address && access.count == count && access.writes == writes;
        self.accesses.next().filter(like).ok_or_else(|| "an address".into())
    }
}

impl Memory for Same<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Done {
        let access = self.next(address, bytes.len(), false)?;
        bytes.copy_from_slice(&access.bytes[..bytes.len()]);
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Done {
        let access = self.next(address, bytes.len(), true)?;
        if access.bytes[..bytes.len()] == *bytes { Ok(()) } else { Err("what is stored".into()) }
    }
}

/// LDS of the twins of a block: the same addresses, values of its own.
struct OwnLds<'a> {
    bytes: &'a mut [u8],
    same: Same<'a>,
}

impl Memory for OwnLds<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Done {
        let access = self.same.next(address, bytes.len(), false)?;
        let place = address as usize;
        // Far beyond its end are zeros for both.
        let own = self.bytes.get(place..place + bytes.len());
        bytes.copy_from_slice(own.unwrap_or(&access.bytes[..bytes.len()]));
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Done {
        self.same.next(address, bytes.len(), true)?;
        let place = address as usize;
        self.bytes[place..place + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}
