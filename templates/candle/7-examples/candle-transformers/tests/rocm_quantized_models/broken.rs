//! Files that nothing can be read from: an error, and no memory of the GPU in use afterwards.
use crate::gguf::{File, Formats};
use crate::llama;
use candle::{Device, Result, RocmDevice};

/// No model can be loaded from what `change` makes of a whole file, and the attempt leaves nothing on the GPU.
fn assert_refused(what: &str, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
    let whole = llama::gguf(Formats::Q4_K_M)?.write()?;
    let mut bytes = std::fs::read(whole.path())?;
    // A stream of its own, so that other tests do not change its statistics.
    let rocm = RocmDevice::new_with_stream(0)?;
    let device = Device::Rocm(rocm.clone());
    drop(llama::load(whole.path(), &device)?);
    // rocBLAS keeps memory to work in.
    let before = rocm.memory_stats().allocated;
    let model = rocm.memory_stats().peak_allocated - before;
    assert!(model > bytes.len(), "only {model} bytes were on the GPU");

    change(&mut bytes);
    let broken = File::new();
    std::fs::write(broken.path(), &bytes)?;
    assert!(llama::load(broken.path(), &device).is_err(), "{what}");
    assert_eq!(rocm.memory_stats().allocated, before, "{what}");
    Ok(())
}

/// Where the tensor's format stands in the file: behind its name, the number of its dimensions, and these.
fn format_of(bytes: &[u8], name: &str) -> usize {
    let mut places = bytes.windows(name.len());
    let place = places.position(|found| found == name.as_bytes());
    place.expect("the tensor's name") + name.len() + 4 + 2 * 8
}

#[test]
fn a_file_that_ends_in_its_last_numbers() -> Result<()> {
    // Those are a norm of f32, and what is before it is of blocks.
    assert_refused("cut by a number", |bytes| bytes.truncate(bytes.len() - 4))
}

#[test]
fn a_file_that_ends_in_the_middle() -> Result<()> {
    assert_refused("cut in two", |bytes| bytes.truncate(bytes.len() / 2))
}

#[test]
fn a_file_that_ends_in_its_header() -> Result<()> {
    assert_refused("cut in a name", |bytes| bytes.truncate(40))
}

#[test]
fn a_file_of_something_else() -> Result<()> {
    assert_refused("wrong magic", |bytes| bytes[..4].copy_from_slice(b"GIF8"))
}

#[test]
fn a_format_that_nobody_knows() -> Result<()> {
    assert_refused("format 4095", |bytes| {
        let place = format_of(bytes, "blk.1.ffn_down.weight");
        assert_eq!(bytes[place..place + 4], 14u32.to_le_bytes());
        bytes[place..place + 4].copy_from_slice(&4095u32.to_le_bytes());
    })
}

#[test]
fn rows_that_are_no_whole_blocks() -> Result<()> {
    assert_refused("a row of 255", |bytes| {
        let place = format_of(bytes, "blk.1.attn_k.weight") - 2 * 8;
        assert_eq!(bytes[place..place + 8], 256u64.to_le_bytes());
        bytes[place..place + 8].copy_from_slice(&255u64.to_le_bytes());
    })
}
