//! Rotary position embedding of the last dimension's pairs.
use crate::rocm_backend::plan::table::rope as table;
use crate::rocm_backend::plan::{
    Argument, Contiguous, Divisor, Indices, Launch, Launcher, Op, Pointer, Refusal, PACK,
};

/// How a tensor's elements are paired and counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    /// Whether pairs are neighbours; otherwise they are half the depth apart.
    pub(crate) interleaved: bool,
    /// Whether heads are counted faster than positions.
    pub(crate) heads_inside: bool,
}

impl Rotation {
    /// The op whose kernels rotate so.
    pub(crate) fn op(self) -> &'static Op {
        match self.interleaved {
            true => &table::ROPE_I,
            false => &table::ROPE,
        }
    }

    /// Bytes of cos and of sin that a lane takes.
    fn bytes_per_lane(self) -> usize {
        match self.interleaved {
            true => 8,
            false => 16,
        }
    }
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

/// Writes x (batch, heads, positions, depth), or with positions before heads, rotated by angles, to `y`, contiguously.
///
/// `cos` and `sin` are (at least as many positions, depth / 2), or have a batch dimension in front; all are of one type.
pub(crate) fn rope<L: Launcher>(
    launcher: &L,
    rotation: Rotation,
    x: Contiguous<'_>,
    cos: Contiguous<'_>,
    sin: Contiguous<'_>,
    y: Pointer,
) -> Result<(), L::Error> {
    let &[batch, second, third, depth] = x.shape else {
        return Err(Refusal(format!("rotation of {:?}", x.shape)).into());
    };
    let (length, heads) = match rotation.heads_inside {
        true => (second, third),
        false => (third, second),
    };
    let (rows, half) = (batch * heads * length, depth / 2);
    if rows * half == 0 {
        return Ok(());
    }
    if rows >= 1 << 31 {
        let name = rotation.op().name;
        return Err(Refusal(format!("{name} of {rows} rows, which are too many")).into());
    }
    let positions = Positions {
        rows: rows as u32,
        inner: Divisor::of(if rotation.heads_inside { heads } else { 1 }),
        length: Divisor::of(length),
        batch: Divisor::of(heads * length),
        batch_stride: batch_stride(cos.shape, sin.shape) as u64,
    };
    let [across, down] = block(half, rotation.bytes_per_lane() / x.element.size());
    let half = half as u32;
    let Some(kernel) = rotation.op().kernel(&[x.element]) else {
        let (name, element) = (rotation.op().name, x.element.name());
        return Err(Refusal(format!("`{name}` has no kernel for {element}")).into());
    };
    let launch = Launch::new(launcher, kernel);
    let launch = launch.strided(rows.div_ceil(down), across).threads_y(down);
    let launch = launch.arg(&y).arg(&x.start).arg(&cos.start).arg(&sin.start);
    // SAFETY: the arguments of rope kernels; x and y have a depth of elements for each row, and cos and sin half of that
    // for each position.
    unsafe { launch.arg(&half).arg(&positions).enqueue() }
}

/// Threads across a row's pairs, which take so many `lanes` each, and rows of a block.
fn block(half: usize, lanes: usize) -> [usize; 2] {
    let across = half.div_ceil(lanes).next_power_of_two().min(table::BLOCK);
    [across, table::BLOCK / across]
}

/// `candle::Appended`.
#[repr(C)]
struct Appended {
    q: Pointer,
    k: Pointer,
    v: Pointer,
    y: Pointer,
    keys: Pointer,
    values: Pointer,
    queries: u32,
    others: u32,
    length: Divisor,
    capacity: u64,
}

// SAFETY: the same fields in the same order, with C's layout on both sides.
unsafe impl Argument for Appended {}

/// What a layer of a model attends to next: queries (batch, heads, positions, depth), keys and values (batch, key heads,
/// positions, depth), and the angles of these positions (at least as many, depth / 2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next<'a> {
    pub(crate) q: Contiguous<'a>,
    pub(crate) k: Contiguous<'a>,
    pub(crate) v: Contiguous<'a>,
    pub(crate) cos: Contiguous<'a>,
    pub(crate) sin: Contiguous<'a>,
}

/// Where keys and values are kept: (batch, key heads, capacity, depth) each, and the row of each position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caches {
    pub(crate) keys: Pointer,
    pub(crate) values: Pointer,
    pub(crate) capacity: usize,
    pub(crate) places: Indices,
}

