//! The cards that can be emulated.

/// The figures of a card that a program can ask for.
///
/// Sources: ROCm's accelerator specifications (<https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html>).
#[derive(Debug)]
pub struct Model {
    /// The target of the compiler: "gfx1100".
    pub name: &'static str,
    /// What `hipDeviceProp_t::gcnArchName` says: the target with its features.
    pub architecture: &'static str,
    /// The name under which the card is sold.
    pub product: &'static str,
    /// `major` and `minor` of the device properties.
    pub version: (i32, i32),
    /// Lanes of a wave.
    pub wave_size: u32,
    /// What the runtime reports as multiprocessors: compute units, or workgroup processors on RDNA.
    pub multiprocessors: i32,
    /// Threads that one multiprocessor holds.
    pub threads_per_multiprocessor: i32,
    /// 32-bit registers that a block may use.
    pub registers_per_block: i32,
    /// Shader and memory clock in kHz, width of the memory bus in bits.
    pub clocks: (i32, i32, i32),
    /// Bytes of the last-level cache that the runtime reports as L2.
    pub l2_bytes: i32,
    /// Whether it multiplies f32 with factors of 10 bits after the point where it may: xf32.
    pub has_xf32: bool,
}

/// Bytes of LDS that a block may have, static and dynamic together: the same on every model.
pub const LDS_BYTES: usize = 64 << 10;
/// Threads that a block may have.
pub const MAX_THREADS: u32 = 1024;
/// Blocks that a grid may have in each dimension.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65536, 65536];

static MODELS: [Model; 3] = [
    Model {
        name: "gfx1100",
        architecture: "gfx1100",
        product: "AMD Radeon RX 7900 XTX (emulated)",
        version: (11, 0),
        wave_size: 32,
        multiprocessors: 48,
        threads_per_multiprocessor: 2048,
        registers_per_block: 65536,
        clocks: (2_482_000, 1_249_000, 384),
        l2_bytes: 6 << 20,
        has_xf32: false,
    },
    Model {
        name: "gfx90a",
        architecture: "gfx90a:sramecc+:xnack-",
        product: "AMD Instinct MI210 (emulated)",
        version: (9, 0),
        wave_size: 64,
        multiprocessors: 104,
        threads_per_multiprocessor: 2048,
        registers_per_block: 65536,
        clocks: (1_700_000, 1_600_000, 4096),
        l2_bytes: 8 << 20,
        has_xf32: false,
    },
    Model {
        name: "gfx942",
        architecture: "gfx942:sramecc+:xnack-",
        product: "AMD Instinct MI300X (emulated)",
        version: (9, 4),
        wave_size: 64,
        multiprocessors: 304,
        threads_per_multiprocessor: 2048,
        registers_per_block: 65536,
        clocks: (2_100_000, 1_300_000, 8192),
        l2_bytes: 4 << 20,
        has_xf32: true,
    },
];

impl Model {
    /// The model of that name, if there is one.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// The names of all models.
    pub fn names() -> Vec<&'static str> {
        MODELS.iter().map(|model| model.name).collect()
    }
}

/// A card of the machine, whether a process sees it or not.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// What it is.
    pub model: &'static Model,
    /// Counts the cards of the machine.
    pub number: usize,
}

impl PartialEq for Card {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Card {
    /// Sixteen characters that no other card has.
    pub fn identity(&self) -> String {
        format!("emulated-{:07}", self.number)
    }
}
