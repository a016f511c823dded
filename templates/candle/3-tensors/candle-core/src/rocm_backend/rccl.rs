//! Collectives of several GPUs by RCCL, for programs with the feature `rocm-rccl`. Names and arguments are those that
//! cudarc has for NCCL.
//!
//! A communicator's calls are queued on its stream. What goes wrong after that, on any rank, is an error of whatever waits
//! for the stream next, and of all later calls: a thread watches what has been queued, and ends it if RCCL reports an error
//! or the time limit is over. The memory that the calls would have written has unspecified contents then.
mod group;
mod join;
mod ops;
mod rank;
mod split;
mod watch;

pub use group::{group_end, group_start, Group};
pub use ops::{AllGather, AllReduce};
pub(super) use rank::{check_all, launched, Listed};

use super::hip::HipResult;
use super::memory::DeviceMemory;
use super::slice::{DevicePtr, DevicePtrMut, DeviceRepr};
use super::stream::RocmStream;
use super::{api, RocmError};
use group::is_open;
use rank::{check, Rank};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::time::Duration;

/// What the ranks of a communicator have in common: rank 0 makes it, and gives it to the others in any way it likes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Id {
    internal: [c_char; 128],
}

/// How the elements of all ranks become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceOp {
    Sum,
    Prod,
    Max,
    Min,
    Avg,
}

/// Types of elements that RCCL reduces.
///
/// # Safety
/// The number is RCCL's of a type with the same size and layout.
pub unsafe trait RcclType: DeviceRepr {
    /// RCCL's number of the type, an `ncclDataType_t`.
    fn as_rccl_type() -> u32;
}

macro_rules! types {
    ($($type:ty: $number:path),+) => {
        $(
            // SAFETY: the library's header names the type so.
            unsafe impl RcclType for $type {
                fn as_rccl_type() -> u32 {
                    $number
                }
            }
        )+
    };
}

types!(
    i8: api::ncclInt8,
    u8: api::ncclUint8,
    i32: api::ncclInt32,
    u32: api::ncclUint32,
    i64: api::ncclInt64,
    u64: api::ncclUint64,
    half::f16: api::ncclFloat16,
    f32: api::ncclFloat32,
    f64: api::ncclFloat64,
    half::bf16: api::ncclBfloat16
);

impl Id {
    /// A new one: the ranks that have it meet in this process.
    pub fn new() -> HipResult<Self> {
        let mut id = api::ncclUniqueId { internal: [0; 128] };
        // SAFETY: `id` lives through the call.
        check("ncclGetUniqueId", "this process", unsafe {
            api::ncclGetUniqueId(&mut id)
        })?;
        Ok(Self {
            internal: id.internal,
        })
    }

    /// The one that another process or thread has made, from what [`Id::internal`] said there.
    pub fn uninit(internal: [c_char; 128]) -> Self {
        Self { internal }
    }

    /// All of it.
    pub fn internal(&self) -> &[c_char; 128] {
        &self.internal
    }

    fn raw(&self) -> api::ncclUniqueId {
        api::ncclUniqueId {
            internal: self.internal,
        }
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Id")
    }
}

impl ReduceOp {
    fn raw(self) -> api::ncclRedOp_t {
        match self {
            Self::Sum => api::ncclSum,
            Self::Prod => api::ncclProd,
            Self::Max => api::ncclMax,
            Self::Min => api::ncclMin,
            Self::Avg => api::ncclAvg,
        }
    }
}

/// One rank of a communicator: a stream of a GPU, which other ranks' streams exchange data with.
///
/// All ranks make the same calls in the same order; each returns when it is queued. It is `Send` and `Sync`: calls of
/// several threads come one after another. When it is dropped, its stream is waited for.
pub struct Comm {
    rank: Arc<Rank>,
}

impl Comm {
    /// The rank with that number of so many. Returns once all have come, each on a GPU of its own.
    ///
    /// An error if they do not come within the time limit: `CANDLE_ROCM_RCCL_TIMEOUT` seconds, otherwise 600.
    pub fn from_rank(
        stream: Arc<RocmStream>,
        rank: usize,
        world_size: usize,
        id: Id,
    ) -> HipResult<Self> {
        let handle = join::one(stream.gpu(), rank, world_size, id)?;
        Ok(Self::of(stream, rank, world_size, handle))
    }

