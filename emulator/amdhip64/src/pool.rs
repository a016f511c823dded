//! Memory that is allocated and freed in the order of a stream, out of pools.
//!
//! An address is given out at once and may be used at once; it is freed when the stream gets there, and what uses it
//! later is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard};

use api::amdhip64::*;
use candle_rocm_emulator_runtime::error::{HipError, HipResult};
use candle_rocm_emulator_runtime::machine;
use candle_rocm_emulator_runtime::memory::Place;
use candle_rocm_emulator_runtime::queue::{Action, Work};
use candle_rocm_emulator_runtime::report::Report;

use crate::call::{api, store};
use crate::memory::allocate;
use crate::{device, stream};

/// Handles are odd numbers from this on; the first ones are the default pools of the devices.
const FIRST_HANDLE: usize = 0x7000_0001;
/// There are fewer devices than handles before it.
const FIRST_CREATED: usize = 0x7000_0101;

/// A pool. It keeps no memory that is free.
struct Pool {
    device: usize,
    /// Bytes that it may hold; any number if zero.
    limit: usize,
    /// What was set.
    attributes: BTreeMap<hipMemPoolAttr, u64>,
    /// Bytes in use at most.
    high: u64,
    /// What other devices may do with its memory.
    access: BTreeMap<usize, hipMemAccessFlags>,
    /// Its allocations by first address, each with its number.
    allocations: BTreeMap<usize, u64>,
}

#[derive(Default)]
struct Pools {
    pools: BTreeMap<usize, Pool>,
    /// The pool that a device uses, if it is not its default one.
    current: BTreeMap<usize, usize>,
    created: usize,
    /// Memory that streams are going to free.
    leaving: BTreeSet<usize>,
}

static POOLS: Mutex<Option<Pools>> = Mutex::new(None);

fn with<T>(body: impl FnOnce(&mut Pools) -> T) -> T {
    let mut pools: MutexGuard<'_, _> = POOLS.lock().expect("no panic while held");
    body(pools.get_or_insert_with(Pools::default))
}

fn default_handle(device: usize) -> usize {
    FIRST_HANDLE + 2 * device
}

fn as_pool(handle: usize) -> hipMemPool_t {
    std::ptr::without_provenance_mut(handle)
}

impl Pool {
    fn new(device: usize, limit: usize) -> Self {
        let (attributes, access, allocations) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { device, limit, attributes, high: 0, access, allocations }
    }

    /// Bytes in use; forgets allocations that were freed.
    fn used(&mut self) -> u64 {
        let machine = machine::lock();
        let live = |start: usize, number: u64| machine.memory.find(start).filter(|found| found.number == number);
        self.allocations.retain(|start, number| live(*start, *number).is_some());
        self.allocations.iter().filter_map(|(start, number)| live(*start, *number)).map(|found| found.size as u64).sum()
    }

    fn attribute(&mut self, attribute: hipMemPoolAttr) -> HipResult<u64> {
        let set = self.attributes.get(&attribute).copied();
        Ok(match attribute {
            hipMemPoolReuseFollowEventDependencies
            | hipMemPoolReuseAllowOpportunistic
            | hipMemPoolReuseAllowInternalDependencies => set.unwrap_or(1),
            hipMemPoolAttrReleaseThreshold => set.unwrap_or(0),
            hipMemPoolAttrReservedMemCurrent | hipMemPoolAttrUsedMemCurrent => self.used(),
            hipMemPoolAttrReservedMemHigh | hipMemPoolAttrUsedMemHigh => self.high,
            _ => return Err(HipError::INVALID_VALUE),
        })
    }
}

impl Pools {
    /// The pool of a handle; default ones are made when they are first asked for.
    fn get(&mut self, handle: usize) -> HipResult<&mut Pool> {
        let offset = handle.checked_sub(FIRST_HANDLE).filter(|offset| offset % 2 == 0);
        let device = offset.filter(|_| handle < FIRST_CREATED).map(|offset| offset / 2);
        if let Some(device) = device {
            device::index(device as c_int).map_err(|_| HipError::INVALID_VALUE)?;
            self.pools.entry(handle).or_insert_with(|| Pool::new(device, 0));
        }
        self.pools.get_mut(&handle).ok_or(HipError::INVALID_VALUE)
    }

    fn current(&self, device: usize) -> usize {
        self.current.get(&device).copied().unwrap_or(default_handle(device))
    }

