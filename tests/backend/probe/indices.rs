//! Operations with an index that is out of range: what they answer, on the GPU and on the CPU.

use candle::{DType, Device, Result, Tensor};

/// A name, and the operation on x (4, 6) with indices of any type along dimension 1.
type Operation = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>);

const OPERATIONS: [Operation; 5] = [
    ("index_select", |x, ids| x.index_select(&ids.get(1)?, 1)),
    ("gather", |x, ids| x.gather(ids, 1)),
    ("scatter", |x, ids| x.scatter(ids, &ids.to_dtype(DType::F32)?, 1)),
    ("scatter_add", |x, ids| x.scatter_add(ids, &ids.to_dtype(DType::F32)?, 1)),
    ("index_add", |x, ids| x.index_add(&ids.get(1)?, &x.narrow(1, 0, 3)?.contiguous()?, 1)),
];

const TYPES: [DType; 3] = [DType::U8, DType::U32, DType::I64];

/// Indices (4, 3) that are in range.
const FINE: [i64; 12] = [0, 5, 1, 2, 5, 3, 4, 0, 2, 1, 1, 5];

/// Prints a line for each operation, index type and choice of indices: what the GPU answers, then what the CPU does.
pub fn run(device: &Device) -> Result<()> {
    for (name, operation) in OPERATIONS {
        for dtype in TYPES {
            let largest = match dtype {
                DType::U8 => u8::MAX.into(),
                DType::U32 => u32::MAX.into(),
                _ => i64::MAX,
            };
            // In the row that index_select and index_add take, and in the next.
            let with = |fourth, sixth| {
                let mut ids = FINE;
                (ids[4], ids[6]) = (fourth, sixth);
                ids
            };
            let mut choices = vec![("fine", FINE), ("unused", with(largest, 4)), ("one", with(7, 4)), ("two", with(7, 9))];
            if dtype == DType::I64 {
                choices.push(("negative", with(-2, 4)));
            }
            for (which, ids) in choices {
                let answer = |device: &Device| said(operation, &ids, dtype, device);
                println!("{name} {dtype:?} {which}: {} / {}", answer(device), answer(&Device::Cpu));
            }
        }
    }
    Ok(())
}

fn said(operation: fn(&Tensor, &Tensor) -> Result<Tensor>, ids: &[i64; 12], dtype: DType, device: &Device) -> String {
    let answer = || {
        let x = Tensor::arange(1f32, 25., device)?.reshape((4, 6))?;
        // Behind a row of zeros, so that the indices do not start where their memory does.
        let ids = Tensor::new(ids, &Device::Cpu)?.reshape((4, 3))?;
        let ids = Tensor::cat(&[&ids.zeros_like()?.narrow(0, 0, 1)?, &ids], 0)?;
        let ids = ids.to_dtype(dtype)?.to_device(device)?.narrow(0, 1, 4)?;
        operation(&x, &ids)?.to_vec2::<f32>()
    };
    match answer() {
        Ok(values) => format!("{values:?}"),
        Err(error) => format!("error {}", error.to_string().lines().next().unwrap_or_default()),
    }
}
