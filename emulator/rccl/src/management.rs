//! Communicators, groups, operations and memory.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

use api::names;
use api::rccl::*;
use candle_rocm_emulator_link::{current_device, free, malloc, set_device};
use candle_rocm_emulator_runtime::settings::settings;

use crate::communicator::{Communicator, Factor, Scale, find, give_up, keep, usable};
use crate::group::{self, Job};
use crate::hub;
use crate::id::Id;
use crate::number::Number;
use crate::wire::Failure;
use crate::{Outcome, exports, refuse};

/// The NCCL that RCCL 7.2.4 says it is.
const VERSION: c_int = 22_707;

/// Nobody's colour: a rank that is in no part.
const NO_COLOR: c_int = -1;

/// Writes a result through a pointer that the caller gave.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn store<T>(pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return Err(ncclInvalidArgument);
    }
    // SAFETY: by contract.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Starts a hub in this process.
fn new_hub() -> Outcome<Id> {
    let settings = settings();
    if settings.wrong {
        return refuse(ncclSystemError, "ncclGetUniqueId: a setting of the emulated machine is wrong");
    }
    hub::start(settings.rccl_timeout, settings.seed)
        .or_else(|error| refuse(ncclSystemError, &format!("ncclGetUniqueId: {error}")))
}

fn checked_ranks(nranks: c_int, rank: c_int) -> Outcome<(usize, usize)> {
    let ranks = usize::try_from(nranks).ok().filter(|ranks| *ranks > 0).zip(usize::try_from(rank).ok());
    match ranks.filter(|(world, rank)| rank < world) {
        Some(ranks) => Ok(ranks),
        None => refuse(ncclInvalidArgument, &format!("rank {rank} of {nranks} ranks")),
    }
}

/// Makes a rank of the current device, whose coming together with the others is a job.
fn rank_of(id: &ncclUniqueId, nranks: c_int, rank: c_int) -> Outcome<(Arc<Communicator>, Job)> {
    let (world, rank) = checked_ranks(nranks, rank)?;
    let communicator = Communicator::new(rank, world, current_device(), settings().rccl_timeout);
    let (joining, id) = (Arc::clone(&communicator), Id::from_c(id));
    Ok((communicator, Box::new(move || joining.join(id).map_err(|failure| failure.result))))
}

/// Whether a configuration lets calls return before they are done.
///
/// # Safety
/// The pointer is null or valid for a read.
unsafe fn is_blocking(config: *const ncclConfig_t) -> bool {
    // SAFETY: by contract.
    config.is_null() || unsafe { (*config).blocking } != 0
}

/// Keeps a communicator under `comm`, and does the job: now, at the end of the group, or on its own.
///
/// # Safety
/// The pointer is null or valid for a write.
unsafe fn begin(comm: *mut ncclComm_t, communicator: Arc<Communicator>, job: Job, blocking: bool) -> Outcome {
    let handle = keep(communicator);
    // SAFETY: by contract.
    unsafe { store(comm, handle) }?;
    if blocking {
        return group::begin(job).inspect_err(|_| {
            let _ = give_up(handle);
            // SAFETY: by contract; it was not null.
            unsafe { comm.write(ptr::null_mut()) };
        });
    }
    std::thread::spawn(job);
    Err(ncclInProgress)
}

