//! Convolutions as matrix products by rocBLAS: of what lies in memory, or of what is unfolded there first.
use super::conv::Convolution;
use super::matmul::{multiply, Matrices};
use super::operand::{kernel, uninit};
use crate::rocm_backend::blas::Types;
use crate::rocm_backend::plan::im2col::{col2im1d, im2col as unfold, Window};
use crate::rocm_backend::plan::table::im2col;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::Images;
use crate::rocm_backend::plan::Pointer;
use crate::rocm_backend::plan::View;
use crate::Result;

/// Output channels from which a convolution of single pixels is a product.
const PRODUCT_FROM_CHANNELS: usize = 16;

/// Output channels from which unfolding 16-bit floats pays.
///
/// A model, not a measurement: an unfolded element costs 4 bytes of traffic and saves two operations for each channel.
/// With 5 TB/s and 80 TFLOP/s without matrix cores (MI300X, half of its peak) both cost the same at 32 channels, with
/// 1 TB/s and 30 TFLOP/s (RX 7900 XTX) at 64, to which comes the product itself. For f32 and f64, which matrix cores
/// compute no more than twice as fast, own kernels are never far behind.
const UNFOLDED_FROM_CHANNELS: usize = 128;

/// The most bytes that are unfolded at a time; few in the crate's own tests.
#[cfg(not(test))]
const UNFOLDED_BYTES: usize = 256 << 20;
#[cfg(test)]
const UNFOLDED_BYTES: usize = 16 << 10;

/// Input channels from which a transposed convolution in one dimension is a product first, whose rows are then added up.
///
/// A model, as above: the product's elements are written and read once, 8 bytes for f32, while the own kernel, which
/// loads 5 numbers for each 4 that it multiplies, has a tenth of the peak. Both cost the same at 7 to 20 channels.
const FOLDED_FROM_CHANNELS: usize = 64;

/// A batch of matrices, in elements from an address on.
struct Batch {
    start: Pointer,
    shape: [usize; 3],
    strides: [usize; 3],
}

impl Batch {
    fn matrices(&self) -> Matrices<'_> {
        Matrices {
            base: self.start,
            view: View {
                shape: &self.shape,
                strides: &self.strides,
                offset: 0,
            },
        }
    }
}

/// A convolution that is `kernels` times `pixels`, (b, c_out, c_in) times (b, c_in, pixels).
pub(super) struct PixelProduct<'a> {
    convolution: &'a Convolution<'a>,
    types: Types,
    kernels: Batch,
    pixels: Batch,
}

impl PixelProduct<'_> {
    pub(super) fn multiply(&self, y: Pointer) -> Result<()> {
        let Self {
            kernels, pixels, ..
        } = self;
        self.convolution.product(self.types, kernels, pixels, y)
    }
}

/// A convolution whose images are unfolded to rows of windows, which `kernels` are multiplied with.
pub(super) struct Unfolding<'a> {
    convolution: &'a Convolution<'a>,
    types: Types,
    kernels: Batch,
}

impl Unfolding<'_> {
    /// Some images at a time, in the same memory.
    pub(super) fn multiply(&self, y: Pointer) -> Result<()> {
        let Convolution {
            device,
            dtype,
            element,
            x,
            window,
            channels,
            results,
            ..
        } = self.convolution;
        let (batch, pixels, depth) = (
            x.shape[0],
            self.convolution.pixels(),
            self.convolution.depth(),
        );
        let at_once = (UNFOLDED_BYTES / (pixels * depth * x.size)).clamp(1, batch);
        let unfolded = uninit(at_once * pixels * depth, *dtype, device)?;
        for first in (0..batch).step_by(at_once) {
            let images = at_once.min(batch - first);
            let rows = unfolded.pointer();
            unfold(
                *device,
                *element,
                x,
                (first, images),
                window,
                *results,
                rows,
            )?;
            let kernels = Batch {
                shape: [images, *channels, depth],
                ..self.kernels
            };
            let windows = Batch {
                start: rows,
                shape: [images, depth, pixels],
                strides: [pixels * depth, 1, depth],
            };
            let written = y.offset(first * channels * pixels * x.size);
            self.convolution
                .product(self.types, &kernels, &windows, written)?;
        }
        Ok(())
    }
}

/// A transposed convolution of rows that is `pixels` times `kernels`, (b, l, c_in) times (b, c_in, c_out * k), whose
/// results are then added up where they overlap.
pub(super) struct Folding<'a> {
    convolution: &'a Convolution<'a>,
    types: Types,
    pixels: Batch,
    kernels: Batch,
}

