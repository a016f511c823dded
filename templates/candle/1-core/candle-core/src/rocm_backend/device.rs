//! An AMD GPU as a Candle device.
use super::gpu::{lock, Gpu};
use super::parts::RandomParts;
use super::queue::Queue;
use super::stream::RocmStream;
use super::{api, hip, MemoryStats, RocmError};
use crate::Result;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// The seed of a new device, the same as CUDA's.
const DEFAULT_SEED: u64 = 299792458;

/// A GPU together with a stream, on which its work is queued, and the memory that is used in the stream's order.
///
/// Devices are equal when they share GPU and stream: all that `new` makes for one GPU are, and each that
/// `new_with_stream` makes is equal to its clones only. Clones share the state of the random numbers, equal devices
/// that were made apart do not.
#[derive(Clone)]
pub struct RocmDevice {
    // Dropped in this order: what draws random numbers before the stream that it draws on.
    pub(super) random: Arc<Mutex<Random>>,
    queue: Arc<Queue>,
}

/// The identity of a device, which its clones and those that are equal to it share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId(usize);

/// A generator of the counter-based kind: each number follows from the seed and its place.
pub(super) struct Random {
    pub(super) seed: u64,
    offset: u64,
    pub(super) parts: RandomParts,
}

impl RocmDevice {
    /// The GPU with that number, on its default stream.
    pub fn new(ordinal: usize) -> Result<Self> {
        Ok(Self::with_queue(Queue::shared(Gpu::get(ordinal)?)?))
    }

    /// The GPU with that number, on a stream of its own.
    pub fn new_with_stream(ordinal: usize) -> Result<Self> {
        Ok(Self::with_queue(Queue::own(Gpu::get(ordinal)?)?))
    }

    /// The GPU with that number, on a `hipStream_t` of the program's other code, which is never destroyed here. Null is
    /// the default stream.
    ///
    /// # Safety
    /// The stream is one of that GPU, not `hipStreamPerThread`, and outlives the device, its clones, all that is stored on
    /// them, and what `rocm_stream` returns for them.
    pub unsafe fn from_raw_stream(ordinal: usize, stream: *mut c_void) -> Result<Self> {
        if stream.is_null() {
            return Self::new(ordinal);
        }
        // SAFETY: the caller's promise; clones and storages keep the queue.
        let queue = unsafe { Queue::external(Gpu::get(ordinal)?, stream) };
        Ok(Self::with_queue(queue?))
    }

    pub(super) fn with_queue(queue: Arc<Queue>) -> Self {
        let random = Random {
            seed: DEFAULT_SEED,
            offset: 0,
            parts: RandomParts::default(),
        };
        Self {
            random: Arc::new(Mutex::new(random)),
            queue,
        }
    }

    /// The GPU's number among those that the runtime can see, from 0.
    pub fn ordinal(&self) -> usize {
        self.gpu().ordinal()
    }

    /// What tells the device from those that it is not equal to, for as long as the program runs.
    pub fn id(&self) -> DeviceId {
        DeviceId(self.queue.number())
    }

    /// The product's name, such as "AMD Instinct MI300X".
    pub fn name(&self) -> Result<String> {
        Ok(self.gpu().properties().name.clone())
    }

    /// Major and minor number of the GPU's generation: (9, 4) for gfx942.
    pub fn compute_capability(&self) -> Result<(i32, i32)> {
        Ok(self.gpu().properties().compute_capability)
    }

    /// The target that kernels are compiled for, such as "gfx90a:sramecc+:xnack-".
    pub fn gcn_arch_name(&self) -> Result<String> {
        Ok(self.gpu().properties().gcn_arch_name.clone())
    }

    /// Lanes of a wave: 32 or 64.
    pub fn wave_size(&self) -> usize {
        self.gpu().properties().wave_size
    }

    /// Compute units, or on RDNA pairs of them: what runs a block as a whole.
    pub fn multiprocessors(&self) -> usize {
        self.gpu().properties().multiprocessors
    }

