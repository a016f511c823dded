//! Descriptors of tensors, and tensors in memory.

use std::ffi::c_int;
use std::{ptr, slice};

use api::miopen::*;
use candle_rocm_emulator_link::{Extent, Handles};
use element::Format;

use crate::handle::store;
use crate::{Status, exports};

/// What a tensor descriptor says. Its dimensions are set later than it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How elements are stored.
    pub format: Format,
    /// Sizes, the outermost first.
    pub dims: Vec<usize>,
    /// Elements from one index to the next in each dimension.
    pub strides: Vec<usize>,
}

static SHAPES: Handles<Shape> = Handles::new();

/// What a descriptor says.
///
/// # Errors
/// `miopenStatusBadParm` if it is none or has no dimensions yet.
pub fn shape(descriptor: miopenTensorDescriptor_t) -> Status<Shape> {
    SHAPES.with(descriptor, |shape| shape.clone()).filter(|shape| !shape.dims.is_empty()).ok_or(miopenStatusBadParm)
}

impl Shape {
    /// Elements.
    pub fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Where each element lies, counted in elements from the first; the last dimension runs fastest.
    fn offsets(&self) -> Vec<usize> {
        self.dims.iter().zip(&self.strides).fold(vec![0], |offsets, (&size, &stride)| {
            offsets.iter().flat_map(|offset| (0..size).map(move |index| offset + index * stride)).collect()
        })
    }
}

/// Strides of a tensor without gaps.
fn packed(dims: &[usize]) -> Vec<usize> {
    let inner = |index: usize| dims[index + 1..].iter().product();
    (0..dims.len()).map(inner).collect()
}

/// A tensor in memory.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// What it is called in reports.
    pub name: &'static str,
    /// Of the first element.
    pub address: usize,
    /// Its elements.
    pub shape: Shape,
}

impl Tensor {
    /// The tensor of a descriptor and a pointer.
    ///
    /// # Errors
    /// `miopenStatusBadParm` if the descriptor is none or the pointer is null.
    pub fn new<T>(name: &'static str, descriptor: miopenTensorDescriptor_t, pointer: *const T) -> Status<Self> {
        if pointer.is_null() {
            return Err(miopenStatusBadParm);
        }
        Ok(Self { name, address: pointer.addr(), shape: shape(descriptor)? })
    }

    fn addresses(&self) -> impl Iterator<Item = usize> {
        let size = self.shape.format.size();
        self.shape.offsets().into_iter().map(move |offset| self.address + offset * size)
    }

    /// The memory of the elements, without gaps between them.
    pub fn extents(&self, writes: bool) -> Vec<Extent> {
        let bytes = self.shape.format.size();
        let mut extents: Vec<Extent> = Vec::new();
        for address in self.addresses() {
            match extents.last_mut() {
                Some(last) if last.address + last.bytes == address => last.bytes += bytes,
                _ => extents.push(Extent { address, bytes, writes }),
            }
        }
        extents
    }

    /// All elements, the last dimension fastest.
    ///
    /// # Safety
    /// The extents are readable.
    pub unsafe fn load(&self) -> Vec<f64> {
        // SAFETY: by contract.
        self.addresses().map(|address| unsafe { self.shape.format.load(address) }).collect()
    }

    /// Writes all elements.
    ///
    /// # Safety
    /// The extents are writable.
    pub unsafe fn store(&self, elements: &[f64]) {
        for (address, element) in self.addresses().zip(elements) {
            // SAFETY: by contract.
            unsafe { self.shape.format.store(address, *element) };
        }
    }
}

fn format_of(data_type: miopenDataType_t) -> Status<Format> {
    Ok(match data_type {
        miopenHalf => Format::F16,
        miopenBFloat16 => Format::Bf16,
        miopenFloat => Format::F32,
        miopenDouble => Format::F64,
        miopenInt8 => Format::I8,
        miopenInt32 => Format::I32,
        _ => return Err(miopenStatusNotImplemented),
    })
}

fn data_type_of(format: Format) -> miopenDataType_t {
    match format {
        Format::F16 => miopenHalf,
        Format::Bf16 => miopenBFloat16,
        Format::F32 => miopenFloat,
        Format::F64 => miopenDouble,
        Format::I8 => miopenInt8,
        Format::I32 => miopenInt32,
    }
}

fn set(
    descriptor: miopenTensorDescriptor_t,
    data_type: miopenDataType_t,
    dims: &[c_int],
    strides: Option<&[c_int]>,
) -> Status {
    let format = format_of(data_type)?;
    let positive = |numbers: &[c_int]| -> Status<Vec<usize>> {
        let number = |number: &c_int| usize::try_from(*number).ok().filter(|number| *number > 0);
        numbers.iter().map(number).collect::<Option<_>>().ok_or(miopenStatusBadParm)
    };
    let dims = positive(dims)?;
    let strides = strides.map_or_else(|| Ok(packed(&dims)), positive)?;
    let new = Shape { format, dims, strides };
    SHAPES.with(descriptor, |shape| *shape = new).ok_or(miopenStatusBadParm)
}

unsafe fn write_all(numbers: impl Iterator<Item = usize>, to: impl IntoIterator<Item = *mut c_int>) {
    for (number, pointer) in numbers.zip(to).filter(|(_, pointer)| !pointer.is_null()) {
        // SAFETY: the caller's pointers.
        unsafe { pointer.write(number as c_int) };
    }
}

