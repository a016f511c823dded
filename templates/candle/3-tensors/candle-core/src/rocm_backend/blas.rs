//! Matrix products by rocBLAS.
//!
//! rocBLAS reads matrices column by column, Candle row by row: what Candle calls X is X transposed there. So its product
//! of `right` and `left`, in that order, is the transposed product of `left` and `right`, which in rows is what is asked
//! for, and nothing has to be turned around.
use super::allocator::Block;
use super::hip::{forget_last_error, static_text, HipResult};
use super::plan::table::Element;
use super::plan::Pointer;
use super::stream::RocmStream;
use super::{api, installation, RocmError};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

static REDUCED_PRECISION_F16: AtomicBool = AtomicBool::new(false);
static REDUCED_PRECISION_BF16: AtomicBool = AtomicBool::new(false);
static REDUCED_PRECISION_F32: AtomicBool = AtomicBool::new(false);

/// Whether products of f16 matrices may be summed in f16 instead of f32; false unless it was set.
pub fn gemm_reduced_precision_f16() -> bool {
    REDUCED_PRECISION_F16.load(Ordering::Relaxed)
}

/// Lets rocBLAS sum products of f16 matrices in f16 (compute type `rocblas_datatype_f16_r`), on all devices from the next
/// product on. Sums overflow at 65504 then, and AMD's matrix cores, which sum in f32 anyway, gain little by it.
pub fn set_gemm_reduced_precision_f16(allowed: bool) {
    REDUCED_PRECISION_F16.store(allowed, Ordering::Relaxed);
}

/// The last value given to `set_gemm_reduced_precision_bf16`; false by default.
pub fn gemm_reduced_precision_bf16() -> bool {
    REDUCED_PRECISION_BF16.load(Ordering::Relaxed)
}

/// Remembered, without any effect: rocBLAS has no way to multiply bf16 matrices but with sums in f32. It is here so that
/// code written for CUDA, where the setting exists, compiles for ROCm.
pub fn set_gemm_reduced_precision_bf16(allowed: bool) {
    REDUCED_PRECISION_BF16.store(allowed, Ordering::Relaxed);
}

/// Whether f32 factors may be rounded to fewer bits before they are multiplied; false unless it was set.
pub fn gemm_reduced_precision_f32() -> bool {
    REDUCED_PRECISION_F32.load(Ordering::Relaxed)
}

/// Lets rocBLAS multiply f32 matrices as xf32, with factors of 10 bits after the point and sums in f32, on all devices
/// from the next product on. Only GPUs that have the type do so (gfx942); on all others products stay as they are.
pub fn set_gemm_reduced_precision_f32(allowed: bool) {
    REDUCED_PRECISION_F32.store(allowed, Ordering::Relaxed);
}

/// A factor of a product: matrices at equal distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    /// Whether columns lie together, instead of rows.
    pub(super) by_columns: bool,
    /// Elements from a row to the next, or from a column to the next.
    pub(super) leading: usize,
    /// Elements from a matrix to the next.
    pub(super) step: usize,
}

impl Factor {
    /// A matrix with these distances between rows and between columns, `None` if rocBLAS cannot take it: if neither rows
    /// nor columns lie together, or if they overlap.
    pub(super) fn of(
        rows: usize,
        columns: usize,
        row_stride: usize,
        column_stride: usize,
    ) -> Option<Self> {
        // The distance from the only row, or column, to the next one means nothing.
        let together = |size: usize, stride: usize| size == 1 || stride == 1;
        let apart =
            |size: usize, stride: usize, length: usize| if size == 1 { length } else { stride };
        let (row_step, column_step) = (
            apart(rows, row_stride, columns),
            apart(columns, column_stride, rows),
        );
        let (by_columns, leading) = if together(columns, column_stride) && row_step >= columns {
            (false, row_step)
        } else if together(rows, row_stride) && column_step >= rows {
            (true, column_step)
        } else {
            return None;
        };
        Some(Self {
            by_columns,
            leading,
            step: 0,
        })
    }

    fn operation(&self) -> api::rocblas_operation {
        if self.by_columns {
            api::rocblas_operation_transpose
        } else {
            api::rocblas_operation_none
        }
    }
}

