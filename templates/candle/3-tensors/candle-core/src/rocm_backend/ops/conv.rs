//! Convolutions: which way each is computed. The 1-D forms are images and kernels of one row.
//!
//! `conv_product` computes convolutions that are matrix products, or are faster as such. For all others, own kernels
//! gather inputs and weights themselves. Either way 16-bit and 8-bit floats are summed in f32.
use super::binary::same_types;
use super::operand::{kernel, uninit, Operand};
use super::planes::images;
use crate::conv::{ParamsConv1D, ParamsConv2D, ParamsConvTranspose1D, ParamsConvTranspose2D};
use crate::op::BackpropOp;
use crate::rocm_backend::plan::conv::Choice;
use crate::rocm_backend::plan::im2col::Window;
use crate::rocm_backend::plan::table::{conv as table, Element};
use crate::rocm_backend::plan::{self, Images, Pointer};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::storage::Storage;
use crate::tensor::from_storage;
use crate::{DType, Layout, Result, Tensor};

/// (b, c_in, l) with a kernel (c_out, c_in, k) to (b, c_out, l_out).
pub(in crate::rocm_backend) fn conv1d(
    x: &RocmStorage,
    layout: &Layout,
    w: &RocmStorage,
    w_layout: &Layout,
    params: &ParamsConv1D,
) -> Result<RocmStorage> {
    const OP: &str = "conv1d";
    let operands = same_types(x, w, layout, w_layout, OP)?;
    convolve(operands, windows_of_rows(params), 1, OP)
}

/// The same of channels in groups; see `in_groups`.
pub(crate) fn conv1d_in_groups(
    x: &Tensor,
    w: &Tensor,
    params: &ParamsConv1D,
    groups: usize,
) -> Result<Option<Tensor>> {
    in_groups(
        x,
        w,
        windows_of_rows(params),
        groups,
        params.out_dims(),
        "conv1d",
    )
}

fn windows_of_rows(params: &ParamsConv1D) -> Window {
    Window {
        kernel: [1, params.k_size],
        padding: [0, params.padding],
        stride: params.stride,
        dilation: params.dilation,
    }
}

/// (b, c_in, h, w) with a kernel (c_out, c_in, k_h, k_w) to (b, c_out, h_out, w_out).
pub(in crate::rocm_backend) fn conv2d(
    x: &RocmStorage,
    layout: &Layout,
    w: &RocmStorage,
    w_layout: &Layout,
    params: &ParamsConv2D,
) -> Result<RocmStorage> {
    const OP: &str = "conv2d";
    let operands = same_types(x, w, layout, w_layout, OP)?;
    convolve(operands, windows_of_images(params), 1, OP)
}

/// The same of channels in groups; see `in_groups`.
pub(crate) fn conv2d_in_groups(
    x: &Tensor,
    w: &Tensor,
    params: &ParamsConv2D,
    groups: usize,
) -> Result<Option<Tensor>> {
    in_groups(
        x,
        w,
        windows_of_images(params),
        groups,
        params.out_dims(),
        "conv2d",
    )
}

fn windows_of_images(params: &ParamsConv2D) -> Window {
    Window {
        kernel: [params.k_h, params.k_w],
        padding: [params.padding; 2],
        stride: params.stride,
        dilation: params.dilation,
    }
}

/// (b, c_in, l) with a kernel (c_in, c_out, k) to (b, c_out, l_out).
pub(in crate::rocm_backend) fn conv_transpose1d(
    x: &RocmStorage,
    layout: &Layout,
    w: &RocmStorage,
    w_layout: &Layout,
    params: &ParamsConvTranspose1D,
) -> Result<RocmStorage> {
    const OP: &str = "conv_transpose1d";
    let window = Window {
        kernel: [1, params.k_size],
        padding: [0, params.padding],
        stride: params.stride,
        dilation: params.dilation,
    };
    let operands = same_types(x, w, layout, w_layout, OP)?;
    convolve_transposed(operands, window, [0, params.output_padding], OP)
}

/// (b, c_in, h, w) with a kernel (c_in, c_out, k_h, k_w) to (b, c_out, h_out, w_out).
pub(in crate::rocm_backend) fn conv_transpose2d(
    x: &RocmStorage,
    layout: &Layout,
    w: &RocmStorage,
    w_layout: &Layout,
    params: &ParamsConvTranspose2D,
) -> Result<RocmStorage> {
    const OP: &str = "conv_transpose2d";
    let window = Window {
        kernel: [params.k_h, params.k_w],
        padding: [params.padding; 2],
        stride: params.stride,
        dilation: params.dilation,
    };
    let operands = same_types(x, w, layout, w_layout, OP)?;
    convolve_transposed(operands, window, [params.output_padding; 2], OP)
}