exports! {
    /// The version of NCCL whose functions these are.
    fn ncclGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(version, VERSION) }
    }

    /// Makes an id, whose ranks meet in this process.
    fn ncclGetUniqueId(unique_id: *mut ncclUniqueId) {
        if unique_id.is_null() {
            return Err(ncclInvalidArgument);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(unique_id, new_hub()?.to_c()) }
    }

    /// Comes to the other ranks of an id.
    fn ncclCommInitRank(comm: *mut ncclComm_t, nranks: c_int, comm_id: ncclUniqueId, rank: c_int) {
        if comm.is_null() {
            return Err(ncclInvalidArgument);
        }
        let (communicator, job) = rank_of(&comm_id, nranks, rank)?;
        // SAFETY: the caller's pointer.
        unsafe { begin(comm, communicator, job, true) }
    }

    /// The same; a configuration may say that the caller does not wait.
    fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t,
        nranks: c_int,
        comm_id: ncclUniqueId,
        rank: c_int,
        config: *mut ncclConfig_t,
    ) {
        if comm.is_null() {
            return Err(ncclInvalidArgument);
        }
        let (communicator, job) = rank_of(&comm_id, nranks, rank)?;
        // SAFETY: the caller's pointers.
        unsafe { begin(comm, communicator, job, is_blocking(config)) }
    }

    /// A communicator of devices of this process: the first ones, or those of a list.
    fn ncclCommInitAll(comm: *mut ncclComm_t, ndev: c_int, devlist: *const c_int) {
        let world = usize::try_from(ndev).ok().filter(|count| *count > 0 && !comm.is_null());
        let world = world.ok_or(ncclInvalidArgument)?;
        // SAFETY: the caller's list has as many entries.
        let listed = (!devlist.is_null()).then(|| unsafe { slice::from_raw_parts(devlist, world) }.to_vec());
        let devices = listed.unwrap_or_else(|| (0..ndev).collect());
        let id = new_hub()?.to_c();
        let before = current_device();
        let mut ranks = Vec::new();
        for (rank, device) in (0..).zip(&devices) {
            let device = usize::try_from(*device).unwrap_or(usize::MAX);
            if !set_device(device) {
                set_device(before);
                return refuse(ncclInvalidArgument, &format!("ncclCommInitAll: there is no device {}", devices[rank as usize]));
            }
            ranks.push(rank_of(&id, ndev, rank)?);
        }
        set_device(before);
        let (communicators, jobs): (Vec<_>, Vec<Job>) = ranks.into_iter().unzip();
        group::start();
        let begun: Outcome = jobs.into_iter().try_for_each(group::begin);
        group::end().and(begun)?;
        for (index, communicator) in communicators.into_iter().enumerate() {
            // SAFETY: the caller's list has as many entries.
            unsafe { comm.add(index).write(keep(communicator)) };
        }
        Ok(())
    }

    /// Parts a communicator by colour; ranks of a colour are in the order of their keys.
    fn ncclCommSplit(
        comm: ncclComm_t,
        color: c_int,
        key: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
    ) {
        let parent = usable(comm)?;
        if newcomm.is_null() || color < NO_COLOR {
            return Err(ncclInvalidArgument);
        }
        // SAFETY: the caller's pointers.
        unsafe { newcomm.write(ptr::null_mut()) };
        let place = SendPointer(newcomm);
        // SAFETY: as above.
        let blocking = unsafe { is_blocking(config) };
        if !blocking {
            return refuse(ncclInvalidUsage, "ncclCommSplit without waiting: not supported by the emulated device");
        }
        group::begin(Box::new(move || {
            let place = place;
            if let Some(part) = split(&parent, color, key)? {
                // SAFETY: the caller keeps it until the group has ended.
                unsafe { place.0.write(keep(part)) };
            }
            Ok(())
        }))
    }

    /// Waits for nothing more: what is on streams is done when they are waited for.
    fn ncclCommFinalize(comm: ncclComm_t) {
        find(comm).map(|_| ())
    }

    /// Leaves the communicator.
    fn ncclCommDestroy(comm: ncclComm_t) {
        give_up(comm)?.leave();
        Ok(())
    }

    /// Ends all calls that wait, and leaves.
    fn ncclCommAbort(comm: ncclComm_t) {
        give_up(comm)?.abort();
        Ok(())
    }

    /// Whether the communicator is still of use.
    fn ncclCommGetAsyncError(comm: ncclComm_t, async_error: *mut ncclResult_t) {
        let communicator = find(comm)?;
        communicator.look_at_the_clock();
        // SAFETY: the caller's pointer.
        unsafe { store(async_error, communicator.result()) }
    }

    /// How many ranks there are.
    fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(count, find(comm)?.world as c_int) }
    }

    /// The device of this rank.
    fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(device, find(comm)?.device as c_int) }
    }

    /// The number of this rank.
    fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) {
        // SAFETY: the caller's pointer.
        unsafe { store(rank, find(comm)?.rank as c_int) }
    }

    /// Tells the library of memory; there is nothing to do.
    fn ncclCommRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut c_void) {
        let _ = size;
        find(comm)?;
        // SAFETY: the caller's pointer.
        unsafe { store(handle, buff) }
    }

    /// Takes that back.
    fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) {
        let _ = handle;
        find(comm).map(|_| ())
    }

    /// Makes an operation that multiplies by a number before it adds.
    fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t,
        scalar: *mut c_void,
        datatype: ncclDataType_t,
        residence: ncclScalarResidence_t,
        comm: ncclComm_t,
    ) {
        let communicator = usable(comm)?;
        let number = Number::of(datatype)?;
        if scalar.is_null() || op.is_null() {
            return Err(ncclInvalidArgument);
        }
        let factor = match residence {
            // SAFETY: the caller's pointer, to a number of that type.
            ncclScalarHostImmediate => Factor::Bytes(unsafe { slice::from_raw_parts(scalar.cast(), number.size()) }.to_vec()),
            ncclScalarDevice => Factor::At(scalar.expose_provenance()),
            _ => return Err(ncclInvalidArgument),
        };
        // SAFETY: the caller's pointer.
        unsafe { store(op, communicator.add_scale(Scale { number, factor })) }
    }

    /// Gives such an operation up.
    fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) {
        if find(comm)?.remove_scale(op) { Ok(()) } else { Err(ncclInvalidArgument) }
    }

    /// Begins a group.
    fn ncclGroupStart() {
        group::start();
        Ok(())
    }

    /// Ends a group, and does all of it.
    fn ncclGroupEnd() {
        group::end()
    }

    /// Memory of the current device.
    fn ncclMemAlloc(ptr: *mut *mut c_void, size: usize) {
        if ptr.is_null() {
            return Err(ncclInvalidArgument);
        }
        // SAFETY: the caller's pointer.
        unsafe { store(ptr, malloc(size).ok_or(ncclUnhandledCudaError)?) }
    }

    /// Gives it back.
    fn ncclMemFree(ptr: *mut c_void) {
        if free(ptr) { Ok(()) } else { Err(ncclUnhandledCudaError) }
    }
}

