//! Tests of unfolded images, which convolutions multiply.
use super::operand::{uninit, Operand};
use super::planes::images;
use super::{storage_from_slice, zeros_impl};
use crate::rocm_backend::plan::im2col::{im2col, Window};
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::testing::{gpu, launches_of};
use crate::{DType, Layout, Result, Shape};

#[test]
fn rows_of_kernels_fill_launches() -> Result<()> {
    let Some(device) = gpu("rows_of_kernels_fill_launches") else {
        return Ok(());
    };
    // 1000 rows of kernels in tiles of 120, five of which are a launch's; 3 rows of pixels for each of 2 images.
    let shape = [2, 200, 5, 6];
    let x = zeros_impl(&device, &Shape::from(&shape[..]), DType::F16)?;
    let layout = Layout::contiguous(&shape);
    let images = images(Operand::new(&x, &layout))?;
    let window = windows([5, 3], [2, 1], 2, 1);
    let y = uninit(2 * 9 * 200 * 15, DType::F16, &device)?;
    let write = || {
        im2col(
            &device,
            Element::F16,
            &images,
            (0, 2),
            &window,
            [3, 3],
            y.pointer(),
        )
    };
    let (result, launches) = launches_of(write);
    result?;
    let grids: Vec<_> = launches.iter().map(|launch| launch.grid).collect();
    assert_eq!(grids, [[6, 5, 1], [6, 4, 1]]);
    Ok(())
}

/// Batch, channels, height and width, and the windows: with spans and without, cut taps, several rows of tiles,
/// and more of all than a launch takes.
const CASES: [([usize; 4], Window); 8] = [
    ([3, 2, 7, 9], windows([3, 3], [1, 1], 1, 1)),
    ([2, 3, 9, 70], windows([2, 3], [0, 2], 1, 2)),
    ([2, 1, 13, 31], windows([1, 2], [0, 0], 4, 1)),
    ([1, 40, 5, 6], windows([5, 3], [2, 1], 2, 1)),
    ([1, 1, 3, 5000], windows([1, 4500], [0, 3], 7, 1)),
    ([1, 1, 1, 9000], windows([1, 4400], [0, 0], 100, 2)),
    ([9, 1, 8, 8], windows([1, 1], [0, 0], 1, 1)),
    ([1, 2, 40, 3], windows([30, 2], [3, 1], 1, 1)),
];

const fn windows(
    kernel: [usize; 2],
    padding: [usize; 2],
    stride: usize,
    dilation: usize,
) -> Window {
    Window {
        kernel,
        padding,
        stride,
        dilation,
    }
}

#[test]
fn every_tap_of_every_window_is_a_column() -> Result<()> {
    let Some(device) = gpu("every_tap_of_every_window_is_a_column") else {
        return Ok(());
    };
    for (shape, window) in CASES {
        for (size, dtype, element) in [
            (1, DType::U8, Element::B8),
            (2, DType::F16, Element::F16),
            (4, DType::F32, Element::F32),
            (8, DType::F64, Element::F64),
        ] {
            let [batch, channels, height, width] = shape;
            let count: usize = shape.iter().product();
            // The bytes of element number i are those of the number i + 1; 0 lies outside.
            let bytes: Vec<u8> = (1..=count as u64)
                .flat_map(|i| (i * 0x9e37_79b1).to_ne_bytes()[..size].to_vec())
                .collect();
            let mut x = storage_from_slice(&device, &vec![0u8; bytes.len()])?;
            x.copy_from_host(&bytes)?;
            let layout = Layout::contiguous(&shape);
            let mut images = images(Operand::new(&x, &layout))?;
            images.size = size;
            let [rows, columns] = window.results([height, width])?;
            let [tall, wide] = window.kernel;
            let depth = channels * tall * wide;
            let first = batch - batch.div_ceil(2);
            let images_at_once = batch - first;
            let y = uninit(images_at_once * rows * columns * depth, dtype, &device)?;
            let part = (first, images_at_once);
            im2col(
                &device,
                element,
                &images,
                part,
                &window,
                [rows, columns],
                y.pointer(),
            )?;
            let mut found = vec![0; y.size()];
            y.copy_to_host(&mut found)?;
            let mut places = found.chunks(size);
            for (b, row, column, c, i, j) in (first..batch)
                .flat_map(|b| (0..rows).map(move |row| (b, row)))
                .flat_map(|(b, row)| (0..columns).map(move |column| (b, row, column)))
                .flat_map(|(b, row, column)| {
                    (0..depth).map(move |at| {
                        (
                            b,
                            row,
                            column,
                            at / (tall * wide),
                            at / wide % tall,
                            at % wide,
                        )
                    })
                })
            {
                let at_row = (row * window.stride + i * window.dilation)
                    .checked_sub(window.padding[0])
                    .filter(|at| *at < height);
                let at_column = (column * window.stride + j * window.dilation)
                    .checked_sub(window.padding[1])
                    .filter(|at| *at < width);
                let zeros = [0; 8];
                let wanted = match (at_row, at_column) {
                    (Some(y), Some(x)) => {
                        let at = ((b * channels + c) * height + y) * width + x;
                        &bytes[at * size..][..size]
                    }
                    _ => &zeros[..size],
                };
                let place = (b, row, column, c, i, j);
                assert_eq!(
                    places.next(),
                    Some(wanted),
                    "{shape:?} {window:?}: {place:?}"
                );
            }
            assert_eq!(places.next(), None);
        }
    }
    Ok(())
}
