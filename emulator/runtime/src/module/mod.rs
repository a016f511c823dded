//! Kernel modules: shared objects that the host's C++ compiler made from HIP sources.

pub mod abi;
mod static_lds;

use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;

use crate::compile;
use crate::error::{HipError, HipResult};
use crate::exec;
use static_lds::References;

/// A loaded module; unloaded when dropped.
#[derive(Debug)]
pub struct Module {
    /// What the linker knows it by; null for a program that holds its own kernels.
    handle: *mut c_void,
    /// Holds the image; `path` leads to it for as long as it is open.
    _image: Option<File>,
    path: String,
    place: *mut abi::Place,
    architecture: String,
    /// The device that it was loaded on; none for a program that holds its own kernels.
    device: Option<usize>,
    segments: Vec<Segment>,
    /// The linker's number of the module's thread-local segment, if it has one.
    local_storage: Option<usize>,
    kernels: Vec<Kernel>,
}

// SAFETY: the raw pointers lead to the loaded image, which lives as long as the module; what they point to is written
// only by the one thread at a time that executes kernels.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

/// A piece of the image in memory.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// Whether kernels may write there: `__device__` variables.
    pub writable: bool,
}

/// A kernel of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// As `hipModuleGetFunction` knows it.
    pub name: String,
    /// Its entry.
    pub invoke: abi::Invoke,
    /// Its parameters in order.
    pub parameters: Vec<abi::Parameter>,
    /// Of `__launch_bounds__`.
    pub max_threads: Option<u32>,
    /// Its LDS objects: ranges of the module's thread-local segment.
    static_lds: Vec<Range<usize>>,
}

impl Kernel {
    /// # Safety
    /// The description is that of a loaded module.
    unsafe fn read(kernel: &abi::Kernel, static_lds: Vec<Range<usize>>) -> Self {
        // SAFETY: by contract its pointers lead to the image.
        let (name, parameters) = unsafe {
            let count = kernel.parameter_count as usize;
            (CStr::from_ptr(kernel.name), std::slice::from_raw_parts(kernel.parameters, count))
        };
        Self {
            name: name.to_string_lossy().into_owned(),
            invoke: kernel.invoke,
            parameters: parameters.to_vec(),
            max_threads: (kernel.max_threads > 0).then_some(kernel.max_threads),
            static_lds,
        }
    }

    /// Bytes of static LDS of a block.
    pub fn static_lds_bytes(&self) -> usize {
        self.static_lds.iter().map(ExactSizeIterator::len).sum()
    }
}

/// A kernel together with the module that keeps it loaded: what a `hipFunction_t` points to.
#[derive(Clone, Debug)]
pub struct Function {
    /// The module.
    pub module: Arc<Module>,
    index: usize,
}

impl Function {
    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.module.kernels[self.index]
    }

    /// The addresses of the kernel's LDS objects on the calling thread.
    pub fn static_lds(&self) -> Vec<Range<usize>> {
        let objects = &self.kernel().static_lds;
        let Some(module) = self.module.local_storage.filter(|_| !objects.is_empty()) else { return Vec::new() };
        // SAFETY: the module is loaded, so its number is valid.
        let base = unsafe { __tls_get_addr(&TlsIndex { module, offset: 0 }) } as usize;
        objects.iter().map(|object| base + object.start..base + object.end).collect()
    }
}

