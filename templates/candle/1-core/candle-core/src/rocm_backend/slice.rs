//! Typed memory of a device. The dummy backend has the same types, of memory that nobody can make.
use super::memory::DeviceMemory;
use super::stream::RocmStream;
use super::{RocmDevice, RocmError};
use crate::Result;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// An address on a device, which the host can neither read nor write.
#[allow(non_camel_case_types)]
pub type hipDeviceptr_t = u64;

/// Types whose values host and device share: elements of memory, and arguments of kernels that are passed by value.
///
/// # Safety
/// A kernel's declaration of the type has the same size and layout, and all bits that it may write are a valid value.
/// The size is not 0.
pub unsafe trait DeviceRepr: Copy + Send + Sync + 'static {}

/// Types of which all bits 0 is a value.
///
/// # Safety
/// It is one.
pub unsafe trait ValidAsZeroBits {}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(
            // SAFETY: a number of C's types, or of the layout of one, for which any bits are valid, also all bits 0.
            unsafe impl DeviceRepr for $number {}
            // SAFETY: as above.
            unsafe impl ValidAsZeroBits for $number {}
        )+
    };
}

numbers!(
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    half::f16,
    half::bf16
);

/// Elements in a row on a device: the owner of a block of its memory, which goes back to the device's cache when it is
/// dropped.
///
/// What is done to it is queued on its device's stream. It is `Send` and `Sync` because its elements are, and because
/// calls of HIP may come from any thread; threads that work with it at a time share the stream's order.
#[derive(Debug)]
pub struct RocmSlice<T> {
    memory: DeviceMemory,
    elements: PhantomData<T>,
}

/// Some of the elements of a [`RocmSlice`], for reading.
#[derive(Debug, Clone, Copy)]
pub struct RocmView<'a, T> {
    memory: &'a DeviceMemory,
    /// In bytes.
    start: usize,
    len: usize,
    elements: PhantomData<T>,
}

/// Some of the elements of a [`RocmSlice`], for writing.
#[derive(Debug)]
pub struct RocmViewMut<'a, T> {
    memory: &'a mut DeviceMemory,
    /// In bytes.
    start: usize,
    len: usize,
    elements: PhantomData<T>,
}

/// Elements in a row on the host: a vector, an array or a slice.
pub trait HostSlice<T> {
    fn as_host_slice(&self) -> &[T];

    fn as_host_slice_mut(&mut self) -> &mut [T];
}

impl<T> HostSlice<T> for [T] {
    fn as_host_slice(&self) -> &[T] {
        self
    }

    fn as_host_slice_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T> HostSlice<T> for Vec<T> {
    fn as_host_slice(&self) -> &[T] {
        self
    }

    fn as_host_slice_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T, const N: usize> HostSlice<T> for [T; N] {
    fn as_host_slice(&self) -> &[T] {
        self
    }

    fn as_host_slice_mut(&mut self) -> &mut [T] {
        self
    }
}

/// Keeps a use of memory on a foreign stream in order, see [`DevicePtr::device_ptr`].
#[must_use = "memory is no longer in order with the stream when this is dropped"]
#[derive(Debug)]
pub struct SyncOnDrop<'a> {
    /// The memory's own stream, and the one that uses the memory, if they differ.
    streams: Option<(&'a RocmStream, &'a RocmStream)>,
}

mod part {
    use super::{RocmView, RocmViewMut};

    /// What has elements, so that nobody else's types do.
    pub trait Part<T> {
        fn view(&self) -> RocmView<'_, T>;
    }

    pub trait PartMut<T>: Part<T> {
        fn view_mut(&mut self) -> RocmViewMut<'_, T>;
    }
}

use part::{Part, PartMut};

/// Elements in a row on a device: a [`RocmSlice`], a [`RocmView`] or a [`RocmViewMut`].
pub trait DeviceSlice<T>: Part<T> {
    /// The number of elements.
    fn len(&self) -> usize {
        self.view().len()
    }

    fn is_empty(&self) -> bool {
        self.view().is_empty()
    }

    fn num_bytes(&self) -> usize {
        self.view().num_bytes()
    }