    /// Allocates out of a pool.
    fn allocate(&mut self, handle: usize, size: usize) -> HipResult<usize> {
        let pool = self.get(handle)?;
        let used = pool.used();
        if pool.limit > 0 && size > pool.limit.saturating_sub(used as usize) {
            return Err(HipError::OUT_OF_MEMORY);
        }
        let start = allocate(Place::Device(pool.device), size)?;
        if let Some(allocation) = machine::lock().memory.find(start) {
            pool.allocations.insert(start, allocation.number);
        }
        pool.high = pool.high.max(used + size as u64);
        self.leaving.remove(&start);
        Ok(start)
    }
}

/// Frees memory when a stream gets there.
fn free_later(start: usize, stream: hipStream_t) -> HipResult {
    let stream = stream::resolve(stream)?;
    let found = machine::lock().memory.find(start).copied();
    let is_device = |place| matches!(place, Place::Device(_));
    let known = found.is_some_and(|allocation| allocation.start == start && is_device(allocation.place));
    if !known || !with(|pools| pools.leaving.insert(start)) {
        return Err(HipError::INVALID_VALUE);
    }
    let action = move || {
        with(|pools| pools.leaving.remove(&start));
        let freed = machine::lock().memory.free(start);
        let text = || format!("hipFreeAsync: the memory at {start:#x} was freed before the stream got there");
        freed.map(|_| ()).map_err(|code| Report { code, text: text() })
    };
    let enqueued = machine::enqueue(stream, Work::Run(Action::new(action)));
    if enqueued.is_err() {
        with(|pools| pools.leaving.remove(&start));
    }
    enqueued
}

