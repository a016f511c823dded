//! Many threads, several devices, random work: every result is the CPU's.

use candle::{DType, Device, Result, Tensor};

/// Numbers that follow from a seed (Marsaglia's xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545F4914F6CDD1D) >> 33) as usize % limit
    }
}

/// Each thread computes on devices of its own choice, some shared by all threads, some its own.
pub fn run(threads: usize, rounds: usize, seed: u64) -> Result<()> {
    let count = Device::rocm_device_count()?;
    let shared = (0..count).map(Device::new_rocm).collect::<Result<Vec<_>>>()?;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let shared = &shared;
                let seed = seed.wrapping_mul(1000003).wrapping_add(number as u64 * 7919 + 1);
                scope.spawn(move || work(shared, rounds, Random(seed)))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    println!("{threads} threads, {count} devices, {rounds} rounds each: all as on the CPU");
    Ok(())
}

fn work(shared: &[Device], rounds: usize, mut random: Random) -> Result<()> {
    let own = Device::new_rocm_with_stream(random.below(shared.len()))?;
    for _ in 0..rounds {
        let shape = (1 + random.below(40), 1 + random.below(40));
        let values: Vec<i64> = (0..shape.0 * shape.1).map(|_| random.below(200) as i64 - 100).collect();
        let expected = Tensor::from_vec(values, shape, &Device::Cpu)?;
        let mut device = choose(shared, &own, &mut random);
        let mut found = expected.to_device(&device)?;
        let mut expected = expected;
        for _ in 0..1 + random.below(12) {
            let step = random.below(8);
            expected = apply(step, &expected)?;
            found = apply(step, &found)?;
            if random.below(4) == 0 {
                device = choose(shared, &own, &mut random);
                found = found.to_device(&device)?;
            }
        }
        let (expected, found) = (expected.flatten_all()?.to_vec1::<i64>()?, found.flatten_all()?.to_vec1::<i64>()?);
        assert!(found == expected, "on {device:?}: {found:?}, not {expected:?}");
    }
    Ok(())
}

fn choose(shared: &[Device], own: &Device, random: &mut Random) -> Device {
    match random.below(shared.len() + 1) {
        n if n < shared.len() => shared[n].clone(),
        _ => own.clone(),
    }
}

/// Steps that are exact: whole numbers below 2^24.
fn apply(step: usize, x: &Tensor) -> Result<Tensor> {
    match step {
        0 => x.t()?.contiguous(),
        1 => (x + x)?.broadcast_sub(&x.max_keepdim(1)?)?.clamp(-1000i64, 1000i64),
        2 => x.to_dtype(DType::F32)?.relu()?.to_dtype(DType::I64),
        3 => x.broadcast_add(&x.sum_keepdim(0)?.clamp(-500i64, 500i64)?)?.clamp(-1000i64, 1000i64),
        4 => Tensor::cat(&[x, &x.affine(-1., 0.)?], 0)?.narrow(0, x.dim(0)? / 2, x.dim(0)?),
        5 => {
            let f = x.to_dtype(DType::F32)?.clamp(-50f32, 50f32)?;
            f.matmul(&f.t()?)?.matmul(&f.clamp(-2f32, 2f32)?)?.clamp(-1000f32, 1000f32)?.to_dtype(DType::I64)
        }
        6 => x.ge(0i64)?.where_cond(x, &x.affine(-1., 0.)?),
        _ => x.index_select(&x.narrow(1, 0, 1)?.squeeze(1)?.clamp(0i64, x.dim(0)? as i64 - 1)?, 0),
    }
}
