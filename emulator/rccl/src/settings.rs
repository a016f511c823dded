//! What the environment says about collectives.

use std::time::Duration;

use api::rccl::ncclInvalidUsage;

use crate::{Outcome, refuse};

/// How long ranks wait for each other, in seconds, before that is an error.
const TIMEOUT: &str = "CANDLE_ROCM_EMULATOR_RCCL_TIMEOUT";
/// 1: a rank that is gone, late or calls something else is waited for without end, as RCCL does it.
const HANGS: &str = "CANDLE_ROCM_EMULATOR_RCCL_HANGS";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How the hub of a communicator treats ranks that do not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// None if ranks are waited for without end.
    pub timeout: Option<Duration>,
}

/// The settings of this process.
///
/// # Errors
/// `ncclInvalidUsage` if a variable has no meaning.
pub fn settings() -> Outcome<Settings> {
    read(|name| std::env::var(name).ok()).or_else(|why| refuse(ncclInvalidUsage, &why))
}

fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
    let known = |name: &str| variable(name).filter(|value| !value.is_empty());
    let timeout = known(TIMEOUT).map_or(Ok(DEFAULT_TIMEOUT), |text| {
        let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
        let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        timeout.ok_or_else(|| format!("{TIMEOUT}={text}: expected a number of seconds"))
    })?;
    let hangs = match known(HANGS).as_deref() {
        None | Some("0") => false,
        Some("1") => true,
        Some(text) => return Err(format!("{HANGS}={text}: expected 0 or 1")),
    };
    Ok(Settings { timeout: (!hangs).then_some(timeout) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Settings, String> {
        read(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn ranks_are_waited_for_until_the_time_is_over_or_without_end() {
        let timeout = |variables| with(variables).unwrap().timeout;
        assert_eq!(timeout(&[]), Some(DEFAULT_TIMEOUT));
        assert_eq!(timeout(&[(TIMEOUT, "0.5"), (HANGS, "0")]), Some(Duration::from_millis(500)));
        assert_eq!(timeout(&[(TIMEOUT, "3"), (HANGS, "1")]), None);
        for wrong in ["no", "0", "-1", "inf", "1e300"] {
            let message = format!("{TIMEOUT}={wrong}: expected a number of seconds");
            assert_eq!(with(&[(TIMEOUT, wrong)]), Err(message));
        }
        assert_eq!(with(&[(HANGS, "yes")]), Err(format!("{HANGS}=yes: expected 0 or 1")));
    }
}
