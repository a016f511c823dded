//! Readers that quantized tensors are loaded from onto a ROCm device: however they read, and where they fail.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
use candle_core::quantized::gguf_file::{self, TensorInfo};
use candle_core::quantized::{ggml_file, GgmlDType, QTensor};
use candle_core::{rocm::is_available, Device, Error, Result, RocmDevice};
use std::io::{Cursor, ErrorKind, Read, Seek, SeekFrom, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// The size of the backend's pinned buffers, of which it has four.
const PIECE: usize = 2 << 20;

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

/// What a reader does instead of reading on.
#[derive(Clone, Copy)]
enum Stop {
    End,
    Error,
    Panic,
}

/// A file, and how it is read.
struct File {
    bytes: Cursor<Vec<u8>>,
    /// Bytes that one call returns at most.
    most: usize,
    /// Where nothing can be read any more, though the file seems to go on.
    stop: Option<(u64, Stop)>,
    /// The most bytes that one call was asked for.
    asked: usize,
    /// A device that is used whenever something is read.
    user: Option<RocmDevice>,
}

impl File {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Cursor::new(bytes),
            most: usize::MAX,
            stop: None,
            asked: 0,
            user: None,
        }
    }
}

impl Read for File {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.asked = self.asked.max(into.len());
        if let Some(device) = &self.user {
            device.clone_htod(&[9u8; 3]).expect("a device that works");
        }
        let mut most = into.len().min(self.most);
        if let Some((place, stop)) = self.stop {
            let left = place.saturating_sub(self.bytes.position());
            match stop {
                _ if left > 0 => most = most.min(left as usize),
                Stop::End => return Ok(0),
                Stop::Error => return Err(std::io::Error::new(ErrorKind::TimedOut, "disk away")),
                Stop::Panic => panic!("a reader's own"),
            }
        }
        self.bytes.read(&mut into[..most])
    }
}

impl Seek for File {
    fn seek(&mut self, place: SeekFrom) -> std::io::Result<u64> {
        self.bytes.seek(place)
    }
}

/// Blocks of no more bytes than `size`, as rows of one block each on the CPU. No two places nearby are the
/// same, and no two bytes make a number that is not finite.
fn blocks(format: GgmlDType, size: usize) -> Result<QTensor> {
    let size = size / format.type_size() * format.type_size();
    blocks_of(format, (0..size).map(|i| (i % 113) as u8).collect())
}

/// As `blocks`, of these bytes.
fn blocks_of(format: GgmlDType, bytes: Vec<u8>) -> Result<QTensor> {
    let dims = vec![bytes.len() / format.type_size(), format.block_size()];
    ggml_file::qtensor_from_ggml(format, &bytes, dims, &Device::Cpu)
}

fn written(tensors: &[(&str, &QTensor)]) -> Result<Vec<u8>> {
    let mut file = Cursor::new(Vec::new());
    gguf_file::write(&mut file, &[], tensors)?;
    Ok(file.into_inner())
}

/// Loads a tensor from a GGUF file.
fn load(file: &mut File, name: &str, device: &Device) -> Result<QTensor> {
    let content = header(file)?;
    content.tensor(file, name, device)
}

/// The header of a GGUF file, which every reader reads.
fn header(file: &File) -> Result<gguf_file::Content> {
    gguf_file::Content::read(&mut Cursor::new(file.bytes.get_ref()))
}

/// What the blocks stand for: Candle 0.9.1 gives the bytes of blocks on the CPU only.
fn numbers(tensor: &QTensor) -> Result<Vec<f32>> {
    let numbers = tensor.dequantize(&Device::Cpu)?.flatten_all()?;
    let numbers = numbers.to_vec1::<f32>()?;
    assert!(numbers.iter().all(|number| number.is_finite()));
    Ok(numbers)
}

#[track_caller]
fn assert_same(found: &QTensor, wanted: &QTensor) -> Result<()> {
    assert!(found.device().is_rocm());
    assert_eq!(found.dtype(), wanted.dtype());
    assert_eq!(found.shape(), wanted.shape());
    assert!(numbers(found)? == numbers(wanted)?);
    Ok(())
}

/// The error is the reader's own, as it made it, and no memory is kept.
#[track_caller]
fn assert_io<T>(rocm: &RocmDevice, loaded: Result<T>, kind: ErrorKind) {
    match loaded.err().expect("an error") {
        Error::Io(error) => assert_eq!(error.kind(), kind),
        error => panic!("{error}"),
    }
    assert_eq!(rocm.memory_stats().allocated, 0);
}

/// A GGML file of version 3 with one tensor of Q4_0 blocks.
fn ggml(rows: u32, data: &[u8]) -> Vec<u8> {
    let mut file = 0x67676a74u32.to_le_bytes().to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend([0; 7 * 4]);
    for number in [2, 1, 2, 32, rows] {
        file.extend(u32::to_le_bytes(number));
    }
    file.extend(b"t");
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(data);
    file
}

