//! GGUF and GGML files on a ROCm device: what is in them arrives, and nothing stays behind of what is wrong with them.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::ggml_file::{self, qtensor_from_ggml};
use candle_core::quantized::gguf_file::Content;
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::rocm::is_available;
use candle_core::{Device, Result, RocmDevice};
use std::io::{Cursor, Write};

/// GGML's numbers of formats.
const F32: u32 = 0;
const Q4_0: u32 = 2;
const Q8_1: u32 = 9;
const Q4_K: u32 = 12;

/// Bytes of a block, and how many elements it has.
const Q4_0_BLOCK: (usize, u64) = (18, 32);

/// GPU 0 on a stream of its own, so that other tests do not change its statistics, or None with a message.
fn gpu(test: &str) -> Option<(RocmDevice, Device)> {
    if !is_available() {
        // Past libtest's capture, so that nobody takes a skipped test for a passed one.
        let line = format!("SKIPPED: {test}: no ROCm device\n");
        let written = std::io::stderr().write_all(line.as_bytes());
        written.expect("stderr is open");
        return None;
    }
    let rocm = RocmDevice::new_with_stream(0).expect("GPU 0 of a runtime that counts at least one");
    Some((rocm.clone(), Device::Rocm(rocm)))
}

/// Bytes that are the same at no two places nearby, and of which no two make a number that is not finite.
fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i % 113) as u8 + seed).collect()
}

/// The numbers that a tensor of so many blocks, with these bytes, stands for on the CPU are those that `found` has.
#[track_caller]
fn assert_blocks(found: &QTensor, data: &[u8]) -> Result<()> {
    let dims = found.shape().dims().to_vec();
    let wanted = qtensor_from_ggml(found.dtype(), data, dims, &Device::Cpu)?;
    let numbers = [found, &wanted].map(|tensor| -> Result<Vec<f32>> {
        let numbers = tensor.dequantize(&Device::Cpu)?;
        numbers.flatten_all()?.to_vec1()
    });
    let [found, wanted] = numbers;
    let (found, wanted) = (found?, wanted?);
    assert!(wanted.iter().all(|number| number.is_finite()));
    assert!(found == wanted);
    Ok(())
}

/// A tensor as a file's header describes it: the row's length is the first of its dimensions.
struct Entry {
    name: &'static str,
    dims: Vec<u64>,
    format: u32,
    offset: u64,
}

fn entry(name: &'static str, dims: &[u64], format: u32, offset: u64) -> Entry {
    Entry {
        name,
        dims: dims.to_vec(),
        format,
        offset,
    }
}

/// A GGUF file of version 3, and where its tensors' data begins.
fn gguf(entries: &[Entry], data: &[u8]) -> (Vec<u8>, usize) {
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend((entries.len() as u64).to_le_bytes());
    file.extend(0u64.to_le_bytes());
    for entry in entries {
        file.extend((entry.name.len() as u64).to_le_bytes());
        file.extend(entry.name.as_bytes());
        file.extend((entry.dims.len() as u32).to_le_bytes());
        file.extend(entry.dims.iter().flat_map(|dim| dim.to_le_bytes()));
        file.extend(entry.format.to_le_bytes());
        file.extend(entry.offset.to_le_bytes());
    }
    file.resize(file.len().next_multiple_of(32), 0);
    let start = file.len();
    file.extend(data);
    (file, start)
}

/// A GGML file of version 3 without a vocabulary.
fn ggml(tensors: &[(&str, &[u32], u32, &[u8])]) -> Vec<u8> {
    let mut file = 0x67676a74u32.to_le_bytes().to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend([0; 7 * 4]);
    for (name, dims, format, data) in tensors {
        file.extend((dims.len() as u32).to_le_bytes());
        file.extend((name.len() as u32).to_le_bytes());
        file.extend(format.to_le_bytes());
        file.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        file.extend(name.as_bytes());
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(*data);
    }
    file
}

/// Loads all tensors that a GGUF file names, in the order of their names.
fn load(file: &[u8], device: &Device) -> Result<Vec<QTensor>> {
    let mut reader = Cursor::new(file);
    let content = Content::read(&mut reader)?;
    let mut names: Vec<_> = content.tensor_infos.keys().collect();
    names.sort();
    let tensors = names.into_iter();
    let tensors = tensors.map(|name| content.tensor(&mut reader, name, device));
    tensors.collect()
}

/// Nothing is allocated on the device, and each of `words` is in the error.
#[track_caller]
fn assert_refused<T>(rocm: &RocmDevice, words: &[&str], load: impl FnOnce() -> Result<T>) {
    let before = rocm.memory_stats();
    let error = load().err().expect("an error").to_string();
    for word in words {
        assert!(error.contains(word), "no {word:?} in {error:?}");
    }
    let after = rocm.memory_stats();
    assert_eq!(after.device_allocations, before.device_allocations);
    assert_eq!(after.allocated, before.allocated);
    assert_eq!(after.reuses, before.reuses);
}

