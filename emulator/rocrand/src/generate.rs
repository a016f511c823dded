//! Numbers written to device memory.

use std::ffi::{c_uint, c_ulonglong};

use api::rocrand::*;
use candle_rocm_emulator_link::{Extent, enqueue, last_error, uses};
use element::Format;

use crate::distribution::{normal, uniform};
use crate::exports;
use crate::generator::with;
use crate::philox::Words;

/// A piece of output: its address and how many elements it has.
struct Output {
    address: usize,
    count: usize,
}

impl Output {
    fn new<T>(pointer: *mut T, count: usize) -> Self {
        Self { address: pointer.addr(), count }
    }
}

/// Puts the writing of elements of `size` bytes on the generator's stream, and moves the generator past the words that
/// they take. `write` gets the address of an element and the words for it.
fn draw(
    generator: rocrand_generator,
    function: &str,
    output: Output,
    size: usize,
    words_per_element: u64,
    write: impl Fn(usize, &mut Words) + Send + Sync + 'static,
) -> Result<(), rocrand_status> {
    let Output { address, count } = output;
    let (stream, words) = with(generator, |generator| {
        let now = (generator.stream, generator.words);
        generator.words.skip_words(count as u64 * words_per_element);
        now
    })?;
    if count == 0 {
        return Ok(());
    }
    let extent = Extent { address, bytes: count * size, writes: true };
    let what = format!("{function}, the output");
    let enqueued = enqueue(stream.cast(), function, move || {
        if uses(&what, &[extent]) {
            let mut words = words;
            (0..count).for_each(|index| write(address + index * size, &mut words));
        }
    });
    // The real library asks HIP for the last error after its launch, and takes an older one for its own.
    if enqueued == 0 && last_error() == 0 { Ok(()) } else { Err(ROCRAND_STATUS_LAUNCH_FAILURE) }
}

fn uniform_numbers(
    generator: rocrand_generator,
    function: &str,
    output: Output,
    format: Format,
) -> Result<(), rocrand_status> {
    let words = if format == Format::F64 { 2 } else { 1 };
    draw(generator, function, output, format.size(), words, move |address, words| {
        // SAFETY: the element lies in the extent, which was checked.
        unsafe { format.store(address, uniform(format, words)) };
    })
}

fn normal_numbers(
    generator: rocrand_generator,
    function: &str,
    output: Output,
    format: Format,
    [mean, deviation]: [f64; 2],
) -> Result<(), rocrand_status> {
    // Normal numbers are made in pairs
    // (<https://rocm.docs.amd.com/projects/rocRAND/en/latest/api-reference/cpp-api.html>, `rocrand_generate_normal`).
    if !output.count.is_multiple_of(2) {
        return Err(ROCRAND_STATUS_LENGTH_NOT_MULTIPLE);
    }
    draw(generator, function, output, format.size(), 4, move |address, words| {
        // SAFETY: as above.
        unsafe { format.store(address, mean + deviation * normal(words)) };
    })
}

fn of_half(value: half) -> f64 {
    // SAFETY: two bytes that are an f16.
    unsafe { Format::F16.load(value.bytes.as_ptr().addr()) }
}

exports! {
    /// Words of 32 bits.
    fn rocrand_generate(generator: rocrand_generator, output_data: *mut c_uint, n: usize) {
        draw(generator, "rocrand_generate", Output::new(output_data, n), 4, 1, |address, words| {
            // SAFETY: the element lies in the extent, which was checked.
            unsafe { (address as *mut u32).write_unaligned(words.word()) };
        })
    }

    /// Words of 64 bits.
    fn rocrand_generate_long_long(generator: rocrand_generator, output_data: *mut c_ulonglong, n: usize) {
        draw(generator, "rocrand_generate_long_long", Output::new(output_data, n), 8, 2, |address, words| {
            // SAFETY: as above.
            unsafe { (address as *mut u64).write_unaligned(words.double_word()) };
        })
    }

    /// Uniform f32 of (0, 1].
    fn rocrand_generate_uniform(generator: rocrand_generator, output_data: *mut f32, n: usize) {
        uniform_numbers(generator, "rocrand_generate_uniform", Output::new(output_data, n), Format::F32)
    }

    /// Uniform f64 of (0, 1].
    fn rocrand_generate_uniform_double(generator: rocrand_generator, output_data: *mut f64, n: usize) {
        uniform_numbers(generator, "rocrand_generate_uniform_double", Output::new(output_data, n), Format::F64)
    }

    /// Uniform f16 of (0, 1].
    fn rocrand_generate_uniform_half(generator: rocrand_generator, output_data: *mut half, n: usize) {
        uniform_numbers(generator, "rocrand_generate_uniform_half", Output::new(output_data, n), Format::F16)
    }

    /// Normal f32.
    fn rocrand_generate_normal(generator: rocrand_generator, output_data: *mut f32, n: usize, mean: f32, stddev: f32) {
        let shape = [f64::from(mean), f64::from(stddev)];
        normal_numbers(generator, "rocrand_generate_normal", Output::new(output_data, n), Format::F32, shape)
    }

    /// Normal f64.
    fn rocrand_generate_normal_double(
        generator: rocrand_generator,
        output_data: *mut f64,
        n: usize,
        mean: f64,
        stddev: f64,
    ) {
        let output = Output::new(output_data, n);
        normal_numbers(generator, "rocrand_generate_normal_double", output, Format::F64, [mean, stddev])
    }

    /// Normal f16.
    fn rocrand_generate_normal_half(
        generator: rocrand_generator,
        output_data: *mut half,
        n: usize,
        mean: half,
        stddev: half,
    ) {
        let output = Output::new(output_data, n);
        let shape = [of_half(mean), of_half(stddev)];
        normal_numbers(generator, "rocrand_generate_normal_half", output, Format::F16, shape)
    }
}
