//! A stream of a GPU, which nobody can make.
use super::event::RocmEvent;
use super::RocmError;
use std::ffi::c_void;

#[derive(Debug, PartialEq, Eq, Hash)]
pub enum RocmStream {}

impl RocmStream {
    pub fn hip_stream(&self) -> *mut c_void {
        match *self {}
    }

    pub fn ordinal(&self) -> usize {
        match *self {}
    }

    pub fn synchronize(&self) -> Result<(), RocmError> {
        match *self {}
    }

    pub fn record_event(&self) -> Result<RocmEvent, RocmError> {
        match *self {}
    }

    pub fn wait(&self, _: &RocmEvent) -> Result<(), RocmError> {
        match *self {}
    }

    pub fn join(&self, _: &RocmStream) -> Result<(), RocmError> {
        match *self {}
    }
}
