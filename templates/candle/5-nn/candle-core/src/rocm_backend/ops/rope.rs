//! Rotary position embedding of the last dimension's pairs.
use super::operand::{kernel, uninit, Operand};
use crate::rocm_backend::plan::table::rope as table;
use crate::rocm_backend::plan::Divisor;
use crate::rocm_backend::plan::{Argument, Op};
use crate::rocm_backend::RocmStorage;
use crate::{Error, Layout, Result, Shape};

/// x (batch, heads, positions, depth) rotated by angles, and its shape; a pair is half the depth apart.
///
/// `cos` and `sin` are (at least as many positions, depth / 2), or have a batch dimension in front. All are of one type
/// (bf16, f16, f32 or f64) and contiguous.
pub fn rope(
    x: &RocmStorage,
    layout: &Layout,
    cos: &RocmStorage,
    cos_layout: &Layout,
    sin: &RocmStorage,
    sin_layout: &Layout,
) -> Result<(RocmStorage, Shape)> {
    Rotation {
        op: &table::ROPE,
        name: "rope",
        heads_inside: false,
        bytes_per_lane: 16,
    }
    .of(
        Operand::new(x, layout),
        Operand::new(cos, cos_layout),
        Operand::new(sin, sin_layout),
    )
}

/// As `rope`, where pairs are neighbours.
pub fn rope_i(
    x: &RocmStorage,
    layout: &Layout,
    cos: &RocmStorage,
    cos_layout: &Layout,
    sin: &RocmStorage,
    sin_layout: &Layout,
) -> Result<(RocmStorage, Shape)> {
    Rotation {
        op: &table::ROPE_I,
        name: "rope-i",
        heads_inside: false,
        bytes_per_lane: 8,
    }
    .of(
        Operand::new(x, layout),
        Operand::new(cos, cos_layout),
        Operand::new(sin, sin_layout),
    )
}

/// As `rope`, of x (batch, positions, heads, depth).
pub fn rope_thd(
    x: &RocmStorage,
    layout: &Layout,
    cos: &RocmStorage,
    cos_layout: &Layout,
    sin: &RocmStorage,
    sin_layout: &Layout,
) -> Result<(RocmStorage, Shape)> {
    Rotation {
        op: &table::ROPE,
        name: "rope-thd",
        heads_inside: true,
        bytes_per_lane: 16,
    }
    .of(
        Operand::new(x, layout),
        Operand::new(cos, cos_layout),
        Operand::new(sin, sin_layout),
    )
}

/// Which elements are rotated by which angles.
struct Rotation {
    op: &'static Op,
    name: &'static str,
    /// Whether heads are counted faster than positions.
    heads_inside: bool,
    /// Of cos and sin.
    bytes_per_lane: usize,
}

/// `candle::Positions`: where rows of a tensor find their angles.
#[repr(C)]
struct Positions {
    rows: u32,
    /// Neighbouring rows of a position.
    inner: Divisor,
    length: Divisor,
    batch: Divisor,
    batch_stride: u64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Positions {}

impl Rotation {
    fn of(
        &self,
        x: Operand<'_>,
        cos: Operand<'_>,
        sin: Operand<'_>,
    ) -> Result<(RocmStorage, Shape)> {
        let (batch, second, third, depth) = x.layout.shape().dims4()?;
        let (length, heads) = match self.heads_inside {
            true => (second, third),
            false => (third, second),
        };
        let (rows, half) = (batch * heads * length, depth / 2);
        let batch_stride = self.batch_stride(x, cos, sin, length)?;
        let kernel = kernel(self.op, &[x.element(self.name)?], x.dtype(), self.name)?;
        let output = uninit(rows * depth, x.dtype(), x.device())?;
        if rows * half > 0 {
            if rows >= 1 << 31 {
                crate::bail!("{} of {rows} rows, which are too many", self.name)
            }
            let positions = Positions {
                rows: rows as u32,
                inner: Divisor::of(if self.heads_inside { heads } else { 1 }),
                length: Divisor::of(length),
                batch: Divisor::of(heads * length),
                batch_stride: batch_stride as u64,
            };
            let lanes = self.bytes_per_lane / x.size();
            let across = half.div_ceil(lanes).next_power_of_two().min(table::BLOCK);
            let down = table::BLOCK / across;
            let (y, start) = (output.pointer(), x.start());
            let (cos, sin, half) = (cos.start(), sin.start(), half as u32);
            let launch = x.device().launch(kernel)?;
            let launch = launch.strided(rows.div_ceil(down), across).threads_y(down);
            let launch = launch.arg(&y).arg(&start).arg(&cos).arg(&sin);
            // SAFETY: the arguments of rope kernels; x and y have a depth of elements for each row, and cos and sin half
            // of that for each position.
            unsafe { launch.arg(&half).arg(&positions).enqueue() }?;
        }
        Ok((output, x.layout.shape().clone()))
    }

    /// Angles from one batch entry's to the next one's; 0 where all share theirs, as they do, as on the CPU, if only one
    /// of `cos` and `sin` has a batch dimension.
    fn batch_stride(
        &self,
        x: Operand<'_>,
        cos: Operand<'_>,
        sin: Operand<'_>,
        length: usize,
    ) -> Result<usize> {
        let (of_cos, of_sin) = (self.angles(x, cos, length)?, self.angles(x, sin, length)?);
        match (of_cos, of_sin) {
            (Some(one), Some(other)) if one == other => Ok(one),
            (Some(_), Some(_)) => Err(self.mismatch(cos, sin)),
            _ => Ok(0),
        }
    }

