//! Operations in sizes that take several blocks, tiles, strips or launches, against plain loops over small integers.
//!
//! Every number is an integer that its type holds, and so is every sum: in whatever order a kernel adds, results agree to
//! the last bit, and one element too many or too few shows.
//!
//! As in rocm_basic.rs, a test without a GPU writes `SKIPPED: <test>: <reason>` to stderr.
#![cfg(feature = "rocm")]
mod rocm_gpu;

use candle_core::{DType, Device, Result, Tensor};
use rocm_gpu::gpu;

/// `count` integers of `0..below`, which repeat at no period that a kernel might have.
fn integers(count: usize, below: u64, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((state >> 33) % below) as f64
    };
    (0..count).map(|_| next()).collect()
}

/// A tensor on the GPU with these elements.
fn tensor(data: &[f64], shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::from_slice(data, shape, &Device::Cpu)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// The elements of a tensor in row-major order.
fn elements(tensor: &Tensor) -> Result<Vec<f64>> {
    let on_host = tensor.to_device(&Device::Cpu)?;
    on_host.flatten_all()?.to_dtype(DType::F64)?.to_vec1()
}

/// Panics at the first element that differs.
fn assert_same(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}: number of elements");
    let differs = found.iter().zip(wanted).position(|(a, b)| a != b);
    if let Some(at) = differs {
        let (a, b) = (found[at], wanted[at]);
        panic!("{what}: element {at} is {a} instead of {b}");
    }
}

/// Sizes before, along and behind the dimension that indices name, and of that dimension in the target.
const SPACES: [[usize; 4]; 11] = [
    [1, 5003, 1, 41],
    [3, 70, 1, 9001],
    [2, 701, 33, 50],
    [7, 40, 129, 9],
    [1, 3001, 5, 4001],
    [2, 3, 4099, 2],
    [65, 7, 67, 5],
    [1, 300, 700, 1201],
    [5, 1, 1, 1],
    [1, 35, 5301, 3],
    [2, 4999, 3, 11],
];

/// Elements of a tensor that is large for the emulated device: one type of numbers shows what its size has to.
const MANY: usize = 100_000;

