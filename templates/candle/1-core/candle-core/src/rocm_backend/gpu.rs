//! The state that all queues of a GPU share.
use super::hip::{check, device_count, forget_last_error, HipResult};
use super::parts::GpuParts;
use super::queue::Queue;
use super::{api, RocmError};
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// Every GPU that was asked for in this process. They are never dropped, so that anything may refer to one.
static GPUS: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

/// A GPU: its properties, the peers that it reads from, and the queues that share its memory.
pub(super) struct Gpu {
    ordinal: usize,
    properties: Properties,
    /// Whether the runtime shows other GPUs too.
    has_siblings: bool,
    /// Ordinals of the GPUs whose memory this one may access directly, as far as it was tried.
    peers: Mutex<BTreeSet<usize>>,
    pub(super) parts: GpuParts,
}

/// The fields of `hipDeviceProp_t` that the backend uses.
pub(super) struct Properties {
    pub(super) name: String,
    /// Major and minor number of the generation: (9, 4) for gfx942.
    pub(super) compute_capability: (i32, i32),
    /// Such as "gfx90a:sramecc+:xnack-".
    pub(super) gcn_arch_name: String,
    /// Lanes of a wave: 32 or 64.
    pub(super) wave_size: usize,
    pub(super) multiprocessors: usize,
    /// Bytes of LDS that one block may use.
    pub(super) lds_per_block: usize,
    /// Bytes of device memory.
    pub(super) total_memory: usize,
}

impl Gpu {
    /// The GPU with that number among those that the runtime can see.
    pub(super) fn get(ordinal: usize) -> HipResult<&'static Self> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(RocmError::DeviceNotFound { ordinal, count });
        }
        let mut gpus = lock(&GPUS);
        if let Some(gpu) = gpus.iter().find(|gpu| gpu.ordinal == ordinal) {
            return Ok(gpu);
        }
        let properties = Properties::read(ordinal)?;
        let gpu = Box::leak(Box::new(Self {
            ordinal,
            has_siblings: count > 1,
            peers: Mutex::default(),
            parts: GpuParts::of(&properties),
            properties,
        }));
        gpus.push(gpu);
        Ok(gpu)
    }

    pub(super) fn ordinal(&self) -> usize {
        self.ordinal
    }

    pub(super) fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Makes the GPU the calling thread's current one, which is the one that HIP's other calls are about.
    ///
    /// A lone GPU always is. With several, HIP is told each time, although it often knows: the program's other code
    /// may have chosen another one, and HIP only writes a thread-local variable.
    pub(super) fn make_current(&self) -> HipResult<()> {
        if !self.has_siblings {
            return Ok(());
        }
        // SAFETY: any number is allowed; HIP checks it.
        let status = unsafe { api::hipSetDevice(self.ordinal as c_int) };
        check("hipSetDevice", status)
    }

    /// Bytes that the GPU has free.
    pub(super) fn free_memory(&self) -> HipResult<usize> {
        self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both live through the call.
        let status = unsafe { api::hipMemGetInfo(&mut free, &mut total) };
        check("hipMemGetInfo", status)?;
        Ok(free)
    }

    /// Lets this GPU read `other`'s memory directly if the hardware can. Where it cannot, HIP's peer copies go through
    /// the host by themselves.
    pub(super) fn reach(&self, other: &Self) -> HipResult<()> {
        let mut peers = lock(&self.peers);
        if peers.contains(&other.ordinal) {
            return Ok(());
        }
        let (from, to) = (self.ordinal as c_int, other.ordinal as c_int);
        let mut can = 0;
        // SAFETY: `can` lives through the call.
        let status = unsafe { api::hipDeviceCanAccessPeer(&mut can, from, to) };
        check("hipDeviceCanAccessPeer", status)?;
        if can != 0 {
            self.make_current()?;
            // SAFETY: no preconditions; HIP checks the number.
            let status = unsafe { api::hipDeviceEnablePeerAccess(to, 0) };
            // The program's other code may have enabled it.
            match status {
                api::hipErrorPeerAccessAlreadyEnabled => forget_last_error(),
                status => check("hipDeviceEnablePeerAccess", status)?,
            }
        }
        peers.insert(other.ordinal);
        Ok(())
    }

    /// The queues that were made for this GPU, on streams of the backend, and that somebody may still have.
    pub(super) fn queues(&self) -> MutexGuard<'_, Vec<Weak<Queue>>> {
        lock(&self.parts.queues)
    }
}