/// One convolution or transposed convolution.
pub(super) struct Convolution<'a> {
    pub(super) device: &'a RocmDevice,
    pub(super) dtype: DType,
    pub(super) element: Element,
    pub(super) x: Images,
    /// The kernels.
    pub(super) w: Images,
    pub(super) window: Window,
    /// Of the result.
    pub(super) channels: usize,
    /// Of channels, each convolved by itself.
    groups: usize,
    /// Height and width of the result.
    pub(super) results: [usize; 2],
    /// Candle's name of the operation.
    name: &'static str,
}

/// One operation for all groups. Candle has one for each, since gradients are of each: `None` where there are to be some, and
/// for one group and storages of other devices. `results` are a group's.
fn in_groups(
    x: &Tensor,
    w: &Tensor,
    window: Window,
    groups: usize,
    mut results: Vec<usize>,
    name: &'static str,
) -> Result<Option<Tensor>> {
    let alike = w.dims()[0].is_multiple_of(groups);
    if groups == 1 || !alike || x.track_op() || w.track_op() {
        return Ok(None);
    }
    let ((x_storage, layout), (w_storage, w_layout)) =
        (x.storage_and_layout(), w.storage_and_layout());
    let (Storage::Rocm(of_x), Storage::Rocm(of_w)) = (&*x_storage, &*w_storage) else {
        return Ok(None);
    };
    x_storage.same_device(&w_storage, name)?;
    let operands = same_types(of_x, of_w, layout, w_layout, name)?;
    let storage = convolve(operands, window, groups, name)?;
    results[1] *= groups;
    let made = from_storage(Storage::Rocm(storage), results, BackpropOp::none(), false);
    Ok(Some(made))
}

fn convolve(
    (x, w): (Operand<'_>, Operand<'_>),
    window: Window,
    groups: usize,
    name: &'static str,
) -> Result<RocmStorage> {
    let (images, kernels) = (images(x)?, images(w)?);
    let [_, _, height, width] = images.shape;
    let convolution = Convolution {
        device: x.device(),
        dtype: x.dtype(),
        element: x.element(name)?,
        x: images,
        w: kernels,
        window,
        channels: kernels.shape[0],
        groups,
        results: window.results([height, width])?,
        name,
    };
    if groups > 1 {
        return convolution.made_by(|y| convolution.gather(y));
    }
    convolution.made_by(|y| {
        #[cfg(feature = "rocm-miopen")]
        if convolution.by_miopen(y)? {
            return Ok(());
        }
        if let Some(product) = convolution.as_product() {
            product.multiply(y)
        } else if let Some(unfolding) = convolution.worth_unfolding() {
            unfolding.multiply(y)
        } else {
            convolution.gather(y)
        }
    })
}

fn convolve_transposed(
    (x, w): (Operand<'_>, Operand<'_>),
    window: Window,
    output_padding: [usize; 2],
    name: &'static str,
) -> Result<RocmStorage> {
    let (images, kernels) = (images(x)?, images(w)?);
    let [_, _, height, width] = images.shape;
    let convolution = Convolution {
        device: x.device(),
        dtype: x.dtype(),
        element: x.element(name)?,
        x: images,
        w: kernels,
        window,
        channels: kernels.shape[1],
        groups: 1,
        results: window.transposed_results([height, width], output_padding)?,
        name,
    };
    convolution.made_by(|y| match convolution.worth_folding() {
        Some(folding) if output_padding == [0; 2] => folding.multiply(y),
        _ => convolution.gather_transposed(y),
    })
}