    /// All ranks of a communicator in this process, one for each stream.
    pub fn from_devices(streams: Vec<Arc<RocmStream>>) -> HipResult<Vec<Self>> {
        let world = streams.len();
        let handles = join::all(&streams)?;
        let ranks = streams.into_iter().zip(handles).enumerate();
        let comms = ranks.map(|(rank, (stream, handle))| Self::of(stream, rank, world, handle));
        Ok(comms.collect())
    }

    fn of(stream: Arc<RocmStream>, rank: usize, world: usize, handle: join::Handle) -> Self {
        Self {
            rank: Rank::new(stream, rank, world, handle),
        }
    }

    /// The stream that its calls are queued on.
    pub fn stream(&self) -> Arc<RocmStream> {
        self.rank.stream().clone()
    }

    /// The number of its GPU.
    pub fn ordinal(&self) -> usize {
        self.rank.stream().ordinal()
    }

    /// Its number.
    pub fn rank(&self) -> usize {
        self.rank.number()
    }

    /// How many ranks there are.
    pub fn world_size(&self) -> usize {
        self.rank.world()
    }

    /// How long a call may take, from when it was queued until it is done; at first as long as all may take to come.
    pub fn time_limit(&self) -> Duration {
        self.rank.limit()
    }

    /// Changes that, for calls that are queued now, too.
    pub fn set_time_limit(&self, limit: Duration) {
        self.rank.set_limit(limit);
    }

    /// The error of a call that went wrong after it was queued, if it is known by now.
    pub fn async_error(&self) -> HipResult<()> {
        self.rank.look();
        self.rank.healthy()
    }

    /// Ends all calls that have been queued and are not done. Other ranks that wait for this one get an error.
    pub fn abort(&self) {
        self.rank.abort();
    }

    /// Sends elements to a rank, which receives as many.
    pub fn send<T: RcclType, S: DevicePtr<T>>(&self, data: &S, peer: i32) -> HipResult<()> {
        let (address, _guard) = self.source("send", data)?;
        let (count, number) = (data.len(), T::as_rccl_type());
        self.rank.run("send", |comm, stream| {
            // SAFETY: so many elements lie there, in order with the stream.
            unsafe { api::ncclSend(address, count, number, peer, comm, stream) }
        })
    }

    /// Receives elements that a rank sends.
    pub fn recv<T: RcclType, R: DevicePtrMut<T>>(&self, buff: &mut R, peer: i32) -> HipResult<()> {
        let count = buff.len();
        let (address, _guard) = self.target("recv", buff)?;
        let number = T::as_rccl_type();
        self.rank.run("recv", |comm, stream| {
            // SAFETY: as above.
            unsafe { api::ncclRecv(address, count, number, peer, comm, stream) }
        })
    }

    /// Copies the root's `sendbuff`, which the others need not have, to the `recvbuff` of all.
    pub fn broadcast<T: RcclType, S: DevicePtr<T>, R: DevicePtrMut<T>>(
        &self,
        sendbuff: Option<&S>,
        recvbuff: &mut R,
        root: i32,
    ) -> HipResult<()> {
        let count = recvbuff.len();
        let source = match sendbuff {
            Some(data) => {
                at_least("broadcast", count, data.len(), size_of::<T>())?;
                Some(self.source("broadcast", data)?)
            }
            None if root as usize == self.rank() => {
                return Err("broadcast: the root has something to send".into())
            }
            None => None,
        };
        let (to, _guard) = self.target("broadcast", recvbuff)?;
        let from = source.as_ref().map_or(to.cast_const(), |source| source.0);
        let number = T::as_rccl_type();
        self.rank.run("broadcast", |comm, stream| {
            // SAFETY: so many elements lie at both addresses, in order with the stream.
            unsafe { api::ncclBroadcast(from, to, count, number, root, comm, stream) }
        })
    }