exports! {
    /// Makes a descriptor.
    fn miopenCreateTensorDescriptor(descriptor: *mut miopenTensorDescriptor_t) {
        let new = Shape { format: Format::F32, dims: Vec::new(), strides: Vec::new() };
        // SAFETY: the caller's pointer.
        unsafe { store(descriptor, SHAPES.insert(new)) }
    }

    /// Ends a descriptor.
    fn miopenDestroyTensorDescriptor(descriptor: miopenTensorDescriptor_t) {
        SHAPES.remove(descriptor).map(|_| ()).ok_or(miopenStatusBadParm)
    }

    /// Describes four dimensions without gaps.
    fn miopenSet4dTensorDescriptor(
        descriptor: miopenTensorDescriptor_t,
        data_type: miopenDataType_t,
        n: c_int,
        c: c_int,
        h: c_int,
        w: c_int,
    ) {
        set(descriptor, data_type, &[n, c, h, w], None)
    }

    /// Describes four dimensions.
    fn miopenSet4dTensorDescriptorEx(
        descriptor: miopenTensorDescriptor_t,
        data_type: miopenDataType_t,
        n: c_int,
        c: c_int,
        h: c_int,
        w: c_int,
        n_stride: c_int,
        c_stride: c_int,
        h_stride: c_int,
        w_stride: c_int,
    ) {
        set(descriptor, data_type, &[n, c, h, w], Some(&[n_stride, c_stride, h_stride, w_stride]))
    }

    /// Describes any number of dimensions; without gaps if there are no strides.
    fn miopenSetTensorDescriptor(
        descriptor: miopenTensorDescriptor_t,
        data_type: miopenDataType_t,
        count: c_int,
        dims: *const c_int,
        strides: *const c_int,
    ) {
        let Some(count @ 1..) = usize::try_from(count).ok().filter(|_| !dims.is_null()) else {
            return Err(miopenStatusBadParm);
        };
        // SAFETY: the caller's arrays of that many numbers.
        unsafe {
            let strides = (!strides.is_null()).then(|| slice::from_raw_parts(strides, count));
            set(descriptor, data_type, slice::from_raw_parts(dims, count), strides)
        }
    }

    /// What a descriptor of four dimensions says; null pointers are left out.
    fn miopenGet4dTensorDescriptor(
        descriptor: miopenTensorDescriptor_t,
        data_type: *mut miopenDataType_t,
        n: *mut c_int,
        c: *mut c_int,
        h: *mut c_int,
        w: *mut c_int,
        n_stride: *mut c_int,
        c_stride: *mut c_int,
        h_stride: *mut c_int,
        w_stride: *mut c_int,
    ) {
        let shape = shape(descriptor)?;
        if shape.dims.len() != 4 {
            return Err(miopenStatusBadParm);
        }
        let pointers = [n, c, h, w, n_stride, c_stride, h_stride, w_stride];
        // SAFETY: the caller's pointers.
        unsafe {
            if !data_type.is_null() {
                data_type.write(data_type_of(shape.format));
            }
            write_all(shape.dims.into_iter().chain(shape.strides), pointers);
        }
        Ok(())
    }

    /// What a descriptor says, in arrays that have room for its dimensions; null pointers are left out.
    fn miopenGetTensorDescriptor(
        descriptor: miopenTensorDescriptor_t,
        data_type: *mut miopenDataType_t,
        dims: *mut c_int,
        strides: *mut c_int,
    ) {
        let shape = shape(descriptor)?;
        let places = |array: *mut c_int| {
            (0..shape.dims.len()).map(move |index| if array.is_null() { ptr::null_mut() } else { array.wrapping_add(index) })
        };
        // SAFETY: the caller's pointers.
        unsafe {
            if !data_type.is_null() {
                data_type.write(data_type_of(shape.format));
            }
            write_all(shape.dims.iter().copied(), places(dims));
            write_all(shape.strides.iter().copied(), places(strides));
        }
        Ok(())
    }

    /// How many dimensions a descriptor has.
    fn miopenGetTensorDescriptorSize(descriptor: miopenTensorDescriptor_t, size: *mut c_int) {
        let count = SHAPES.with(descriptor, |shape| shape.dims.len()).ok_or(miopenStatusBadParm)?;
        // SAFETY: the caller's pointer.
        unsafe { store(size, count as c_int) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_with_the_last_dimension_fastest() {
        let shape = Shape { format: Format::F32, dims: vec![2, 3], strides: vec![1, 2] };
        assert_eq!(shape.offsets(), [0, 2, 4, 1, 3, 5]);
        assert_eq!(packed(&[2, 3, 4]), [12, 4, 1]);
    }

    #[test]
    fn gaps_belong_to_no_extent() {
        let shape = Shape { format: Format::F16, dims: vec![2, 3], strides: vec![4, 1] };
        let tensor = Tensor { name: "x", address: 64, shape };
        let ranges: Vec<_> = tensor.extents(false).iter().map(|extent| (extent.address, extent.bytes)).collect();
        assert_eq!(ranges, [(64, 6), (72, 6)]);
    }
}
