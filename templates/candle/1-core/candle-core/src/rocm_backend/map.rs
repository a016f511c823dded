//! Operations that are written once for all element types, over [`RocmSlice`].
use super::slice::{DeviceRepr, RocmSlice, ValidAsZeroBits};
use super::storage_slice::{with_dtypes, S};
use super::RocmDevice;
use crate::{Error, Layout, Result, WithDType};

/// The name of a kernel that there is for each element type: the operation's, and the type's behind it.
pub fn kernel_name<T: WithDType>(root: &str) -> String {
    format!("{root}_{}", T::DTYPE.as_str())
}

/// Makes a tensor of one with the same type.
pub trait Map1 {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
    ) -> Result<RocmSlice<T>>;

    fn map(&self, s: &S, d: &RocmDevice, l: &Layout) -> Result<S> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match s {
                    $(S::$dtype(s) => Ok(S::$dtype(self.f(s, d, l)?)),)+
                    #[allow(unreachable_patterns)]
                    other => Err(unsupported(other, "map1")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Makes a tensor of one, of a type that the operation chooses; `wrap` keeps the type.
pub trait Map1Any {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits, W: Fn(RocmSlice<T>) -> S>(
        &self,
        src: &RocmSlice<T>,
        dev: &RocmDevice,
        layout: &Layout,
        wrap: W,
    ) -> Result<S>;

    fn map(&self, s: &S, d: &RocmDevice, l: &Layout) -> Result<S> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match s {
                    $(S::$dtype(s) => self.f(s, d, l, S::$dtype),)+
                    #[allow(unreachable_patterns)]
                    other => Err(unsupported(other, "map1-any")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Makes a tensor of two, all of one type.
pub trait Map2 {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>>;

    fn map(&self, s1: &S, l1: &Layout, s2: &S, l2: &Layout, d: &RocmDevice) -> Result<S> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match (s1, s2) {
                    $((S::$dtype(a), S::$dtype(b)) => Ok(S::$dtype(self.f(a, l1, b, l2, d)?)),)+
                    _ => Err(different(s1, s2, "map2")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Makes a tensor of two that have one type, of a type that the operation chooses.
pub trait Map2Any {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        dev: &RocmDevice,
    ) -> Result<S>;

    fn map(&self, s1: &S, l1: &Layout, s2: &S, l2: &Layout, d: &RocmDevice) -> Result<S> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match (s1, s2) {
                    $((S::$dtype(a), S::$dtype(b)) => self.f(a, l1, b, l2, d),)+
                    _ => Err(different(s1, s2, "map2-any")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Changes a tensor with another one of its type.
pub trait Map2InPlace {
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        dst: &mut RocmSlice<T>,
        dst_l: &Layout,
        src: &RocmSlice<T>,
        src_l: &Layout,
        dev: &RocmDevice,
    ) -> Result<()>;

    fn map(
        &self,
        dst: &mut S,
        dst_l: &Layout,
        src: &S,
        src_l: &Layout,
        d: &RocmDevice,
    ) -> Result<()> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match (dst, src) {
                    $((S::$dtype(dst), S::$dtype(src)) => self.f(dst, dst_l, src, src_l, d),)+
                    (dst, src) => Err(different(dst, src, "map2-in-place")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Makes a tensor of three, all of one type.
pub trait Map3 {
    #[allow(clippy::too_many_arguments)]
    fn f<T: DeviceRepr + WithDType + ValidAsZeroBits>(
        &self,
        src1: &RocmSlice<T>,
        layout1: &Layout,
        src2: &RocmSlice<T>,
        layout2: &Layout,
        src3: &RocmSlice<T>,
        layout3: &Layout,
        dev: &RocmDevice,
    ) -> Result<RocmSlice<T>>;

    #[allow(clippy::too_many_arguments)]
    fn map(
        &self,
        s1: &S,
        l1: &Layout,
        s2: &S,
        l2: &Layout,
        s3: &S,
        l3: &Layout,
        d: &RocmDevice,
    ) -> Result<S> {
        macro_rules! arms {
            ($($dtype:ident),+) => {
                match (s1, s2, s3) {
                    $((S::$dtype(a), S::$dtype(b), S::$dtype(c)) => {
                        Ok(S::$dtype(self.f(a, l1, b, l2, c, l3, d)?))
                    })+
                    _ if s1.dtype() == s2.dtype() => Err(different(s2, s3, "map3")),
                    _ => Err(different(s1, s2, "map3")),
                }
            };
        }
        with_dtypes!(arms)
    }
}

/// Candle only stores elements of this type.
fn unsupported(found: &S, op: &'static str) -> Error {
    Error::UnsupportedDTypeForOp(found.dtype(), op).bt()
}

fn different(one: &S, other: &S, op: &'static str) -> Error {
    let (lhs, rhs) = (one.dtype(), other.dtype());
    match lhs == rhs {
        true => unsupported(one, op),
        false => Error::DTypeMismatchBinaryOp { lhs, rhs, op }.bt(),
    }
}
