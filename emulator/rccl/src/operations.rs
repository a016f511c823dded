//! Calls that move and reduce data.

use std::ffi::{c_int, c_void};

use api::amdhip64::hipStream_t;
use api::rccl::*;
use candle_rocm_emulator_link::device_of;

use crate::communicator::{Communicator, Scale, usable};
use crate::group::{self, Operation, Span};
use crate::number::Number;
use crate::wire::{Call, Kind, Op, Request};
use crate::{Outcome, exports, refuse};
use std::sync::Arc;

/// Who calls, and on which stream.
struct Caller {
    communicator: Arc<Communicator>,
    stream: usize,
    function: &'static str,
    number: Number,
}

impl Caller {
    fn new(function: &'static str, datatype: ncclDataType_t, comm: ncclComm_t, stream: hipStream_t) -> Outcome<Self> {
        let caller = || {
            let communicator = usable(comm)?;
            let number = Number::of(datatype)?;
            if device_of(stream.cast()) != Some(communicator.device) {
                let device = communicator.device;
                return refuse(ncclInvalidArgument, &format!("{function}: the stream is not of device {device}"));
            }
            Ok(Self { communicator, stream: stream.addr(), function, number })
        };
        caller().inspect_err(|problem| group::spoil(*problem))
    }

    fn world(&self) -> usize {
        self.communicator.world
    }

    fn rank(&self) -> usize {
        self.communicator.rank
    }

    /// So many elements at an address.
    fn span<T>(&self, pointer: *const T, count: usize) -> Outcome<Span> {
        if pointer.is_null() && count > 0 {
            return refuse(ncclInvalidArgument, &format!("{}: a null pointer", self.function));
        }
        let bytes = count.checked_mul(self.number.size()).ok_or(ncclInvalidArgument)?;
        Ok(Span { address: pointer.expose_provenance(), bytes })
    }

    fn peer(&self, rank: c_int, what: &str) -> Outcome<usize> {
        let world = self.world();
        usize::try_from(rank).ok().filter(|rank| *rank < world).map_or_else(
            || refuse(ncclInvalidArgument, &format!("{}: {what} {rank} of {world} ranks", self.function)),
            Ok,
        )
    }

    /// What the communicator does for an operation.
    fn op(&self, op: ncclRedOp_t) -> Outcome<(Op, Option<Scale>)> {
        Ok(match op {
            ncclSum => (Op::Sum, None),
            ncclProd => (Op::Product, None),
            ncclMax => (Op::Max, None),
            ncclMin => (Op::Min, None),
            ncclAvg => (Op::Average, None),
            _ => {
                let scale = self.communicator.scale(op, self.number).ok_or(ncclInvalidArgument)?;
                (Op::Scaled, Some(scale))
            }
        })
    }

    /// A call of all ranks.
    fn together(self, kind: Kind, count: usize, [sends, receives]: [Span; 2], scale: Option<Scale>) -> Outcome {
        if count == 0 {
            return Ok(());
        }
        let call = Call { kind, count, number: self.number };
        group::issue(vec![Operation {
            communicator: self.communicator,
            stream: self.stream,
            function: self.function,
            request: Box::new(move |ticket| Request::Together { ticket, call }),
            sends,
            receives,
            scale,
        }])
    }

    /// Refuses buffers that overlap but as the function allows it: `in_place` is where one begins in the other.
    fn apart(&self, sends: Span, receives: Span, in_place: usize) -> Outcome {
        let overlap = sends.address < receives.address + receives.bytes
            && receives.address < sends.address + sends.bytes
            && sends.bytes.min(receives.bytes) > 0;
        let (large, small) = if sends.bytes < receives.bytes { (receives, sends) } else { (sends, receives) };
        if overlap && large.address + in_place != small.address {
            return refuse(ncclInvalidArgument, &format!("{}: the buffers overlap", self.function));
        }
        Ok(())
    }

    fn send(&self, buffer: Span, to: usize) -> Operation {
        let number = self.number;
        let count = buffer.bytes / number.size();
        self.end(Box::new(move |ticket| Request::Send { ticket, to, count, number }), buffer, Span::default())
    }