/// `batch` products of matrices (m, k) and (k, n); the results lie row by row, without gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) types: Types,
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) left: Factor,
    pub(super) right: Factor,
    pub(super) batch: usize,
    /// Elements from a result to the next.
    pub(super) step: usize,
}

/// rocBLAS's types for the elements of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    element: Element,
    data: api::rocblas_datatype,
}

impl Types {
    /// `None` for elements that rocBLAS does not multiply.
    pub(super) fn of(element: Element) -> Option<Self> {
        let data = match element {
            Element::F16 => api::rocblas_datatype_f16_r,
            Element::BF16 => api::rocblas_datatype_bf16_r,
            Element::F32 => api::rocblas_datatype_f32_r,
            Element::F64 => api::rocblas_datatype_f64_r,
            _ => return None,
        };
        Some(Self { element, data })
    }

    pub(super) fn element(&self) -> Element {
        self.element
    }

    /// Bytes of an element.
    pub(super) fn size(&self) -> usize {
        self.element.size()
    }

    /// The type of the sums, with one and zero in it.
    fn sums(&self) -> (api::rocblas_datatype, *const c_void, *const c_void) {
        const F16: &[half::f16; 2] = &[half::f16::ONE, half::f16::ZERO];
        const F32: &[f32; 2] = &[1., 0.];
        const F64: &[f64; 2] = &[1., 0.];
        fn both<T>([one, zero]: &'static [T; 2]) -> (*const c_void, *const c_void) {
            ((one as *const T).cast(), (zero as *const T).cast())
        }
        let (sums, (one, zero)) = match self.element {
            Element::F64 => (api::rocblas_datatype_f64_r, both(F64)),
            Element::F16 if gemm_reduced_precision_f16() => {
                (api::rocblas_datatype_f16_r, both(F16))
            }
            _ => (api::rocblas_datatype_f32_r, both(F32)),
        };
        (sums, one, zero)
    }
}

/// rocBLAS on one stream.
#[derive(Debug)]
pub(super) struct Blas {
    handle: api::rocblas_handle,
    /// Whether the handle was told that f32 may be rounded.
    xf32: bool,
    /// The memory that it works in, if it is not its own.
    workspace: Option<Block>,
}

// SAFETY: a handle may be used from any thread, by one at a time: calls take it by `&mut`.
unsafe impl Send for Blas {}

