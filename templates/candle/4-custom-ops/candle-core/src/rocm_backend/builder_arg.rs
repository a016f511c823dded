//! The macro for arguments of kernels, which stands in the crate once: the real or the dummy backend has it.

/// Passes values to a kernel, in the order of its parameters: `rocm_builder_arg!(builder, 2.5f32, columns as u32)`.
#[macro_export]
macro_rules! rocm_builder_arg {
    ($builder:ident, $($value:expr),+ $(,)?) => {
        $(
            let value = $value;
            $builder.arg(&value);
        )+
    };
}
