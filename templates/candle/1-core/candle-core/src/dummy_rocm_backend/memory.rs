//! Memory of a device, which nobody can make.
use super::ipc::RocmIpcHandle;
use super::{RocmDevice, RocmError};
use crate::{Error, Result};
use std::ffi::c_void;

type HipResult<T> = std::result::Result<T, RocmError>;

#[derive(Debug)]
pub enum DeviceMemory {}

impl DeviceMemory {
    pub fn alloc(_: usize, _: &RocmDevice) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub unsafe fn open(_: &RocmIpcHandle, _: &RocmDevice) -> Result<Self> {
        Err(Error::NotCompiledWithRocmSupport)
    }

    pub fn ipc_handle(&self) -> HipResult<RocmIpcHandle> {
        match *self {}
    }

    pub fn size(&self) -> usize {
        match *self {}
    }

    pub fn device(&self) -> &RocmDevice {
        match *self {}
    }

    pub fn at(&self, _: usize) -> *mut c_void {
        match *self {}
    }

    pub fn wait_for_readers(&self) {
        match *self {}
    }

    pub fn fill_zero(&mut self) -> HipResult<()> {
        match *self {}
    }

    pub unsafe fn write(&mut self, _: usize, _: *const u8, _: usize) -> HipResult<()> {
        match *self {}
    }

    pub unsafe fn read(&self, _: usize, _: *mut u8, _: usize) -> HipResult<()> {
        match *self {}
    }

    pub fn copy_from(&mut self, _: usize, _: &Self, _: usize, _: usize) -> HipResult<()> {
        match *self {}
    }

    pub fn copy_from_host(&mut self, _: &[u8]) -> HipResult<()> {
        match *self {}
    }

    pub fn copy_to_host(&self, _: &mut [u8]) -> HipResult<()> {
        match *self {}
    }

    pub fn try_clone(&self) -> HipResult<Self> {
        match *self {}
    }

    pub fn transfer(&self, _: &RocmDevice) -> HipResult<Self> {
        match *self {}
    }
}