api! {
    /// Allocates out of the pool that the stream's device uses.
    fn hipMallocAsync(pointer: *mut *mut c_void, size: usize, stream: hipStream_t) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        let id = stream::resolve(stream)?;
        let device = machine::lock().queues.device_of(id).ok_or(HipError::INVALID_HANDLE)?;
        let start = with(|pools| pools.allocate(pools.current(device), size))?;
        // SAFETY: the caller's pointer.
        unsafe { store(pointer, start as *mut c_void) }
    }

    /// Allocates out of a pool.
    fn hipMallocFromPoolAsync(pointer: *mut *mut c_void, size: usize, pool: hipMemPool_t, stream: hipStream_t) {
        if pointer.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        stream::resolve(stream)?;
        let start = with(|pools| pools.allocate(pool.addr(), size))?;
        // SAFETY: the caller's pointer.
        unsafe { store(pointer, start as *mut c_void) }
    }

    /// Frees when the stream gets there.
    fn hipFreeAsync(pointer: *mut c_void, stream: hipStream_t) {
        free_later(pointer as usize, stream)
    }

    /// Makes a pool on a device.
    fn hipMemPoolCreate(pool: *mut hipMemPool_t, properties: *const hipMemPoolProps) {
        if pool.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        let properties = unsafe { properties.as_ref() }.ok_or(HipError::INVALID_VALUE)?;
        let on_device = properties.location.r#type == hipMemLocationTypeDevice;
        if !on_device || properties.allocType != hipMemAllocationTypePinned {
            return Err(HipError::INVALID_VALUE);
        }
        let device = device::index(properties.location.id).map_err(|_| HipError::INVALID_VALUE)?;
        let handle = with(|pools| {
            let handle = FIRST_CREATED + 2 * pools.created;
            pools.created += 1;
            pools.pools.insert(handle, Pool::new(device, properties.maxSize));
            handle
        });
        // SAFETY: the caller's pointer.
        unsafe { store(pool, as_pool(handle)) }
    }

    /// Ends a pool; its memory lives on until it is freed. Devices that used it use their default pool again.
    fn hipMemPoolDestroy(pool: hipMemPool_t) {
        let handle = pool.addr();
        with(|pools| {
            if handle < FIRST_CREATED || pools.pools.remove(&handle).is_none() {
                return Err(HipError::INVALID_VALUE);
            }
            pools.current.retain(|_, current| *current != handle);
            Ok(())
        })
    }

    /// The default pool of a device.
    fn hipDeviceGetDefaultMemPool(pool: *mut hipMemPool_t, device: c_int) {
        let handle = default_handle(device::index(device)?);
        // SAFETY: the caller's pointer.
        unsafe { store(pool, as_pool(handle)) }
    }

    /// The pool that a device uses.
    fn hipDeviceGetMemPool(pool: *mut hipMemPool_t, device: c_int) {
        let index = device::index(device)?;
        // SAFETY: the caller's pointer.
        unsafe { store(pool, as_pool(with(|pools| pools.current(index)))) }
    }

    /// Chooses the pool that a device uses: one of its own.
    fn hipDeviceSetMemPool(device: c_int, pool: hipMemPool_t) {
        let index = device::index(device)?;
        with(|pools| {
            if pools.get(pool.addr())?.device != index {
                return Err(HipError::INVALID_DEVICE);
            }
            pools.current.insert(index, pool.addr());
            Ok(())
        })
    }

    /// Gives back free memory that a pool keeps: it keeps none.
    fn hipMemPoolTrimTo(pool: hipMemPool_t, _keep: usize) {
        with(|pools| pools.get(pool.addr()).map(|_| ()))
    }

    /// An attribute: 32 bits for those on reuse, 64 for others.
    fn hipMemPoolGetAttribute(pool: hipMemPool_t, attribute: hipMemPoolAttr, value: *mut c_void) {
        let known = with(|pools| pools.get(pool.addr())?.attribute(attribute))?;
        // SAFETY: the caller's pointer to a number of that width.
        unsafe {
            if attribute <= hipMemPoolReuseAllowInternalDependencies {
                store(value.cast(), known as c_int)
            } else {
                store(value.cast(), known)
            }
        }
    }

    /// Sets an attribute; those on use at most can only be set to zero, which starts them again.
    fn hipMemPoolSetAttribute(pool: hipMemPool_t, attribute: hipMemPoolAttr, value: *mut c_void) {
        if value.is_null() {
            return Err(HipError::INVALID_VALUE);
        }
        with(|pools| {
            let pool = pools.get(pool.addr())?;
            // SAFETY: the caller's pointer to a number of that width.
            let wanted = || unsafe { value.cast::<u64>().read() };
            match attribute {
                hipMemPoolReuseFollowEventDependencies
                | hipMemPoolReuseAllowOpportunistic
                | hipMemPoolReuseAllowInternalDependencies => {
                    // SAFETY: as above.
                    pool.attributes.insert(attribute, unsafe { value.cast::<c_int>().read() } as u64);
                }
                hipMemPoolAttrReleaseThreshold => {
                    pool.attributes.insert(attribute, wanted());
                }
                hipMemPoolAttrReservedMemHigh | hipMemPoolAttrUsedMemHigh if wanted() == 0 => pool.high = pool.used(),
                _ => return Err(HipError::INVALID_VALUE),
            }
            Ok(())
        })
    }

    /// Lets other devices use a pool's memory. What one device may use of another is all or nothing here.
    fn hipMemPoolSetAccess(pool: hipMemPool_t, descriptions: *const hipMemAccessDesc, count: usize) {
        if descriptions.is_null() || count == 0 {
            return Err(HipError::INVALID_VALUE);
        }
        // SAFETY: the caller's array.
        let descriptions = unsafe { std::slice::from_raw_parts(descriptions, count) };
        with(|pools| {
            let pool = pools.get(pool.addr())?;
            for description in descriptions {
                if description.location.r#type != hipMemLocationTypeDevice {
                    return Err(HipError::INVALID_VALUE);
                }
                let peer = device::index(description.location.id)?;
                pool.access.insert(peer, description.flags);
                if description.flags != hipMemAccessFlagsProtNone {
                    machine::lock().peers[peer] |= 1 << pool.device;
                }
            }
            Ok(())
        })
    }

    /// What a device may do with a pool's memory.
    fn hipMemPoolGetAccess(flags: *mut hipMemAccessFlags, pool: hipMemPool_t, location: *mut hipMemLocation) {
        // SAFETY: the caller's pointer.
        let location = unsafe { location.as_ref() }.ok_or(HipError::INVALID_VALUE)?;
        if location.r#type != hipMemLocationTypeDevice {
            return Err(HipError::INVALID_VALUE);
        }
        let asking = device::index(location.id)?;
        let known = with(|pools| {
            let pool = pools.get(pool.addr())?;
            let own = if pool.device == asking { hipMemAccessFlagsProtReadWrite } else { hipMemAccessFlagsProtNone };
            Ok(pool.access.get(&asking).copied().unwrap_or(own))
        })?;
        // SAFETY: the caller's pointer.
        unsafe { store(flags, known) }
    }
}
