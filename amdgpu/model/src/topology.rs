//! The card as the topology describes it, from which ROCr knows it, too.

use std::fs;
use std::path::PathBuf;

use record::Device;

/// What names the topology's folder.
const VARIABLE: &str = "HSA_MODEL_TOPOLOGY";
/// The GPU's folder in it.
const NODE: &str = "nodes/1";
/// The property that says how many lanes a wave has.
const LANES: &str = "wave_front_size";

/// The compiler's name of the card.
///
/// # Errors
/// In words, if there is no topology.
pub fn card() -> Result<String, String> {
    Ok(read("name")?.trim().into())
}

/// The card for the record; none without a topology.
pub fn device() -> Option<Device> {
    let (card, properties) = (card().ok()?, read("properties").ok()?);
    let lanes = properties.lines().find_map(|line| line.strip_prefix(LANES)?.trim().parse().ok())?;
    Some(Device { name: "a model".into(), architecture: card, wave: lanes })
}

fn read(name: &str) -> Result<String, String> {
    let folder = std::env::var_os(VARIABLE).ok_or_else(|| format!("{VARIABLE} is not set"))?;
    let file = PathBuf::from(folder).join(NODE).join(name);
    fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}
