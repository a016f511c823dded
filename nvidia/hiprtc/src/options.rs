//! Options of hipRTC as NVRTC takes them.

/// The header that has what HIP spells otherwise than CUDA.
pub const HEADER: &str = "hip_on_nvidia.h";

/// The options for NVRTC. Levels of optimisation and warnings mean nothing to it; contraction is as clang's for HIP.
pub fn translated(given: &[String]) -> Vec<String> {
    // clang compiles constexpr functions for the device too; NVRTC has to be told.
    let edition = format!("-DCANDLE_ROCM_EDITION={}", cuda::edition().to_string_lossy());
    let own = [format!("--pre-include={HEADER}"), edition, "--device-as-default-execution-space".into()];
    own.into_iter().chain(given.iter().filter_map(|option| one(option))).collect()
}

fn one(option: &str) -> Option<String> {
    if let Some(architecture) = option.strip_prefix("--offload-arch=") {
        return Some(format!("--gpu-architecture={architecture}"));
    }
    let kept = ["-std=", "--std=", "-D", "-U", "-I"];
    kept.iter().any(|start| option.starts_with(start)).then(|| option.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_and_macros_are_kept_and_levels_are_not() {
        let given = ["-O3", "-std=c++17", "--offload-arch=sm_90", "-DN=4", "-Wall"].map(str::to_owned);
        let expected = ["-std=c++17", "--gpu-architecture=sm_90", "-DN=4"];
        assert_eq!(translated(&given)[3..], expected);
    }

    #[test]
    fn code_says_what_it_was_made_with() {
        let edition = cuda::edition().to_str().expect("a name");
        assert!(translated(&[]).contains(&format!("-DCANDLE_ROCM_EDITION={edition}")));
    }
}
