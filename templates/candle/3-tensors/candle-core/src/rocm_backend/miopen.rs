//! Convolutions and activations by MIOpen, for programs with the feature `rocm-miopen`.
use super::hip::{forget_last_error, static_text, HipResult};
use super::memory::DeviceMemory;
use super::plan::table::Element;
use super::plan::Pointer;
use super::room::lacks_memory;
use super::stream::RocmStream;
use super::{api, installation, RocmDevice, RocmError};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

static ACTIVATIONS: AtomicBool = AtomicBool::new(false);

/// Whether MIOpen computes activations; false unless it was set.
pub fn miopen_activations() -> bool {
    ACTIVATIONS.load(Ordering::Relaxed)
}

/// Lets MIOpen compute relu, tanh and elu of contiguous f16, bf16 and f32, on all devices. Own kernels compute them for
/// any view with as much traffic to memory, so this is for comparisons.
pub fn set_miopen_activations(wanted: bool) {
    ACTIVATIONS.store(wanted, Ordering::Relaxed);
}

/// The most bytes that a search gets to try algorithms in: it leaves out those that need more.
const SEARCH_BYTES: usize = 256 << 20;

/// Algorithms that a search may return.
const MAX_ALGORITHMS: usize = 8;

/// A convolution of packed images, (b, c_in, h, w), with packed kernels, (c_out, c_in, k_h, k_w).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Problem {
    pub(super) types: Types,
    pub(super) x: [usize; 4],
    pub(super) w: [usize; 4],
    pub(super) y: [usize; 4],
    pub(super) padding: [usize; 2],
    pub(super) stride: usize,
    pub(super) dilation: usize,
}

/// MIOpen's type for elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Types(api::miopenDataType_t);

impl Types {
    /// `None` for elements that MIOpen does not compute with.
    pub(super) fn of(element: Element) -> Option<Self> {
        match element {
            Element::F16 => Some(Self(api::miopenHalf)),
            Element::BF16 => Some(Self(api::miopenBFloat16)),
            Element::F32 => Some(Self(api::miopenFloat)),
            _ => None,
        }
    }

    /// Of activations, which MIOpen does not compute of bf16.
    pub(super) fn of_activation(element: Element) -> Option<Self> {
        Self::of(element).filter(|_| element != Element::BF16)
    }
}

/// How a convolution is computed.
struct Solution {
    x: TensorDescriptor,
    w: TensorDescriptor,
    y: TensorDescriptor,
    convolution: ConvolutionDescriptor,
    algorithm: api::miopenConvFwdAlgorithm_t,
    /// Bytes of memory that the algorithm works with.
    workspace: usize,
}

/// MIOpen on one stream.
pub(super) struct Miopen {
    handle: api::miopenHandle_t,
    /// None for what MIOpen has no solution for.
    solutions: HashMap<Problem, Option<Solution>>,
}

// SAFETY: a handle and descriptors may be used from any thread, by one at a time: calls take them by `&mut`.
unsafe impl Send for Miopen {}

