//! The kernels of one GPU, loaded at first use and found by number from then on.
use super::compile::{Compiler, Unit};
use super::disk_cache::Entry;
use super::hash::Hash128;
use super::module::{Function, Module};
use super::prebuilt::Prebuilt;
use super::sources::{HEADERS, SOURCES};
use crate::rocm_backend::gpu::lock;
use crate::rocm_backend::hip::HipResult;
use crate::rocm_backend::loaded;
use crate::rocm_backend::plan::table::FAMILIES;
use crate::rocm_backend::plan::{Family, Kernel, Tuning};
use crate::rocm_backend::{api, RocmError};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The architecture to compile for instead of the GPU's own.
const ARCHITECTURE_VARIABLE: &str = "CANDLE_ROCM_ARCH";

/// The loaded kernels of each family.
#[derive(Debug)]
pub(crate) struct Loader {
    /// The GPU's own.
    gpu: String,
    /// The architecture that kernels are for.
    architecture: String,
    tuning: Tuning,
    prebuilt: Option<Prebuilt>,
    families: [OnceLock<Slots>; FAMILIES],
    compiled: Mutex<VecDeque<Compiled>>,
}

/// The user's sources that stay loaded after their last use, the latest ones: a custom op may compile each time that it is
/// called. Few in the crate's own tests.
const KEPT: usize = if cfg!(test) { 2 } else { 64 };

/// What a module of the user's was made of, and the module.
#[derive(Debug)]
struct Compiled {
    file: String,
    /// HIP source, or a code object.
    bytes: Vec<u8>,
    module: Arc<Module>,
}

#[derive(Debug)]
struct Slots {
    /// Loaded by the first kernel that is asked for, and kept for good: functions are valid as long.
    module: Mutex<Option<Module>>,
    /// By number; null until the kernel is asked for.
    functions: Box<[AtomicPtr<c_void>]>,
}

impl Loader {
    /// Nothing is loaded yet. `architecture` is the GPU's, such as "gfx90a:sramecc+:xnack-"; kernels are compiled for
    /// it unless the user names another one that the GPU understands.
    pub(crate) fn new(architecture: &str) -> Self {
        let named = std::env::var(ARCHITECTURE_VARIABLE).ok();
        let named = named.filter(|name| !name.is_empty());
        let gpu = architecture.to_string();
        let architecture = named.unwrap_or_else(|| gpu.clone());
        Self {
            gpu,
            tuning: Tuning::of(&architecture),
            architecture,
            prebuilt: Prebuilt::named(),
            families: [const { OnceLock::new() }; FAMILIES],
            compiled: Mutex::default(),
        }
    }

    /// Whose numbers the kernels have.
    pub(crate) fn tuning(&self) -> Tuning {
        self.tuning
    }

    /// The place on the disk for which is faster for `what` on this GPU: the family's kernels as they are now, or the library
    /// as it is loaded.
    pub(crate) fn choice(&self, family: &Family, library: &str, what: &str) -> Option<Entry> {
        let headers = HEADERS.iter().map(|(_, text)| *text);
        let sources = headers.chain([SOURCES[family.number]]);
        let key = sources.fold(Hash128::EMPTY.field(what), Hash128::field);
        let key = loaded::files_of(library).iter().fold(key, |key, file| {
            let file = file.canonicalize();
            key.field(&file.map_or_else(|_| String::new(), |file| file.display().to_string()))
        });
        Entry::new(&self.architecture, family.name, key, "choice")
    }

    /// The kernel's function. The first call for a family compiles or reads it, for which the caller has made the GPU
    /// the current device; later calls read two pointers.
    pub(crate) fn function(&self, kernel: Kernel) -> HipResult<Function> {
        let family = kernel.family();
        let slots = self.families[family.number].get_or_init(|| Slots::new(family));
        let slot = &slots.functions[kernel.index()];
        let known = slot.load(Ordering::Acquire);
        if !known.is_null() {
            // SAFETY: stored below, and modules are never unloaded.
            return Ok(unsafe { Function::from_ptr(known) });
        }
        let mut module = lock(&slots.module);
        let loaded = match module.take() {
            Some(loaded) => loaded,
            None => self.load(family)?,
        };
        let function = module.insert(loaded).function(&kernel.symbol())?;
        slot.store(function.as_ptr(), Ordering::Release);
        Ok(function)
    }

    /// Compiles and loads a source of the user's, with the headers of the backend's own kernels at hand, or finds it
    /// loaded; the caller has made the GPU the current device.
    pub(crate) fn compile(&self, file: &str, source: &str) -> HipResult<Arc<Module>> {
        self.kept(file, source.as_bytes(), || {
            Compiler::find()?.load(&self.unit(file, source), Module::load_described)
        })
    }