    /// As `broadcast`, from the root's `recvbuff`.
    pub fn broadcast_in_place<T: RcclType, R: DevicePtrMut<T>>(
        &self,
        recvbuff: &mut R,
        root: i32,
    ) -> HipResult<()> {
        let count = recvbuff.len();
        let (at, _guard) = self.target("broadcast_in_place", recvbuff)?;
        let number = T::as_rccl_type();
        self.rank.run("broadcast_in_place", |comm, stream| {
            // SAFETY: as above, at one address.
            unsafe { api::ncclBroadcast(at, at, count, number, root, comm, stream) }
        })
    }

    /// All ranks' elements, one rank's after the other's, to all.
    pub fn all_gather<T: RcclType, S: DevicePtr<T>, R: DevicePtrMut<T>>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
    ) -> HipResult<()> {
        let (count, room) = (sendbuff.len(), recvbuff.len());
        at_least(
            "all_gather",
            count.saturating_mul(self.world_size()),
            room,
            size_of::<T>(),
        )?;
        let (from, _source) = self.source("all_gather", sendbuff)?;
        let (to, _target) = self.target("all_gather", recvbuff)?;
        // SAFETY: so many elements lie there, as many times that as there are ranks at the other address.
        unsafe { self.gather(from, to, count, T::as_rccl_type()) }
    }

    /// The elements of all ranks, reduced one by one, to all.
    pub fn all_reduce<T: RcclType, S: DevicePtr<T>, R: DevicePtrMut<T>>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> HipResult<()> {
        let (count, room) = (sendbuff.len(), recvbuff.len());
        at_least("all_reduce", count, room, size_of::<T>())?;
        let (from, _source) = self.source("all_reduce", sendbuff)?;
        let (to, _target) = self.target("all_reduce", recvbuff)?;
        // SAFETY: so many elements lie at both addresses.
        unsafe { self.reduce_all(from, to, count, T::as_rccl_type(), *reduce_op) }
    }

    /// As `all_reduce`, over its own elements.
    pub fn all_reduce_in_place<T: RcclType, R: DevicePtrMut<T>>(
        &self,
        buff: &mut R,
        reduce_op: &ReduceOp,
    ) -> HipResult<()> {
        let count = buff.len();
        let (at, _guard) = self.target("all_reduce_in_place", buff)?;
        // SAFETY: so many elements lie there.
        unsafe { self.reduce_all(at, at, count, T::as_rccl_type(), *reduce_op) }
    }

    /// The elements of all ranks, reduced one by one, to the root; the others need no `recvbuff`.
    pub fn reduce<T: RcclType, S: DevicePtr<T>, R: DevicePtrMut<T>>(
        &self,
        sendbuff: &S,
        recvbuff: Option<&mut R>,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> HipResult<()> {
        let count = sendbuff.len();
        let (from, _source) = self.source("reduce", sendbuff)?;
        let target = match recvbuff {
            Some(buff) => {
                at_least("reduce", count, buff.len(), size_of::<T>())?;
                Some(self.target("reduce", buff)?)
            }
            None if root as usize == self.rank() => {
                return Err("reduce: the root has room for the result".into())
            }
            None => None,
        };
        let to = target
            .as_ref()
            .map_or(std::ptr::null_mut(), |target| target.0);
        let (number, op) = (T::as_rccl_type(), reduce_op.raw());
        self.rank.run("reduce", |comm, stream| {
            // SAFETY: so many elements lie there, at the root at the other address, too.
            unsafe { api::ncclReduce(from, to, count, number, op, root, comm, stream) }
        })
    }

    /// As `reduce`, over the root's own elements.
    pub fn reduce_in_place<T: RcclType, R: DevicePtrMut<T>>(
        &self,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
        root: i32,
    ) -> HipResult<()> {
        let count = recvbuff.len();
        let (at, _guard) = self.target("reduce_in_place", recvbuff)?;
        let (number, op) = (T::as_rccl_type(), reduce_op.raw());
        self.rank.run("reduce_in_place", |comm, stream| {
            // SAFETY: so many elements lie there.
            unsafe { api::ncclReduce(at, at, count, number, op, root, comm, stream) }
        })
    }

    /// The elements of all ranks, reduced one by one: to each rank the part that is its own.
    pub fn reduce_scatter<T: RcclType, S: DevicePtr<T>, R: DevicePtrMut<T>>(
        &self,
        sendbuff: &S,
        recvbuff: &mut R,
        reduce_op: &ReduceOp,
    ) -> HipResult<()> {
        let count = recvbuff.len();
        let all = count.saturating_mul(self.world_size());
        at_least("reduce_scatter", all, sendbuff.len(), size_of::<T>())?;
        let (from, _source) = self.source("reduce_scatter", sendbuff)?;
        let (to, _target) = self.target("reduce_scatter", recvbuff)?;
        let (number, op) = (T::as_rccl_type(), reduce_op.raw());
        self.rank.run("reduce_scatter", |comm, stream| {
            // SAFETY: so many elements lie at the second address, and as many times that as there are ranks at the first.
            unsafe { api::ncclReduceScatter(from, to, count, number, op, comm, stream) }
        })
    }

    /// # Safety
    /// `count` elements lie at `from`, and as many times that as there are ranks at `to`, in order with the stream.
    unsafe fn gather(
        &self,
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        number: api::ncclDataType_t,
    ) -> HipResult<()> {
        self.rank.run("all_gather", |comm, stream| {
            // SAFETY: the caller's promise.
            unsafe { api::ncclAllGather(from, to, count, number, comm, stream) }
        })
    }

    /// # Safety
    /// `count` elements lie at both addresses, in order with the stream.
    unsafe fn reduce_all(
        &self,
        from: *const c_void,
        to: *mut c_void,
        count: usize,
        number: api::ncclDataType_t,
        op: ReduceOp,
    ) -> HipResult<()> {
        self.rank.run("all_reduce", |comm, stream| {
            // SAFETY: the caller's promise.
            unsafe { api::ncclAllReduce(from, to, count, number, op.raw(), comm, stream) }
        })
    }

    /// The address of elements, and what keeps them in order with the stream.
    fn source<'a, T, S: DevicePtr<T>>(
        &'a self,
        call: &'static str,
        data: &'a S,
    ) -> HipResult<(*const c_void, super::slice::SyncOnDrop<'a>)> {
        self.same_stream(call, data.stream())?;
        let (address, guard) = data.device_ptr(self.rank.stream());
        Ok((address as *const c_void, guard))
    }

    fn target<'a, T, R: DevicePtrMut<T>>(
        &'a self,
        call: &'static str,
        buff: &'a mut R,
    ) -> HipResult<(*mut c_void, super::slice::SyncOnDrop<'a>)> {
        self.same_stream(call, buff.stream())?;
        let (address, guard) = buff.device_ptr_mut(self.rank.stream());
        Ok((address as *mut c_void, guard))
    }

    /// In a group the call is queued when the group ends, and can be kept in order with its own stream only.
    fn same_stream(&self, call: &'static str, other: &RocmStream) -> HipResult<()> {
        if is_open() && other != &**self.rank.stream() {
            let message =
                format!("{call}: in a group, memory has to be of the communicator's stream");
            return Err(message.into());
        }
        Ok(())
    }

    /// The same for memory.
    fn same_stream_as(&self, call: &'static str, memory: &DeviceMemory) -> HipResult<()> {
        let device = memory.device();
        if device.rocm_stream() != *self.rank.stream() {
            let (own, other) = (self.rank.stream(), device.rocm_stream());
            return Err(
                format!("{call}: the tensor is of {other:?}, the communicator of {own:?}").into(),
            );
        }
        Ok(())
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Comm({} of {})", self.rank(), self.world_size())
    }
}

/// An error if memory has less than `needed` elements.
fn at_least(call: &'static str, needed: usize, there: usize, size: usize) -> HipResult<()> {
    if there < needed {
        return Err(RocmError::TooShort {
            call,
            len: needed.saturating_mul(size),
            size: there * size,
        });
    }
    Ok(())
}

/// A rank as C has it.
fn c_rank(rank: usize) -> HipResult<c_int> {
    rank.try_into()
        .map_err(|_| format!("{rank} is no number of a rank").into())
}
