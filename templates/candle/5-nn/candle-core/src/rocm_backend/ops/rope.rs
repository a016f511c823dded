//! Rotary position embedding of the last dimension's pairs.
use super::ids::{require_contiguous, Indices, PICKING};
use super::operand::{kernel, uninit, Operand};
use crate::rocm_backend::nn_plan;
use crate::rocm_backend::plan::table::rope as table;
use crate::rocm_backend::plan::Contiguous;
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
        name: "rope",
        planned: nn_plan::Rotation {
            interleaved: false,
            heads_inside: false,
        },
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
        name: "rope-i",
        planned: nn_plan::Rotation {
            interleaved: true,
            heads_inside: false,
        },
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
        name: "rope-thd",
        planned: nn_plan::Rotation {
            interleaved: false,
            heads_inside: true,
        },
    }
    .of(
        Operand::new(x, layout),
        Operand::new(cos, cos_layout),
        Operand::new(sin, sin_layout),
    )
}

/// `rope` of queries and keys, and the keys and values in place in the rows of caches that `places` names: the queries and
/// their shape.
///
/// q is (batch, heads, positions, depth), k and v (batch, key heads, positions, depth), cos and sin (at least as many
/// positions, depth / 2), places (positions) of u8, u32 or i64, and caches (batch, key heads, capacity, depth). All but
/// places are of one type, and contiguous. None where halves of rows are no multiple of 16 bytes or do not lie at such a
/// boundary. Of positions with the same place, any stays.
pub fn rope_append(
    [q, k, v]: [(&RocmStorage, &Layout); 3],
    [cos, sin]: [(&RocmStorage, &Layout); 2],
    places: (&RocmStorage, &Layout),
    (keys, keys_layout): (&mut RocmStorage, &Layout),
    (values, values_layout): (&mut RocmStorage, &Layout),
) -> Result<Option<(RocmStorage, Shape)>> {
    const NAME: &str = "rope-append";
    let [q, k, v, cos, sin] = [q, k, v, cos, sin].map(|(of, layout)| Operand::new(of, layout));
    let places = Operand::new(places.0, places.1);
    let (batch, _, length, depth) = q.layout.shape().dims4()?;
    let (of_keys, key_heads, ..) = k.layout.shape().dims4()?;
    let rotation = Rotation {
        name: NAME,
        planned: nn_plan::Rotation {
            interleaved: false,
            heads_inside: false,
        },
    };
    rotation.check(q, cos, sin, length)?;
    rotation.check(k, cos, sin, length)?;
    let fits = |layout: &Layout, rows: usize| layout.dims() == [batch, key_heads, rows, depth];
    let capacity = keys_layout.shape().dims4()?.2;
    let shared = cos.layout.dims().len() == 2 && sin.layout.dims().len() == 2;
    let together = of_keys == batch && fits(k.layout, length) && fits(v.layout, length);
    let kept = fits(keys_layout, capacity) && fits(values_layout, capacity);
    if !together || !kept || !shared || places.layout.dims() != [length] {
        return Err(rotation.mismatch(k, q));
    }
    let types = [k.dtype(), v.dtype(), keys.dtype(), values.dtype()];
    if let Some(&rhs) = types.iter().find(|&&dtype| dtype != q.dtype()) {
        let lhs = q.dtype();
        return Err(Error::DTypeMismatchBinaryOp { lhs, rhs, op: NAME }.bt());
    }
    let layouts = [v.layout, places.layout, keys_layout, values_layout];
    require_contiguous(&layouts, NAME)?;
    let element = q.element(NAME)?;
    kernel(&table::ROPE_APPEND, &[element], q.dtype(), NAME)?;
    let ids = Indices::new(places, PICKING, capacity, NAME)?;
    let output = uninit(q.layout.shape().elem_count(), q.dtype(), q.device())?;
    let next = nn_plan::Next {
        q: q.contiguous(NAME)?,
        k: k.contiguous(NAME)?,
        v: v.contiguous(NAME)?,
        cos: cos.contiguous(NAME)?,
        sin: sin.contiguous(NAME)?,
    };
    let start = |cache: &mut RocmStorage, layout: &Layout| {
        let offset = layout.start_offset() * element.size();
        cache.pointer_mut().offset(offset)
    };
    let caches = nn_plan::Caches {
        keys: start(keys, keys_layout),
        values: start(values, values_layout),
        capacity,
        places: ids.planned(),
    };
    let done = nn_plan::rope_append(q.device(), next, caches, output.pointer())?;
    ids.check()?;
    Ok(done.then(|| (output, q.layout.shape().clone())))
}