    /// The stream that work with the elements is queued on.
    fn stream(&self) -> &Arc<RocmStream> {
        self.view().memory.device().stream()
    }
}

/// What gives an address to kernels and libraries.
pub trait DevicePtr<T>: DeviceSlice<T> {
    /// The address of the first element, for work that the caller queues on `stream` while the guard lives.
    ///
    /// The work comes after what the elements' own stream has queued so far, and before what it queues after the guard's
    /// end; it also comes after copies to other streams that still read the elements. So it may write them, as caches do
    /// that programs update in place.
    fn device_ptr<'a>(&'a self, stream: &'a RocmStream) -> (hipDeviceptr_t, SyncOnDrop<'a>) {
        self.view().device_ptr_on(stream)
    }
}

/// As [`DevicePtr`], for who has the elements for itself.
pub trait DevicePtrMut<T>: DevicePtr<T> + PartMut<T> {
    /// As [`DevicePtr::device_ptr`].
    fn device_ptr_mut<'a>(
        &'a mut self,
        stream: &'a RocmStream,
    ) -> (hipDeviceptr_t, SyncOnDrop<'a>) {
        self.device_ptr(stream)
    }
}

impl<T, P: Part<T>> DeviceSlice<T> for P {}

impl<T, P: Part<T>> DevicePtr<T> for P {}

impl<T, P: PartMut<T>> DevicePtrMut<T> for P {}

impl<T> Part<T> for RocmSlice<T> {
    fn view(&self) -> RocmView<'_, T> {
        self.as_view()
    }
}

impl<T> PartMut<T> for RocmSlice<T> {
    fn view_mut(&mut self) -> RocmViewMut<'_, T> {
        self.as_view_mut()
    }
}

impl<T> Part<T> for RocmView<'_, T> {
    fn view(&self) -> RocmView<'_, T> {
        self.slice(..)
    }
}

impl<T> Part<T> for RocmViewMut<'_, T> {
    fn view(&self) -> RocmView<'_, T> {
        RocmView {
            memory: self.memory,
            start: self.start,
            len: self.len,
            elements: PhantomData,
        }
    }
}

impl<T> PartMut<T> for RocmViewMut<'_, T> {
    fn view_mut(&mut self) -> RocmViewMut<'_, T> {
        RocmViewMut {
            memory: self.memory,
            start: self.start,
            len: self.len,
            elements: PhantomData,
        }
    }
}

impl<'a> SyncOnDrop<'a> {
    /// Lets `user` come after what `own` has queued.
    fn new(own: &'a RocmStream, user: &'a RocmStream) -> Self {
        if own == user {
            return Self { streams: None };
        }
        after(user, own);
        Self {
            streams: Some((own, user)),
        }
    }
}

impl Drop for SyncOnDrop<'_> {
    fn drop(&mut self) {
        if let Some((own, user)) = self.streams {
            after(own, user);
        }
    }
}

/// Lets what `later` queues come after what `earlier` has queued.
fn after(later: &RocmStream, earlier: &RocmStream) {
    if later.join(earlier).is_err() {
        // The host can wait instead. Should that fail too, the GPU has stopped working: all later calls say so.
        let _ = earlier.synchronize();
    }
}

impl<T: DeviceRepr> Clone for RocmSlice<T> {
    /// As [`RocmSlice::try_clone`]. Panics where that fails, for want of memory for instance.
    fn clone(&self) -> Self {
        match self.try_clone() {
            Ok(copy) => copy,
            Err(error) => panic!("cannot copy memory of the device: {error}"),
        }
    }
}

impl<T> RocmSlice<T> {
    /// The memory as elements; bytes that make no whole element are left out.
    pub(super) fn new(memory: DeviceMemory) -> Self {
        Self {
            memory,
            elements: PhantomData,
        }
    }

    pub(super) fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    pub(super) fn memory_mut(&mut self) -> &mut DeviceMemory {
        &mut self.memory
    }