    /// Loads the first of the user's code objects that is for the GPU, or finds it loaded; the caller has made the GPU the
    /// current device. Each object has the name of its architecture, such as "gfx90a" or "gfx90a:xnack-".
    pub(crate) fn load_code(
        &self,
        file: &str,
        objects: &[(&str, &[u8])],
    ) -> HipResult<Arc<Module>> {
        let fitting = objects.iter().find(|(name, _)| fits(name, &self.gpu));
        let (_, code) = fitting.ok_or_else(|| {
            let names: Vec<&str> = objects.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            format!(
                "{file} has no code object for {}, only for: {names}",
                self.gpu
            )
        })?;
        self.kept(file, code, || Module::load_described(code))
    }

    /// The module that was made of these bytes, or else the one that `make` makes.
    fn kept(
        &self,
        file: &str,
        bytes: &[u8],
        make: impl FnOnce() -> HipResult<Module>,
    ) -> HipResult<Arc<Module>> {
        let mut compiled = lock(&self.compiled);
        let known = compiled
            .iter()
            .position(|c| c.bytes == bytes && c.file == file);
        let entry = match known.and_then(|place| compiled.remove(place)) {
            Some(entry) => entry,
            None => {
                let module = self.checked(make())?;
                compiled.truncate(KEPT - 1);
                Compiled {
                    file: file.to_string(),
                    bytes: bytes.to_vec(),
                    module: Arc::new(module),
                }
            }
        };
        let module = entry.module.clone();
        compiled.push_front(entry);
        Ok(module)
    }

    /// Loads what was built ahead of time, or else compiles.
    fn load(&self, family: &Family) -> HipResult<Module> {
        let file = format!("{}.hip", family.name);
        let unit = self.unit(&file, SOURCES[family.number]);
        let folder = self.prebuilt.as_ref();
        let code = folder.map(|folder| folder.read(&unit)).transpose()?;
        self.checked(match code.flatten() {
            Some(code) => Module::load(&code),
            None => Compiler::find()
                .map_err(|reason| Prebuilt::missing(folder, &unit, reason))?
                .load(&unit, Module::load),
        })
    }

    fn unit<'a>(&'a self, file: &'a str, source: &'a str) -> Unit<'a> {
        Unit {
            file,
            source,
            headers: HEADERS,
            architecture: &self.architecture,
        }
    }

    /// Says whose the fault is if a GPU does not take what the user has had compiled for another one.
    fn checked(&self, loaded: HipResult<Module>) -> HipResult<Module> {
        loaded.map_err(|error| match error {
            RocmError::Hip { code, .. }
                if code == api::hipErrorNoBinaryForGpu && self.architecture != self.gpu =>
            {
                RocmError::OtherArchitecture {
                    architecture: self.architecture.clone(),
                    gpu: self.gpu.clone(),
                    error: Box::new(error),
                }
            }
            error => error,
        })
    }
}

/// Whether a code object's architecture is a GPU's: the same processor, and no feature that the GPU has otherwise.
fn fits(object: &str, gpu: &str) -> bool {
    let mut has = gpu.split(':');
    let mut asks = object.split(':');
    has.next() == asks.next() && {
        let has: Vec<&str> = has.collect();
        asks.all(|feature| has.contains(&feature))
    }
}

impl Slots {
    fn new(family: &Family) -> Self {
        Self {
            module: Mutex::new(None),
            functions: (0..family.kernels).map(|_| AtomicPtr::default()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of an error with this code, where kernels are for gfx1100.
    fn checked(gpu: &str, code: u32) -> RocmError {
        let loader = Loader {
            gpu: gpu.to_string(),
            architecture: "gfx1100".to_string(),
            ..Loader::new(gpu)
        };
        let error = RocmError::Hip {
            call: "hipModuleLoadData",
            code,
            name: "name".to_string(),
            message: "message".to_string(),
        };
        loader.checked(Err(error)).expect_err("it was an error")
    }

    #[test]
    fn a_code_object_fits_its_processor_and_its_features() {
        let gpu = "gfx90a:sramecc+:xnack-";
        for name in ["gfx90a", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", gpu] {
            assert!(fits(name, gpu), "{name}");
        }
        for name in ["gfx90", "gfx942", "gfx90a:xnack+", "gfx942:xnack-", ""] {
            assert!(!fits(name, gpu), "{name}");
        }
        assert!(!fits("gfx1100:xnack-", "gfx1100"));
    }

    #[test]
    fn kernels_for_another_gpu_are_the_users_doing() {
        match checked("gfx1101", api::hipErrorNoBinaryForGpu) {
            RocmError::OtherArchitecture {
                architecture,
                gpu,
                error,
            } => {
                assert_eq!((&architecture[..], &gpu[..]), ("gfx1100", "gfx1101"));
                assert!(error.to_string().contains("hipModuleLoadData"));
            }
            other => panic!("{other}"),
        }
        for (gpu, code) in [
            ("gfx1101", api::hipErrorNoDevice),
            ("gfx1100", api::hipErrorNoBinaryForGpu),
            ("gfx1100", api::hipErrorNoDevice),
        ] {
            let error = checked(gpu, code);
            assert!(
                matches!(error, RocmError::Hip { code: found, .. } if found == code),
                "{error}"
            );
        }
    }
}