    /// How many angles a batch entry has, if each has its own.
    fn angles(&self, x: Operand<'_>, angles: Operand<'_>, length: usize) -> Result<Option<usize>> {
        if angles.dtype() != x.dtype() {
            return Err(Error::DTypeMismatchBinaryOp {
                lhs: x.dtype(),
                rhs: angles.dtype(),
                op: self.name,
            }
            .bt());
        }
        if !x.layout.is_contiguous() || !angles.layout.is_contiguous() {
            return Err(Error::RequiresContiguous { op: self.name }.bt());
        }
        let (batch, depth) = (x.layout.dims()[0], x.layout.dims()[3]);
        let (own, positions, half) = match *angles.layout.dims() {
            [positions, half] => (None, positions, half),
            [own, positions, half] => (Some(own), positions, half),
            _ => return Err(self.mismatch(x, angles)),
        };
        if own.unwrap_or(batch) != batch || positions < length || half * 2 != depth {
            return Err(self.mismatch(x, angles));
        }
        Ok(own.map(|_| positions * half))
    }

    fn mismatch(&self, one: Operand<'_>, other: Operand<'_>) -> Error {
        Error::ShapeMismatchBinaryOp {
            lhs: one.layout.shape().clone(),
            rhs: other.layout.shape().clone(),
            op: self.name,
        }
        .bt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::zeros_impl;
    use crate::rocm_backend::testing::{gpu, launches_of, Launched};
    use crate::rocm_backend::RocmDevice;
    use crate::DType;

    type Rope = fn(
        &RocmStorage,
        &Layout,
        &RocmStorage,
        &Layout,
        &RocmStorage,
        &Layout,
    ) -> Result<(RocmStorage, Shape)>;

    /// What a rotation of these shapes launches.
    fn launched(
        device: &RocmDevice,
        rope: Rope,
        dtypes: [DType; 3],
        x: &[usize],
        cos: &[usize],
        sin: &[usize],
    ) -> Result<Vec<Launched>> {
        let zeros = |shape: &[usize], dtype| zeros_impl(device, &Shape::from(shape), dtype);
        let storages = (
            zeros(x, dtypes[0])?,
            zeros(cos, dtypes[1])?,
            zeros(sin, dtypes[2])?,
        );
        let layouts = [x, cos, sin].map(Layout::contiguous);
        let (result, launches) = launches_of(|| {
            rope(
                &storages.0,
                &layouts[0],
                &storages.1,
                &layouts[1],
                &storages.2,
                &layouts[2],
            )
        });
        assert_eq!(result?.1.dims(), x);
        Ok(launches)
    }

    #[test]
    fn neighbours_share_a_row() -> Result<()> {
        let Some(device) = gpu("neighbours_share_a_row") else {
            return Ok(());
        };
        // (2, 5, 10, depth): 100 rows. A thread takes 16 bytes of angles, or 8 where pairs are neighbours.
        for (rope, positions, dtype, depth, grid, block) in [
            (rope as Rope, 10, DType::F32, 64, 4, [8, 32]),
            (rope, 10, DType::F32, 10, 1, [2, 128]),
            (rope, 10, DType::F16, 64, 2, [4, 64]),
            (rope, 10, DType::F64, 64, 7, [16, 16]),
            (rope, 10, DType::F32, 4096, 32, [256, 1]),
            (rope_i, 10, DType::F32, 64, 7, [16, 16]),
            (rope_i, 10, DType::F16, 64, 4, [8, 32]),
            (rope_thd, 5, DType::F32, 64, 4, [8, 32]),
        ] {
            let angles = [positions, depth / 2];
            let found = launched(
                &device,
                rope,
                [dtype; 3],
                &[2, 5, 10, depth],
                &angles,
                &angles,
            )?;
            let found: Vec<_> = found
                .iter()
                .map(|launch| (launch.grid, launch.block))
                .collect();
            assert_eq!(found, [([grid, 1, 1], block)], "{dtype:?}, {depth}");
        }
        for empty in [[0, 5, 10, 64], [2, 5, 0, 64], [2, 5, 10, 0]] {
            let angles = [10, empty[3] / 2];
            let found = launched(&device, rope, [DType::F32; 3], &empty, &angles, &angles)?;
            assert!(found.is_empty());
        }
        Ok(())
    }

    #[test]
    fn angles_fit_the_tensor() -> Result<()> {
        let Some(device) = gpu("angles_fit_the_tensor") else {
            return Ok(());
        };
        let shape = [2, 3, 5, 8];
        let fits = |cos: &[usize], sin: &[usize]| {
            launched(&device, rope, [DType::F32; 3], &shape, cos, sin).is_ok()
        };
        assert!(fits(&[5, 4], &[5, 4]));
        assert!(fits(&[7, 4], &[5, 4]), "more positions than there are rows");
        assert!(!fits(&[4, 4], &[5, 4]));
        assert!(!fits(&[5, 4], &[4, 4]));
        assert!(!fits(&[5, 3], &[5, 3]));
        assert!(!fits(&[5, 5], &[5, 4]));
        assert!(!fits(&[5 * 4], &[5, 4]));
        assert!(fits(&[2, 5, 4], &[2, 5, 4]));
        assert!(fits(&[2, 5, 4], &[5, 4]));
        assert!(!fits(&[3, 5, 4], &[2, 5, 4]));
        assert!(!fits(&[1, 5, 4], &[1, 5, 4]));
        assert!(
            !fits(&[2, 6, 4], &[2, 5, 4]),
            "batches of different lengths"
        );
        for dtypes in [
            [DType::F32, DType::F16, DType::F32],
            [DType::F32, DType::F32, DType::F16],
        ] {
            assert!(launched(&device, rope, dtypes, &shape, &[5, 4], &[5, 4]).is_err());
        }
        Ok(())
    }
}