impl Module {
    /// Loads a code object on a device whose compiler target is `target`.
    ///
    /// # Errors
    /// `hipErrorNoBinaryForGpu` for code that was compiled for another target, `hipErrorInvalidImage` for anything that
    /// is no module of this emulator.
    pub fn load(code: &[u8], target: &str, device: usize) -> HipResult<Arc<Self>> {
        let image = memory_file(code).map_err(|_| HipError::OUT_OF_MEMORY)?;
        // Other processes, such as addr2line, find the image there too.
        let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
        let c_path = CString::new(path.as_str()).expect("a path without zeros");
        // SAFETY: the image has no initialisers but those that g++ makes for kernels.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(HipError::SHARED_OBJECT_INIT_FAILED);
        }
        // SAFETY: a valid handle and a zero-terminated name.
        let descriptor = unsafe { libc::dlsym(handle, c"candle_rocm_emulator_module".as_ptr()) };
        // SAFETY: as above.
        let edition = unsafe { libc::dlsym(handle, c"candle_rocm_emulator_edition".as_ptr()) };
        let mut module = Self {
            handle,
            _image: Some(image),
            path,
            place: std::ptr::null_mut(),
            architecture: String::new(),
            device: Some(device),
            segments: Vec::new(),
            local_storage: None,
            kernels: Vec::new(),
        };
        // SAFETY: the name is our compiler's own; it ends the string with a zero.
        let is_current = || unsafe { CStr::from_ptr(edition.cast()) }.to_bytes() == compile::edition().as_bytes();
        if descriptor.is_null() || edition.is_null() || !is_current() {
            return Err(HipError::INVALID_IMAGE);
        }
        // SAFETY: code of this edition has a descriptor as we know it.
        let descriptor = unsafe { &*descriptor.cast::<abi::Module>() };
        (module.segments, module.local_storage) = layout_of(descriptor.place as usize);
        let references = References::read(code).map_err(|_| HipError::INVALID_IMAGE)?;
        // SAFETY: a module of this version of the interface.
        unsafe { module.read(descriptor, &references) };
        if !module.architecture.is_empty() && module.architecture != target {
            return Err(HipError::NO_BINARY_FOR_GPU);
        }
        Ok(Arc::new(module))
    }

    /// The program or library whose own kernels are launched from its host code. Its LDS is not known apart from its
    /// other thread-local variables, so its blocks run one after another and their LDS is not poisoned.
    ///
    /// # Errors
    /// `hipErrorInvalidImage` for another version of the interface.
    ///
    /// # Safety
    /// `descriptor` is that of a program, and the program stays loaded.
    pub unsafe fn of_program(descriptor: &abi::Module, kernel: &abi::Kernel) -> HipResult<Function> {
        if descriptor.abi != abi::VERSION {
            return Err(HipError::INVALID_IMAGE);
        }
        let (segments, _) = layout_of(descriptor.place as usize);
        // SAFETY: by contract.
        let kernel = unsafe {
            *descriptor.runtime = exec::RUNTIME;
            Kernel::read(kernel, Vec::new())
        };
        let module = Self {
            handle: std::ptr::null_mut(),
            _image: None,
            path: "/proc/self/exe".to_owned(),
            place: descriptor.place,
            architecture: String::new(),
            device: None,
            segments,
            local_storage: None,
            kernels: vec![kernel],
        };
        Ok(Function { module: Arc::new(module), index: 0 })
    }

    /// Whether a device may run its kernels.
    pub fn is_on(&self, device: usize) -> bool {
        self.device.is_none_or(|own| own == device)
    }

    /// Whether blocks may take turns: what a block keeps in LDS must be known for that.
    pub fn knows_its_lds(&self) -> bool {
        !self.handle.is_null()
    }

    /// # Safety
    /// `descriptor` is that of a loaded module and of our version.
    unsafe fn read(&mut self, descriptor: &abi::Module, references: &References) {
        let base = self.image().1;
        // SAFETY: by contract all pointers of the descriptor lead to the image.
        unsafe {
            *descriptor.runtime = exec::RUNTIME;
            self.place = descriptor.place;
            self.architecture = CStr::from_ptr(descriptor.architecture).to_string_lossy().into_owned();
            let kernels = std::slice::from_raw_parts(descriptor.kernels, descriptor.kernel_count as usize);
            self.kernels = kernels
                .iter()
                .map(|kernel| Kernel::read(kernel, references.of_function((kernel.invoke as usize - base) as u64)))
                .collect();
        }
    }

    /// The kernel of that name.
    ///
    /// # Errors
    /// `hipErrorNotFound` when there is none.
    pub fn function(self: &Arc<Self>, name: &str) -> HipResult<Function> {
        let index = self.kernels.iter().position(|kernel| kernel.name == name).ok_or(HipError::NOT_FOUND)?;
        Ok(Function { module: Arc::clone(self), index })
    }

    /// First address and length of a variable.
    ///
    /// # Errors
    /// `hipErrorNotFound` when there is none of that name.
    pub fn variable(&self, name: &CStr) -> HipResult<(usize, usize)> {
        // SAFETY: a valid handle and a zero-terminated name.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        let mut symbol: *const libc::Elf64_Sym = std::ptr::null();
        // SAFETY: all fields are valid as zeros.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the results have the types that the flag asks for.
        unsafe { dladdr1(address, &raw mut info, (&raw mut symbol).cast(), RTLD_DL_SYMENT) };
        // SAFETY: the linker's symbol lives as long as the module; there is none for an address that it does not know.
        let symbol = unsafe { symbol.as_ref() };
        let is_object = |symbol: &&libc::Elf64_Sym| symbol.st_info & 0xf == object::elf::STT_OBJECT;
        let size = symbol.filter(is_object).ok_or(HipError::NOT_FOUND)?.st_size;
        Ok((address as usize, size as usize))
    }

    /// Where kernels of this module look up their thread index and the like.
    pub fn place(&self) -> *mut abi::Place {
        self.place
    }

    /// The module's constants and `__device__` variables.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// A path under which a debugger of this process finds the image, and the address where it is loaded.
    pub fn image(&self) -> (&str, usize) {
        (&self.path, self.segments.first().map_or(0, |segment| segment.addresses.start))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle came from dlopen, and nothing refers to the image any more.
            unsafe { libc::dlclose(self.handle) };
        }
    }
}