mod loaded {
    use super::*;

    #[test]
    fn every_format() -> Result<()> {
        let Some((_, device)) = gpu("every_format") else {
            return Ok(());
        };
        for format in [
            GgmlDType::F32,
            GgmlDType::F16,
            GgmlDType::Q4_0,
            GgmlDType::Q4_1,
            GgmlDType::Q5_0,
            GgmlDType::Q5_1,
            GgmlDType::Q8_0,
            GgmlDType::Q2K,
            GgmlDType::Q3K,
            GgmlDType::Q4K,
            GgmlDType::Q5K,
            GgmlDType::Q6K,
        ] {
            let wanted = blocks(format, 7 * format.type_size())?;
            let mut file = File::new(written(&[("t", &wanted)])?);
            assert_same(&load(&mut file, "t", &device)?, &wanted)?;
        }
        Ok(())
    }

    /// One after the other, so that most begin in the middle of a buffer.
    #[test]
    fn tensors_of_any_size_in_pieces() -> Result<()> {
        let Some((_, device)) = gpu("tensors_of_any_size_in_pieces") else {
            return Ok(());
        };
        let sizes = [
            36,
            PIECE - 36,
            2 * PIECE,
            11 * PIECE / 2,
            PIECE + 36,
            9 * PIECE,
        ];
        let mut loaded = Vec::new();
        for size in sizes {
            let wanted = blocks(GgmlDType::F32, size)?;
            let mut file = File::new(written(&[("t", &wanted)])?);
            loaded.push((load(&mut file, "t", &device)?, wanted));
            // The host has no place for more at a time.
            assert!(file.asked <= PIECE, "{} bytes are read at once", file.asked);
        }
        for (found, wanted) in &loaded {
            assert_same(found, wanted)?;
        }
        Ok(())
    }

    #[test]
    fn a_few_bytes_at_a_time() -> Result<()> {
        let Some((_, device)) = gpu("a_few_bytes_at_a_time") else {
            return Ok(());
        };
        let wanted = blocks(GgmlDType::Q6K, PIECE + 1000)?;
        let mut file = File::new(written(&[("t", &wanted)])?);
        file.most = 7;
        assert_same(&load(&mut file, "t", &device)?, &wanted)
    }

    #[test]
    fn what_a_ggml_file_has() -> Result<()> {
        let Some((_, device)) = gpu("what_a_ggml_file_has") else {
            return Ok(());
        };
        let wanted = blocks(GgmlDType::Q4_0, 5 * PIECE)?;
        let rows = wanted.shape().dims()[0] as u32;
        let mut file = File::new(ggml(rows, &wanted.data()?));
        let content = ggml_file::Content::read(&mut file, &device)?;
        assert!(file.asked <= PIECE, "{} bytes are read at once", file.asked);
        assert_same(&content.tensors["t"], &wanted)
    }

    #[test]
    fn from_a_reader_that_uses_the_device() -> Result<()> {
        let Some((rocm, device)) = gpu("from_a_reader_that_uses_the_device") else {
            return Ok(());
        };
        let wanted = blocks(GgmlDType::F32, 5 * PIECE)?;
        let mut file = File::new(written(&[("t", &wanted)])?);
        (file.user, file.most) = (Some(rocm), PIECE / 3);
        assert_same(&load(&mut file, "t", &device)?, &wanted)
    }

    /// More of them than there are buffers.
    #[test]
    fn by_many_threads() -> Result<()> {
        let Some((_, device)) = gpu("by_many_threads") else {
            return Ok(());
        };
        let tensors = (0..6).map(|i| blocks(GgmlDType::F32, 3 * PIECE + i * 3400));
        let tensors: Vec<_> = tensors.collect::<Result<_>>()?;
        std::thread::scope(|scope| {
            let loads = tensors.iter().map(|wanted| {
                let device = &device;
                scope.spawn(move || -> Result<()> {
                    let mut file = File::new(written(&[("t", wanted)])?);
                    file.most = 100_000;
                    for _ in 0..3 {
                        assert_same(&load(&mut file, "t", device)?, wanted)?;
                    }
                    Ok(())
                })
            });
            let loads: Vec<_> = loads.collect();
            loads.into_iter().try_for_each(|load| load.join().unwrap())
        })
    }
}

mod stopped {
    use super::*;

    /// Bytes of a tensor that are read before its reader stops: none, in the first piece, at its end, and after all
    /// buffers were used once.
    const PLACES: [usize; 5] = [0, 1, PIECE, 3 * PIECE / 2 + 1, 6 * PIECE - 40];