mod loaded {
    use super::*;

    #[test]
    fn every_block_arrives() -> Result<()> {
        let Some((_, device)) = gpu("every_block_arrives") else {
            return Ok(());
        };
        let (block, elements) = Q4_0_BLOCK;
        // More than the pinned buffers hold.
        let (few, many) = (bytes(3 * block, 7), bytes(600_000 * block, 9));
        let second = few.len().next_multiple_of(32);
        let entries = [
            entry("a", &[elements, 3], Q4_0, 0),
            entry("b", &[elements * 600, 1000], Q4_0, second as u64),
        ];
        let mut data = few.clone();
        data.resize(second, 0);
        data.extend(&many);
        let (file, _) = gguf(&entries, &data);
        let tensors = load(&file, &device)?;
        // Nothing that is loaded reads from the file.
        drop(file);
        drop(data);
        assert_eq!(tensors[0].shape().dims(), [3, 32]);
        assert_eq!(tensors[1].shape().dims(), [1000, 19_200]);
        assert!(tensors.iter().all(|tensor| tensor.device().is_rocm()));
        assert_blocks(&tensors[0], &few)?;
        assert_blocks(&tensors[1], &many)
    }

    #[test]
    fn a_ggml_file_arrives() -> Result<()> {
        let Some((_, device)) = gpu("a_ggml_file_arrives") else {
            return Ok(());
        };
        let blocks = bytes(6 * Q4_0_BLOCK.0, 3);
        let file = ggml(&[
            ("blocks", &[64, 3], Q4_0, &blocks),
            ("numbers", &[5], F32, &bytes(20, 4)),
        ]);
        let content = ggml_file::Content::read(&mut Cursor::new(file), &device)?;
        assert_blocks(&content.tensors["blocks"], &blocks)?;
        assert_blocks(&content.tensors["numbers"], &bytes(20, 4))
    }

    #[test]
    fn what_follows_the_blocks_is_not_taken() -> Result<()> {
        let Some((_, device)) = gpu("what_follows_the_blocks_is_not_taken") else {
            return Ok(());
        };
        let data = bytes(100, 1);
        let tensor = qtensor_from_ggml(GgmlDType::Q4_0, &data, vec![1, 64], &device)?;
        assert_blocks(&tensor, &data[..36])
    }
}

mod refused {
    use super::*;

    /// One tensor, which ends in the file's last byte.
    fn one(dims: &[u64], format: u32, offset: u64, size: usize) -> (Vec<u8>, usize) {
        gguf(&[entry("blk.7", dims, format, offset)], &bytes(size, 2))
    }

    #[test]
    fn a_file_that_ends_too_early() -> Result<()> {
        let Some((rocm, device)) = gpu("a_file_that_ends_too_early") else {
            return Ok(());
        };
        let (file, start) = one(&[32, 2], Q4_0, 0, 36);
        assert_refused(
            &rocm,
            &["blk.7", &format!("offset {start}"), "36 bytes", "35"],
            || load(&file[..file.len() - 1], &device),
        );
        for end in 0..start {
            assert_refused(&rocm, &[], || load(&file[..end], &device));
        }
        assert_blocks(&load(&file, &device)?[0], &bytes(36, 2))
    }

    #[test]
    fn another_magic_or_version() -> Result<()> {
        let Some((rocm, device)) = gpu("another_magic_or_version") else {
            return Ok(());
        };
        let (file, _) = one(&[32], Q4_0, 0, 18);
        for (place, word) in [(0, "magic"), (4, "version")] {
            let mut other = file.clone();
            other[place] = 9;
            assert_refused(&rocm, &[word], || load(&other, &device));
        }
        let mut other = ggml(&[]);
        other[4] = 9;
        assert_refused(&rocm, &["version"], || {
            ggml_file::Content::read(&mut Cursor::new(other), &device)
        });
        Ok(())
    }

    #[test]
    fn a_format_that_nobody_knows() -> Result<()> {
        let Some((rocm, device)) = gpu("a_format_that_nobody_knows") else {
            return Ok(());
        };
        let (file, _) = one(&[32], 4095, 0, 18);
        assert_refused(&rocm, &["4095"], || load(&file, &device));
        // Which Candle knows, but loads no file of.
        let (file, _) = one(&[32], Q8_1, 0, 36);
        assert_refused(&rocm, &["Q8_1"], || load(&file, &device));
        let file = ggml(&[("t", &[32], 4095, &[0; 18])]);
        assert_refused(&rocm, &["4095"], || {
            ggml_file::Content::read(&mut Cursor::new(file), &device)
        });
        Ok(())
    }

    #[test]
    fn an_offset_beyond_the_file() -> Result<()> {
        let Some((rocm, device)) = gpu("an_offset_beyond_the_file") else {
            return Ok(());
        };
        for offset in [32, 1 << 40, u64::MAX - 31, u64::MAX] {
            let (file, start) = one(&[32], Q4_0, offset, 18);
            let place = (start as u64).saturating_add(offset);
            assert_refused(&rocm, &["blk.7", &format!("offset {place}")], || {
                load(&file, &device)
            });
        }
        Ok(())
    }

