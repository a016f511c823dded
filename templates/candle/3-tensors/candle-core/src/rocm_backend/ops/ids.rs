//! Indices: their types, and the errors for those out of range.
//!
//! Kernels touch no memory for an index out of range: what it should have read is zero, what it should have written is
//! left out. Telling the host makes every operation wait for its end, and return the error that the CPU backend returns.
//! Debug builds do so, as CUDA's kernels assert there; `CANDLE_ROCM_CHECK_INDICES=1` asks other builds for it, and 0
//! forbids it.
use super::binary::same_types;
use super::fill::zeros_impl;
use super::operand::Operand;
use super::unused_index::none;
use crate::rocm_backend::plan::table::Element;
use crate::rocm_backend::plan::{self, Contiguous, Pointer};
use crate::rocm_backend::{RocmDevice, RocmStorage};
use crate::{DType, Error, Layout, Result, Shape};
use std::ffi::OsString;
use std::sync::OnceLock;

/// Index types for reading and writing elements, as in the CPU backend.
pub(super) const PICKING: &[Element] = &[Element::U8, Element::U32, Element::I64];

/// Index types for adding elements, as in the CPU backend.
pub(super) const ADDING: &[Element] = &[
    Element::U8,
    Element::U32,
    Element::I16,
    Element::I32,
    Element::I64,
];

/// Indices into a dimension of `size`.
pub(super) struct Indices<'a> {
    ids: Operand<'a>,
    element: Element,
    size: usize,
    /// One u32 that becomes 1 if an index is out of range; only where indices are checked.
    failed: Option<RocmStorage>,
    op: &'static str,
}

impl<'a> Indices<'a> {
    /// An error that names `op` if the indices' type is not among `types`.
    pub(super) fn new(
        ids: Operand<'a>,
        types: &[Element],
        size: usize,
        op: &'static str,
    ) -> Result<Self> {
        let element = ids.element(op)?;
        if !types.contains(&element) {
            return Err(Error::UnsupportedDTypeForOp(ids.dtype(), op).bt());
        }
        // An operation that is captured cannot be waited for.
        let failed = if are_checked() && !ids.device().stream().is_capturing() {
            Some(zeros_impl(ids.device(), &Shape::from(1), DType::U32)?)
        } else {
            None
        };
        Ok(Self {
            ids,
            element,
            size,
            failed,
            op,
        })
    }

    /// As plans of launches see them.
    pub(super) fn planned(&self) -> plan::Indices {
        let failed = self.failed.as_ref().map(RocmStorage::pointer);
        plan::Indices {
            start: self.ids.start(),
            element: self.element,
            none: none(self.element),
            failed: failed.unwrap_or(Pointer::NULL),
        }
    }

    /// Where indices are checked: waits for the launches that had them, and returns an error if one was out of range.
    pub(super) fn check(&self) -> Result<()> {
        let Some(failed) = &self.failed else {
            return Ok(());
        };
        let mut flag = [0; 4];
        failed.copy_to_host(&mut flag)?;
        if u32::from_ne_bytes(flag) == 0 {
            return Ok(());
        }
        match self.first_out_of_range()? {
            Some(index) => Err(Error::InvalidIndex {
                op: self.op,
                index,
                size: self.size,
            }
            .bt()),
            None => Ok(()),
        }
    }

    fn first_out_of_range(&self) -> Result<Option<usize>> {
        let mut bytes = vec![0; self.ids.storage.size()];
        self.ids.storage.copy_to_host(&mut bytes)?;
        let (size, none) = (self.ids.size(), none(self.element));
        let mut indices = self.ids.layout.strided_index().map(|at| {
            let at = at * size;
            number(self.element, &bytes[at..at + size])
        });
        let wrong = indices.find(|&index| index != none && index as usize >= self.size);
        Ok(wrong.map(|index| index as usize))
    }
}

/// What is written or added to a tensor, with an index for each element.
pub(super) struct Update<'a> {
    pub(super) device: &'a RocmDevice,
    pub(super) y: Contiguous<'a>,
    pub(super) x: Contiguous<'a>,
    pub(super) ids: Indices<'a>,
}

impl<'a> Update<'a> {
    /// In place, with indices of x's shape. An error that names `op` for views that the CPU backend does not take.
    pub(super) fn scattered(
        y: &'a mut RocmStorage,
        y_layout: &'a Layout,
        x: Operand<'a>,
        ids: Operand<'a>,
        types: &[Element],
        dim: usize,
        op: &'static str,
    ) -> Result<Self> {
        let base = y.pointer_mut();
        let (y, x) = same_types(y, x.storage, y_layout, x.layout, op)?;
        require_contiguous(&[y_layout, x.layout, ids.layout], op)?;
        let ids = Indices::new(ids, types, y_layout.dims()[dim], op)?;
        let start = base.offset(y_layout.start_offset() * y.size());
        Ok(Self {
            device: y.device(),
            y: Contiguous {
                start,
                ..y.contiguous(op)?
            },
            x: x.contiguous(op)?,
            ids,
        })
    }
}

/// An error that names `op` for a view with gaps or in another order, which the CPU backend does not take either.
pub(super) fn require_contiguous(layouts: &[&Layout], op: &'static str) -> Result<()> {
    if !layouts.iter().all(|layout| layout.is_contiguous()) {
        return Err(Error::RequiresContiguous { op }.bt());
    }
    Ok(())
}