impl Folding<'_> {
    pub(super) fn multiply(&self, y: Pointer) -> Result<()> {
        let Convolution {
            device,
            dtype,
            element,
            window,
            channels,
            ..
        } = self.convolution;
        let ([batch, length, _], [_, _, pixel]) = (self.pixels.shape, self.kernels.shape);
        let windows = uninit(batch * length * pixel, *dtype, device)?;
        let factors = (&self.pixels, &self.kernels);
        self.convolution
            .product(self.types, factors.0, factors.1, windows.pointer())?;
        let taps = window.kernel[1];
        let images = Images {
            shape: [batch, *channels, length, taps],
            strides: [length * pixel, taps, pixel, 1],
            start: windows.pointer(),
            size: self.types.size(),
        };
        let kernel = kernel(&im2col::COL2IM1D, &[*element], *dtype, "col2im1d")?;
        Ok(col2im1d(*device, kernel, &images, window.stride, y)?)
    }
}

impl Convolution<'_> {
    /// Multiplies matrices on the convolution's device, as the GPU does as a rule.
    fn product(&self, types: Types, left: &Batch, right: &Batch, y: Pointer) -> Result<()> {
        let by = self.device.gpu().multiplier()?;
        let (left, right) = (left.matrices(), right.matrices());
        Ok(multiply(self.device, by, types, left, right, y)?)
    }

    /// As a product of images and kernels as they lie in memory; `None` if it is not, or if rocBLAS does not take them.
    pub(super) fn as_product(&self) -> Option<PixelProduct<'_>> {
        let ([batch, inputs, height, width], [image, input, row, column]) =
            (self.x.shape, self.x.strides);
        let Window {
            kernel,
            padding,
            stride,
            ..
        } = self.window;
        let pointwise = (kernel, padding, stride) == ([1; 2], [0; 2], 1);
        let in_row = height == 1 || width == 1 || row == width * column;
        if !pointwise || !in_row || inputs == 0 || self.channels < PRODUCT_FROM_CHANNELS {
            return None;
        }
        let product = PixelProduct {
            convolution: self,
            types: Types::of(self.element)?,
            kernels: Batch {
                start: self.w.start,
                shape: [batch, self.channels, inputs],
                strides: [0, self.w.strides[0], self.w.strides[1]],
            },
            pixels: Batch {
                start: self.x.start,
                shape: [batch, inputs, height * width],
                strides: [image, input, if width == 1 { row } else { column }],
            },
        };
        let taken = product.kernels.matrices().in_order() && product.pixels.matrices().in_order();
        taken.then_some(product)
    }

    /// With unfolded images, where that pays.
    pub(super) fn worth_unfolding(&self) -> Option<Unfolding<'_>> {
        let narrow = matches!(self.element, Element::F16 | Element::BF16);
        let depth = self.depth();
        if !narrow
            || self.channels < UNFOLDED_FROM_CHANNELS
            || depth == 0
            || !self.w.contiguous_from(1)
        {
            return None;
        }
        let unfolding = Unfolding {
            convolution: self,
            types: Types::of(self.element)?,
            kernels: Batch {
                start: self.w.start,
                shape: [1, self.channels, depth],
                strides: [0, self.w.strides[0], 1],
            },
        };
        let taken = unfolding.kernels.matrices().in_order();
        taken.then_some(unfolding)
    }

    /// With a product that is added up, where that is possible and pays.
    pub(super) fn worth_folding(&self) -> Option<Folding<'_>> {
        let ([batch, inputs, height, length], [image, input, _, column]) =
            (self.x.shape, self.x.strides);
        let Window {
            kernel: [rows, taps],
            padding,
            dilation,
            ..
        } = self.window;
        let plain = (height, rows, padding, dilation) == (1, 1, [0; 2], 1);
        if !plain || inputs < FOLDED_FROM_CHANNELS || !self.w.contiguous_from(1) {
            return None;
        }
        let folding = Folding {
            convolution: self,
            types: Types::of(self.element)?,
            pixels: Batch {
                start: self.x.start,
                shape: [batch, length, inputs],
                strides: [image, column, input],
            },
            kernels: Batch {
                start: self.w.start,
                shape: [batch, inputs, self.channels * taps],
                strides: [0, self.w.strides[0], 1],
            },
        };
        let taken = folding.pixels.matrices().in_order() && folding.kernels.matrices().in_order();
        taken.then_some(folding)
    }
}