#[repr(C)]
struct TlsIndex {
    module: usize,
    offset: usize,
}

const RTLD_DL_SYMENT: c_int = 1;

unsafe extern "C" {
    /// As dladdr, with the symbol (dladdr(3)).
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, symbol: *mut *const c_void, flags: c_int) -> c_int;

    /// The address of a thread-local object on this thread, allocated if need be (ELF TLS specification).
    fn __tls_get_addr(index: *const TlsIndex) -> *mut c_void;
}

/// The length of the code object that starts at `image`, from its headers.
///
/// # Errors
/// `hipErrorNoBinaryForGpu` for an object for real cards, `hipErrorInvalidImage` for anything else that is no code object
/// of the emulator.
///
/// # Safety
/// A complete ELF file starts there, or anything that differs from one in the first 64 bytes.
pub unsafe fn code_length(image: *const u8) -> HipResult<usize> {
    const BUNDLE: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    const COMPRESSED_BUNDLE: &[u8] = b"CCOB";
    const EM_AMDGPU: u16 = 224;
    // SAFETY: by contract at least that many bytes.
    let starts_with = |magic: &[u8]| unsafe { std::slice::from_raw_parts(image, magic.len()) } == magic;
    if starts_with(COMPRESSED_BUNDLE) || starts_with(BUNDLE) {
        return Err(HipError::NO_BINARY_FOR_GPU);
    }
    if !starts_with(b"\x7fELF") {
        return Err(HipError::INVALID_IMAGE);
    }
    // SAFETY: by contract an ELF file.
    let header = unsafe { image.cast::<libc::Elf64_Ehdr>().read_unaligned() };
    match header.e_machine {
        EM_AMDGPU => Err(HipError::NO_BINARY_FOR_GPU),
        // The table of sections is what a linker writes last.
        libc::EM_X86_64 => Ok(header.e_shoff as usize + usize::from(header.e_shentsize) * usize::from(header.e_shnum)),
        _ => Err(HipError::INVALID_IMAGE),
    }
}

/// A file without a name that holds `content`. Each has an inode of its own, so that the same code loads twice.
fn memory_file(content: &[u8]) -> std::io::Result<File> {
    // SAFETY: plain system call with a zero-terminated name.
    let descriptor = unsafe { libc::memfd_create(c"candle-rocm-kernels".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(content)?;
    Ok(file)
}

/// Segments of the loaded object that holds `address`, and the number of its thread-local segment.
fn layout_of(address: usize) -> (Vec<Segment>, Option<usize>) {
    struct Search {
        address: usize,
        segments: Vec<Segment>,
        local_storage: Option<usize>,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the linker passes a valid description and our own pointer.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        // SAFETY: as the linker says.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let segment = |header: &libc::Elf64_Phdr| {
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            Segment { addresses: start..start + header.p_memsz as usize, writable: header.p_flags & libc::PF_W != 0 }
        };
        let of_type = |wanted| headers.iter().filter(move |header| header.p_type == wanted);
        let segments: Vec<_> = of_type(libc::PT_LOAD).map(segment).collect();
        if !segments.iter().any(|segment| segment.addresses.contains(&search.address)) {
            return 0;
        }
        search.segments = segments;
        search.local_storage = of_type(libc::PT_TLS).next().map(|_| info.dlpi_tls_modid);
        1
    }
    let mut search = Search { address, segments: Vec::new(), local_storage: None };
    // SAFETY: `visit` matches the signature and keeps no pointer.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    (search.segments, search.local_storage)
}