/// The number that the bytes of an integer stand for.
fn number(element: Element, bytes: &[u8]) -> i64 {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        std::array::from_fn(|i| bytes[i])
    }
    match element {
        Element::U8 => bytes[0].into(),
        Element::U32 => u32::from_ne_bytes(first(bytes)).into(),
        Element::I16 => i16::from_ne_bytes(first(bytes)).into(),
        Element::I32 => i32::from_ne_bytes(first(bytes)).into(),
        _ => i64::from_ne_bytes(first(bytes)),
    }
}

/// Whether indices out of range are errors by default. Not in the crate's own tests, which count launches.
const CHECKED_BY_DEFAULT: bool = cfg!(debug_assertions) && !cfg!(test);

/// Whether indices out of range are errors.
fn are_checked() -> bool {
    static CHECKED: OnceLock<bool> = OnceLock::new();
    *CHECKED.get_or_init(|| asks_for_checks(std::env::var_os("CANDLE_ROCM_CHECK_INDICES")))
}

fn asks_for_checks(value: Option<OsString>) -> bool {
    value.map_or(CHECKED_BY_DEFAULT, |value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rocm_backend::ops::storage_from_slice;
    use crate::rocm_backend::testing::gpu;
    use crate::WithDType;

    #[test]
    fn indices_are_checked_on_demand() {
        assert_eq!(asks_for_checks(None), CHECKED_BY_DEFAULT);
        assert!(!asks_for_checks(Some("0".into())));
        assert!(asks_for_checks(Some("1".into())));
        assert!(!are_checked(), "tests are run without");
    }

    #[test]
    fn gaps_are_refused() -> Result<()> {
        let plain = Layout::contiguous((3, 4));
        let turned = plain.transpose(0, 1)?;
        require_contiguous(&[&plain, &plain], "picking")?;
        for layouts in [[&plain, &turned], [&turned, &plain]] {
            let message = require_contiguous(&layouts, "picking").unwrap_err();
            assert!(message.to_string().contains("picking"), "{message}");
        }
        Ok(())
    }

    #[test]
    fn numbers_are_read_as_their_type_has_them() {
        for (element, bytes, expected) in [
            (Element::U8, 200u8.to_ne_bytes().to_vec(), 200),
            (
                Element::U32,
                3_000_000_000u32.to_ne_bytes().to_vec(),
                3_000_000_000,
            ),
            (Element::I16, (-300i16).to_ne_bytes().to_vec(), -300),
            (Element::I32, (-70_000i32).to_ne_bytes().to_vec(), -70_000),
            (
                Element::I64,
                (-5_000_000_000i64).to_ne_bytes().to_vec(),
                -5_000_000_000,
            ),
        ] {
            assert_eq!(number(element, &bytes), expected, "{element:?}");
        }
    }

    /// What `check` says of indices into a dimension of 5, if the device says that one is out of range or not.
    fn checked<T: WithDType>(device: &RocmDevice, data: &[T], failed: u32) -> Result<Result<()>> {
        // One at the front is none of the view's, nor is every other one.
        let storage = storage_from_slice(device, data)?;
        let layout = Layout::new(Shape::from(data.len() / 2), vec![2], 1);
        let ids = Operand::new(&storage, &layout);
        let mut ids = Indices::new(ids, ADDING, 5, "picking")?;
        let mut flag = zeros_impl(device, &Shape::from(1), DType::U32)?;
        flag.copy_from_host(&failed.to_ne_bytes())?;
        let first = storage.pointer().offset(std::mem::size_of::<T>());
        let planned = ids.planned();
        assert_eq!((planned.start, planned.failed), (first, Pointer::NULL));
        let address = flag.pointer();
        ids.failed = Some(flag);
        assert_eq!(ids.planned().failed, address);
        Ok(ids.check())
    }

    #[test]
    fn the_first_index_out_of_range_is_named() -> Result<()> {
        let Some(device) = gpu("the_first_index_out_of_range_is_named") else {
            return Ok(());
        };
        let wrong = |found: Result<()>, expected: usize| {
            let message = found.unwrap_err().to_string();
            let wanted = format!("picking invalid index {expected} with dim size 5");
            assert!(message.starts_with(&wanted), "{message}");
        };
        wrong(checked(&device, &[9u8, 0, 9, 4, 9, 6, 9, 5], 1)?, 6);
        wrong(checked(&device, &[9u32, 0, 9, 4, 9, 5, 9, 6], 1)?, 5);
        wrong(checked(&device, &[9i64, 0, 9, 4, 9, 7, 9, 6], 1)?, 7);
        checked(&device, &[9u32, 0, 9, 7, 9, 7], 0)??;
        checked(&device, &[9u32, 0, 9, 4, 9, 3], 1)??;
        // Where the largest number is no index.
        if none(Element::U32) == i64::from(u32::MAX) {
            checked(&device, &[9u32, 0, 9, u32::MAX, 9, 3], 1)??;
            wrong(
                checked(&device, &[9u32, 0, 9, u32::MAX - 1], 1)?,
                u32::MAX as usize - 1,
            );
        }
        Ok(())
    }
}
