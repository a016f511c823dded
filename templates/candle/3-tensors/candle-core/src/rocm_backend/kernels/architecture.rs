//! Names of GPU architectures, and which GPUs understand the kernels of others.

/// The architecture without the features that it is set to: "gfx90a" of "gfx90a:sramecc+:xnack-". Kernels that were
/// compiled for that run with either setting.
pub(in crate::rocm_backend) fn processor(architecture: &str) -> &str {
    architecture.split(':').next().unwrap_or(architecture)
}

/// The value of `HSA_OVERRIDE_GFX_VERSION` with which a GPU takes kernels that are for `built`, such as "11.0.0".
///
/// `None` if it would not run them: they share their instructions only within a generation of RDNA, which has all but
/// the last digit of its names in common (LLVM's "Generic processors", <https://llvm.org/docs/AMDGPUUsage.html>).
pub(in crate::rocm_backend) fn override_for(gpu: &str, built: &str) -> Option<String> {
    let (gpu, built) = (Version::of(gpu)?, Version::of(built)?);
    let Version {
        major,
        minor,
        stepping,
    } = built;
    let same = gpu.major == major && gpu.minor == minor && gpu.stepping != stepping;
    (same && major >= RDNA).then(|| format!("{major}.{minor}.{stepping}"))
}

/// The first major number of RDNA.
const RDNA: u32 = 10;

/// What the name of a processor stands for: 9, 0, 10 for "gfx90a".
struct Version {
    major: u32,
    minor: u32,
    stepping: u32,
}

impl Version {
    fn of(processor: &str) -> Option<Self> {
        let digits = processor.strip_prefix("gfx")?;
        let (major, rest) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
        let mut rest = rest.chars().map(|digit| digit.to_digit(16));
        Some(Self {
            major: major.parse().ok()?,
            minor: rest.next()??,
            stepping: rest.next()??,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_no_part_of_a_processor() {
        assert_eq!(processor("gfx90a:sramecc+:xnack-"), "gfx90a");
        assert_eq!(processor("gfx1100"), "gfx1100");
        assert_eq!(processor(""), "");
    }

    #[test]
    fn overrides_stay_within_a_generation() {
        let cases = [
            ("gfx1103", "gfx1100", Some("11.0.0")),
            ("gfx1031", "gfx1030", Some("10.3.0")),
            ("gfx1150", "gfx1151", Some("11.5.1")),
            ("gfx103a", "gfx103b", Some("10.3.11")),
            ("gfx1030", "gfx1010", None),
            ("gfx1151", "gfx1100", None),
            ("gfx1200", "gfx1100", None),
            ("gfx1100", "gfx1100", None),
            ("gfx90a", "gfx906", None),
            ("gfx950", "gfx942", None),
            ("gfx11-generic", "gfx1100", None),
            ("gfx", "gfx", None),
            ("gfx1é", "gfx1100", None),
        ];
        for (gpu, built, expected) in cases {
            let found = override_for(gpu, built);
            assert_eq!(found.as_deref(), expected, "{built} on {gpu}");
        }
    }
}
