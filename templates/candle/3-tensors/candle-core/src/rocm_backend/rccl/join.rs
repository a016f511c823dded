//! Ranks that come together.
use super::rank::check;
use super::{c_rank, Id};
use crate::rocm_backend::gpu::Gpu;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::stream::RocmStream;
use crate::rocm_backend::{api, RocmError};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

/// In seconds, how long ranks wait for each other.
const TIMEOUT: &str = "CANDLE_ROCM_RCCL_TIMEOUT";
const DEFAULT: Duration = Duration::from_secs(600);

/// RCCL's communicator.
#[derive(Debug)]
pub(super) struct Handle(pub(super) api::ncclComm_t);

impl Handle {
    /// RCCL's own, for the call that ends it.
    pub(super) fn into_raw(self) -> api::ncclComm_t {
        self.0
    }
}

// SAFETY: RCCL takes calls for a communicator from any thread, one at a time; `Rank` keeps to that.
unsafe impl Send for Handle {}

/// The time limit of new ranks.
pub(super) fn limit() -> Duration {
    seconds(std::env::var(TIMEOUT).ok().as_deref()).unwrap_or(DEFAULT)
}

/// What a variable says, if it has a meaning.
fn seconds(text: Option<&str>) -> Option<Duration> {
    let seconds = text?.trim().parse().ok().filter(|seconds| *seconds > 0.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The handle of one rank, which may come before or after the others.
pub(super) fn one(gpu: &'static Gpu, rank: usize, world: usize, id: Id) -> HipResult<Handle> {
    if rank >= world {
        return Err(format!("rank {rank} of {world}: ranks are counted from 0").into());
    }
    let (number, ranks) = (c_rank(rank)?, c_rank(world)?);
    let whose = format!("rank {rank} of {world}");
    let of = whose.clone();
    let handles = within(&whose, move || {
        gpu.make_current()?;
        let mut comm = std::ptr::null_mut();
        // SAFETY: `comm` lives through the call.
        let status = unsafe { api::ncclCommInitRank(&mut comm, ranks, id.raw(), number) };
        check("ncclCommInitRank", &of, status)?;
        Ok(vec![Handle(comm)])
    })?;
    let handle = handles.into_iter().next();
    handle.ok_or_else(|| "RCCL made no communicator".into())
}

/// The handles of all ranks, in the order of their streams.
pub(super) fn all(streams: &[Arc<RocmStream>]) -> HipResult<Vec<Handle>> {
    let ordinals: HipResult<Vec<_>> = streams
        .iter()
        .map(|stream| c_rank(stream.ordinal()))
        .collect();
    let (ordinals, ranks) = (ordinals?, c_rank(streams.len())?);
    let Some(gpu) = streams.first().map(|stream| stream.gpu()) else {
        return Err("a communicator has one rank or more".into());
    };
    within("this process", move || {
        gpu.make_current()?;
        let mut comms = vec![std::ptr::null_mut(); ordinals.len()];
        // SAFETY: both lists have so many entries, and live through the call.
        let status = unsafe { api::ncclCommInitAll(comms.as_mut_ptr(), ranks, ordinals.as_ptr()) };
        check("ncclCommInitAll", "this process", status)?;
        Ok(comms.into_iter().map(Handle).collect())
    })
}

/// What `join` comes to, unless that takes too long: RCCL waits without end for a rank that does not come.
fn within(
    whose: &str,
    join: impl FnOnce() -> HipResult<Vec<Handle>> + Send + 'static,
) -> HipResult<Vec<Handle>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        if let Err(late) = sender.send(join()) {
            for Handle(comm) in late.0.into_iter().flatten() {
                // SAFETY: nobody has the communicator: its rank was given up.
                let _ = unsafe { api::ncclCommAbort(comm) };
            }
        }
    });
    let limit = limit();
    receiver.recv_timeout(limit).unwrap_or_else(|error| {
        let problem = match error {
            RecvTimeoutError::Timeout => format!("the other ranks did not come within {limit:?}"),
            RecvTimeoutError::Disconnected => "RCCL panicked".to_string(),
        };
        Err(RocmError::Rccl {
            call: "ncclCommInitRank",
            whose: whose.to_string(),
            problem,
        })
    })
}
