//! The record of this process, if its environment wants one.

use candle_rocm_emulator_runtime::model::Card;
use candle_rocm_emulator_runtime::settings::settings;
use record::Device;

fn describe(Card { model, .. }: &Card) -> Device {
    Device { name: model.product.to_owned(), architecture: model.name.to_owned(), wave: model.wave_size }
}

/// Begins the record with the first call.
pub fn start() {
    record::start("emulator", || settings().devices.iter().map(describe).collect());
}
