//! The functions that a kernel calls.

use std::ffi::{c_int, c_uint, c_void};

use super::access::{Access, Kind, Site};
use super::check;
use super::threads::wait;
use super::wave::{Exchange, Request};
use crate::module::abi::{Barrier, CrossLane, Runtime};

/// What each module gets when it is loaded.
pub const RUNTIME: Runtime = Runtime {
    read: [read::<1>, read::<2>, read::<4>, read::<8>, read::<16>],
    write: [write::<1>, write::<2>, write::<4>, write::<8>, write::<16>],
    read_range,
    write_range,
    atomic,
    barrier,
    cross_lane,
};

unsafe extern "C" fn read<const BYTES: usize>(address: *const c_void, site: *const c_void) {
    // SAFETY: only kernels call this.
    unsafe { check::access::<BYTES, false>(address as usize, site as usize) };
}

unsafe extern "C" fn write<const BYTES: usize>(address: *const c_void, site: *const c_void) {
    // SAFETY: only kernels call this.
    unsafe { check::access::<BYTES, true>(address as usize, site as usize) };
}

unsafe extern "C" fn read_range(address: *const c_void, bytes: usize, site: *const c_void) {
    check::settle();
    check::check(Access { address: address as usize, bytes, kind: Kind::Read, site: Site::Code(site as usize) });
}

unsafe extern "C" fn write_range(address: *const c_void, bytes: usize, site: *const c_void) {
    check::settle();
    check::check(Access { address: address as usize, bytes, kind: Kind::Write, site: Site::Code(site as usize) });
}

unsafe extern "C" fn atomic(address: *const c_void, bytes: usize, line: c_uint) {
    check::settle();
    check::check(Access { address: address as usize, bytes, kind: Kind::Atomic, site: Site::Line(line) });
}

unsafe extern "C" fn barrier(kind: Barrier, predicate: c_int, line: c_uint) -> c_int {
    wait(Request::Barrier { kind, predicate: predicate != 0, line }) as c_int
}

unsafe extern "C" fn cross_lane(
    operation: CrossLane,
    value: u64,
    operand: c_int,
    width: c_int,
    mask: u64,
    line: c_uint,
) -> u64 {
    wait(Request::CrossLane(Exchange { operation, value, operand, width, mask, line }))
}
