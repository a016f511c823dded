//! Parts of a communicator. RCCL has a function for that since ROCm 6.0 only, so the ranks tell each other what they need.
use super::{Comm, Id};
use crate::rocm_backend::memory::DeviceMemory;
use crate::rocm_backend::{api, RocmDevice, RocmError};
use crate::Result;
use std::ffi::c_char;

impl Comm {
    /// This rank's part of the communicator: that of the ranks with the same color, in the order of their keys, and of
    /// their numbers where those are equal. None if it has no color. All ranks call it; each waits for the others.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let color = color.map_or(-1, i64::from);
        let own: Vec<u8> = [color, key.into()]
            .into_iter()
            .flat_map(i64::to_ne_bytes)
            .collect();
        let numbers: Vec<i64> = self.exchange(&own)?.chunks_exact(8).map(number).collect();
        let ranks = numbers.chunks_exact(2).enumerate();
        let mut part: Vec<_> = ranks
            .filter(|(_, entry)| entry[0] == color)
            .map(|(rank, entry)| (entry[1], rank))
            .collect();
        part.sort_unstable();
        let leader = part.first().map_or(0, |(_, rank)| *rank);
        let leads = color >= 0 && leader == self.rank();
        // A rank that cannot make an id says so to the others with one of zeros.
        let (id, made) = match leads.then(Id::new).transpose() {
            Ok(id) => (id.map_or([0; 128], |id| *id.internal()), Ok(())),
            Err(error) => ([0; 128], Err(error)),
        };
        let ids = self.exchange(&id.map(|byte| byte as u8))?;
        made?;
        if color < 0 {
            return Ok(None);
        }
        let mut id = [0; 128];
        for (to, from) in id.iter_mut().zip(&ids[leader * 128..]) {
            *to = *from as c_char;
        }
        if id == [0; 128] {
            return Err(RocmError::Other(format!("rank {leader} could not make an id")).into());
        }
        let rank = part.iter().position(|(_, rank)| *rank == self.rank());
        let rank = rank.unwrap_or_default();
        let comm = Self::from_rank(self.stream(), rank, part.len(), Id::uninit(id))?;
        comm.set_time_limit(self.time_limit());
        Ok(Some(comm))
    }

    /// Bytes of all ranks, one rank's after the other's. All have as many.
    fn exchange(&self, own: &[u8]) -> Result<Vec<u8>> {
        let device = RocmDevice::with_queue(self.rank.stream().queue()?);
        let mut from = DeviceMemory::alloc(own.len(), &device)?;
        from.copy_from_host(own)?;
        let mut to = DeviceMemory::alloc(own.len() * self.world_size(), &device)?;
        // SAFETY: so many bytes lie there, on this stream.
        unsafe { self.gather(from.as_ptr(), to.as_mut_ptr(), own.len(), api::ncclUint8) }?;
        let mut all = vec![0; to.size()];
        to.copy_to_host(&mut all)?;
        Ok(all)
    }
}

fn number(bytes: &[u8]) -> i64 {
    let mut number = [0; 8];
    number.copy_from_slice(bytes);
    i64::from_ne_bytes(number)
}