    /// Loads a tensor that stops in several places, and what is wrong with that must be wrong; then it is loaded.
    fn check(test: &str, stop: Stop, assert: fn(&RocmDevice, &mut File, &Device)) -> Result<()> {
        let Some((rocm, device)) = gpu(test) else {
            return Ok(());
        };
        let wanted = blocks(GgmlDType::F32, 6 * PIECE)?;
        let mut file = File::new(written(&[("t", &wanted)])?);
        let start = header(&file)?.tensor_data_offset;
        for place in PLACES {
            file.stop = Some((start + place as u64, stop));
            assert(&rocm, &mut file, &device);
            assert_eq!(rocm.memory_stats().allocated, 0);
            file.stop = None;
            assert_same(&load(&mut file, "t", &device)?, &wanted)?;
        }
        Ok(())
    }

    #[test]
    fn by_an_error() -> Result<()> {
        check("by_an_error", Stop::Error, |rocm, file, device| {
            assert_io(rocm, load(file, "t", device), ErrorKind::TimedOut);
        })
    }

    #[test]
    fn by_an_early_end() -> Result<()> {
        check("by_an_early_end", Stop::End, |rocm, file, device| {
            assert_io(rocm, load(file, "t", device), ErrorKind::UnexpectedEof);
        })
    }

    #[test]
    fn by_a_panic() -> Result<()> {
        check("by_a_panic", Stop::Panic, |_, file, device| {
            let loaded = catch_unwind(AssertUnwindSafe(|| load(file, "t", device)));
            assert!(loaded.is_err());
        })
    }

    #[test]
    fn in_a_ggml_file() -> Result<()> {
        let Some((rocm, device)) = gpu("in_a_ggml_file") else {
            return Ok(());
        };
        let bytes = ggml(1000, &[1; 18_000]);
        for (stop, kind) in [
            (Stop::End, ErrorKind::UnexpectedEof),
            (Stop::Error, ErrorKind::TimedOut),
        ] {
            let mut file = File::new(bytes.clone());
            file.stop = Some((bytes.len() as u64 - 1, stop));
            assert_io(&rocm, ggml_file::Content::read(&mut file, &device), kind);
        }
        Ok(())
    }

    /// What was loaded before stays as it is.
    #[test]
    fn after_another_tensor() -> Result<()> {
        let Some((rocm, device)) = gpu("after_another_tensor") else {
            return Ok(());
        };
        let [first, second] = [3, 2].map(|pieces| blocks(GgmlDType::F32, pieces * PIECE));
        let (first, second) = (first?, second?);
        let mut file = File::new(written(&[("first", &first), ("second", &second)])?);
        let loaded = load(&mut file, "first", &device)?;
        let kept = rocm.memory_stats().allocated;
        let end = file.bytes.get_ref().len() as u64;
        file.stop = Some((end - 5000, Stop::Error));
        assert!(load(&mut file, "second", &device).is_err());
        assert_eq!(rocm.memory_stats().allocated, kept);
        assert_same(&loaded, &first)
    }
}

mod refused {
    use super::*;

    /// `TensorInfo::read` knows of no file, and so of no name.
    #[test]
    fn rows_that_are_no_whole_blocks() -> Result<()> {
        let Some((rocm, device)) = gpu("rows_that_are_no_whole_blocks") else {
            return Ok(());
        };
        let info = |dims: &[usize], ggml_dtype| TensorInfo {
            ggml_dtype,
            shape: dims.into(),
            offset: 0,
        };
        let q4_0 = GgmlDType::Q4_0;
        for (info, word) in [
            (info(&[2, 48], q4_0), "whole blocks"),
            (info(&[], GgmlDType::F32), "scalar"),
            (info(&[1, 256], GgmlDType::Q8K), "Q8K"),
        ] {
            let error = info.read(&mut Cursor::new([0; 1000]), 0, &device).err();
            let error = error.expect("an error").to_string();
            assert!(error.contains(word), "no {word:?} in {error:?}");
            let stats = rocm.memory_stats();
            assert_eq!((stats.device_allocations, stats.allocated), (0, 0));
        }
        let read = info(&[2, 32], q4_0).read(&mut Cursor::new([7; 50]), 14, &device)?;
        assert_same(&read, &blocks_of(q4_0, vec![7; 36])?)?;
        Ok(())
    }

    #[test]
    fn a_tensor_that_has_no_room() -> Result<()> {
        let Some((rocm, device)) = gpu("a_tensor_that_has_no_room") else {
            return Ok(());
        };
        let mut file = File::new(ggml(1000, &[1; 18_000]));
        rocm.set_memory_limit(Some(1000));
        let refused = ggml_file::Content::read(&mut file, &device).err();
        let error = refused.expect("too little memory").to_string();
        assert!(
            error.contains("tensor t: ") && error.contains("memory limit"),
            "{error}"
        );
        assert_eq!(rocm.memory_stats().allocated, 0);
        rocm.set_memory_limit(None);
        file.bytes.set_position(0);
        let content = ggml_file::Content::read(&mut file, &device)?;
        assert_same(
            &content.tensors["t"],
            &blocks_of(GgmlDType::Q4_0, vec![1; 18_000])?,
        )
    }
}
