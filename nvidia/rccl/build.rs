//! The library's name for the dynamic linker, and stand-ins for what it does not implement.

fn main() {
    stubs::generate_partial("rccl", api::rccl::FUNCTIONS);
}
