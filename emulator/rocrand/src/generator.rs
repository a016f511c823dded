//! Generators.

use std::ffi::{c_int, c_ulonglong};

use api::amdhip64::hipStream_t;
use api::rocrand::*;
use candle_rocm_emulator_link::{Handles, note};

use crate::exports;
use crate::philox::Words;

/// rocRAND 4.2.0, as its header encodes it.
const VERSION: c_int = 4 * 100_000 + 2 * 100;

/// What a `rocrand_generator` stands for.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Where it puts its work.
    pub stream: hipStream_t,
    /// What it draws from.
    pub words: Words,
    seed: u64,
    offset: u64,
}

// SAFETY: a stream's handle is a number to us.
unsafe impl Send for Generator {}

static GENERATORS: Handles<Generator> = Handles::new();

/// Does something with a generator.
///
/// # Errors
/// `ROCRAND_STATUS_NOT_CREATED` if the handle is none.
pub fn with<T>(generator: rocrand_generator, body: impl FnOnce(&mut Generator) -> T) -> Result<T, rocrand_status> {
    GENERATORS.with(generator, body).ok_or(ROCRAND_STATUS_NOT_CREATED)
}

impl Generator {
    fn restart(&mut self) {
        self.words = Words::new(self.seed, self.offset);
    }
}

exports! {
    /// Makes a generator; whatever its pseudorandom type, it draws from Philox4x32-10.
    fn rocrand_create_generator(generator: *mut rocrand_generator, rng_type: rocrand_rng_type) {
        match rng_type {
            ROCRAND_RNG_PSEUDO_DEFAULT..=ROCRAND_RNG_PSEUDO_THREEFRY4_64_20 => {}
            ROCRAND_RNG_QUASI_DEFAULT..=ROCRAND_RNG_QUASI_SCRAMBLED_SOBOL64 => {
                note("rocrand_create_generator: quasirandom generators are not supported by the emulated device");
                return Err(ROCRAND_STATUS_TYPE_ERROR);
            }
            _ => return Err(ROCRAND_STATUS_TYPE_ERROR),
        }
        if generator.is_null() {
            return Err(ROCRAND_STATUS_NOT_CREATED);
        }
        let new = Generator { stream: std::ptr::null_mut(), words: Words::new(0, 0), seed: 0, offset: 0 };
        // SAFETY: the caller's pointer.
        unsafe { generator.write(GENERATORS.insert(new)) };
        Ok(())
    }

    /// Ends a generator; what it has to do is still done.
    fn rocrand_destroy_generator(generator: rocrand_generator) {
        GENERATORS.remove(generator).map(|_| ()).ok_or(ROCRAND_STATUS_NOT_CREATED)
    }

    /// Makes a generator ready; there is nothing to do.
    fn rocrand_initialize_generator(generator: rocrand_generator) {
        with(generator, |_| ())
    }

    /// Chooses the stream.
    fn rocrand_set_stream(generator: rocrand_generator, stream: hipStream_t) {
        with(generator, |generator| generator.stream = stream)
    }

    /// Chooses the sequence, which starts again.
    fn rocrand_set_seed(generator: rocrand_generator, seed: c_ulonglong) {
        with(generator, |generator| {
            generator.seed = seed;
            generator.restart();
        })
    }

    /// Chooses where the sequence starts, counted in words of 32 bits, and starts again.
    fn rocrand_set_offset(generator: rocrand_generator, offset: c_ulonglong) {
        with(generator, |generator| {
            generator.offset = offset;
            generator.restart();
        })
    }

    /// Chooses the order of results, of which there is one, and starts again.
    fn rocrand_set_ordering(generator: rocrand_generator, order: rocrand_ordering) {
        with(generator, Generator::restart)?;
        match order {
            ROCRAND_ORDERING_PSEUDO_BEST..=ROCRAND_ORDERING_PSEUDO_DYNAMIC => Ok(()),
            _ => Err(ROCRAND_STATUS_OUT_OF_RANGE),
        }
    }

    /// The version of rocRAND.
    fn rocrand_get_version(version: *mut c_int) {
        if version.is_null() {
            return Err(ROCRAND_STATUS_OUT_OF_RANGE);
        }
        // SAFETY: the caller's pointer.
        unsafe { version.write(VERSION) };
        Ok(())
    }
}