struct SendPointer(*mut ncclComm_t);

// SAFETY: the group's thread waits for the job that writes through it.
unsafe impl Send for SendPointer {}

/// This rank's part of a communicator; none for a rank without a colour.
fn split(parent: &Arc<Communicator>, color: c_int, key: c_int) -> Outcome<Option<Arc<Communicator>>> {
    let mut own = [0; 8];
    own[..4].copy_from_slice(&color.to_le_bytes());
    own[4..].copy_from_slice(&key.to_le_bytes());
    let all = parent.exchange(&own)?;
    let int = |bytes: &[u8]| c_int::from_le_bytes(bytes.try_into().expect("four bytes"));
    let mut part: Vec<(c_int, usize)> = (all.chunks(8).enumerate())
        .filter(|(_, entry)| int(&entry[..4]) == color)
        .map(|(rank, entry)| (int(&entry[4..]), rank))
        .collect();
    part.sort_unstable();
    let (_, leader) = part[0];
    let leads = color != NO_COLOR && leader == parent.rank;
    let id = if leads { new_hub()?.bytes() } else { [0; 128] };
    let ids = parent.exchange(&id)?;
    if color == NO_COLOR {
        return Ok(None);
    }
    let id = Id::from_bytes(ids[leader * 128..][..128].try_into().expect("as many bytes"));
    let rank = part.iter().position(|(_, rank)| *rank == parent.rank).expect("it is in its own part");
    if !set_device(parent.device) {
        return Err(ncclUnhandledCudaError);
    }
    let communicator = Communicator::new(rank, part.len(), parent.device, parent.timeout);
    communicator.join(id).map_err(|Failure { result, .. }| result)?;
    Ok(Some(communicator))
}

/// What a result means.
///
/// # Safety
/// As the function of the same name in RCCL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetErrorString(result: ncclResult_t) -> *const c_char {
    names::nccl_result(result).as_ptr()
}

/// Why the communicator is of no use, or nothing. It is valid until the calling thread asks again.
///
/// # Safety
/// As the function of the same name in RCCL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetLastError(comm: ncclComm_t) -> *const c_char {
    thread_local! {
        static LAST: RefCell<CString> = RefCell::default();
    }
    let text = find(comm).ok().and_then(|communicator| communicator.problem());
    let text = CString::new(text.unwrap_or_default()).unwrap_or_default();
    LAST.with_borrow_mut(|last| {
        *last = text;
        CStr::as_ptr(last)
    })
}

api::implements!(rccl: ncclGetErrorString, ncclGetLastError);