    #[test]
    fn rows_that_are_no_whole_blocks() -> Result<()> {
        let Some((rocm, device)) = gpu("rows_that_are_no_whole_blocks") else {
            return Ok(());
        };
        // The second has as many elements as three blocks.
        for (dims, format) in [([33, 1], Q4_0), ([48, 2], Q4_0), ([128, 2], Q4_K)] {
            let (file, start) = one(&dims, format, 0, 1000);
            let words = ["blk.7", &format!("offset {start}"), "whole blocks"];
            assert_refused(&rocm, &words, || load(&file, &device));
            let dims = dims.map(|dim| dim as u32);
            let file = ggml(&[("blk.7", &dims, format, &[0; 1000])]);
            assert_refused(&rocm, &["blk.7", "offset", "whole blocks"], || {
                ggml_file::Content::read(&mut Cursor::new(file), &device)
            });
        }
        Ok(())
    }

    #[test]
    fn more_elements_than_the_file_has() -> Result<()> {
        let Some((rocm, device)) = gpu("more_elements_than_the_file_has") else {
            return Ok(());
        };
        // The last two are more than fit a number, and 0 of them if they are counted in 64 bits.
        let shapes: [&[u64]; 4] = [
            &[64, 2],
            &[32, 1 << 50],
            &[1 << 33, 1 << 33],
            &[1 << 32, 1 << 31, 2],
        ];
        for dims in shapes {
            let (file, start) = one(dims, Q4_0, 0, 36);
            let words = ["blk.7", &format!("offset {start}"), "bytes"];
            assert_refused(&rocm, &words, || load(&file, &device));
        }
        let file = ggml(&[("blk.7", &[64, 2], Q4_0, &[0; 36])]);
        assert_refused(&rocm, &["blk.7", "offset", "72 bytes"], || {
            ggml_file::Content::read(&mut Cursor::new(file), &device)
        });
        Ok(())
    }

    #[test]
    fn scalars() -> Result<()> {
        let Some((rocm, device)) = gpu("scalars") else {
            return Ok(());
        };
        let (file, _) = one(&[], F32, 0, 4);
        assert_refused(&rocm, &["blk.7", "scalar"], || load(&file, &device));
        Ok(())
    }

    #[test]
    fn data_that_is_too_short() -> Result<()> {
        let Some((rocm, device)) = gpu("data_that_is_too_short") else {
            return Ok(());
        };
        assert_refused(&rocm, &["36 bytes", "35"], || {
            qtensor_from_ggml(GgmlDType::Q4_0, &bytes(35, 0), vec![2, 32], &device)
        });
        Ok(())
    }
}

mod out_of_memory {
    use super::*;

    const MIB: usize = 1 << 20;

    /// What three tensors of 4 MiB each leave of a device that has room for two.
    #[track_caller]
    fn assert_given_back<T>(rocm: &RocmDevice, load: impl Fn() -> Result<T>) -> Result<T> {
        rocm.set_memory_limit(Some(10 * MIB));
        let error = load().err().expect("too little memory").to_string();
        assert!(error.contains("memory limit"), "{error}");
        let stats = rocm.memory_stats();
        assert!(stats.peak_allocated >= 8 * MIB);
        assert_eq!(stats.allocated, 0);
        rocm.trim_memory()?;
        let stats = rocm.memory_stats();
        assert_eq!(stats.device_allocations, stats.device_frees);
        rocm.set_memory_limit(None);
        load()
    }

    #[test]
    fn in_the_middle_of_a_gguf_file() -> Result<()> {
        let Some((rocm, device)) = gpu("in_the_middle_of_a_gguf_file") else {
            return Ok(());
        };
        let entries: Vec<_> = ["a", "b", "c"].into_iter().zip(0..).collect();
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(name, i)| entry(name, &[1 << 20], F32, i * (4 << 20)))
            .collect();
        let (file, _) = gguf(&entries, &bytes(12 * MIB, 5));
        let tensors = assert_given_back(&rocm, || load(&file, &device))?;
        assert_blocks(&tensors[2], &bytes(12 * MIB, 5)[8 * MIB..])
    }

    #[test]
    fn in_the_middle_of_a_ggml_file() -> Result<()> {
        let Some((rocm, device)) = gpu("in_the_middle_of_a_ggml_file") else {
            return Ok(());
        };
        let data = bytes(4 * MIB, 6);
        let tensors = ["a", "b", "c"].map(|name| (name, &[1u32 << 20][..], F32, &data[..]));
        let file = ggml(&tensors);
        let content = assert_given_back(&rocm, || {
            ggml_file::Content::read(&mut Cursor::new(&file), &device)
        })?;
        assert_blocks(&content.tensors["c"], &data)
    }
}
