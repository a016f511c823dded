//! Scaled dot product attention.
use super::operand::{kernel_form, uninit, Operand};
use crate::rocm_backend::nn_plan::{self, Attention};
use crate::rocm_backend::plan::table::sdpa as table;
use crate::rocm_backend::RocmStorage;
use crate::{Error, Layout, Result, Shape};

pub use crate::rocm_backend::nn_plan::Scores;

const OP: &str = "sdpa";

/// softmax(scores(q k^T) + mask) v, contiguous, and its shape (batch, heads, queries, columns).
///
/// q is (batch, heads, queries, depth), k (batch, key heads, keys, depth), v (batch, key heads, keys, columns), and the
/// mask (batch, heads, queries, keys); heads are a multiple of key heads. All are of one type: bf16, f16 or f32. The mask
/// may be any view, the others any whose last dimension is contiguous.
pub fn sdpa(
    q: (&RocmStorage, &Layout),
    k: (&RocmStorage, &Layout),
    v: (&RocmStorage, &Layout),
    mask: Option<(&RocmStorage, &Layout)>,
    scores: Scores,
) -> Result<(RocmStorage, Shape)> {
    let operand = |(storage, layout)| Operand::new(storage, layout);
    let (q, k, v, mask) = (operand(q), operand(k), operand(v), mask.map(operand));
    check(q, k, v, mask)?;
    let attention = Attention {
        q: q.planned(),
        k: k.planned(),
        v: v.planned(),
        mask: mask.map(|mask| mask.planned()),
        element: q.element(OP)?,
        scores,
        flash: None,
    };
    kernel_form(
        &table::SDPA_TILES,
        table::FORM_64,
        &[attention.element],
        q.dtype(),
        OP,
    )?;
    let shape = Shape::from(&attention.results()?);
    let y = uninit(shape.elem_count(), q.dtype(), q.device())?;
    nn_plan::sdpa(q.device(), &attention, None, y.pointer())?;
    Ok((y, shape))
}

