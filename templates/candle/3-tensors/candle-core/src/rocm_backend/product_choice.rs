//! Which code multiplies matrices faster on a GPU, rocBLAS or a kernel of our own: measured where the user asks for it, and
//! kept on the disk for later runs.
use super::blas_kernels::Multiplier;
use super::gpu::lock;
use super::kernels::Entry;
use super::plan::table::matmul::MATMUL;
use super::RocmDevice;
use crate::Result;
use std::collections::HashMap;
use std::env;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Lets products be measured if it is set to anything but 0. What `CANDLE_ROCM_BLAS` names is not measured.
const VARIABLE: &str = "CANDLE_ROCM_TUNE";

/// With which rocBLAS takes kernels of hipBLASLt, which take another time.
const ROCBLAS_VARIABLE: &str = "ROCBLAS_USE_HIPBLASLT";

const CANDIDATES: [Multiplier; 2] = [Multiplier::Rocblas, Multiplier::Own];

/// Times that each is measured, in turns; the shortest counts.
const ROUNDS: usize = 5;

/// Products that are measured together.
const AT_ONCE: usize = 4;

/// The faster one, by the kind of product.
#[derive(Default)]
pub(super) struct Choices {
    known: Mutex<HashMap<String, Multiplier>>,
}

/// Whether products are measured.
pub(super) fn is_asked_for() -> bool {
    static ASKED: OnceLock<bool> = OnceLock::new();
    *ASKED.get_or_init(|| {
        env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
            && !Multiplier::is_chosen()
    })
}

impl RocmDevice {
    /// The faster one for products of a kind; `multiply` queues such a product. A kind that neither this run nor an earlier
    /// one knows is measured: that waits for the device, and takes some 50 products. During a capture nothing can be waited
    /// for, and what is not known is left to rocBLAS.
    pub(super) fn faster(
        &self,
        kind: &str,
        multiply: impl Fn(Multiplier) -> Result<()>,
    ) -> Result<Multiplier> {
        let known = &self.gpu().parts.choices.known;
        if let Some(found) = lock(known).get(kind) {
            return Ok(*found);
        }
        let entry = entry_of(self, kind);
        let found = match entry.as_ref().and_then(read) {
            Some(kept) => kept,
            None if self.stream().is_capturing() => return Ok(Multiplier::Rocblas),
            None => {
                let times = self.times(multiply)?;
                if let Some(entry) = entry {
                    entry.write(written(times).as_bytes());
                }
                fastest(times)
            }
        };
        lock(known).insert(kind.to_string(), found);
        Ok(found)
    }

    /// How long each takes.
    fn times(&self, multiply: impl Fn(Multiplier) -> Result<()>) -> Result<[Duration; 2]> {
        let timed = |by: Multiplier| -> Result<Duration> {
            let began = Instant::now();
            for _ in 0..AT_ONCE {
                multiply(by)?;
            }
            self.stream().synchronize()?;
            Ok(began.elapsed())
        };
        let mut times = [Duration::MAX; 2];
        // The first products compile, load and choose kernels.
        for by in CANDIDATES {
            timed(by)?;
        }
        for _ in 0..ROUNDS {
            for (best, by) in times.iter_mut().zip(CANDIDATES) {
                *best = timed(by)?.min(*best);
            }
        }
        Ok(times)
    }
}

/// The place on the disk for a kind.
fn entry_of(device: &RocmDevice, kind: &str) -> Option<Entry> {
    let other_kernels = env::var(ROCBLAS_VARIABLE).unwrap_or_default();
    let what = format!("{kind}; {ROCBLAS_VARIABLE}={other_kernels}");
    let kernels = device.gpu().kernels();
    kernels.choice(MATMUL.family, "librocblas", &what)
}

fn fastest(times: [Duration; 2]) -> Multiplier {
    let [rocblas, own] = times;
    if own < rocblas {
        Multiplier::Own
    } else {
        Multiplier::Rocblas
    }
}

/// The name of the faster one, and for people what was measured.
fn written(times: [Duration; 2]) -> String {
    let each = CANDIDATES.iter().zip(times).map(|(by, time)| {
        let microseconds = time.as_secs_f64() * 1e6 / AT_ONCE as f64;
        format!("{} {microseconds:.1} us", by.name())
    });
    let each: Vec<_> = each.collect();
    format!("{}\n{}\n", fastest(times).name(), each.join(", "))
}