impl Properties {
    fn read(ordinal: usize) -> HipResult<Self> {
        let mut properties = MaybeUninit::<api::hipDeviceProp_tR0600>::zeroed();
        // SAFETY: `properties` lives through the call and has the layout that R0600 stands for.
        let status =
            unsafe { api::hipGetDevicePropertiesR0600(properties.as_mut_ptr(), ordinal as c_int) };
        check("hipGetDevicePropertiesR0600", status)?;
        // SAFETY: all fields are integers, arrays of them or pointers, for which zeros are valid, and HIP has filled
        // them in.
        let properties = unsafe { properties.assume_init() };
        Ok(Self {
            name: fixed_text(&properties.name),
            compute_capability: (properties.major, properties.minor),
            gcn_arch_name: fixed_text(&properties.gcnArchName),
            wave_size: properties.warpSize as usize,
            multiprocessors: properties.multiProcessorCount as usize,
            lds_per_block: properties.sharedMemPerBlock,
            total_memory: properties.totalGlobalMem,
        })
    }
}

/// The text in an array that ends with a NUL, or is full.
fn fixed_text(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text
        .iter()
        .take_while(|&&c| c != 0)
        .flat_map(|c| c.to_ne_bytes())
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Locks data that no panic can leave half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::testing::gpu;
    use crate::rocm_backend::RocmDevice;
    use crate::Result;

    #[test]
    fn texts_end_with_a_nul_or_the_array() {
        let text = |bytes: &[u8]| {
            let chars: Vec<c_char> = bytes.iter().map(|&byte| byte as c_char).collect();
            fixed_text(&chars)
        };
        assert_eq!(text(b"gfx90a\0\0"), "gfx90a");
        assert_eq!(text(b"gfx90a\0rest\0"), "gfx90a");
        assert_eq!(text(b"gfx1100"), "gfx1100");
        assert_eq!(text("é\0".as_bytes()), "é");
        assert_eq!(text(b"\0a"), "");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn devices_have_the_properties_that_hip_names() -> Result<()> {
        if gpu("devices_have_the_properties_that_hip_names").is_none() {
            return Ok(());
        }
        for ordinal in 0..device_count()? {
            let device = RocmDevice::new(ordinal)?;
            let mut all = MaybeUninit::<api::hipDeviceProp_tR0600>::zeroed();
            // SAFETY: `all` lives through the call, and zeros are valid.
            let properties = unsafe {
                let status = api::hipGetDevicePropertiesR0600(all.as_mut_ptr(), ordinal as c_int);
                assert_eq!(status, api::hipSuccess);
                all.assume_init()
            };
            // The first bytes of either array are the whole text, and a NUL.
            let starts = |array: &[c_char], text: &str| {
                let bytes = text.bytes().chain([0]);
                !text.is_empty() && array.iter().zip(bytes).all(|(&c, byte)| c as u8 == byte)
            };
            assert!(starts(&properties.name, &device.name()?));
            assert!(starts(&properties.gcnArchName, &device.gcn_arch_name()?));
            let version = (properties.major, properties.minor);
            assert_eq!(device.compute_capability()?, version);
            assert_eq!(device.wave_size(), properties.warpSize as usize);
            let count = properties.multiProcessorCount as usize;
            assert_eq!(device.multiprocessors(), count);
            assert_eq!(device.lds_per_block(), properties.sharedMemPerBlock);
            assert_eq!(device.total_memory()?, properties.totalGlobalMem);
        }
        Ok(())
    }

    #[test]
    fn a_gpu_that_is_not_there_is_named() {
        if gpu("a_gpu_that_is_not_there_is_named").is_none() {
            return;
        }
        let there = device_count().expect("there are some");
        for missing in [there, there + 1] {
            match Gpu::get(missing) {
                Err(RocmError::DeviceNotFound { ordinal, count }) => {
                    assert_eq!((ordinal, count), (missing, there));
                }
                Err(error) => panic!("{error}"),
                Ok(gpu) => panic!("there is a GPU {}", gpu.ordinal()),
            }
        }
        for ordinal in 0..there {
            let gpu = Gpu::get(ordinal).expect("it was counted");
            assert_eq!(gpu.ordinal(), ordinal);
            let again = Gpu::get(ordinal).expect("it was counted");
            assert!(std::ptr::eq(gpu, again), "one for each number");
        }
    }
}