    /// Bytes of LDS that a block may use.
    pub fn lds_per_block(&self) -> usize {
        self.gpu().properties().lds_per_block
    }

    /// Bytes of memory on the GPU.
    pub fn total_memory(&self) -> Result<usize> {
        Ok(self.gpu().properties().total_memory)
    }

    /// Bytes that the GPU has free. What devices have cached is not among them.
    pub fn free_memory(&self) -> Result<usize> {
        Ok(self.gpu().free_memory()?)
    }

    /// How the device uses the memory that it took from the GPU.
    pub fn memory_stats(&self) -> MemoryStats {
        self.queue.memory_stats()
    }

    /// Waits until everything queued is done, then gives cached memory back to the GPU.
    pub fn trim_memory(&self) -> Result<()> {
        Ok(self.queue.trim()?)
    }

    /// The most bytes that the device may hold, cached ones included; None for no limit but the GPU's. Past it, cached
    /// memory is given back, and if that is not enough, allocations fail with `RocmError::MemoryLimit`.
    pub fn set_memory_limit(&self, limit: Option<usize>) {
        self.queue.set_memory_limit(limit);
    }

    /// Waits until everything queued on the device's stream is done.
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.stream().synchronize()?)
    }

    /// The device's stream. Work on it comes in the order of the device's own.
    pub fn rocm_stream(&self) -> Arc<RocmStream> {
        self.stream().clone()
    }

    /// Does nothing: see [`RocmDevice::is_event_tracking`].
    ///
    /// # Safety
    /// There is nothing to keep. It is unsafe as CUDA's is, which has memory lose its order between streams.
    pub unsafe fn disable_event_tracking(&self) {}

    /// False: work on a device's own stream records no events. Memory that another stream uses is always kept in order.
    pub fn is_event_tracking(&self) -> bool {
        false
    }

    /// The seed of the random numbers to come.
    pub fn seed(&self) -> u64 {
        lock(&self.random).seed
    }

    /// Seed and offset for that many random numbers of a counter-based generator. No two calls get the same numbers
    /// until a seed is set, which starts from the beginning.
    pub fn random_offset(&self, numbers: u64) -> (u64, u64) {
        let mut random = lock(&self.random);
        let offset = random.offset;
        // A call is told from the next one even where neither takes any.
        random.offset = offset.wrapping_add(numbers.max(1));
        (random.seed, offset)
    }

    pub(super) fn store_seed(&self, seed: u64) {
        let mut random = lock(&self.random);
        random.seed = seed;
        random.offset = 0;
        random.parts.restart();
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn stream(&self) -> &Arc<RocmStream> {
        self.queue.stream()
    }

    pub(super) fn gpu(&self) -> &'static Gpu {
        self.stream().gpu()
    }
}

impl std::fmt::Debug for RocmDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RocmDevice({})", self.ordinal())
    }
}

impl PartialEq for RocmDevice {
    fn eq(&self, other: &Self) -> bool {
        self.stream() == other.stream()
    }
}

impl Eq for RocmDevice {}

impl std::hash::Hash for RocmDevice {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.stream().hash(state);
    }
}

/// How many GPUs the runtime can see; 0 is no error.
pub fn device_count() -> Result<usize> {
    Ok(none_is_no_error(hip::device_count())?)
}

fn none_is_no_error(count: hip::HipResult<usize>) -> hip::HipResult<usize> {
    match count {
        Err(RocmError::Hip { code, .. }) if code == api::hipErrorNoDevice => Ok(0),
        count => count,
    }
}