fn read(entry: &Entry) -> Option<Multiplier> {
    let text = String::from_utf8(entry.read()?).ok()?;
    Multiplier::named(text.lines().next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::driver::StreamCaptureMode;
    use crate::rocm_backend::testing::{gpu, is_alone, launches_of};
    use crate::{Device, Tensor};

    #[test]
    fn the_shortest_time_is_the_fastest() {
        let times = |rocblas, own| [rocblas, own].map(Duration::from_micros);
        for (rocblas, own, by) in [
            (8, 4, Multiplier::Own),
            (4, 8, Multiplier::Rocblas),
            (4, 4, Multiplier::Rocblas),
        ] {
            assert_eq!(fastest(times(rocblas, own)), by);
        }
        assert_eq!(written(times(8, 4)), "own\nrocblas 2.0 us, own 1.0 us\n");
    }

    /// How many products rocBLAS and our own kernel have made.
    fn counts(work: impl FnOnce() -> Result<Tensor>) -> Result<(Tensor, [usize; 2])> {
        let (found, launches) = launches_of(work);
        let count = |name: &str| {
            let of_it = launches.iter().filter(|l| l.kernel.starts_with(name));
            of_it.count()
        };
        Ok((found?, [count("product"), count("matmul")]))
    }

    #[test]
    fn each_kind_is_measured_once_and_kept() -> Result<()> {
        let test = "each_kind_is_measured_once_and_kept";
        let folder = format!("candle-rocm-{test}-{}", std::process::id());
        let folder = env::temp_dir().join(folder);
        let named = folder.to_string_lossy();
        let variables = [
            (VARIABLE, "1"),
            ("CANDLE_ROCM_BLAS", ""),
            ("CANDLE_ROCM_CACHE_DIR", &named),
        ];
        let Some(device) = gpu(test) else {
            return Ok(());
        };
        if !is_alone(module_path!(), test, &variables) {
            let _ = std::fs::remove_dir_all(&folder);
            return Ok(());
        }
        if device.gpu().multiplier()? == Multiplier::Own {
            return Ok(());
        }
        let all = 1 + (1 + ROUNDS) * AT_ONCE;
        let on = Device::Rocm(device.clone());
        let numbers = |rows: usize, columns: usize| -> Result<Tensor> {
            let data: Vec<f32> = (0..rows * columns).map(|i| (i % 7) as f32).collect();
            Tensor::from_vec(data, (rows, columns), &Device::Cpu)
        };
        let product = |rows: usize| -> Result<[usize; 2]> {
            let (x, y) = (numbers(rows, 20)?, numbers(20, 7)?);
            let wanted = x.matmul(&y)?.to_vec2::<f32>()?;
            let (x, y) = (x.to_device(&on)?, y.to_device(&on)?);
            let (found, counts) = counts(|| x.matmul(&y))?;
            assert_eq!(found.to_vec2::<f32>()?, wanted);
            Ok(counts)
        };
        let measured = |counts: [usize; 2]| {
            let [rocblas, own] = counts;
            assert_eq!(rocblas + own, 2 * all - 1);
            assert!(rocblas >= all - 1 && own >= all - 1);
            [rocblas + 1 - all, own + 1 - all]
        };
        let chosen = measured(product(5)?);
        assert_eq!(product(5)?, chosen, "it is known");
        // Another run knows it from the disk.
        let known = &device.gpu().parts.choices.known;
        lock(known).clear();
        assert_eq!(product(5)?, chosen, "it was kept");
        // Few rows count one by one, many by powers of two.
        measured(product(6)?);
        let many = measured(product(100)?);
        assert_eq!(product(128)?, many);
        // What is kept can be anything.
        let kinds: Vec<String> = lock(known).drain().map(|(kind, _)| kind).collect();
        assert_eq!(kinds.len(), 3);
        for kind in &kinds {
            let entry = entry_of(&device, kind);
            entry.expect("there is a folder").write(b"neither of them");
        }
        measured(product(5)?);
        // During a capture nothing is measured, and what is not known is not remembered.
        let streamed = Device::new_rocm_with_stream(0)?;
        let (x, y) = (numbers(3, 20)?, numbers(20, 7)?);
        let (x, y) = (x.to_device(&streamed)?, y.to_device(&streamed)?);
        let stream = streamed.as_rocm_device()?.rocm_stream();
        stream.begin_capture(StreamCaptureMode::Relaxed)?;
        let captured = counts(|| x.matmul(&y));
        drop(stream.end_capture()?);
        assert_eq!(captured?.1, [1, 0]);
        measured(product(3)?);
        Ok(())
    }
}