impl Convolution<'_> {
    /// The result, which `compute` writes unless it is empty.
    fn made_by(&self, compute: impl FnOnce(Pointer) -> Result<()>) -> Result<RocmStorage> {
        let count = self.x.shape[0] * self.channels * self.pixels();
        let y = uninit(count, self.dtype, self.device)?;
        if count > 0 {
            self.planned().check_sizes(self.name)?;
            compute(y.pointer())?;
        }
        Ok(y)
    }

    /// As plans of launches see it.
    fn planned(&self) -> plan::conv::Convolution {
        plan::conv::Convolution {
            element: self.element,
            x: self.x,
            w: self.w,
            window: self.window,
            channels: self.channels,
            groups: self.groups,
            results: self.results,
        }
    }

    /// Pixels of one plane of the result.
    pub(super) fn pixels(&self) -> usize {
        self.planned().pixels()
    }

    /// Elements that are summed for a result, of one that is not transposed.
    pub(super) fn depth(&self) -> usize {
        self.planned().depth()
    }

    /// By kernels that gather what they multiply.
    fn gather(&self, y: Pointer) -> Result<()> {
        kernel(&table::CONV2D, &[self.element], self.dtype, self.name)?;
        Ok(self.planned().gather(self.device, Choice::default(), y)?)
    }

    fn gather_transposed(&self, y: Pointer) -> Result<()> {
        let op = &table::CONV_TRANSPOSE2D;
        kernel(op, &[self.element], self.dtype, self.name)?;
        let planned = self.planned();
        Ok(planned.gather_transposed(self.device, Choice::default(), y)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::launcher::MAX_GRID_Y;
    use crate::rocm_backend::plan::im2col::MAX_PLACE;
    use crate::rocm_backend::testing::{gpu, launches_of};
    use crate::Device;

    #[test]
    fn numbers_that_kernels_cannot_count_to_are_refused() -> Result<()> {
        let Some(device) = gpu("numbers_that_kernels_cannot_count_to_are_refused") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let x = Tensor::new(&[[[3f32, 4.]]], &Device::Cpu)?.to_device(&device)?;
        let w = Tensor::new(&[[[5f32]]], &Device::Cpu)?.to_device(&device)?;
        let far = x.conv1d(&w, 0, 1, MAX_PLACE, 1)?;
        assert_eq!(far.flatten_all()?.to_vec1::<f32>()?, [15., 20.]);
        assert!(x.conv1d(&w, 0, 1, MAX_PLACE + 1, 1).is_err());
        let first = x.conv1d(&w, 0, MAX_PLACE, 1, 1)?;
        assert_eq!(first.flatten_all()?.to_vec1::<f32>()?, [15.]);
        assert!(x.conv1d(&w, 0, MAX_PLACE + 1, 1, 1).is_err());
        let many = MAX_PLACE + 1;
        let (x, w) = (x.broadcast_as((1, many, 2))?, w.broadcast_as((1, many, 1))?);
        let message = x.conv1d(&w, 0, 1, 1, 1).unwrap_err().to_string();
        assert!(
            message.contains("conv1d of [1, 2147483648, 1, 2]"),
            "{message}"
        );
        assert!(message.contains("is too large"), "{message}");
        // Nothing is counted where there is no result.
        let (x, w) = (x.narrow(1, 0, 1)?, w.narrow(1, 0, 1)?);
        let none = x.narrow(0, 0, 0)?.conv1d(&w, 0, MAX_PLACE + 1, 1, 1)?;
        assert_eq!(none.dims(), [0, 1, 1]);
        Ok(())
    }

    #[test]
    fn tiles_share_inputs_among_channels() -> Result<()> {
        let Some(device) = gpu("tiles_share_inputs_among_channels") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let x = Tensor::zeros((3, 2, 9, 11), DType::F32, &device)?;
        let most = table::FORM_64_CHANNELS * MAX_GRID_Y;
        // 3 * 8 * 10 pixels: 1 tile of 256, 2 of 128, or 1 block of 256 threads.
        for (channels, kernel, grid) in [
            (4, "conv2d_f32", [1, 1, 1]),
            (5, "conv2d_tiled_f32_16", [1, 1, 1]),
            (17, "conv2d_tiled_f32_16", [1, 2, 1]),
            (33, "conv2d_tiled_f32_64", [2, 1, 1]),
            (65, "conv2d_tiled_f32_64", [2, 2, 1]),
            (most, "conv2d_tiled_f32_64", [2, MAX_GRID_Y as u32, 1]),
            (most + 1, "conv2d_f32", [1, MAX_GRID_Y as u32, 1]),
        ] {
            let w = Tensor::zeros((channels, 2, 2, 2), DType::F32, &device)?;
            let (result, launches) = launches_of(|| x.conv2d(&w, 0, 1, 1, 1));
            result?;
            let found: Vec<_> = launches
                .iter()
                .map(|l| (l.kernel.as_str(), l.grid))
                .collect();
            assert_eq!(found, [(kernel, grid)], "{channels} channels");
        }
        Ok(())
    }

    /// Whole numbers from -1 to 1, of which sums are exact in every type.
    fn numbers(shape: &[usize]) -> Result<Tensor> {
        let count: usize = shape.iter().product();
        let numbers = (0..count).map(|i| ((i * 7919 + i / 5) % 3) as f32 - 1.);
        Tensor::from_iter(numbers, &Device::Cpu)?.reshape(shape)
    }

    /// The kernels that a convolution of a type takes on the device, which has to compute what the CPU does.
    fn kernels_of(
        [x, w]: [Tensor; 2],
        stride: usize,
        dtype: DType,
        device: &Device,
        what: &str,
    ) -> Result<Vec<String>> {
        let wanted = x.conv2d(&w, 0, stride, 1, 1)?;
        let on = |tensor: &Tensor| tensor.to_dtype(dtype)?.to_device(device);
        let (x, w) = (on(&x)?, on(&w)?);
        let (found, launches) = launches_of(|| x.conv2d(&w, 0, stride, 1, 1));
        let flat = |tensor: Tensor| -> Result<_> {
            let tensor = tensor.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
            tensor.flatten_all()?.to_vec1::<f32>()
        };
        assert_eq!(flat(found?)?, flat(wanted)?, "{what}");
        Ok(launches.into_iter().map(|launch| launch.kernel).collect())
    }

    #[test]
    fn every_tile_sums_operands_as_they_are_and_packed_ones() -> Result<()> {
        let name = "every_tile_sums_operands_as_they_are_and_packed_ones";
        let Some(device) = gpu(name) else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let on_units = [16, 64, 128];
        for (dtype, name, tiles, widths) in [
            (DType::F32, "f32", "tiled", [16, 64, 64]),
            (DType::F64, "f64", "tiled", [16, 64, 64]),
            (DType::F16, "f16", "matrix", on_units),
            (DType::BF16, "bf16", "matrix", on_units),
        ] {
            for (channels, width) in [5, 33, 65].into_iter().zip(widths) {
                for (side, stride, inputs) in [(1, 2, 260), (3, 1, 64)] {
                    let operands = [
                        numbers(&[2, inputs, 4, 5])?,
                        numbers(&[channels, inputs, side, side])?,
                    ];
                    let what = format!("{channels} channels of {dtype:?}, {side} x {side}");
                    let launched = kernels_of(operands, stride, dtype, &device, &what)?;
                    // Packing pays for 9 taps, if there is such a kernel.
                    let packed = side == 3 && (width > 16 || tiles == "matrix");
                    let packed = if packed { "_packed" } else { "" };
                    let kernel = format!("conv2d_{tiles}{packed}_{name}_{width}");
                    let sum = format!("conv2d_sum_{name}");
                    for kernel in [kernel, sum] {
                        assert!(launched.contains(&kernel), "{what}: {kernel}");
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn tiles_of_32_channels_are_for_many_results_without_matrix_units() -> Result<()> {
        let name = "tiles_of_32_channels_are_for_many_results_without_matrix_units";
        let Some(device) = gpu(name) else {
            return Ok(());
        };
        // 256 pixels for each of more than two blocks to a multiprocessor.
        let images = 2 * device.multiprocessors() * 256 / (63 * 62) + 1;
        let device = Device::Rocm(device);
        for (dtype, name) in [(DType::F32, "f32"), (DType::F64, "f64")] {
            // Packs of a single channel would be mostly empty.
            for (inputs, tiles) in [(1, "tiled"), (4, "tiled_packed")] {
                let operands = [
                    numbers(&[images, inputs, 64, 63])?,
                    numbers(&[17, inputs, 2, 2])?,
                ];
                let what = format!("{dtype:?}, {inputs}");
                let launched = kernels_of(operands, 1, dtype, &device, &what)?;
                let kernel = format!("conv2d_{tiles}_{name}_32");
                assert!(launched.contains(&kernel), "{what}: {kernel}");
            }
        }
        Ok(())
    }

    #[test]
    fn groups_share_launches_unless_there_are_gradients() -> Result<()> {
        let Some(device) = gpu("groups_share_launches_unless_there_are_gradients") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let (x, w) = (numbers(&[2, 12, 6, 5])?, numbers(&[24, 1, 3, 2])?);
        let wanted = x.conv2d(&w, 1, 1, 1, 12)?.flatten_all()?;
        let (x, w) = (x.to_device(&device)?, w.to_device(&device)?);
        let kernels = |work: &dyn Fn() -> Result<Tensor>| -> Result<Vec<String>> {
            let (result, launches) = launches_of(work);
            let result = result?.flatten_all()?.to_vec1::<f32>()?;
            assert_eq!(result, wanted.to_vec1::<f32>()?);
            Ok(launches.into_iter().map(|launch| launch.kernel).collect())
        };
        assert_eq!(kernels(&|| x.conv2d(&w, 1, 1, 1, 12))?, ["conv2d_f32"]);
        let variable = crate::Var::from_tensor(&w)?;
        let of_each = kernels(&|| x.conv2d(&variable, 1, 1, 1, 12))?;
        let convolutions = of_each.iter().filter(|kernel| *kernel == "conv2d_f32");
        assert_eq!(convolutions.count(), 12, "a group each");
        // In one dimension.
        let (row, taps) = (
            x.narrow(2, 0, 1)?.squeeze(2)?,
            w.narrow(2, 0, 1)?.squeeze(2)?,
        );
        let (result, launches) = launches_of(|| row.conv1d(&taps, 0, 1, 1, 12));
        let on_cpu = |tensor: &Tensor| tensor.to_device(&Device::Cpu);
        let wanted = on_cpu(&row)?.conv1d(&on_cpu(&taps)?, 0, 1, 1, 12)?;
        let flat = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
        assert_eq!(flat(&result?)?, flat(&wanted)?);
        assert_eq!(launches.len(), 1);
        // Groups of unlike sizes are Candle's affair.
        let unlike = w.narrow(0, 0, 23)?;
        let (_, launches) = launches_of(|| x.conv2d(&unlike, 1, 1, 1, 12));
        assert!(launches.len() > 1);
        Ok(())
    }

    /// A channel's sum would be one thread's work where groups have few channels and results.
    #[test]
    fn long_sums_of_few_results_are_taken_in_parts_in_groups_as_well() -> Result<()> {
        let test = "long_sums_of_few_results_are_taken_in_parts_in_groups_as_well";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let tiles = "conv2d_tiled_f32_16";
        let in_parts = vec![tiles, "conv2d_sum_f32"];
        for (groups, channels, kernels) in [
            (2, 2, in_parts.clone()),
            (2, 6, in_parts),
            // Of 150 terms, too few for two parts.
            (20, 20, vec![tiles]),
        ] {
            let (x, w) = (
                numbers(&[2, 120, 7, 6])?,
                numbers(&[channels, 120 / groups, 5, 5])?,
            );
            let wanted = x.conv2d(&w, 0, 1, 1, groups)?;
            let (x, w) = (x.to_device(&device)?, w.to_device(&device)?);
            let (found, launches) = launches_of(|| x.conv2d(&w, 0, 1, 1, groups));
            let what = format!("{channels} channels in {groups} groups");
            let flat = |tensor: &Tensor| tensor.flatten_all()?.to_vec1::<f32>();
            let (found, wanted) = (flat(&found?)?, flat(&wanted)?);
            assert_eq!(found.len(), wanted.len());
            for (found, wanted) in found.iter().zip(&wanted) {
                let least = 1e-4 * wanted.abs().max(1.);
                assert!(
                    (found - wanted).abs() < least,
                    "{what}: {found} and {wanted}"
                );
            }
            let found: Vec<_> = launches.iter().map(|l| l.kernel.as_str()).collect();
            assert_eq!(found, kernels, "{what}");
        }
        Ok(())
    }

    #[test]
    fn launches_have_whole_images() -> Result<()> {
        let Some(device) = gpu("launches_have_whole_images") else {
            return Ok(());
        };
        let device = Device::Rocm(device);
        let w = Tensor::zeros((1, 1, 2, 2), DType::F32, &device)?;
        // Images of 1000 pixels, of which a launch takes 4 (MAX_LAUNCH is 4096); or larger ones, one by one.
        for (batch, side, blocks) in [
            (4, [20, 50], vec![16]),
            (9, [20, 50], vec![16, 16, 4]),
            (2, [64, 64], vec![16, 16]),
            (2, [64, 65], vec![17, 17]),
            (3, [64, 32], vec![16, 8]),
        ] {
            let x = Tensor::zeros((batch, 1, side[0] + 1, side[1] + 1), DType::F32, &device)?;
            let (result, launches) = launches_of(|| x.conv2d(&w, 0, 1, 1, 1));
            result?;
            let found: Vec<_> = launches.iter().map(|launch| launch.grid[0]).collect();
            assert_eq!(found, blocks, "{batch} images of {side:?}");
        }
        Ok(())
    }
}