/// Writes queries that `rope` has rotated to `y`, contiguously, and keys that it has rotated and values to their caches.
///
/// False, and nothing is launched, where halves of rows are no whole multiples of 16 bytes or lie elsewhere. All have the
/// type of q, and fit together.
pub(crate) fn rope_append<L: Launcher>(
    launcher: &L,
    next: Next<'_>,
    caches: Caches,
    y: Pointer,
) -> Result<bool, L::Error> {
    let Next { q, k, v, cos, sin } = next;
    let (&[batch, heads, length, depth], &[_, key_heads, ..]) = (q.shape, k.shape) else {
        return Err(Refusal(format!("rotation of {:?} and {:?}", q.shape, k.shape)).into());
    };
    let half = depth / 2;
    let starts = [q.start, k.start, v.start, cos.start, sin.start];
    let others = [y, caches.keys, caches.values];
    let mut starts = starts.iter().chain(&others);
    let aligned = starts.all(|start| start.is_multiple_of(PACK));
    if !aligned || depth % 2 != 0 || half * q.element.size() % PACK != 0 {
        return Ok(false);
    }
    let (queries, others) = (batch * heads * length, batch * key_heads * length);
    let rows = queries + 2 * others;
    if rows * half == 0 {
        return Ok(true);
    }
    if rows >= 1 << 31 {
        return Err(Refusal(format!("rotation of {rows} rows, which are too many")).into());
    }
    let all = Appended {
        q: q.start,
        k: k.start,
        v: v.start,
        y,
        keys: caches.keys,
        values: caches.values,
        queries: queries as u32,
        others: others as u32,
        length: Divisor::of(length),
        capacity: caches.capacity as u64,
    };
    let kernel = table::ROPE_APPEND.form(0, &[q.element])?;
    let [across, down] = block(half, PACK / q.element.size());
    let places = caches.places.into_dimension(caches.capacity);
    let half = half as u32;
    let launch = Launch::new(launcher, kernel);
    let launch = launch.strided(rows.div_ceil(down), across).threads_y(down);
    let launch = launch.arg(&all).arg(&cos.start).arg(&sin.start);
    // SAFETY: the arguments of the op's kernels; y has a row for each of q's, and caches have `capacity` rows for each head
    // of keys, of which places name some. Others are left out.
    unsafe { launch.arg(&places).arg(&half).enqueue() }?;
    Ok(true)
}

/// Angles from one batch entry's to the next one's; 0 where all share theirs, as they do, as on the CPU, if only one of
/// `cos` and `sin` has a batch dimension.
fn batch_stride(cos: &[usize], sin: &[usize]) -> usize {
    match (cos, sin) {
        ([_, positions, half], [_, _, _]) => positions * half,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::plan::table::Element;
    use crate::rocm_backend::plan::testing::{Recorded, Recorder};
    use crate::rocm_backend::plan::{Card, Limits};

    /// What a rotation of this shape launches.
    fn launched(
        rotation: Rotation,
        element: Element,
        shape: [usize; 4],
    ) -> Result<Vec<Recorded>, Refusal> {
        let mut recorder = Recorder::of(Card {
            wave_size: 64,
            multiprocessors: 104,
        });
        recorder.limits = Limits {
            blocks: 32,
            ..Limits::USUAL
        };
        let tensor = |shape| Contiguous {
            start: Pointer::NULL,
            element,
            shape,
        };
        let angles = [10, shape[3] / 2];
        let (x, angles) = (tensor(&shape), tensor(&angles));
        rope(&recorder, rotation, x, angles, angles, x.start)?;
        Ok(recorder.launches.take())
    }

    const HALVES: Rotation = Rotation {
        interleaved: false,
        heads_inside: false,
    };
    const NEIGHBOURS: Rotation = Rotation {
        interleaved: true,
        ..HALVES
    };
    const HEADS_INSIDE: Rotation = Rotation {
        heads_inside: true,
        ..HALVES
    };

    #[test]
    fn neighbours_share_a_row() -> Result<(), Refusal> {
        use Element::{F16, F32, F64};
        // (2, 5, 10, depth): 100 rows. A thread takes 16 bytes of angles, or 8 where pairs are neighbours; 32 blocks at most.
        for (rotation, element, depth, grid, block) in [
            (HALVES, F32, 64, 4, [8, 32]),
            (HALVES, F32, 10, 1, [2, 128]),
            (HALVES, F16, 64, 2, [4, 64]),
            (HALVES, F64, 64, 7, [16, 16]),
            (HALVES, F32, 4096, 32, [256, 1]),
            (NEIGHBOURS, F32, 64, 7, [16, 16]),
            (NEIGHBOURS, F16, 64, 4, [8, 32]),
            (HEADS_INSIDE, F32, 64, 4, [8, 32]),
        ] {
            let found = launched(rotation, element, [2, 5, 10, depth])?;
            let found: Vec<_> = found
                .iter()
                .map(|launch| (launch.grid, launch.block))
                .collect();
            assert_eq!(found, [([grid, 1, 1], block)], "{element:?}, {depth}");
        }
        for empty in [[0, 5, 10, 64], [2, 5, 0, 64], [2, 5, 10, 0]] {
            assert_eq!(launched(HALVES, F32, empty)?, []);
        }
        Ok(())
    }

    #[test]
    fn rows_are_counted_in_31_bits() {
        let rows = |count| launched(HALVES, Element::F16, [1, 1, count, 8]);
        assert!(rows((1 << 31) - 1).is_ok());
        assert!(rows(1 << 31).is_err());
    }

    #[test]
    fn batch_entries_have_their_own_angles_if_cos_and_sin_say_so() {
        assert_eq!(batch_stride(&[7, 4], &[7, 4]), 0);
        assert_eq!(batch_stride(&[2, 7, 4], &[7, 4]), 0);
        assert_eq!(batch_stride(&[7, 4], &[2, 7, 4]), 0);
        assert_eq!(batch_stride(&[2, 7, 4], &[2, 7, 4]), 28);
    }
}