#[cfg(test)]
mod tests {
    use crate::rocm_backend::testing::{by_rocblas, gpu, launches_of};
    use crate::{DType, Device, Result, Tensor};

    /// What a convolution launches; a product is rocBLAS's.
    fn launched(work: impl FnOnce() -> Result<Tensor>) -> Result<Vec<String>> {
        let (result, launches) = launches_of(work);
        result?;
        Ok(launches.into_iter().map(|launch| launch.kernel).collect())
    }

    fn zeros(shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        let zeros = Tensor::zeros(shape, dtype, &Device::Cpu)?;
        zeros.to_device(device)
    }

    #[test]
    fn convolutions_of_single_pixels_are_products() -> Result<()> {
        let Some(device) = gpu("convolutions_of_single_pixels_are_products") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "convolutions_of_single_pixels_are_products") {
            return Ok(());
        }
        let device = Device::Rocm(device);
        let x = zeros(&[2, 5, 6, 7], DType::F32, &device)?;
        let kernels = |channels, size| zeros(&[channels, 5, size, size], DType::F32, &device);
        let (own, tiled) = (["conv2d_f32"], ["conv2d_tiled_f32_16"]);
        let product = ["product"];
        for (channels, size, padding, stride, expected) in [
            (16, 1, 0, 1, product),
            (15, 1, 0, 1, tiled),
            (4, 1, 0, 1, own),
            (16, 2, 0, 1, tiled),
            (16, 1, 1, 1, tiled),
            (16, 1, 0, 2, tiled),
        ] {
            let w = kernels(channels, size)?;
            let found = launched(|| x.conv2d(&w, padding, stride, 1, 1))?;
            assert_eq!(found, expected, "{channels}, {size}, {padding}, {stride}");
        }
        let w = kernels(16, 1)?;
        let by = |x: &Tensor| launched(|| x.conv2d(&w, 0, 1, 1, 1));
        assert_eq!(
            by(&x.narrow(2, 1, 4)?)?,
            product,
            "rows that follow each other"
        );
        assert_eq!(by(&x.narrow(3, 1, 4)?)?, tiled, "rows with gaps");
        assert_eq!(by(&x.narrow(3, 1, 1)?)?, tiled, "a column of rows");
        let columns = x.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
        assert_eq!(by(&columns.narrow(3, 1, 1)?)?, product, "a column");
        assert_eq!(by(&x.narrow(3, 1, 4)?.narrow(2, 1, 1)?)?, product, "a row");
        let every_other = zeros(&[2, 5, 6, 7, 2], DType::F32, &device)?;
        let every_other = every_other.narrow(4, 0, 1)?.squeeze(4)?;
        assert_eq!(by(&every_other)?, tiled, "pixels with gaps");
        Ok(())
    }

    #[test]
    fn many_channels_of_16_bits_are_unfolded() -> Result<()> {
        let Some(device) = gpu("many_channels_of_16_bits_are_unfolded") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "many_channels_of_16_bits_are_unfolded") {
            return Ok(());
        }
        let device = Device::Rocm(device);
        for (dtype, name) in [
            (DType::F16, "f16"),
            (DType::BF16, "bf16"),
            (DType::F32, "f32"),
        ] {
            for channels in [127, 128] {
                let x = zeros(&[1, 2, 6, 7], dtype, &device)?;
                let w = zeros(&[channels, 2, 3, 3], dtype, &device)?;
                let found = launched(|| x.conv2d(&w, 1, 1, 1, 1))?;
                let own = match dtype {
                    DType::F32 => "conv2d_tiled_f32_64".to_string(),
                    _ => format!("conv2d_matrix_{name}_128"),
                };
                let expected = match (channels, dtype) {
                    (128, DType::F16 | DType::BF16) => vec!["im2col_b16", "product"],
                    _ => vec![own.as_str()],
                };
                assert_eq!(found, expected, "{channels}");
                let turned = zeros(&[channels, 3, 2, 3], dtype, &device)?.transpose(1, 2)?;
                let found = launched(|| x.conv2d(&turned, 1, 1, 1, 1))?;
                assert_eq!(found, [own.as_str()], "{channels}, kernels with gaps");
            }
        }
        Ok(())
    }

    #[test]
    fn as_many_images_are_unfolded_as_there_is_room_for() -> Result<()> {
        let Some(device) = gpu("as_many_images_are_unfolded_as_there_is_room_for") else {
            return Ok(());
        };
        if !by_rocblas(
            module_path!(),
            "as_many_images_are_unfolded_as_there_is_room_for",
        ) {
            return Ok(());
        }
        let device = Device::Rocm(device);
        // Each image takes 8 * 8 pixels of 2 * 3 * 3 elements of 2 bytes: 2304 of 16384 bytes, and 8 of the 32 blocks of
        // a launch.
        for (batch, rounds, unfoldings) in [(1, 1, 1), (7, 1, 2), (8, 2, 3), (14, 2, 4), (15, 3, 5)]
        {
            let pixels: Vec<f32> = (0..batch * 2 * 64).map(|i| (i * 7 % 5) as f32).collect();
            let x = Tensor::from_vec(pixels, (batch, 2, 8, 8), &Device::Cpu)?;
            let weights: Vec<f32> = (0..130 * 18).map(|i| (i * 11 % 3) as f32).collect();
            let w = Tensor::from_vec(weights, (130, 2, 3, 3), &Device::Cpu)?;
            let on = |x: &Tensor| x.to_device(&device)?.to_dtype(DType::F16);
            let (on_x, on_w) = (on(&x)?, on(&w)?);
            let (found, launches) = launches_of(|| on_x.conv2d(&on_w, 1, 1, 1, 1));
            let products = launches.iter().filter(|launch| launch.kernel == "product");
            assert_eq!(products.count(), rounds, "{batch} images");
            assert_eq!(launches.len(), rounds + unfoldings, "{batch} images");
            let found = found?.to_device(&Device::Cpu)?.to_dtype(DType::F32)?;
            let wanted = x.conv2d(&w, 1, 1, 1, 1)?;
            let flat = |x: Tensor| x.flatten_all()?.to_vec1::<f32>();
            assert_eq!(flat(found)?, flat(wanted)?, "{batch} images");
        }
        // One image that has no room still is unfolded.
        let x = zeros(&[2, 16, 20, 20], DType::F16, &device)?;
        let w = zeros(&[128, 16, 2, 2], DType::F16, &device)?;
        let found = launched(|| x.conv2d(&w, 0, 1, 1, 1))?;
        assert_eq!(found, ["im2col_b16", "product", "im2col_b16", "product"]);
        Ok(())
    }

    #[test]
    fn rows_of_many_channels_are_folded() -> Result<()> {
        let Some(device) = gpu("rows_of_many_channels_are_folded") else {
            return Ok(());
        };
        if !by_rocblas(module_path!(), "rows_of_many_channels_are_folded") {
            return Ok(());
        }
        let device = Device::Rocm(device);
        let (own, folded) = (false, true);
        let by = |x: &Tensor, w: &Tensor, [padding, more, dilation]: [usize; 3]| {
            let launches = launched(|| x.conv_transpose1d(w, padding, more, 2, dilation, 1))?;
            let is_folded = launches == ["product", "col2im1d_f32"];
            assert!(is_folded || launches.iter().all(|kernel| kernel != "product"));
            Result::Ok(is_folded)
        };
        for (inputs, options, expected) in [
            (64, [0, 0, 1], folded),
            (63, [0, 0, 1], own),
            (64, [1, 0, 1], own),
            (64, [0, 1, 1], own),
            (64, [0, 0, 2], own),
        ] {
            let x = zeros(&[2, inputs, 9], DType::F32, &device)?;
            let w = zeros(&[inputs, 3, 4], DType::F32, &device)?;
            assert_eq!(by(&x, &w, options)?, expected, "{inputs}, {options:?}");
        }
        let x = zeros(&[2, 64, 9], DType::F32, &device)?;
        let w = zeros(&[64, 4, 3], DType::F32, &device)?.transpose(1, 2)?;
        assert_eq!(by(&x, &w, [0, 0, 1])?, own, "kernels with gaps");
        let w = zeros(&[64, 3, 4], DType::F32, &device)?;
        let gaps = zeros(&[2, 64, 9, 2], DType::F32, &device)?;
        let gaps = gaps.narrow(3, 0, 1)?.squeeze(3)?;
        assert_eq!(by(&gaps, &w, [0, 0, 1])?, own, "rows with gaps");
        // Images of several rows, and kernels of several: in two dimensions.
        for (height, tall) in [(2, 1), (1, 2)] {
            let x = zeros(&[1, 64, height, 9], DType::F32, &device)?;
            let w = zeros(&[64, 3, tall, 4], DType::F32, &device)?;
            let found = launched(|| x.conv_transpose2d(&w, 0, 0, 1, 1))?;
            assert!(
                found.iter().all(|kernel| kernel != "product"),
                "{height}, {tall}"
            );
        }
        Ok(())
    }
}