impl Blas {
    /// On `stream`, which outlives it.
    pub(super) fn new(stream: &RocmStream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` lives through the call, and the stream's GPU is the current device.
        check("rocblas_create_handle", unsafe {
            api::rocblas_create_handle(&mut handle)
        })?;
        let blas = Self {
            handle,
            xf32: false,
            workspace: None,
        };
        // SAFETY: the handle is valid, and the stream is of the device that it was made for.
        check("rocblas_set_stream", unsafe {
            api::rocblas_set_stream(blas.handle, stream.handle())
        })?;
        // Releases differ in what they start with. Sums in changing order would give results that change too.
        // SAFETY: the handle is valid.
        check("rocblas_set_atomics_mode", unsafe {
            api::rocblas_set_atomics_mode(blas.handle, api::rocblas_atomics_not_allowed)
        })?;
        Ok(blas)
    }

    /// Bytes of memory that rocBLAS works in.
    pub(super) fn workspace_size(&self) -> HipResult<usize> {
        let mut size = 0;
        // SAFETY: the handle is valid, and `size` lives through the call.
        check("rocblas_get_device_memory_size", unsafe {
            api::rocblas_get_device_memory_size(self.handle, &mut size)
        })?;
        Ok(size)
    }

    /// Lets rocBLAS work in memory of ours, and give its own back to the GPU.
    ///
    /// # Safety
    /// The block has `size` bytes, and is used by nobody else until `end` gives it back.
    pub(super) unsafe fn work_in(&mut self, workspace: Block, size: usize) -> HipResult<()> {
        let address = workspace.address() as *mut c_void;
        self.workspace = Some(workspace);
        // SAFETY: the handle is valid, for the rest the caller answers.
        check("rocblas_set_workspace", unsafe {
            api::rocblas_set_workspace(self.handle, address, size)
        })
    }

    /// For calls of rocBLAS, which must come while this value lives.
    pub(super) fn handle(&self) -> api::rocblas_handle {
        self.handle
    }

    /// Ends the handle; what it worked in is left over.
    pub(super) fn end(mut self) -> Option<Block> {
        self.workspace.take()
    }

    /// Queues products.
    ///
    /// # Safety
    /// The stream's GPU is the current device, and the pointers are to memory of it that has all the matrices and stays
    /// allocated until the stream has come so far.
    pub(super) unsafe fn multiply(
        &mut self,
        product: &Product,
        left: Pointer,
        right: Pointer,
        y: Pointer,
    ) -> HipResult<()> {
        if product.types.element == Element::F32 {
            self.allow_xf32(gemm_reduced_precision_f32())?;
        }
        let Product { types, m, n, k, .. } = *product;
        let (compute, one, zero) = types.sums();
        // SAFETY: the handle is valid, the numbers are of the compute type and never freed, for the rest the caller
        // answers. As beta is zero, y is not read.
        let status = unsafe {
            api::rocblas_gemm_strided_batched_ex(
                self.handle,
                product.right.operation(),
                product.left.operation(),
                int(n)?,
                int(m)?,
                int(k)?,
                one,
                right.0,
                types.data,
                int(product.right.leading)?,
                product.right.step as i64,
                left.0,
                types.data,
                int(product.left.leading)?,
                product.left.step as i64,
                zero,
                y.0,
                types.data,
                int(n)?,
                product.step as i64,
                y.0,
                types.data,
                int(n)?,
                product.step as i64,
                int(product.batch)?,
                compute,
                api::rocblas_gemm_algo_standard,
                0,
                api::rocblas_gemm_flags_none,
            )
        };
        check("rocblas_gemm_strided_batched_ex", status)
    }

    fn allow_xf32(&mut self, allowed: bool) -> HipResult<()> {
        if self.xf32 != allowed {
            let mode = if allowed {
                api::rocblas_xf32_xdl_math_op
            } else {
                api::rocblas_default_math
            };
            // SAFETY: the handle is valid. Where the GPU lacks a mode, rocBLAS keeps its own.
            check("rocblas_set_math_mode", unsafe {
                api::rocblas_set_math_mode(self.handle, mode)
            })?;
            self.xf32 = allowed;
        }
        Ok(())
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody has it any more. A failure means that the runtime is gone, and the handle
        // with it.
        let _ = unsafe { api::rocblas_destroy_handle(self.handle) };
    }
}

/// `Ok` for success, otherwise an error that names `call`.
fn check(call: &'static str, status: api::rocblas_status) -> HipResult<()> {
    if status == api::rocblas_status_success {
        return Ok(());
    }
    forget_last_error();
    if let Some(problem) = installation::problem("rocblas") {
        return Err(RocmError::MissingLibrary { call, problem });
    }
    Err(RocmError::Blas {
        call,
        status,
        // SAFETY: the function takes any status and returns a static string.
        name: unsafe { static_text(api::rocblas_status_to_string(status)) },
    })
}

/// A size as rocBLAS takes it.
fn int(size: usize) -> HipResult<api::rocblas_int> {
    api::rocblas_int::try_from(size).map_err(|_| {
        RocmError::Other(format!(
            "rocBLAS multiplies matrices of sizes below 2^31, not {size}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::{gpu, is_alone, is_emulated, with_calls};
    use crate::rocm_backend::RocmDevice;
    use crate::{DType, Device, Tensor};

    #[test]
    fn factors_lie_by_rows_or_by_columns() {
        let of = |rows, columns, row_stride, column_stride| {
            Factor::of(rows, columns, row_stride, column_stride)
                .map(|factor| (factor.by_columns, factor.leading))
        };
        assert_eq!(of(3, 5, 5, 1), Some((false, 5)));
        assert_eq!(of(3, 5, 7, 1), Some((false, 7)));
        assert_eq!(of(3, 5, 1, 3), Some((true, 3)));
        assert_eq!(of(3, 5, 1, 9), Some((true, 9)));
        // Rows that overlap, a broadcast one among them, and gaps in both directions.
        assert_eq!(of(3, 5, 4, 1), None);
        assert_eq!(of(3, 5, 0, 1), None);
        assert_eq!(of(3, 5, 1, 0), None);
        assert_eq!(of(3, 5, 10, 2), None);
        // The stride of a single row or column says nothing.
        assert_eq!(of(1, 5, 0, 1), Some((false, 5)));
        assert_eq!(of(1, 5, 77, 2), Some((true, 2)));
        assert_eq!(of(3, 1, 2, 0), Some((false, 2)));
        assert_eq!(of(1, 1, 0, 0), Some((false, 1)));
    }

    #[test]
    fn each_setting_is_its_own() {
        type Setting = (fn() -> bool, fn(bool));
        let settings: [Setting; 3] = [
            (gemm_reduced_precision_f16, set_gemm_reduced_precision_f16),
            (gemm_reduced_precision_bf16, set_gemm_reduced_precision_bf16),
            (gemm_reduced_precision_f32, set_gemm_reduced_precision_f32),
        ];
        // They are the whole program's.
        if !is_alone(module_path!(), "each_setting_is_its_own", &[]) {
            return;
        }
        let all = || settings.map(|(get, _)| get());
        assert_eq!(all(), [false; 3]);
        for (number, (_, set)) in settings.iter().enumerate() {
            set(true);
            assert_eq!(all(), [0, 1, 2].map(|other| other == number));
            set(false);
            assert_eq!(all(), [false; 3]);
        }
    }

    /// Of f64, f32, bf16 and f16: the type of the sums, and the numbers one and zero in it.
    fn sums() -> [(api::rocblas_datatype, f64, f64); 4] {
        [Element::F64, Element::F32, Element::BF16, Element::F16].map(|element| {
            let (sums, one, zero) = Types::of(element).expect("it is multiplied").sums();
            let read = |number: *const c_void| match sums {
                // SAFETY: the numbers are of the type of the sums.
                api::rocblas_datatype_f64_r => unsafe { *number.cast::<f64>() },
                // SAFETY: as above.
                api::rocblas_datatype_f32_r => f64::from(unsafe { *number.cast::<f32>() }),
                // SAFETY: as above.
                _ => unsafe { *number.cast::<half::f16>() }.to_f64(),
            };
            (sums, read(one), read(zero))
        })
    }

    #[test]
    fn only_f16_is_summed_in_f16_and_only_where_it_may_be() {
        let test = "only_f16_is_summed_in_f16_and_only_where_it_may_be";
        if !is_alone(module_path!(), test, &[]) {
            return;
        }
        let (f64_sums, f32_sums) = (
            (api::rocblas_datatype_f64_r, 1., 0.),
            (api::rocblas_datatype_f32_r, 1., 0.),
        );
        let wide = [f64_sums, f32_sums, f32_sums, f32_sums];
        assert_eq!(sums(), wide);
        set_gemm_reduced_precision_bf16(true);
        set_gemm_reduced_precision_f32(true);
        assert_eq!(sums(), wide);
        set_gemm_reduced_precision_f16(true);
        let f16_sums = (api::rocblas_datatype_f16_r, 1., 0.);
        assert_eq!(sums(), [f64_sums, f32_sums, f32_sums, f16_sums]);
        set_gemm_reduced_precision_f16(false);
        assert_eq!(sums(), wide);
    }

    /// The sum of some terms: the product of a row and a column of ones.
    fn product(terms: &[f64], dtype: DType, device: &RocmDevice) -> crate::Result<f64> {
        product_of_rows(1, terms, dtype, device)
    }

    fn product_of_rows(
        rows: usize,
        terms: &[f64],
        dtype: DType,
        device: &RocmDevice,
    ) -> crate::Result<f64> {
        let gpu = Device::Rocm(device.clone());
        let row = Tensor::from_slice(terms, (1, terms.len()), &Device::Cpu)?;
        let ones = Tensor::ones((terms.len(), rows), dtype, &Device::Cpu)?;
        let row = row.to_dtype(dtype)?.repeat((rows, 1))?.to_device(&gpu)?;
        let sum = row.matmul(&ones.to_device(&gpu)?)?;
        sum.to_device(&Device::Cpu)?
            .to_dtype(DType::F64)?
            .get(0)?
            .get(0)?
            .to_scalar()
    }

    #[test]
    fn sums_overflow_only_where_they_may_be_of_f16() -> crate::Result<()> {
        let test = "sums_overflow_only_where_they_may_be_of_f16";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        if !is_alone(module_path!(), test, &[("CANDLE_ROCM_BLAS", "rocblas")]) {
            return Ok(());
        }
        // 120000 in between is too much for f16.
        let sum = |dtype| product(&[60000., 60000., -60000.], dtype, &device);
        assert_eq!((sum(DType::F16)?, sum(DType::F32)?), (60000., 60000.));
        set_gemm_reduced_precision_f16(true);
        assert_eq!((sum(DType::F32)?, sum(DType::F64)?), (60000., 60000.));
        let found = sum(DType::F16)?;
        // Matrix cores sum in f32 all the same.
        assert!(
            found == f64::INFINITY || found == 60000. && !is_emulated(),
            "{found}"
        );
        set_gemm_reduced_precision_f16(false);
        assert_eq!(sum(DType::F16)?, 60000.);
        Ok(())
    }

    #[test]
    fn f32_is_rounded_only_where_it_may_be() -> crate::Result<()> {
        let test = "f32_is_rounded_only_where_it_may_be";
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        // The emulated device can be one that rounds.
        let rounds = [
            ("CANDLE_ROCM_EMULATOR_DEVICES", "gfx942"),
            ("CANDLE_ROCM_BLAS", "rocblas"),
        ];
        if !is_alone(module_path!(), test, &rounds) {
            return Ok(());
        }
        // With 10 bits after the point, the factor is 1.
        let exact = 1. + f64::from(2f32.powi(-12));
        // rocBLAS does not round where one of the matrices is a vector.
        let product = |dtype| product_of_rows(16, &[exact], dtype, &device);
        // How often rocBLAS was told, and what it was told last.
        let told = |dtype, times| -> crate::Result<(f64, bool)> {
            let found = with_calls(&[("rocblas_set_math_mode", times)], || product(dtype))?;
            let rounds = device.queue().with_blas(|blas| Ok(blas.xf32))?;
            Ok((found, rounds))
        };
        assert_eq!(told(DType::F32, 0)?, (exact, false));
        set_gemm_reduced_precision_f32(true);
        assert_eq!(told(DType::F64, 0)?, (exact, false));
        for times in [1, 0] {
            let (found, rounds) = told(DType::F32, times)?;
            assert!(rounds);
            let architecture = device.gcn_arch_name()?;
            match architecture.starts_with("gfx942") {
                true => assert_eq!(found, 1.),
                false if architecture.starts_with("gfx") => assert_eq!(found, exact),
                // NVIDIA's GPUs have such a type from some generation on.
                false => assert!(found == 1. || found == exact, "{found}"),
            }
        }
        set_gemm_reduced_precision_f32(false);
        for times in [1, 0] {
            assert_eq!(told(DType::F32, times)?, (exact, false));
        }
        Ok(())
    }

    #[test]
    fn rocblas_multiplies_four_types() {
        let sizes = [Element::F16, Element::BF16, Element::F32, Element::F64]
            .map(|element| Types::of(element).expect("it is multiplied").size());
        assert_eq!(sizes, [2, 2, 4, 8]);
        for element in [Element::U8, Element::I64, Element::F8E4M3, Element::B32] {
            assert!(Types::of(element).is_none(), "{element:?}");
        }
    }

    #[test]
    fn sizes_are_below_two_to_the_31st() -> HipResult<()> {
        let largest = (1 << 31) - 1;
        assert_eq!(int(0)?, 0);
        assert_eq!(int(largest)?, i32::MAX);
        for size in [largest + 1, usize::MAX] {
            let error = int(size).expect_err("it is too large");
            assert!(error.to_string().ends_with(&format!(" {size}")), "{error}");
        }
        Ok(())
    }

    #[test]
    fn a_status_that_is_no_success_is_an_error() {
        assert!(check("rocblas_set_stream", api::rocblas_status_success).is_ok());
        match check("rocblas_set_stream", api::rocblas_status_internal_error) {
            Err(RocmError::Blas { call, status, name }) => {
                assert_eq!((call, status), ("rocblas_set_stream", 6));
                assert!(!name.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }
}