/// Whether the runtime can see a GPU.
pub fn is_available() -> bool {
    matches!(device_count(), Ok(count) if count > 0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{gpu, gpu_of, is_alone};
    use super::*;
    use std::collections::hash_map::DefaultHasher;
    use std::collections::HashSet;
    use std::hash::{Hash, Hasher};

    fn hash(device: &RocmDevice) -> u64 {
        let mut hasher = DefaultHasher::new();
        device.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn equal_devices_have_equal_hashes_and_others_do_not() -> Result<()> {
        let Some(own) = gpu_of("equal_devices_have_equal_hashes_and_others_do_not", 0) else {
            return Ok(());
        };
        let others = [
            RocmDevice::new(0)?,
            RocmDevice::new_with_stream(0)?,
            RocmDevice::new_with_stream(0)?,
        ];
        assert_eq!(hash(&own), hash(&own.clone()));
        assert_eq!(hash(&others[0]), hash(&RocmDevice::new(0)?));
        let hashes: HashSet<u64> = others.iter().chain([&own]).map(hash).collect();
        assert_eq!(hashes.len(), 4);
        Ok(())
    }

    #[test]
    fn devices_that_are_equal_have_one_id() -> Result<()> {
        let Some(own) = gpu_of("devices_that_are_equal_have_one_id", 0) else {
            return Ok(());
        };
        assert_eq!(own.id(), own.clone().id());
        let shared = RocmDevice::new(0)?;
        assert_eq!(shared.id(), RocmDevice::new(0)?.id());
        let other = RocmDevice::new_with_stream(0)?;
        let ids: HashSet<DeviceId> = [&own, &shared, &other].map(RocmDevice::id).into();
        assert_eq!(ids.len(), 3);
        // A later device is none of those that have ended.
        let ended = other.id();
        drop(other);
        assert_ne!(RocmDevice::new_with_stream(0)?.id(), ended);
        assert!(!own.is_event_tracking());
        Ok(())
    }

    #[test]
    fn the_last_gpu_has_its_own_number() -> Result<()> {
        if gpu("the_last_gpu_has_its_own_number").is_none() {
            return Ok(());
        }
        let last = device_count()? - 1;
        let device = RocmDevice::new(last)?;
        assert_eq!(device.ordinal(), last);
        assert_eq!(format!("{device:?}"), format!("RocmDevice({last})"));
        Ok(())
    }

    #[test]
    fn a_second_gpu_is_number_1() -> Result<()> {
        if let Some(device) = gpu_of("a_second_gpu_is_number_1", 1) {
            assert_eq!(device.ordinal(), 1);
            assert_eq!(format!("{device:?}"), "RocmDevice(1)");
            assert_ne!(device, RocmDevice::new(0)?);
        }
        Ok(())
    }

    #[test]
    fn a_gpu_has_memory_to_give() -> Result<()> {
        let Some(device) = gpu("a_gpu_has_memory_to_give") else {
            return Ok(());
        };
        let (free, total) = (device.free_memory()?, device.total_memory()?);
        assert!(free > 1 << 20, "{free} of {total}");
        assert!(total > 1 << 20 && free <= total, "{free} of {total}");
        Ok(())
    }

    #[test]
    fn only_the_lack_of_gpus_counts_as_none() {
        let error = |code| RocmError::Hip {
            call: "hipGetDeviceCount",
            code,
            name: "name".to_string(),
            message: "message".to_string(),
        };
        assert!(matches!(none_is_no_error(Ok(0)), Ok(0)));
        assert!(matches!(none_is_no_error(Ok(3)), Ok(3)));
        assert!(matches!(
            none_is_no_error(Err(error(api::hipErrorNoDevice))),
            Ok(0)
        ));
        for code in [1, 3, 999] {
            let count = none_is_no_error(Err(error(code)));
            assert!(matches!(count, Err(RocmError::Hip { code: found, .. }) if found == code));
        }
        assert!(none_is_no_error(Err(RocmError::from("other"))).is_err());
    }

    #[test]
    fn a_program_may_see_no_gpu() -> Result<()> {
        let test = "a_program_may_see_no_gpu";
        let none = [
            ("HIP_VISIBLE_DEVICES", "-1"),
            ("CUDA_VISIBLE_DEVICES", "-1"),
        ];
        if device_count()? > 0 && !is_alone(module_path!(), test, &none) {
            return Ok(());
        }
        assert_eq!(device_count()?, 0);
        assert!(!is_available());
        let error = RocmDevice::new(0).expect_err("no GPU is visible");
        assert!(error.to_string().contains("hipErrorNoDevice"), "{error}");
        Ok(())
    }
}
