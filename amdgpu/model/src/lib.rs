//! A GPU in software for AMD's runtime: ROCr loads this library where `HSA_MODEL_LIB` names it.
//!
//! ROCr hands out the GPU's memory, which is a window of this process, and makes queues. This library follows the queues
//! and executes what stands in them. The card is that of the topology, `HSA_MODEL_TOPOLOGY`.

mod memory;
mod packet;
mod queue;
mod recorded;
mod symbols;
mod topology;

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex};

use memory::{Allocations, Window};
use queue::{Events, Queue, Ring};

/// What ROCr knows of the model.
struct Model {
    window: Mutex<Option<Window>>,
    allocations: Arc<Allocations>,
    events: Mutex<Events>,
}

/// The version of the table that ROCr 7.2 takes.
const VERSION: (u32, u32) = (0, 4);

/// The functions that ROCr calls, in its order.
#[repr(C)]
pub struct Functions {
    major: u32,
    minor: u32,
    create: extern "C" fn() -> *const Model,
    destroy: unsafe extern "C" fn(*const Model),
    set_global_aperture: unsafe extern "C" fn(*const Model, *mut c_void, u64),
    allocated: unsafe extern "C" fn(*const Model, *mut c_void, u64, c_uint),
    freed: unsafe extern "C" fn(*const Model, *mut c_void, u64),
    set_notify_event: extern "C" fn(*const Model, *const c_void, *const c_void),
    set_wait_event: extern "C" fn(*const Model, *const c_void, *const c_void),
    register_queue: unsafe extern "C" fn(*const Model, *const Ring) -> *mut Queue,
    set_set_event: unsafe extern "C" fn(*const Model, queue::SetEvent, *mut c_void),
    destroy_queue: unsafe extern "C" fn(*const Model, *mut Queue),
    unused: [usize; 2],
}

static FUNCTIONS: Functions = Functions {
    major: VERSION.0,
    minor: VERSION.1,
    create,
    destroy,
    set_global_aperture,
    allocated,
    freed,
    set_notify_event,
    set_wait_event,
    register_queue,
    set_set_event,
    destroy_queue,
    unused: [0; 2],
};

/// The table of functions, which ROCr asks for.
#[unsafe(no_mangle)]
pub extern "C" fn get_hsakmt_model_functions() -> *const Functions {
    &raw const FUNCTIONS
}

extern "C" fn create() -> *const Model {
    recorded::start();
    Arc::into_raw(Arc::new(Model { window: Mutex::new(None), allocations: Arc::default(), events: Mutex::default() }))
}

unsafe extern "C" fn destroy(model: *const Model) {
    // SAFETY: `create` made it, and ROCr has destroyed its queues.
    drop(unsafe { Arc::from_raw(model) });
}

unsafe extern "C" fn set_global_aperture(model: *const Model, base: *mut c_void, _: u64) {
    // SAFETY: `create` made it.
    let model = unsafe { &*model };
    let window = Window::new(base.expose_provenance() as u64, Arc::clone(&model.allocations));
    *model.window.lock().expect("no panic while it is held") = Some(window);
}

unsafe extern "C" fn allocated(model: *const Model, address: *mut c_void, size: u64, _: c_uint) {
    // SAFETY: `create` made it. The address is the GPU's.
    unsafe { &*model }.allocations.set(address as u64, size);
}

unsafe extern "C" fn freed(model: *const Model, address: *mut c_void, _: u64) {
    // SAFETY: as above.
    unsafe { &*model }.allocations.set(address as u64, 0);
}

extern "C" fn set_notify_event(_: *const Model, _: *const c_void, _: *const c_void) {}

extern "C" fn set_wait_event(_: *const Model, _: *const c_void, _: *const c_void) {}

unsafe extern "C" fn register_queue(model: *const Model, ring: *const Ring) -> *mut Queue {
    // SAFETY: `create` made the model, and ROCr has the description of the queue.
    let (model, ring) = unsafe { (&*model, *ring) };
    let window = model.window.lock().expect("no panic while it is held").clone();
    let window = window.expect("ROCr has said where memory is");
    let events = *model.events.lock().expect("no panic while it is held");
    Box::into_raw(Box::new(Queue::start(ring, window, events)))
}

unsafe extern "C" fn set_set_event(model: *const Model, function: queue::SetEvent, data: *mut c_void) {
    // SAFETY: `create` made it.
    let model = unsafe { &*model };
    *model.events.lock().expect("no panic while it is held") = Events::new(function, data);
}

unsafe extern "C" fn destroy_queue(_: *const Model, queue: *mut Queue) {
    // SAFETY: `register_queue` made it.
    unsafe { Box::from_raw(queue) }.stop();
}