    /// The device that the elements are on.
    pub fn device(&self) -> &RocmDevice {
        self.memory.device()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.memory.size() / size_of::<T>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn num_bytes(&self) -> usize {
        self.as_view().num_bytes()
    }

    /// The stream that work with the elements is queued on.
    pub fn stream(&self) -> &Arc<RocmStream> {
        self.device().stream()
    }

    /// A copy on the same device. The host does not wait.
    pub fn try_clone(&self) -> std::result::Result<Self, RocmError> {
        Ok(Self::new(self.memory.try_clone()?))
    }

    /// The elements of a range. Panics if it goes beyond the end; `try_slice` does not.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> RocmView<'_, T> {
        self.as_view().slice(range)
    }

    /// The elements of a range, None if it goes beyond the end.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<RocmView<'_, T>> {
        self.as_view().try_slice(range)
    }

    /// As `slice`, for writing.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> RocmViewMut<'_, T> {
        let len = self.len();
        let within = self.as_view_mut().within(range);
        within.unwrap_or_else(|range| beyond(range, len))
    }

    /// As `try_slice`, for writing.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<RocmViewMut<'_, T>> {
        self.as_view_mut().within(range).ok()
    }

    /// All of the elements.
    pub fn as_view(&self) -> RocmView<'_, T> {
        RocmView {
            memory: &self.memory,
            start: 0,
            len: self.len(),
            elements: PhantomData,
        }
    }

    /// All of the elements, for writing.
    pub fn as_view_mut(&mut self) -> RocmViewMut<'_, T> {
        RocmViewMut {
            len: self.len(),
            memory: &mut self.memory,
            start: 0,
            elements: PhantomData,
        }
    }
}

impl<'a, T> RocmView<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// As [`RocmSlice::slice`], counted from the view's first element.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let within = self.within(range);
        within.unwrap_or_else(|range| beyond(range, self.len))
    }

    /// As [`RocmSlice::try_slice`], counted from the view's first element.
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<Self> {
        self.within(range).ok()
    }

    fn within(&self, range: impl RangeBounds<usize>) -> Within<Self> {
        let (first, len) = bounds(range, self.len)?;
        Ok(Self {
            memory: self.memory,
            start: self.start + first * size_of::<T>(),
            len,
            elements: PhantomData,
        })
    }

    fn device_ptr_on(&self, stream: &'a RocmStream) -> (hipDeviceptr_t, SyncOnDrop<'a>) {
        self.memory.wait_for_readers();
        let guard = SyncOnDrop::new(self.memory.device().stream(), stream);
        (self.memory.at(self.start) as hipDeviceptr_t, guard)
    }
}

impl<'a, T> RocmViewMut<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// As [`RocmSlice::slice`], counted from the view's first element.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> RocmView<'_, T> {
        RocmView::slice(&self.view(), range)
    }

    /// As [`RocmSlice::slice_mut`], counted from the view's first element.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> RocmViewMut<'_, T> {
        let len = self.len;
        let within = self.view_mut().within(range);
        within.unwrap_or_else(|range| beyond(range, len))
    }

    /// As [`RocmSlice::try_slice_mut`], counted from the view's first element.
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<RocmViewMut<'_, T>> {
        self.view_mut().within(range).ok()
    }

    fn within(self, range: impl RangeBounds<usize>) -> Within<Self> {
        let (first, len) = bounds(range, self.len)?;
        Ok(Self {
            start: self.start + first * size_of::<T>(),
            len,
            ..self
        })
    }
}

