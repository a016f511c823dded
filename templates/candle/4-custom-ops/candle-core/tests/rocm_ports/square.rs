//! An operation over Candle's Map traits, with a kernel for each type.
use candle_core::backend::BackendStorage;
use candle_core::rocm::driver::{
    DeviceRepr, LaunchConfig, PushKernelArg, RocmSlice, ValidAsZeroBits,
};
use candle_core::rocm::{kernel_name, Map1, Map2, WrapErr};
use candle_core::{Layout, Result, RocmDevice, RocmStorage, WithDType};

const HIP: &str = include_str!("kernels/square.hip");

struct Square;

impl Map1 for Square {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
    ) -> Result<RocmSlice<T>> {
        let elements = layout.shape().elem_count();
        let src = &src.slice(layout.start_offset()..);
        let func = dev.get_or_load_custom_func(&kernel_name::<T>("square"), "square", HIP)?;
        // SAFETY: the kernel writes all elements.
        let out = unsafe { dev.alloc::<T>(elements)? };
        let mut builder = func.builder();
        candle_core::rocm_builder_arg!(builder, elements);
        builder.arg(src);
        builder.arg(&out);
        // SAFETY: the kernel's parameters, and `elements` numbers in both blocks.
        unsafe { builder.launch(LaunchConfig::for_num_elems(elements as u32)) }.w()?;
        Ok(out)
    }
}

struct Join;

impl Map2 for Join {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>> {
        let (first, second) = (layout1.shape().elem_count(), layout2.shape().elem_count());
        let mut out = dev.alloc_zeros::<T>(first + second)?;
        let src1 = src1.slice(layout1.start_offset()..layout1.start_offset() + first);
        let src2 = src2.slice(layout2.start_offset()..layout2.start_offset() + second);
        dev.memcpy_dtod(&src1, &mut out.slice_mut(..first))?;
        dev.memcpy_dtod(&src2, &mut out.slice_mut(first..))?;
        Ok(out)
    }
}

/// Each element of a contiguous view multiplied with itself.
pub fn square(storage: &RocmStorage, layout: &Layout) -> Result<RocmStorage> {
    let device = storage.device().clone();
    let slice = Square.map(&storage.slice, &device, layout)?;
    Ok(RocmStorage { slice, device })
}

/// The elements of two contiguous views, one behind the other.
pub fn join(a: &RocmStorage, a_l: &Layout, b: &RocmStorage, b_l: &Layout) -> Result<RocmStorage> {
    let device = a.device().clone();
    let slice = Join.map(&a.slice, a_l, &b.slice, b_l, &device)?;
    Ok(RocmStorage { slice, device })
}
