//! Allocations, copies and fills of rows that lie a pitch apart.

use std::ffi::{c_int, c_void};

use api::amdhip64::{hipMemcpyKind, hipStream_t};
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine::{self, current_device};
use candle_rocm_emulator_runtime::memory::Place;
use candle_rocm_emulator_runtime::queue::StreamId;

use crate::call::{api, store};
use crate::memory::{Copy, allocate, fill, is_host};
use crate::stream;

/// What a pitch is a multiple of.
const PITCH: usize = 256;

/// One side of a copy.
#[derive(Clone, Copy)]
struct Side {
    start: usize,
    pitch: usize,
}

impl Side {
    fn row(self, row: usize) -> usize {
        self.start + row * self.pitch
    }

    /// Whether so many rows end before the addresses do.
    ///
    /// # Errors
    /// `hipErrorInvalidValue` if not.
    fn must_hold(self, rows: usize) -> HipResult {
        let end = rows.checked_mul(self.pitch).and_then(|bytes| self.start.checked_add(bytes));
        end.map(|_| ()).ok_or(HipError::INVALID_VALUE)
    }
}

/// Rows to copy.
struct Rows {
    function: &'static str,
    to: Side,
    from: Side,
    /// Bytes of a row.
    width: usize,
    height: usize,
}

impl Rows {
    fn enqueue(&self, kind: hipMemcpyKind, stream: StreamId) -> HipResult {
        if self.width > self.to.pitch || self.width > self.from.pitch {
            return Err(HipError::INVALID_PITCH_VALUE);
        }
        if self.width == 0 {
            return Ok(());
        }
        self.to.must_hold(self.height)?;
        self.from.must_hold(self.height)?;
        let copies = (0..self.height).map(|row| Copy {
            function: self.function,
            to: self.to.row(row),
            from: self.from.row(row),
            size: self.width,
        });
        copies.clone().try_for_each(|copy| copy.validate(kind))?;
        copies.zip(1..).try_for_each(|(copy, row)| copy.enqueue_part(stream, row == self.height))
    }
}

fn fill_rows(
    function: &'static str,
    to: Side,
    value: c_int,
    width: usize,
    height: usize,
    stream: StreamId,
) -> HipResult {
    if width > to.pitch {
        return Err(HipError::INVALID_PITCH_VALUE);
    }
    to.must_hold(height)?;
    (0..height).filter(|_| width != 0).try_for_each(|row| fill(function, to.row(row), &[value as u8], width, stream))
}

api! {
    /// Allocates rows on the current device, each aligned.
    fn hipMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        if pointer.is_null() || pitch.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(HipError::OUT_OF_MEMORY)?;
        let size = row.checked_mul(height).ok_or(HipError::OUT_OF_MEMORY)?;
        let address = allocate(Place::Device(current_device()), size)?;
        // SAFETY: the caller's pointers.
        unsafe {
            store(pitch, row)?;
            store(pointer, address as *mut c_void)
        }
    }

    /// Copies rows, and waits if the host takes part.
    fn hipMemcpy2D(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: hipMemcpyKind,
    ) {
        let to = Side { start: to as usize, pitch: to_pitch };
        let from = Side { start: from as usize, pitch: from_pitch };
        let stream = StreamId::Null(current_device());
        Rows { function: "hipMemcpy2D", to, from, width, height }.enqueue(kind, stream)?;
        if is_host(to.start) || is_host(from.start) { machine::synchronize_stream(stream) } else { Ok(()) }
    }

    /// Copies rows on a stream.
    fn hipMemcpy2DAsync(
        to: *mut c_void,
        to_pitch: usize,
        from: *const c_void,
        from_pitch: usize,
        width: usize,
        height: usize,
        kind: hipMemcpyKind,
        stream: hipStream_t,
    ) {
        let to = Side { start: to as usize, pitch: to_pitch };
        let from = Side { start: from as usize, pitch: from_pitch };
        Rows { function: "hipMemcpy2DAsync", to, from, width, height }.enqueue(kind, stream::resolve(stream)?)
    }

    /// Fills rows with a byte.
    fn hipMemset2D(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize) {
        let to = Side { start: to as usize, pitch };
        fill_rows("hipMemset2D", to, value, width, height, StreamId::Null(current_device()))
    }

    /// Fills rows with a byte on a stream.
    fn hipMemset2DAsync(
        to: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        stream: hipStream_t,
    ) {
        let to = Side { start: to as usize, pitch };
        fill_rows("hipMemset2DAsync", to, value, width, height, stream::resolve(stream)?)
    }
}