impl RocmDevice {
    /// Memory for `len` elements, with unspecified contents.
    ///
    /// # Safety
    /// Elements are written before they are read.
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize) -> Result<RocmSlice<T>> {
        let size = len.checked_mul(size_of::<T>()).ok_or_else(|| {
            let size = size_of::<T>();
            RocmError::Other(format!("{len} elements of {size} bytes are too many"))
        })?;
        Ok(RocmSlice::new(DeviceMemory::alloc(size, self)?))
    }

    /// Memory for `len` elements, all bits 0.
    pub fn alloc_zeros<T: DeviceRepr + ValidAsZeroBits>(&self, len: usize) -> Result<RocmSlice<T>> {
        // SAFETY: written in the next line.
        let mut zeros = unsafe { self.alloc(len)? };
        zeros.memory.fill_zero()?;
        Ok(zeros)
    }

    /// Copies all of `src` to the beginning of `dst`. `src` is free to change when this returns; the stream is not
    /// waited for.
    pub fn memcpy_htod<
        T: DeviceRepr + 'static,
        Src: HostSlice<T> + ?Sized,
        Dst: DevicePtrMut<T>,
    >(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        let (src, dst) = (src.as_host_slice(), dst.view_mut());
        let bytes = fits("memcpy_htod", src.len(), dst.len(), size_of::<T>())?;
        // SAFETY: `src` has so many bytes.
        unsafe { dst.memory.write(dst.start, src.as_ptr().cast(), bytes)? };
        Ok(())
    }

    /// A copy of `src` on the device, as with `memcpy_htod`.
    pub fn clone_htod<T: DeviceRepr + 'static, Src: HostSlice<T> + ?Sized>(
        &self,
        src: &Src,
    ) -> Result<RocmSlice<T>> {
        // SAFETY: written in the next line.
        let mut dst = unsafe { self.alloc(src.as_host_slice().len())? };
        self.memcpy_htod(src, &mut dst)?;
        Ok(dst)
    }

    /// Copies all of `src` to the beginning of `dst`, after the work queued so far, for which this waits.
    pub fn memcpy_dtoh<T: DeviceRepr, Src: DevicePtr<T>, Dst: HostSlice<T>>(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        let (src, dst) = (src.view(), dst.as_host_slice_mut());
        let bytes = fits("memcpy_dtoh", src.len(), dst.len(), size_of::<T>())?;
        // SAFETY: `dst` has so many bytes, and any bits are values of its type.
        unsafe { src.memory.read(src.start, dst.as_mut_ptr().cast(), bytes)? };
        Ok(())
    }

    /// A copy of `src` on the host, as with `memcpy_dtoh`.
    pub fn clone_dtoh<T: DeviceRepr, Src: DevicePtr<T>>(&self, src: &Src) -> Result<Vec<T>> {
        let src = src.view();
        let mut dst: Vec<T> = Vec::with_capacity(src.len());
        // SAFETY: the vector has room for so many bytes, all of which are written, and any bits are values of its type.
        unsafe {
            src.memory
                .read(src.start, dst.as_mut_ptr().cast(), src.num_bytes())?;
            dst.set_len(src.len());
        }
        Ok(dst)
    }

    /// Copies all of `src` to the beginning of `dst`; both may be of any stream and GPU. The host does not wait.
    pub fn memcpy_dtod<T, Src: DevicePtr<T>, Dst: DevicePtrMut<T>>(
        &self,
        src: &Src,
        dst: &mut Dst,
    ) -> Result<()> {
        let (src, dst) = (src.view(), dst.view_mut());
        let bytes = fits("memcpy_dtod", src.len(), dst.len(), size_of::<T>())?;
        dst.memory
            .copy_from(dst.start, src.memory, src.start, bytes)?;
        Ok(())
    }

    /// A copy of `src` on this device, as with `memcpy_dtod`.
    pub fn clone_dtod<T: DeviceRepr, Src: DevicePtr<T>>(&self, src: &Src) -> Result<RocmSlice<T>> {
        // SAFETY: written in the next line.
        let mut dst = unsafe { self.alloc(src.view().len())? };
        self.memcpy_dtod(src, &mut dst)?;
        Ok(dst)
    }
}

/// How many bytes a copy has; an error that names the call if its destination is too short.
fn fits(
    call: &'static str,
    src: usize,
    dst: usize,
    size: usize,
) -> std::result::Result<usize, RocmError> {
    match src <= dst {
        true => Ok(src * size),
        false => Err(RocmError::TooShort {
            call,
            len: src * size,
            size: dst * size,
        }),
    }
}

/// What lies in a range, or the ends of a range that goes beyond what there is.
type Within<T> = std::result::Result<T, (usize, usize)>;

/// The range's first element and its length, if it lies within `len` elements.
fn bounds(range: impl RangeBounds<usize>, len: usize) -> Within<(usize, usize)> {
    let first = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    match first <= end && end <= len {
        true => Ok((first, end - first)),
        false => Err((first, end)),
    }
}

fn beyond((first, end): (usize, usize), len: usize) -> ! {
    panic!("elements {first}..{end} of device memory that has {len}")
}