impl Miopen {
    /// On `stream`, which outlives it.
    pub(super) fn new(stream: &RocmStream) -> HipResult<Self> {
        stream.gpu().make_current()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` lives through the call, and the stream is of the current device.
        check("miopenCreateWithStream", unsafe {
            api::miopenCreateWithStream(&mut handle, stream.handle())
        })?;
        Ok(Self {
            handle,
            solutions: HashMap::new(),
        })
    }

    /// Queues a convolution to packed memory `y`; false if MIOpen has no solution for it. The first time, MIOpen tries
    /// its solutions, for which it waits for the stream.
    ///
    /// # Safety
    /// The stream's GPU is the current device, and the pointers are to memory of it that has all the elements and stays
    /// allocated until the stream has come so far.
    pub(super) unsafe fn convolve(
        &mut self,
        device: &RocmDevice,
        problem: &Problem,
        [x, w, y]: [Pointer; 3],
    ) -> HipResult<bool> {
        if !self.solutions.contains_key(problem) {
            // SAFETY: the caller's promise.
            let found = unsafe { self.search(device, problem, [x, w, y]) }?;
            self.solutions.insert(*problem, found);
        }
        let Some(Some(solution)) = self.solutions.get(problem) else {
            return Ok(false);
        };
        let mut workspace = DeviceMemory::alloc(solution.workspace, device)?;
        let (one, zero) = (1f32, 0f32);
        // SAFETY: handle and descriptors are valid, the workspace is as large as was asked for and is reused by what is
        // queued later only, for the rest the caller answers.
        check("miopenConvolutionForward", unsafe {
            api::miopenConvolutionForward(
                self.handle,
                number(&one),
                solution.x.0,
                x.0,
                solution.w.0,
                w.0,
                solution.convolution.0,
                solution.algorithm,
                number(&zero),
                solution.y.0,
                y.0,
                workspace.as_mut_ptr(),
                solution.workspace,
            )
        })?;
        Ok(true)
    }

    /// The fastest of MIOpen's algorithms, which overwrite `y` as they are tried.
    ///
    /// # Safety
    /// As for `convolve`.
    unsafe fn search(
        &mut self,
        device: &RocmDevice,
        problem: &Problem,
        [x, w, y]: [Pointer; 3],
    ) -> HipResult<Option<Solution>> {
        let mut solution = Solution {
            x: TensorDescriptor::packed(problem.types, problem.x)?,
            w: TensorDescriptor::packed(problem.types, problem.w)?,
            y: TensorDescriptor::packed(problem.types, problem.y)?,
            convolution: ConvolutionDescriptor::of(problem)?,
            algorithm: api::miopenConvolutionFwdAlgoDirect,
            workspace: 0,
        };
        let mut most = 0;
        // SAFETY: handle and descriptors are valid, and `most` lives through the call.
        let status = unsafe {
            api::miopenConvolutionForwardGetWorkSpaceSize(
                self.handle,
                solution.w.0,
                solution.x.0,
                solution.convolution.0,
                solution.y.0,
                &mut most,
            )
        };
        if status != api::miopenStatusSuccess {
            return without("miopenConvolutionForwardGetWorkSpaceSize", status);
        }
        // What is left of the memory is the program's: where there is no room, algorithms that need none are tried.
        let (mut workspace, size) = match DeviceMemory::alloc(most.min(SEARCH_BYTES), device) {
            Ok(workspace) => (workspace, most.min(SEARCH_BYTES)),
            Err(RocmError::OutOfMemory { .. } | RocmError::MemoryLimit { .. }) => {
                (DeviceMemory::alloc(0, device)?, 0)
            }
            Err(error) => return Err(error),
        };
        let mut count = 0;
        // SAFETY: numbers, for which zeros are valid.
        let mut found: [api::miopenConvAlgoPerf_t; MAX_ALGORITHMS] = unsafe { std::mem::zeroed() };
        // SAFETY: as in `convolve`; `count` and `found` live through the call, and `found` has room for as many.
        let status = unsafe {
            api::miopenFindConvolutionForwardAlgorithm(
                self.handle,
                solution.x.0,
                x.0,
                solution.w.0,
                w.0,
                solution.convolution.0,
                solution.y.0,
                y.0,
                MAX_ALGORITHMS as c_int,
                &mut count,
                found.as_mut_ptr(),
                workspace.as_mut_ptr(),
                size,
                false,
            )
        };
        if status != api::miopenStatusSuccess || count == 0 {
            return without("miopenFindConvolutionForwardAlgorithm", status);
        }
        // The fastest comes first.
        solution.algorithm = found[0].fwd_algo;
        solution.workspace = found[0].memory;
        Ok(Some(solution))
    }

    /// Queues an activation of `count` elements.
    ///
    /// # Safety
    /// The stream's GPU is the current device, and the pointers are to so many elements on it, which stay allocated until
    /// the stream has come so far.
    pub(super) unsafe fn activate(
        &mut self,
        activation: Activation,
        types: Types,
        count: usize,
        x: Pointer,
        y: Pointer,
    ) -> HipResult<()> {
        let descriptor = ActivationDescriptor::of(activation)?;
        let elements = TensorDescriptor::packed(types, [1, 1, 1, count])?;
        let (one, zero) = (1f32, 0f32);
        // SAFETY: handle and descriptors are valid, for the rest the caller answers.
        check("miopenActivationForward", unsafe {
            api::miopenActivationForward(
                self.handle,
                descriptor.0,
                number(&one),
                elements.0,
                x.0,
                number(&zero),
                elements.0,
                y.0,
            )
        })
    }
}

impl Drop for Miopen {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nobody has it any more. A failure means that the runtime is gone, and the handle
        // with it.
        let _ = unsafe { api::miopenDestroy(self.handle) };
    }
}

/// An activation that MIOpen has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activation {
    Relu,
    Tanh,
    /// alpha * (e^x - 1) below zero.
    Elu {
        alpha: f64,
    },
}

struct TensorDescriptor(api::miopenTensorDescriptor_t);

impl TensorDescriptor {
    /// Row-major memory without gaps.
    fn packed(types: Types, shape: [usize; 4]) -> HipResult<Self> {
        let mut sizes = [0; 4];
        let mut strides = [0; 4];
        let mut stride = 1;
        for d in (0..4).rev() {
            sizes[d] = int(shape[d])?;
            strides[d] = int(stride)?;
            stride *= shape[d];
        }
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: `descriptor` lives through the call.
        check("miopenCreateTensorDescriptor", unsafe {
            api::miopenCreateTensorDescriptor(&mut descriptor)
        })?;
        let tensor = Self(descriptor);
        // SAFETY: the descriptor is valid, and both arrays, which are only read, have four numbers.
        check("miopenSetTensorDescriptor", unsafe {
            api::miopenSetTensorDescriptor(tensor.0, types.0, 4, sizes.as_ptr(), strides.as_ptr())
        })?;
        Ok(tensor)
    }
}

impl Drop for TensorDescriptor {
    fn drop(&mut self) {
        // SAFETY: made by `packed`, and nobody has it any more.
        let _ = unsafe { api::miopenDestroyTensorDescriptor(self.0) };
    }
}

struct ConvolutionDescriptor(api::miopenConvolutionDescriptor_t);

impl ConvolutionDescriptor {
    fn of(problem: &Problem) -> HipResult<Self> {
        let [row_padding, column_padding] = problem.padding;
        let (stride, dilation) = (int(problem.stride)?, int(problem.dilation)?);
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: `descriptor` lives through the call.
        check("miopenCreateConvolutionDescriptor", unsafe {
            api::miopenCreateConvolutionDescriptor(&mut descriptor)
        })?;
        let convolution = Self(descriptor);
        // SAFETY: the descriptor is valid.
        check("miopenInitConvolutionDescriptor", unsafe {
            api::miopenInitConvolutionDescriptor(
                convolution.0,
                api::miopenConvolution,
                int(row_padding)?,
                int(column_padding)?,
                stride,
                stride,
                dilation,
                dilation,
            )
        })?;
        Ok(convolution)
    }
}

impl Drop for ConvolutionDescriptor {
    fn drop(&mut self) {
        // SAFETY: made by `of`, and nobody has it any more.
        let _ = unsafe { api::miopenDestroyConvolutionDescriptor(self.0) };
    }
}

struct ActivationDescriptor(api::miopenActivationDescriptor_t);

impl ActivationDescriptor {
    fn of(activation: Activation) -> HipResult<Self> {
        // MIOpen's tanh is beta * tanh(alpha * x).
        let (mode, alpha, beta) = match activation {
            Activation::Relu => (api::miopenActivationRELU, 0., 0.),
            Activation::Tanh => (api::miopenActivationTANH, 1., 1.),
            Activation::Elu { alpha } => (api::miopenActivationELU, alpha, 0.),
        };
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: `descriptor` lives through the call.
        check("miopenCreateActivationDescriptor", unsafe {
            api::miopenCreateActivationDescriptor(&mut descriptor)
        })?;
        let activation = Self(descriptor);
        // SAFETY: the descriptor is valid.
        check("miopenSetActivationDescriptor", unsafe {
            api::miopenSetActivationDescriptor(activation.0, mode, alpha, beta, 0.)
        })?;
        Ok(activation)
    }
}

impl Drop for ActivationDescriptor {
    fn drop(&mut self) {
        // SAFETY: made by `of`, and nobody has it any more.
        let _ = unsafe { api::miopenDestroyActivationDescriptor(self.0) };
    }
}

/// `Ok` for success, otherwise an error that names `call`.
fn check(call: &'static str, status: api::miopenStatus_t) -> HipResult<()> {
    if status == api::miopenStatusSuccess {
        return Ok(());
    }
    forget_last_error();
    if let Some(problem) = installation::problem("MIOpen") {
        return Err(RocmError::MissingLibrary { call, problem });
    }
    Err(RocmError::Miopen {
        call,
        status,
        // SAFETY: the function takes any status and returns a static string.
        name: unsafe { static_text(api::miopenGetErrorString(status)) },
    })
}

/// No solution, whatever the reason: MIOpen answers `miopenStatusUnknownError` where it knows none for a GPU, and what
/// failed in its compiler or its database does not keep own kernels from computing the same. Said once, since a program
/// that asked for MIOpen may wonder. An error only if there was no memory.
fn without<T>(call: &'static str, status: api::miopenStatus_t) -> HipResult<Option<T>> {
    static SAID: Once = Once::new();
    match check(call, status) {
        Err(error) if lacks_memory(&error) => return Err(error),
        Err(error) => SAID.call_once(|| {
            eprintln!(
                "candle: {error}; such convolutions are computed by Candle's own kernels instead"
            );
        }),
        Ok(()) => {}
    }
    Ok(None)
}

/// A factor as MIOpen takes it.
fn number(value: &f32) -> *const c_void {
    (value as *const f32).cast()
}

/// A size as MIOpen takes it.
fn int(size: usize) -> HipResult<c_int> {
    c_int::try_from(size)
        .map_err(|_| RocmError::Other(format!("MIOpen takes sizes below 2^31, not {size}")))
}