    fn receive(&self, buffer: Span, from: usize) -> Operation {
        let number = self.number;
        let count = buffer.bytes / number.size();
        self.end(Box::new(move |ticket| Request::Receive { ticket, from, count, number }), Span::default(), buffer)
    }

    fn end(&self, request: Box<dyn Fn(u64) -> Request + Send + Sync>, sends: Span, receives: Span) -> Operation {
        Operation {
            communicator: Arc::clone(&self.communicator),
            stream: self.stream,
            function: self.function,
            request,
            sends,
            receives,
            scale: None,
        }
    }

    /// The part of a buffer that is rank `rank`'s.
    fn part(&self, whole: Span, rank: usize) -> Span {
        let bytes = whole.bytes / self.world();
        Span { address: whole.address + rank * bytes, bytes }
    }

    /// Each rank's part of a buffer goes to it, or comes from it.
    fn parts(&self, whole: Span, end: impl Fn(&Self, Span, usize) -> Operation) -> Vec<Operation> {
        (0..self.world()).map(|rank| end(self, self.part(whole, rank), rank)).collect()
    }
}

/// Runs a body; what goes wrong in it spoils the group.
fn spoils(body: impl FnOnce() -> Outcome) -> Outcome {
    body().inspect_err(|problem| group::spoil(*problem))
}