/// Which elements are rotated by which angles.
struct Rotation {
    name: &'static str,
    planned: nn_plan::Rotation,
}

impl Rotation {
    fn of(
        &self,
        x: Operand<'_>,
        cos: Operand<'_>,
        sin: Operand<'_>,
    ) -> Result<(RocmStorage, Shape)> {
        let (_, second, third, _) = x.layout.shape().dims4()?;
        let length = match self.planned.heads_inside {
            true => second,
            false => third,
        };
        self.check(x, cos, sin, length)?;
        let element = x.element(self.name)?;
        kernel(self.planned.op(), &[element], x.dtype(), self.name)?;
        let output = uninit(x.layout.shape().elem_count(), x.dtype(), x.device())?;
        let [turned, cos, sin] = [x, cos, sin].map(|operand| Contiguous {
            start: operand.start(),
            element,
            shape: operand.layout.dims(),
        });
        let y = output.pointer();
        nn_plan::rope(x.device(), self.planned, turned, cos, sin, y)?;
        Ok((output, x.layout.shape().clone()))
    }

    /// Angles fit the tensor, and each other where both have a batch dimension.
    fn check(
        &self,
        x: Operand<'_>,
        cos: Operand<'_>,
        sin: Operand<'_>,
        length: usize,
    ) -> Result<()> {
        let of_cos = self.angles(x, cos, length)?;
        let of_sin = self.angles(x, sin, length)?;
        match (of_cos, of_sin) {
            (Some(one), Some(other)) if one != other => Err(self.mismatch(cos, sin)),
            _ => Ok(()),
        }
    }

    /// For how many positions a batch entry has angles, if each has its own.
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
        Ok(own.map(|_| positions))
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
    use crate::backend::BackendStorage;
    use crate::rocm_backend::ops::{storage_from_slice, zeros_impl};
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
    fn forms_and_orders_have_their_kernels() -> Result<()> {
        let Some(device) = gpu("forms_and_orders_have_their_kernels") else {
            return Ok(());
        };
        // Angles of as many positions as there are: the second dimension's if heads are inside.
        for (rope, positions, symbol) in [
            (rope as Rope, 10, "rope_f32"),
            (rope_i, 10, "rope_i_f32"),
            (rope_thd, 5, "rope_f32"),
        ] {
            let angles = [positions, 32];
            let found = launched(
                &device,
                rope,
                [DType::F32; 3],
                &[2, 5, 10, 64],
                &angles,
                &angles,
            )?;
            let found: Vec<_> = found.iter().map(|launch| &launch.kernel).collect();
            assert_eq!(found, [symbol]);
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

    #[test]
    fn each_batch_may_have_its_own_angles() -> Result<()> {
        let Some(device) = gpu("each_batch_may_have_its_own_angles") else {
            return Ok(());
        };
        let numbers = |count: usize, step: f32| -> Vec<f32> {
            (0..count).map(|i| (i as f32 * step).sin()).collect()
        };
        let (x, cos, sin) = (numbers(240, 1.), numbers(40, 0.7), numbers(40, 0.3));
        let turned = |x: &[f32], cos: &[f32], sin: &[f32], of_angles: &[usize]| {
            let on_device = |numbers: &[f32]| storage_from_slice(&device, numbers);
            let x_layout = Layout::contiguous([x.len() / 120, 3, 5, 8].as_slice());
            let layout = Layout::contiguous(of_angles);
            let (x, cos, sin) = (on_device(x)?, on_device(cos)?, on_device(sin)?);
            let y = rope(&x, &x_layout, &cos, &layout, &sin, &layout)?.0;
            Ok(y.to_cpu_storage()?.as_slice::<f32>()?.to_vec())
        };
        let both: Result<Vec<f32>> = turned(&x, &cos, &sin, &[2, 5, 4]);
        let first = turned(&x[..120], &cos[..20], &sin[..20], &[5, 4])?;
        let second = turned(&x[120..], &cos[20..], &sin[20..], &[5, 4])?;
        assert_eq!(both?, [first, second].concat());
        Ok(())
    }
}