/// Whether the tensors fit together.
fn check(q: Operand<'_>, k: Operand<'_>, v: Operand<'_>, mask: Option<Operand<'_>>) -> Result<()> {
    let mismatch = |other: Operand<'_>| {
        Error::ShapeMismatchBinaryOp {
            lhs: q.layout.shape().clone(),
            rhs: other.layout.shape().clone(),
            op: OP,
        }
        .bt()
    };
    let fits = |operand: Operand<'_>, dims: [usize; 4]| -> Result<()> {
        if operand.layout.dims() != dims {
            return Err(mismatch(operand));
        }
        if operand.dtype() != q.dtype() {
            return Err(Error::DTypeMismatchBinaryOp {
                lhs: q.dtype(),
                rhs: operand.dtype(),
                op: OP,
            }
            .bt());
        }
        if operand.device() != q.device() {
            crate::bail!("{OP} of tensors on different devices")
        }
        Ok(())
    };
    let (batch, heads, queries, depth) = q.layout.shape().dims4()?;
    let (_, key_heads, keys, _) = k.layout.shape().dims4()?;
    let (.., columns) = v.layout.shape().dims4()?;
    fits(k, [batch, key_heads, keys, depth])?;
    fits(v, [batch, key_heads, keys, columns])?;
    if let Some(mask) = mask {
        fits(mask, [batch, heads, queries, keys])?;
    }
    match heads.checked_rem(key_heads) {
        Some(0) => Ok(()),
        _ => Err(mismatch(k)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::to_cpu_storage;
    use crate::rocm_backend::plan::Launcher;
    use crate::rocm_backend::testing::{allocations_of, gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;
    use crate::{CpuStorage, DType, Device, Storage, Tensor};

    /// Small numbers that repeat at no period of a kernel.
    fn numbers(shape: [usize; 4], seed: usize) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let number = |i: usize| ((i + seed) * 7919 % 1009) as f32 / 504. - 1.;
        let data: Vec<f32> = (0..count).map(number).collect();
        Tensor::from_vec(data, &shape, &Device::Cpu)
    }

    type Attended = (Result<(Vec<f32>, Shape)>, Vec<Launched>);

    /// What `sdpa` computes of tensors on the device, and what it launches.
    fn attended(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        scores: Scores,
    ) -> Attended {
        let held = [q, k, v].map(Tensor::storage_and_layout);
        let held_mask = mask.map(Tensor::storage_and_layout);
        fn on_rocm(storage: &Storage) -> &RocmStorage {
            match storage {
                Storage::Rocm(storage) => storage,
                _ => panic!("the tensors are on the device"),
            }
        }
        let [q, k, v] = held
            .each_ref()
            .map(|(storage, layout)| (on_rocm(storage), *layout));
        let mask = held_mask
            .as_ref()
            .map(|(storage, layout)| (on_rocm(storage), *layout));
        let (result, launches) = launches_of(|| sdpa(q, k, v, mask, scores));
        let read = || {
            let (y, shape) = result?;
            let y = match to_cpu_storage(&y)? {
                CpuStorage::F32(y) => y,
                CpuStorage::F16(y) => y.into_iter().map(f32::from).collect(),
                CpuStorage::BF16(y) => y.into_iter().map(f32::from).collect(),
                _ => vec![],
            };
            Ok((y, shape))
        };
        (read(), launches)
    }

    /// The same with plain loops.
    fn plainly(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        scores: Scores,
    ) -> Result<Vec<f32>> {
        let (batch, heads, queries, depth) = q.dims4()?;
        let (_, key_heads, keys, _) = k.dims4()?;
        let columns = v.dims4()?.3;
        let flat = |x: &Tensor| x.flatten_all()?.to_vec1::<f32>();
        let (q, k, v) = (flat(q)?, flat(k)?, flat(v)?);
        let mask = mask.map(flat).transpose()?;
        let mut y = Vec::new();
        for row in 0..batch * heads * queries {
            let (head, query) = (row / queries, row % queries);
            let (b, shared) = (head / heads, head % heads / (heads / key_heads));
            let first = (b * key_heads + shared) * keys;
            let score = |key: usize| {
                let pairs = (0..depth).map(|d| (q[row * depth + d], k[(first + key) * depth + d]));
                let product: f64 = pairs.map(|(a, b)| f64::from(a) * f64::from(b)).sum();
                let (scale, cap) = (f64::from(scores.scale), f64::from(scores.softcapping));
                let product = product * scale;
                let capped = if cap == 1. {
                    product
                } else {
                    cap * (product / cap).tanh()
                };
                match &mask {
                    Some(mask) => capped + f64::from(mask[row * keys + key]),
                    None if scores.causal && key + queries > keys + query => f64::NEG_INFINITY,
                    None => capped,
                }
            };
            let powers: Vec<f64> = (0..keys).map(|key| score(key).exp()).collect();
            let total: f64 = powers.iter().sum();
            for column in 0..columns {
                let value = |key: usize| f64::from(v[(first + key) * columns + column]);
                let sum: f64 = powers
                    .iter()
                    .enumerate()
                    .map(|(key, p)| p * value(key))
                    .sum();
                y.push((sum / total) as f32);
            }
        }
        Ok(y)
    }

    const PLAIN: Scores = Scores {
        scale: 0.5,
        softcapping: 1.,
        causal: false,
    };

    /// Sizes in the order of their fields, how the keys are cut, and the kernels that are launched, more often where
    /// there are more blocks than a launch has.
    #[test]
    fn attention_is_what_plain_loops_compute() -> Result<()> {
        let Some(device) = gpu("attention_is_what_plain_loops_compute") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let (tiles, split, single) = ("sdpa_tiles_f32", "sdpa_split_f32", "sdpa_single_f32");
        for (sizes, kernel, launches) in [
            ([2, 4, 2, 3, 70, 16, 16], format!("{split}_64"), 1),
            ([1, 3, 3, 8, 40, 12, 100], format!("{split}_128"), 1),
            ([1, 2, 1, 2, 40, 132, 8], format!("{split}_256"), 1),
            ([3, 8, 4, 8, 20, 8, 8], format!("{split}_64"), 2),
            ([2, 3, 3, 1, 40, 16, 16], format!("{single}_64"), 1),
            ([2, 1, 1, 1, 40, 16, 100], format!("{single}_128"), 1),
            ([20, 2, 2, 1, 40, 8, 132], format!("{single}_256"), 2),
            ([1, 1, 1, 5, 30, 260, 8], format!("{tiles}_64"), 1),
            ([1, 2, 2, 2, 30, 6, 8], format!("{tiles}_64"), 1),
            ([1, 2, 2, 9, 30, 8, 8], format!("{tiles}_64"), 1),
            ([3, 5, 5, 130, 20, 8, 8], format!("{tiles}_64"), 2),
            ([1, 2, 1, 65, 33, 8, 65], format!("{tiles}_128"), 1),
            ([1, 9, 3, 65, 10, 4, 300], format!("{tiles}_256"), 2),
        ] {
            let [batch, heads, key_heads, queries, keys, depth, columns] = sizes;
            let q = numbers([batch, heads, queries, depth], 1)?;
            let k = numbers([batch, key_heads, keys, depth], 2)?;
            let v = numbers([batch, key_heads, keys, columns], 3)?;
            let mask = numbers([batch, heads, queries, keys], 4)?;
            let on = |x: &Tensor| x.to_device(&device);
            let (on_q, on_k, on_v, on_mask) = (on(&q)?, on(&k)?, on(&v)?, on(&mask)?);
            for (with_mask, scores) in [
                (false, PLAIN),
                (
                    true,
                    Scores {
                        causal: true,
                        ..PLAIN
                    },
                ),
                (
                    false,
                    Scores {
                        causal: queries <= keys,
                        ..PLAIN
                    },
                ),
                (
                    false,
                    Scores {
                        softcapping: 0.7,
                        ..PLAIN
                    },
                ),
            ] {
                let what = format!("{sizes:?}, {with_mask}, {scores:?}");
                let masks = with_mask.then_some((&mask, &on_mask));
                let wanted = plainly(&q, &k, &v, masks.map(|(mask, _)| mask), scores)?;
                let given = masks.map(|(_, mask)| mask);
                let (found, launched) = attended(&on_q, &on_k, &on_v, given, scores);
                let (found, shape) = found?;
                assert_eq!(shape.dims(), [batch, heads, queries, columns], "{what}");
                let names: Vec<_> = launched.iter().map(|l| l.kernel.as_str()).collect();
                assert_eq!(names, vec![kernel.as_str(); launches], "{what}");
                // 16 teams each have sums for a row, and two numbers of its total; tiles are staged.
                let lds = match kernel.rsplit_once('_') {
                    Some((of, _)) if of == tiles => 25600,
                    Some((_, "64")) => 16 * (64 + 2) * 4,
                    Some((_, "128")) => 16 * (128 + 2) * 4,
                    _ => 16 * (256 + 2) * 4,
                };
                assert!(launched.iter().all(|launch| launch.lds == lds), "{what}");
                for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let error = (found - wanted).abs();
                    assert!(error < 1e-5, "{what}: {found} instead of {wanted} at {at}");
                }
            }
        }
        Ok(())
    }

    /// Rows of 16 bits that consist of packs of 16 bytes, and others.
    #[test]
    fn rows_of_16_bits_go_to_matrix_units() -> Result<()> {
        let Some(device) = gpu("rows_of_16_bits_go_to_matrix_units") else {
            return Ok(());
        };
        let has_units = table::MATRIX_COLUMNS.on(device.tuning()) > 0;
        let heads = 4;
        // So many that each processor has a tile.
        let many = device.card().multiprocessors.div_ceil(heads);
        let device = Device::Rocm(device);
        // The widths of kernels for the longest row, of tiles on matrix units, and for columns alone.
        for (depth, columns, packs, widest, on_units, tile) in [
            (8, 64, true, Some(64), 64, 64),
            (72, 40, true, Some(128), 96, 64),
            (128, 128, true, Some(128), 128, 128),
            (136, 64, true, Some(256), 192, 64),
            (64, 200, true, Some(256), 256, 256),
            (264, 64, true, None, 0, 64),
            (60, 64, false, Some(64), 0, 64),
            (64, 124, false, Some(128), 0, 128),
        ] {
            for (batch, queries, keys, few) in [(2, 5, 90, true), (many, 17, 33, false)] {
                let q = numbers([batch, heads, queries, depth], 1)?;
                let (k, v) = (
                    numbers([batch, 2, keys, depth], 2)?,
                    numbers([batch, 2, keys, columns], 3)?,
                );
                for (dtype, name, rounding) in
                    [(DType::F16, "f16", 1e-3), (DType::BF16, "bf16", 8e-3)]
                {
                    let scores = Scores {
                        causal: true,
                        scale: 0.25,
                        ..PLAIN
                    };
                    let (q, k, v) = (q.to_dtype(dtype)?, k.to_dtype(dtype)?, v.to_dtype(dtype)?);
                    let on = |x: &Tensor| x.to_device(&device);
                    let (found, launched) = attended(&on(&q)?, &on(&k)?, &on(&v)?, None, scores);
                    let kernel = match (widest, has_units && packs, few) {
                        (Some(width), true, true) => format!("sdpa_matrix_split_{name}_{width}"),
                        (Some(_), true, false) => format!("sdpa_matrix_{name}_{on_units}"),
                        (Some(width), false, true) => format!("sdpa_split_{name}_{width}"),
                        _ => format!("sdpa_tiles_{name}_{tile}"),
                    };
                    let what = format!("{queries} queries of {depth}, {columns} columns, {name}");
                    let names: Vec<_> = launched.iter().map(|l| l.kernel.as_str()).collect();
                    assert_eq!(names, vec![kernel.as_str(); names.len().max(1)], "{what}");
                    let wide = |x: &Tensor| x.to_dtype(DType::F32);
                    let wanted = plainly(&wide(&q)?, &wide(&k)?, &wide(&v)?, None, scores)?;
                    let found = found?.0;
                    assert_eq!(found.len(), wanted.len());
                    for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                        let error = (found - wanted).abs();
                        assert!(
                            error < rounding,
                            "{what}: {found} instead of {wanted} at {at}"
                        );
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn parts_of_many_keys_are_put_together() -> Result<()> {
        let Some(device) = gpu("parts_of_many_keys_are_put_together") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        for (heads, key_heads, queries, keys, columns) in [(2, 1, 1, 1100, 64), (6, 2, 5, 700, 80)]
        {
            let q = numbers([2, heads, queries, 8], 5)?;
            let k = numbers([2, key_heads, keys, 8], 6)?;
            let v = numbers([2, key_heads, keys, columns], 7)?;
            let on = |x: &Tensor| x.to_device(&device);
            let (found, launched) = attended(&on(&q)?, &on(&k)?, &on(&v)?, None, PLAIN);
            let wanted = plainly(&q, &k, &v, None, PLAIN)?;
            for (found, wanted) in found?.0.iter().zip(&wanted) {
                assert!((found - wanted).abs() < 1e-5, "{found} instead of {wanted}");
            }
            let last = launched.last().expect("there are launches");
            assert_eq!(last.kernel, "sdpa_combine_f32");
        }
        Ok(())
    }

    #[test]
    fn sums_of_parts_take_memory_only_where_there_are_parts() -> Result<()> {
        if gpu("sums_of_parts_take_memory_only_where_there_are_parts").is_none() {
            return Ok(());
        }
        let own = Device::Rocm(RocmDevice::new_with_stream(0)?);
        let Device::Rocm(stream) = &own else {
            panic!("it was made so")
        };
        // A result, and where there are parts a total and sums of each.
        for (keys, expected) in [(100, 1), (600, 3)] {
            let zeros = |rows| Tensor::zeros((1, 1, rows, 8), DType::F32, &own);
            let (q, k, v) = (zeros(1)?, zeros(keys)?, zeros(keys)?);
            let held = [&q, &k, &v].map(Tensor::storage_and_layout);
            let [q, k, v] = held.each_ref().map(|(storage, layout)| match &**storage {
                Storage::Rocm(storage) => (storage, *layout),
                _ => panic!("the tensors are on the device"),
            });
            let (result, blocks) = allocations_of(stream, || sdpa(q, k, v, None, PLAIN));
            result?;
            assert_eq!(blocks, expected, "{keys} keys");
        }
        Ok(())
    }

    #[test]
    fn tensors_have_to_fit_together() -> Result<()> {
        let Some(device) = gpu("tensors_have_to_fit_together") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let zeros = |shape: [usize; 4]| Tensor::zeros(&shape, DType::F32, &device);
        let fits = |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>| {
            attended(q, k, v, mask, PLAIN).0.is_ok()
        };
        let q = zeros([2, 4, 3, 8])?;
        let (k, v) = (zeros([2, 2, 5, 8])?, zeros([2, 2, 5, 6])?);
        let mask = zeros([2, 4, 3, 5])?;
        assert!(fits(&q, &k, &v, Some(&mask)));
        for shape in [[1, 2, 5, 8], [2, 3, 5, 8], [2, 2, 4, 8], [2, 2, 5, 7]] {
            assert!(!fits(&q, &zeros(shape)?, &v, None), "keys {shape:?}");
        }
        for shape in [[1, 2, 5, 6], [2, 1, 5, 6], [2, 2, 4, 6]] {
            assert!(!fits(&q, &k, &zeros(shape)?, None), "values {shape:?}");
        }
        for shape in [[1, 4, 3, 5], [2, 2, 3, 5], [2, 4, 1, 5], [2, 4, 3, 4]] {
            assert!(!fits(&q, &k, &v, Some(&zeros(shape)?)), "mask {shape:?}");
        }
        let three = (zeros([2, 3, 5, 8])?, zeros([2, 3, 5, 6])?);
        assert!(!fits(&q, &three.0, &three.1, None), "4 heads share no 3");
        let none = (zeros([2, 0, 5, 8])?, zeros([2, 0, 5, 6])?);
        assert!(!fits(&q, &none.0, &none.1, None));
        let halves = k.to_dtype(DType::F16)?;
        assert!(!fits(&q, &halves, &v, None));
        assert!(!fits(&q, &k, &v, Some(&mask.to_dtype(DType::F16)?)));
        // A last dimension with gaps, which matters where it has more than one element.
        let turned = zeros([2, 2, 8, 5])?.transpose(2, 3)?;
        assert!(!fits(&q, &turned, &v, None));
        let single = zeros([2, 2, 5, 3])?.narrow(3, 1, 1)?;
        assert!(fits(&q, &k, &single, None));
        if crate::rocm::device_count()? > 1 {
            let other = v.to_device(&Device::new_rocm(1)?)?;
            assert!(!fits(&q, &k, &other, None));
        }
        Ok(())
    }

    #[test]
    fn rows_of_whole_quads_are_packed() -> Result<()> {
        let Some(device) = gpu("rows_of_whole_quads_are_packed") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let zeros = |shape: [usize; 4]| Tensor::zeros(&shape, DType::F32, &device);
        let q = zeros([1, 2, 3, 8])?;
        let (k, v) = (zeros([1, 2, 5, 8])?, zeros([1, 2, 5, 8])?);
        // What is packed, and of few queries, is split.
        let packed = |q: &Tensor, k: &Tensor, v: &Tensor| -> Result<bool> {
            let (result, launches) = attended(q, k, v, None, PLAIN);
            result?;
            Ok(launches[0].kernel == "sdpa_split_f32_64")
        };
        assert!(packed(&q, &k, &v)?);
        let part = |shape: [usize; 4], first: usize| zeros(shape)?.narrow(3, first, 8);
        assert!(packed(&part([1, 2, 3, 12], 4)?, &k, &v)?);
        for first in [1, 2, 3] {
            let within = part([1, 2, 3, 12], first)?;
            assert!(!packed(&within, &k, &v)?, "begins within a quad: {first}");
        }
        assert!(
            !packed(&q, &part([1, 2, 5, 10], 0)?, &v)?,
            "rows are no quads apart"
        );
        assert!(
            !packed(&q, &k, &zeros([1, 2, 5, 6])?)?,
            "columns are no quads"
        );
        Ok(())
    }
}