exports! {
    /// All ranks get the elements of all, reduced.
    fn ncclAllReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclAllReduce", datatype, comm, stream)?;
        spoils(|| {
            let (op, scale) = caller.op(op)?;
            let (sends, receives) = (caller.span(sendbuff, count)?, caller.span(recvbuff, count)?);
            caller.apart(sends, receives, 0)?;
            caller.together(Kind::AllReduce(op), count, [sends, receives], scale)
        })
    }

    /// The root gets the elements of all ranks, reduced.
    fn ncclReduce(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        root: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclReduce", datatype, comm, stream)?;
        spoils(|| {
            let (op, scale) = caller.op(op)?;
            let root = caller.peer(root, "root")?;
            let sends = caller.span(sendbuff, count)?;
            let receives = if caller.rank() == root { caller.span(recvbuff, count)? } else { Span::default() };
            caller.apart(sends, receives, 0)?;
            caller.together(Kind::Reduce { op, root }, count, [sends, receives], scale)
        })
    }

    /// Each rank gets its part of the elements of all ranks, reduced.
    fn ncclReduceScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclReduceScatter", datatype, comm, stream)?;
        spoils(|| {
            let (op, scale) = caller.op(op)?;
            let all = recvcount.checked_mul(caller.world()).ok_or(ncclInvalidArgument)?;
            let (sends, receives) = (caller.span(sendbuff, all)?, caller.span(recvbuff, recvcount)?);
            caller.apart(sends, receives, caller.rank() * receives.bytes)?;
            caller.together(Kind::ReduceScatter(op), recvcount, [sends, receives], scale)
        })
    }

    /// All ranks get the elements of all, one rank's after the other's.
    fn ncclAllGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclAllGather", datatype, comm, stream)?;
        spoils(|| {
            let all = sendcount.checked_mul(caller.world()).ok_or(ncclInvalidArgument)?;
            let (sends, receives) = (caller.span(sendbuff, sendcount)?, caller.span(recvbuff, all)?);
            caller.apart(sends, receives, caller.rank() * sends.bytes)?;
            caller.together(Kind::AllGather, sendcount, [sends, receives], None)
        })
    }

    /// All ranks get the root's elements.
    fn ncclBroadcast(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclBroadcast", datatype, comm, stream)?;
        spoils(|| broadcast(caller, sendbuff, recvbuff, count, root))
    }

    /// The same in place.
    fn ncclBcast(
        buff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclBcast", datatype, comm, stream)?;
        spoils(|| broadcast(caller, buff, buff, count, root))
    }

    /// Sends elements to a rank, which has to receive them.
    fn ncclSend(
        sendbuff: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclSend", datatype, comm, stream)?;
        spoils(|| {
            let (buffer, peer) = (caller.span(sendbuff, count)?, caller.peer(peer, "rank")?);
            group::issue(vec![caller.send(buffer, peer)])
        })
    }

    /// Receives elements from a rank, which has to send them.
    fn ncclRecv(
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclRecv", datatype, comm, stream)?;
        spoils(|| {
            let (buffer, peer) = (caller.span(recvbuff, count)?, caller.peer(peer, "rank")?);
            group::issue(vec![caller.receive(buffer, peer)])
        })
    }

    /// The root gets the elements of all ranks, one rank's after the other's.
    fn ncclGather(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        sendcount: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclGather", datatype, comm, stream)?;
        spoils(|| {
            let root = caller.peer(root, "root")?;
            let all = sendcount.checked_mul(caller.world()).ok_or(ncclInvalidArgument)?;
            let mut operations = vec![caller.send(caller.span(sendbuff, sendcount)?, root)];
            if caller.rank() == root {
                operations.extend(caller.parts(caller.span(recvbuff, all)?, Caller::receive));
            }
            group::issue(operations)
        })
    }

    /// Each rank gets its part of the root's elements.
    fn ncclScatter(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        recvcount: usize,
        datatype: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclScatter", datatype, comm, stream)?;
        spoils(|| {
            let root = caller.peer(root, "root")?;
            let all = recvcount.checked_mul(caller.world()).ok_or(ncclInvalidArgument)?;
            let mut operations = Vec::new();
            if caller.rank() == root {
                operations.extend(caller.parts(caller.span(sendbuff, all)?, Caller::send));
            }
            operations.push(caller.receive(caller.span(recvbuff, recvcount)?, root));
            group::issue(operations)
        })
    }

    /// Each rank gets its part of the elements of all.
    fn ncclAllToAll(
        sendbuff: *const c_void,
        recvbuff: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclAllToAll", datatype, comm, stream)?;
        spoils(|| {
            let all = count.checked_mul(caller.world()).ok_or(ncclInvalidArgument)?;
            let mut operations = caller.parts(caller.span(sendbuff, all)?, Caller::send);
            operations.extend(caller.parts(caller.span(recvbuff, all)?, Caller::receive));
            group::issue(operations)
        })
    }

    /// The same, with parts of any lengths and at any places.
    fn ncclAllToAllv(
        sendbuff: *const c_void,
        sendcounts: *const usize,
        sdispls: *const usize,
        recvbuff: *mut c_void,
        recvcounts: *const usize,
        rdispls: *const usize,
        datatype: ncclDataType_t,
        comm: ncclComm_t,
        stream: hipStream_t,
    ) {
        let caller = Caller::new("ncclAllToAllv", datatype, comm, stream)?;
        spoils(|| {
            if [sendcounts, sdispls, recvcounts, rdispls].iter().any(|list| list.is_null()) {
                return Err(ncclInvalidArgument);
            }
            let size = caller.number.size();
            let part = |buffer: *const c_void, counts: *const usize, places: *const usize, rank: usize| {
                // SAFETY: the caller's lists have an entry for each rank.
                let (count, place) = unsafe { (*counts.add(rank), *places.add(rank)) };
                caller.span(buffer.wrapping_byte_add(place * size), count)
            };
            let mut operations = Vec::new();
            for rank in 0..caller.world() {
                operations.push(caller.send(part(sendbuff, sendcounts, sdispls, rank)?, rank));
                operations.push(caller.receive(part(recvbuff, recvcounts, rdispls, rank)?, rank));
            }
            group::issue(operations)
        })
    }
}

fn broadcast(caller: Caller, sendbuff: *const c_void, recvbuff: *mut c_void, count: usize, root: c_int) -> Outcome {
    let root = caller.peer(root, "root")?;
    let receives = caller.span(recvbuff, count)?;
    let sends = if caller.rank() == root { caller.span(sendbuff, count)? } else { Span::default() };
    caller.apart(sends, receives, 0)?;
    caller.together(Kind::Broadcast { root }, count, [sends, receives], None)
}