#[test]
fn elements_are_added_where_indices_say() -> Result<()> {
    let Some(device) = gpu("elements_are_added_where_indices_say") else {
        return Ok(());
    };
    for [left, n, right, size] in SPACES {
        for dtype in [DType::F32, DType::F64, DType::U32, DType::I64] {
            if dtype != DType::F32 && left * n * right > MANY {
                continue;
            }
            let what = format!("{dtype:?} {left} x {n} x {right} to {size}");
            let y = integers(left * size * right, 7, 1);
            let x = integers(left * n * right, 9, 2);
            let ids = integers(left * n * right, size as u64, 3);
            let mut wanted = y.clone();
            for (at, value) in x.iter().enumerate() {
                let (l, r) = (at / (n * right), at % right);
                wanted[(l * size + ids[at] as usize) * right + r] += value;
            }
            let target = tensor(&y, &[left, size, right], dtype, &device)?;
            let source = tensor(&x, &[left, n, right], dtype, &device)?;
            for kind in [DType::U32, DType::I64] {
                let ids = tensor(&ids, &[left, n, right], kind, &device)?;
                let found = elements(&target.scatter_add(&ids, &source, 1)?)?;
                assert_same(&found, &wanted, &format!("scatter_add {what}, {kind:?}"));
            }

            let rows = &ids[..n];
            let mut wanted = y.clone();
            for (at, value) in x.iter().enumerate() {
                let (l, i, r) = (at / (n * right), at / right % n, at % right);
                wanted[(l * size + rows[i] as usize) * right + r] += value;
            }
            for kind in [DType::U32, DType::I64] {
                let ids = tensor(rows, &[n], kind, &device)?;
                let found = elements(&target.index_add(&ids, &source, 1)?)?;
                assert_same(&found, &wanted, &format!("index_add {what}, {kind:?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn elements_are_taken_where_indices_say() -> Result<()> {
    let Some(device) = gpu("elements_are_taken_where_indices_say") else {
        return Ok(());
    };
    for [left, n, right, size] in SPACES {
        for dtype in [DType::U8, DType::BF16, DType::F32, DType::I64] {
            let what = format!("{dtype:?} {left} x {n} x {right} of {size}");
            let x = integers(left * size * right, 200, 4);
            let ids = integers(left * n * right, size as u64, 5);
            let source = tensor(&x, &[left, size, right], dtype, &device)?;
            let taken = |index: &dyn Fn(usize, usize, usize) -> f64| -> Vec<f64> {
                let places = 0..left * n * right;
                let place = |at: usize| (at / (n * right), at / right % n, at % right);
                places
                    .map(place)
                    .map(|(l, i, r)| x[(l * size + index(l, i, r) as usize) * right + r])
                    .collect()
            };
            let all = tensor(&ids, &[left, n, right], DType::U32, &device)?;
            let wanted = taken(&|l, i, r| ids[(l * n + i) * right + r]);
            let found = elements(&source.gather(&all, 1)?)?;
            assert_same(&found, &wanted, &format!("gather {what}"));

            let rows = tensor(&ids[..n], &[n], DType::I64, &device)?;
            let wanted = taken(&|_, i, _| ids[i]);
            let found = elements(&source.index_select(&rows, 1)?)?;
            assert_same(&found, &wanted, &format!("index_select {what}"));
        }
    }
    Ok(())
}

#[test]
fn the_last_of_several_elements_stays() -> Result<()> {
    let Some(device) = gpu("the_last_of_several_elements_stays") else {
        return Ok(());
    };
    for [left, n, right, size] in SPACES {
        for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
            let y = integers(left * size * right, 200, 22);
            let x = integers(left * n * right, 200, 23);
            let ids = integers(left * n * right, size as u64, 24);
            let mut wanted = y.clone();
            for (at, value) in x.iter().enumerate() {
                let (l, r) = (at / (n * right), at % right);
                wanted[(l * size + ids[at] as usize) * right + r] = *value;
            }
            let target = tensor(&y, &[left, size, right], dtype, &device)?;
            let source = tensor(&x, &[left, n, right], dtype, &device)?;
            let ids = tensor(&ids, &[left, n, right], DType::U32, &device)?;
            let found = elements(&target.scatter(&ids, &source, 1)?)?;
            let what = format!("scatter {dtype:?} {left} x {n} x {right} to {size}");
            assert_same(&found, &wanted, &what);
        }
    }
    Ok(())
}

/// Shapes, and the dimension that is reduced.
const LINES: [(&[usize], usize); 10] = [
    (&[100_003], 0),
    (&[3, 40_009], 1),
    (&[40_009, 3], 0),
    (&[5, 301, 7], 1),
    (&[301, 5, 7], 0),
    (&[70, 9, 4], 2),
    (&[2049, 65], 0),
    (&[1, 17, 1, 1025], 3),
    (&[4001, 2], 1),
    (&[257, 1], 1),
];

#[test]
fn lines_are_reduced_in_any_view() -> Result<()> {
    let Some(device) = gpu("lines_are_reduced_in_any_view") else {
        return Ok(());
    };
    for (shape, dim) in LINES {
        for dtype in [DType::F32, DType::I64, DType::U32] {
            let count = shape.iter().product();
            if dtype != DType::F32 && count > MANY {
                continue;
            }
            let data = integers(count, 100, 6);
            let x = tensor(&data, shape, dtype, &device)?;
            assert_reduced(&x, dim, &format!("{dtype:?} {shape:?} over {dim}"))?;
            let last = shape.len() - 1;
            let turned = x.transpose(0, last)?;
            let of_turned = if dim == 0 {
                last
            } else if dim == last {
                0
            } else {
                dim
            };
            assert_reduced(
                &turned,
                of_turned,
                &format!("{dtype:?} {shape:?} turned over {of_turned}"),
            )?;
            let length = shape[dim];
            if length > 10 {
                let part = x.narrow(dim, 3, length - 5)?;
                assert_reduced(
                    &part,
                    dim,
                    &format!("{dtype:?} a part of {shape:?} over {dim}"),
                )?;
            }
        }
    }
    Ok(())
}

/// Every reduction of a view along a dimension, compared with loops; of equal extremes the first counts.
fn assert_reduced(x: &Tensor, dim: usize, what: &str) -> Result<()> {
    let (data, dims) = (elements(x)?, x.dims());
    let (left, n): (usize, usize) = (dims[..dim].iter().product(), dims[dim]);
    let right: usize = dims[dim + 1..].iter().product();
    let lines: Vec<Vec<f64>> = (0..left * right)
        .map(|line| {
            let (l, r) = (line / right, line % right);
            (0..n).map(|i| data[(l * n + i) * right + r]).collect()
        })
        .collect();
    let first = |line: &[f64], better: fn(f64, f64) -> bool| -> usize {
        let mut best = 0;
        for (at, &value) in line.iter().enumerate() {
            if better(value, line[best]) {
                best = at;
            }
        }
        best
    };
    let (less, more) = (|a, b| a < b, |a, b| a > b);
    let of_each = |value: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        lines.iter().map(|line| value(line)).collect()
    };
    let sums = of_each(&|line| line.iter().sum());
    let least = of_each(&|line| first(line, less) as f64);
    let most = of_each(&|line| first(line, more) as f64);
    assert_same(&elements(&x.sum(dim)?)?, &sums, &format!("sum of {what}"));
    assert_same(
        &elements(&x.argmin(dim)?)?,
        &least,
        &format!("argmin of {what}"),
    );
    assert_same(
        &elements(&x.argmax(dim)?)?,
        &most,
        &format!("argmax of {what}"),
    );
    let least = of_each(&|line| line[first(line, less)]);
    let most = of_each(&|line| line[first(line, more)]);
    assert_same(&elements(&x.min(dim)?)?, &least, &format!("min of {what}"));
    assert_same(&elements(&x.max(dim)?)?, &most, &format!("max of {what}"));
    Ok(())
}

#[test]
fn sums_over_several_dimensions() -> Result<()> {
    let Some(device) = gpu("sums_over_several_dimensions") else {
        return Ok(());
    };
    let shape = [3, 37, 5, 131];
    let data = integers(shape.iter().product(), 50, 7);
    let x = tensor(&data, &shape, DType::F32, &device)?;
    for turned in [
        x.clone(),
        x.permute((2, 0, 3, 1))?,
        x.permute((3, 2, 1, 0))?,
    ] {
        let (data, dims) = (elements(&turned)?, turned.dims().to_vec());
        for kept in 0..4 {
            let reduced: Vec<usize> = (0..4).filter(|&d| d != kept).collect();
            let step: usize = dims[kept + 1..].iter().product();
            let mut wanted = vec![0.; dims[kept]];
            for (at, value) in data.iter().enumerate() {
                wanted[at / step % dims[kept]] += value;
            }
            let found = elements(&turned.sum(reduced.clone())?)?;
            assert_same(
                &found,
                &wanted,
                &format!("sum of {dims:?} over {reduced:?}"),
            );
        }
        let all: f64 = data.iter().sum();
        assert_same(&elements(&turned.sum_all()?)?, &[all], "sum of all");
    }
    Ok(())
}

/// Images, channels in and out, groups, height and width of image and kernel, padding, stride, dilation.
const CONVOLUTIONS: [[usize; 11]; 12] = [
    [2, 3, 5, 1, 19, 23, 3, 3, 1, 1, 1],
    [3, 4, 6, 2, 17, 11, 3, 2, 2, 2, 1],
    [1, 6, 6, 6, 13, 29, 5, 5, 2, 1, 2],
    [2, 150, 7, 1, 6, 7, 3, 3, 0, 1, 1],
    [1, 1, 70, 1, 40, 37, 1, 1, 0, 3, 1],
    [5, 9, 67, 1, 9, 9, 2, 4, 3, 2, 3],
    [2, 9, 130, 1, 12, 11, 3, 3, 1, 1, 1],
    [3, 37, 70, 1, 9, 8, 1, 1, 0, 1, 1],
    [2, 220, 130, 1, 5, 9, 3, 3, 1, 1, 1],
    [9, 2, 5, 1, 40, 37, 3, 3, 1, 1, 1],
    [1, 2, 330, 1, 5, 4, 2, 2, 0, 1, 1],
    [2, 2, 330, 1, 7, 4, 3, 1, 1, 2, 2],
];

#[test]
fn convolutions_are_plain_sums() -> Result<()> {
    let Some(device) = gpu("convolutions_are_plain_sums") else {
        return Ok(());
    };
    for sizes in CONVOLUTIONS {
        let [images, from, to, groups, height, width, tall, wide, padding, stride, dilation] =
            sizes;
        let image = [images, from, height, width];
        let kernel = [to, from / groups, tall, wide];
        // f16 holds integers up to 2048.
        let depth: usize = kernel[1..].iter().product();
        let below = if depth * 9 <= 2048 { 4 } else { 2 };
        let narrow = depth <= 2048;
        let x = integers(image.iter().product(), below, 8);
        let k = integers(kernel.iter().product(), below, 9);
        let out = |length: usize, kernel: usize| {
            (length + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1
        };
        let (rows, columns) = (out(height, tall), out(width, wide));
        let mut wanted = Vec::new();
        for place in 0..images * to * rows * columns {
            let (b, o) = (place / (to * rows * columns), place / (rows * columns) % to);
            let (row, column) = (place / columns % rows, place % columns);
            // What lies before the image wraps round, and so lies behind it.
            let inside = |at: usize, tap: usize, length: usize| {
                let at = (at * stride + tap * dilation).wrapping_sub(padding);
                (at < length).then_some(at)
            };
            let first = o / (to / groups) * (from / groups);
            let mut sum = 0.;
            for (i, j) in (0..tall).flat_map(|i| (0..wide).map(move |j| (i, j))) {
                let places = (inside(row, i, height), inside(column, j, width));
                let (Some(y), Some(z)) = places else {
                    continue;
                };
                for c in 0..from / groups {
                    sum += x[((b * from + first + c) * height + y) * width + z]
                        * k[((o * kernel[1] + c) * tall + i) * wide + j];
                }
            }
            wanted.push(sum);
        }
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let few = dtype == DType::F32 || wanted.len() * depth <= 100 * MANY;
            if !few || dtype == DType::F16 && !narrow {
                continue;
            }
            let (x, k) = (
                tensor(&x, &image, dtype, &device)?,
                tensor(&k, &kernel, dtype, &device)?,
            );
            let found = elements(&x.conv2d(&k, padding, stride, dilation, groups)?)?;
            assert_same(&found, &wanted, &format!("conv2d {dtype:?} {sizes:?}"));
            let turned = x.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
            let found = elements(&turned.conv2d(&k, padding, stride, dilation, groups)?)?;
            assert_same(
                &found,
                &wanted,
                &format!("conv2d of a turned {dtype:?} {sizes:?}"),
            );
        }
    }
    Ok(())
}

#[test]
fn transposed_convolutions_are_plain_sums() -> Result<()> {
    let Some(device) = gpu("transposed_convolutions_are_plain_sums") else {
        return Ok(());
    };
    // Images, channels in and out, length, kernel, padding, more at the end, stride, dilation.
    let cases: [[usize; 9]; 10] = [
        [1, 2, 3, 9, 4, 1, 0, 4, 6],
        [2, 3, 2, 9, 3, 2, 1, 6, 4],
        [1, 2, 21, 9, 4, 0, 0, 3, 2],
        [9, 2, 1, 1300, 2, 0, 1, 2, 3],
        [3, 4, 5, 31, 3, 0, 0, 1, 1],
        [2, 3, 7, 17, 4, 1, 1, 2, 1],
        [1, 70, 3, 9, 5, 2, 0, 1, 2],
        [2, 65, 66, 11, 2, 0, 1, 3, 1],
        [4, 1, 1, 300, 7, 3, 0, 2, 2],
        [3, 130, 2, 40, 3, 0, 0, 3, 1],
    ];
    for sizes in cases {
        let [images, from, to, length, wide, padding, more, stride, dilation] = sizes;
        let x = integers(images * from * length, 4, 10);
        let k = integers(from * to * wide, 4, 11);
        let out = (length - 1) * stride + dilation * (wide - 1) + more + 1 - 2 * padding;
        let mut wanted = vec![0.; images * to * out];
        for (place, value) in x.iter().enumerate() {
            let (b, c, i) = (
                place / (from * length),
                place / length % from,
                place % length,
            );
            for (o, j) in (0..to).flat_map(|o| (0..wide).map(move |j| (o, j))) {
                let at = i * stride + j * dilation;
                if at >= padding && at - padding < out {
                    wanted[(b * to + o) * out + at - padding] += value * k[(c * to + o) * wide + j];
                }
            }
        }
        for dtype in [DType::F32, DType::F64] {
            let x = tensor(&x, &[images, from, length], dtype, &device)?;
            let k = tensor(&k, &[from, to, wide], dtype, &device)?;
            let found = elements(&x.conv_transpose1d(&k, padding, more, stride, dilation, 1)?)?;
            assert_same(
                &found,
                &wanted,
                &format!("conv_transpose1d {dtype:?} {sizes:?}"),
            );
        }
    }
    Ok(())
}

#[test]
fn products_of_views_are_plain_sums() -> Result<()> {
    let Some(device) = gpu("products_of_views_are_plain_sums") else {
        return Ok(());
    };
    // Products, rows, common length, columns.
    let cases: [[usize; 4]; 7] = [
        [1, 33, 65, 17],
        [6, 5, 7, 3],
        [3, 1, 129, 40],
        [3, 40, 129, 1],
        [5, 1, 9, 1],
        [2, 64, 1, 64],
        [1, 1, 1, 1],
    ];
    for [number, m, k, n] in cases {
        for dtype in [DType::F32, DType::F64, DType::F16] {
            let (a, b) = (
                integers(number * m * k, 4, 12),
                integers(number * k * n, 4, 13),
            );
            let product = |of_a: &dyn Fn(usize) -> usize, of_b: &dyn Fn(usize) -> usize| {
                let mut wanted = Vec::new();
                for place in 0..number * m * n {
                    let (p, i, j) = (place / (m * n), place / n % m, place % n);
                    let sum: f64 = (0..k)
                        .map(|l| a[(of_a(p) * m + i) * k + l] * b[(of_b(p) * k + l) * n + j])
                        .sum();
                    wanted.push(sum);
                }
                wanted
            };
            let what = format!("{dtype:?} {number} x {m} x {k} x {n}");
            let x = tensor(&a, &[number, m, k], dtype, &device)?;
            let y = tensor(&b, &[number, k, n], dtype, &device)?;
            let turned = |x: &Tensor| x.transpose(1, 2)?.contiguous()?.transpose(1, 2);
            let each = product(&|p| p, &|p| p);
            for (left, right) in [
                (x.clone(), y.clone()),
                (turned(&x)?, y.clone()),
                (x.clone(), turned(&y)?),
                (turned(&x)?, turned(&y)?),
            ] {
                let found = elements(&left.matmul(&right)?)?;
                assert_same(
                    &found,
                    &each,
                    &format!("{what}, {:?} {:?}", left.stride(), right.stride()),
                );
            }
            let last = number - 1;
            let one = |x: &Tensor| -> Result<Tensor> {
                x.narrow(0, last, 1)?
                    .broadcast_as((number, x.dim(1)?, x.dim(2)?))
            };
            let found = elements(&one(&x)?.matmul(&y)?)?;
            assert_same(
                &found,
                &product(&|_| last, &|p| p),
                &format!("{what}, one left"),
            );
            let found = elements(&x.matmul(&one(&y)?)?)?;
            assert_same(
                &found,
                &product(&|p| p, &|_| last),
                &format!("{what}, one right"),
            );
        }
    }
    Ok(())
}

#[test]
fn products_in_two_dimensions_that_do_not_merge() -> Result<()> {
    let Some(device) = gpu("products_in_two_dimensions_that_do_not_merge") else {
        return Ok(());
    };
    let [outer, inner, m, k, n] = [5, 3, 4, 7, 6];
    let a = integers(outer * inner * m * k, 5, 20);
    let b = integers(outer * inner * k * n, 5, 21);
    let mut wanted = Vec::new();
    for place in 0..inner * outer * m * n {
        // The left factor lies with its first two dimensions the other way round.
        let (p, q) = (place / (outer * m * n), place / (m * n) % outer);
        let (i, j) = (place / n % m, place % n);
        let term =
            |l: usize| a[((q * inner + p) * m + i) * k + l] * b[((p * outer + q) * k + l) * n + j];
        wanted.push((0..k).map(term).sum());
    }
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let x = tensor(&a, &[outer, inner, m, k], dtype, &device)?.transpose(0, 1)?;
        let y = tensor(&b, &[inner, outer, k, n], dtype, &device)?;
        let found = elements(&x.matmul(&y)?)?;
        assert_same(&found, &wanted, &format!("{dtype:?}"));
    }
    Ok(())
}

#[test]
fn views_are_copied_element_by_element() -> Result<()> {
    let Some(device) = gpu("views_are_copied_element_by_element") else {
        return Ok(());
    };
    let shape = [5, 33, 7, 65];
    let data = integers(shape.iter().product(), 250, 14);
    for dtype in [DType::U8, DType::F16, DType::F32, DType::F64] {
        let on_host = Tensor::from_slice(&data, &shape, &Device::Cpu)?.to_dtype(dtype)?;
        let x = on_host.to_device(&device)?;
        let views: [fn(&Tensor) -> Result<Tensor>; 8] = [
            |x| x.permute((3, 2, 1, 0)),
            |x| x.permute((0, 2, 1, 3)),
            |x| x.narrow(3, 1, 63),
            |x| x.narrow(1, 2, 30)?.narrow(3, 5, 3),
            |x| x.narrow(2, 3, 1)?.broadcast_as((5, 33, 4, 65)),
            |x| x.narrow(0, 4, 1)?.transpose(1, 3),
            |x| x.unsqueeze(1)?.broadcast_as((5, 2, 33, 7, 65)),
            |x| x.narrow(3, 64, 1)?.broadcast_as((5, 33, 7, 9)),
        ];
        for (number, view) in views.iter().enumerate() {
            let wanted = elements(&view(&on_host)?)?;
            let what = format!("{dtype:?}, view {number}");
            // Computed on the GPU, then read as it lies.
            assert_same(&elements(&view(&x)?.contiguous()?)?, &wanted, &what);
            let sums: Vec<f64> = wanted.iter().map(|value| value + value).collect();
            if dtype != DType::U8 {
                assert_same(&elements(&(view(&x)? + view(&x)?)?)?, &sums, &what);
            }
            let larger: Vec<f64> = wanted.iter().map(|&value| f64::from(value > 77.)).collect();
            assert_same(&elements(&view(&x)?.gt(77.)?)?, &larger, &what);
        }
        for dim in 0..4 {
            let parts = [(0, 2), (1, 3), (4, 1)].map(|(from, count)| (from, count, dim));
            let joined = |x: &Tensor| -> Result<Tensor> {
                let cut = |&(from, count, dim): &(usize, usize, usize)| x.narrow(dim, from, count);
                let cuts = parts.iter().map(cut).collect::<Result<Vec<_>>>()?;
                Tensor::cat(&cuts, dim)
            };
            let what = format!("{dtype:?}, parts joined along {dim}");
            assert_same(
                &elements(&joined(&x)?)?,
                &elements(&joined(&on_host)?)?,
                &what,
            );
        }
    }
    Ok(())
}

#[test]
fn windows_are_pooled_and_enlarged() -> Result<()> {
    let Some(device) = gpu("windows_are_pooled_and_enlarged") else {
        return Ok(());
    };
    let sizes = [3, 5, 37, 41];
    let data = integers(sizes.iter().product(), 64, 15);
    let x = tensor(&data, &sizes, DType::F32, &device)?;
    let turned = x.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
    for (kernel, stride) in [((2, 2), (2, 2)), ((4, 2), (3, 1)), ((1, 8), (2, 5))] {
        let rows = (sizes[2] - kernel.0) / stride.0 + 1;
        let columns = (sizes[3] - kernel.1) / stride.1 + 1;
        let (mut sums, mut most) = (Vec::new(), Vec::new());
        for place in 0..sizes[0] * sizes[1] * rows * columns {
            let (plane, row, column) = (
                place / (rows * columns),
                place / columns % rows,
                place % columns,
            );
            let window: Vec<f64> = (0..kernel.0 * kernel.1)
                .map(|w| {
                    let (i, j) = (
                        row * stride.0 + w / kernel.1,
                        column * stride.1 + w % kernel.1,
                    );
                    data[(plane * sizes[2] + i) * sizes[3] + j]
                })
                .collect();
            // Kernels have a power of two elements, so that the mean is exact.
            sums.push(window.iter().sum::<f64>() / window.len() as f64);
            most.push(window.iter().copied().fold(f64::MIN, f64::max));
        }
        for (view, x) in [("plain", &x), ("turned", &turned)] {
            let what = format!("{view}, {kernel:?} by {stride:?}");
            let found = elements(&x.avg_pool2d_with_stride(kernel, stride)?)?;
            assert_same(&found, &sums, &format!("means, {what}"));
            let found = elements(&x.max_pool2d_with_stride(kernel, stride)?)?;
            assert_same(&found, &most, &format!("maxima, {what}"));
        }
    }
    let (height, width) = (2 * sizes[2], 3 * sizes[3]);
    let mut wanted = Vec::new();
    for place in 0..sizes[0] * sizes[1] * height * width {
        let (plane, row, column) = (
            place / (height * width),
            place / width % height,
            place % width,
        );
        wanted.push(data[(plane * sizes[2] + row / 2) * sizes[3] + column / 3]);
    }
    for x in [&x, &turned] {
        let found = elements(&x.upsample_nearest2d(height, width)?)?;
        assert_same(&found, &wanted, "upsample_nearest2d");
    }
    Ok(())
}

#[test]
fn a_condition_chooses_in_any_view() -> Result<()> {
    let Some(device) = gpu("a_condition_chooses_in_any_view") else {
        return Ok(());
    };
    let shape = [129, 67];
    let (a, b) = (integers(129 * 67, 100, 16), integers(129 * 67, 100, 17));
    let chosen = integers(67, 2, 18);
    let x = tensor(&a, &shape, DType::F32, &device)?;
    let y = tensor(&b, &[67, 129], DType::F32, &device)?.t()?;
    let wanted: Vec<f64> = (0..129 * 67)
        .map(|at| match chosen[at % 67] {
            0. => b[at % 67 * 129 + at / 67],
            _ => a[at],
        })
        .collect();
    for dtype in [DType::U8, DType::U32, DType::I64] {
        let condition = tensor(&chosen, &[1, 67], dtype, &device)?.broadcast_as((129, 67))?;
        let found = elements(&condition.where_cond(&x, &y)?)?;
        assert_same(&found, &wanted, &format!("where_cond {dtype:?}"));
    }
    Ok(())
}
