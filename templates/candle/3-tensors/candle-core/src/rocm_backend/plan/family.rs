//! How kernels are named and numbered: families, the ops in them, and the element types that ops are made for.

use super::launcher::Refusal;
use super::table::{Element, TUNINGS};

/// Which of the tunings of the kernel table an architecture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning(usize);

impl Tuning {
    /// For kernels that are compiled for `architecture`, such as "gfx90a:sramecc+:xnack-".
    pub(crate) fn of(architecture: &str) -> Self {
        let mut names = TUNINGS.iter();
        let own = names.position(|name| architecture.starts_with(name));
        Self(own.map_or(0, |number| number + 1))
    }
}

/// A number of the kernel table that depends on the architecture: the usual one, then one for each tuning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuned(pub(crate) [usize; TUNINGS.len() + 1]);

impl Tuned {
    pub(crate) const fn on(self, tuning: Tuning) -> usize {
        self.0[tuning.0]
    }
}

/// A set of element types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeSet(u16);

impl TypeSet {
    pub(crate) const fn of(elements: &[Element]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < elements.len() {
            bits |= 1 << elements[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// How many types of the set come before `element`; `None` if it is not in the set.
    const fn rank(self, element: Element) -> Option<usize> {
        let bit = 1u16 << element as u16;
        if self.0 & bit == 0 {
            return None;
        }
        Some((self.0 & (bit - 1)).count_ones() as usize)
    }
}

/// A kernel source.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) number: usize,
    pub(crate) name: &'static str,
    pub(crate) variants: &'static [&'static str],
    /// How many numbers its kernels take.
    pub(crate) kernels: usize,
}

/// The kernels of one operation, which are numbered by element types, then by variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) family: &'static Family,
    pub(crate) name: &'static str,
    /// Number of the op's first kernel in its family.
    pub(crate) first: usize,
    /// The types of each role, such as source and target of a cast.
    pub(crate) types: &'static [TypeSet],
    /// Those of the family's variants that the op has.
    pub(crate) variants: &'static [usize],
    /// Whether there is no kernel for equal types.
    pub(crate) distinct: bool,
}

impl Op {
    /// The op with that name among `ops`; evaluated by the compiler where the name is a constant.
    pub(crate) const fn named(ops: &[Self], name: &str) -> Option<Self> {
        let mut i = 0;
        while i < ops.len() {
            if same_text(ops[i].name, name) {
                return Some(ops[i]);
            }
            i += 1;
        }
        None
    }

    /// The op's only kernel for these types, one for each role; `None` if there is none.
    pub(crate) fn kernel(&self, types: &[Element]) -> Option<Kernel> {
        self.variant(self.variants[0], types)
    }

    /// As `variant`; a refusal if there is none.
    pub(crate) fn form(&self, variant: usize, types: &[Element]) -> Result<Kernel, Refusal> {
        let refusal = || Refusal(format!("`{}` has no kernel for these types", self.name));
        self.variant(variant, types).ok_or_else(refusal)
    }

    /// The kernel of a variant, a number that the family has a name for.
    pub(crate) fn variant(&self, variant: usize, types: &[Element]) -> Option<Kernel> {
        debug_assert_eq!(
            types.len(),
            self.types.len(),
            "{} takes another number of types",
            self.name
        );
        if self.distinct && types[1..].contains(&types[0]) {
            return None;
        }
        let mut index = 0;
        for (set, element) in self.types.iter().zip(types) {
            index = index * set.len() + set.rank(*element)?;
        }
        let rank = self.variants.iter().position(|number| *number == variant)?;
        let mut roles = [Element::U8; MAX_ROLES];
        roles[..types.len()].copy_from_slice(types);
        Some(Kernel {
            op: *self,
            types: roles,
            variant,
            index: self.first + index * self.variants.len() + rank,
        })
    }
}

/// The most roles that the types of an op have.
const MAX_ROLES: usize = 3;

/// One function of a kernel source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    op: Op,
    types: [Element; MAX_ROLES],
    variant: usize,
    index: usize,
}

impl Kernel {
    pub(crate) fn family(&self) -> &'static Family {
        self.op.family
    }

    /// Its number in the family.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Its name in the source; needed once, when the kernel is loaded.
    pub(crate) fn symbol(&self) -> String {
        let roles = &self.types[..self.op.types.len()];
        let mut parts = vec![self.op.name];
        parts.extend(roles.iter().map(|element| element.name()));
        let variant = self.family().variants[self.variant];
        parts.extend(Some(variant).filter(|name| !name.is_empty()));
        parts.join("_")
    }
}

const fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use Element::{B128, B16, B32, B64, B8, BF16, F16, F32, F64, F8E4M3, I16, I32, I64, U32, U8};

    #[test]
    fn elements_have_names_sizes_and_bits() {
        let cases = [
            // (element, name, bytes, bytes of what it is computed in, type of its bits)
            (U8, "u8", 1, 1, B8),
            (U32, "u32", 4, 4, B32),
            (I16, "i16", 2, 2, B16),
            (I32, "i32", 4, 4, B32),
            (I64, "i64", 8, 8, B64),
            (BF16, "bf16", 2, 4, B16),
            (F16, "f16", 2, 4, B16),
            (F32, "f32", 4, 4, B32),
            (F64, "f64", 8, 8, B64),
            (F8E4M3, "f8e4m3", 1, 4, B8),
            (B8, "b8", 1, 1, B8),
            (B16, "b16", 2, 2, B16),
            (B32, "b32", 4, 4, B32),
            (B64, "b64", 8, 8, B64),
            (B128, "b128", 16, 16, B128),
        ];
        for (element, name, size, wide_size, bits) in cases {
            assert_eq!(element.name(), name);
            assert_eq!(element.size(), size, "{name}");
            assert_eq!(element.wide_size(), wide_size, "{name}");
            assert_eq!(element.bits(), bits, "{name}");
        }
    }

    #[test]
    fn sets_count_and_rank_their_types() {
        let set = TypeSet::of(&[F32, U8, B128, F16]);
        assert_eq!(set.len(), 4);
        // In the order of their declaration, not of the list.
        let ranks = [U8, F16, F32, B128].map(|element| set.rank(element));
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3)]);
        let others = [U32, BF16, F64, B64].map(|element| set.rank(element));
        assert_eq!(others, [None; 4]);
        let none = TypeSet::of(&[]);
        assert_eq!((none.len(), none.rank(U8)), (0, None));
        assert_eq!(TypeSet::of(&[U32]).rank(U32), Some(0));
    }

    static FAMILY: Family = Family {
        number: 0,
        name: "made-up",
        variants: &["", "wide", "long"],
        kernels: 100,
    };
    const CAST: Op = Op {
        family: &FAMILY,
        name: "cast",
        first: 10,
        types: &[TypeSet::of(&[U8, F32, F64]), TypeSet::of(&[F16, F32])],
        variants: &[0, 2],
        distinct: true,
    };
    const FILL: Op = Op {
        name: "fill",
        first: 50,
        types: &[TypeSet::of(&[B8, B16])],
        variants: &[1],
        ..CAST
    };
    const MOVE: Op = Op {
        name: "move",
        distinct: false,
        ..CAST
    };

    fn known(kernel: Option<Kernel>) -> Option<(usize, String)> {
        kernel.map(|kernel| (kernel.index(), kernel.symbol()))
    }

    #[test]
    fn kernels_are_numbered_by_types_then_by_variant() {
        let mut numbers = Vec::new();
        for from in [U8, F32, F64] {
            for to in [F16, F32] {
                for (variant, ending) in [(0, ""), (2, "_long")] {
                    let name = format!("move_{}_{}{ending}", from.name(), to.name());
                    let (index, symbol) = known(MOVE.variant(variant, &[from, to])).expect(&name);
                    assert_eq!(symbol, name);
                    numbers.push(index);
                }
            }
        }
        assert_eq!(numbers, (10..22).collect::<Vec<_>>());
        let wide = |kernel: Option<(usize, &str)>| kernel.map(|(n, name)| (n, name.to_string()));
        assert_eq!(
            known(FILL.kernel(&[B16])),
            wide(Some((51, "fill_b16_wide")))
        );
        assert_eq!(
            known(CAST.kernel(&[F64, F16])),
            wide(Some((18, "cast_f64_f16")))
        );
    }

    #[test]
    fn there_is_no_kernel_for_what_an_op_lacks() {
        // Types that are in none of the sets, or in the other one, and a variant that only the family has.
        assert!(MOVE.variant(0, &[U32, F16]).is_none());
        assert!(MOVE.variant(0, &[U8, U8]).is_none());
        assert!(MOVE.variant(1, &[U8, F16]).is_none());
        assert!(FILL.variant(0, &[B8]).is_none());
        // Equal types, where they have to differ.
        assert!(CAST.kernel(&[F32, F32]).is_none());
        assert!(CAST.kernel(&[F32, F16]).is_some());
        assert!(MOVE.kernel(&[F32, F32]).is_some());
    }

    #[test]
    fn ops_are_found_by_their_whole_name() {
        let ops = [CAST, FILL, MOVE];
        for (name, first) in [("cast", Some(10)), ("fill", Some(50)), ("move", Some(10))] {
            let found = Op::named(&ops, name);
            assert_eq!(found.map(|op| op.first), first);
            assert_eq!(found.map(|op| op.name), Some(name));
        }
        for name in ["", "cas", "casts", "ast", "fall"] {
            assert!(Op::named(&ops, name).is_none(), "{name}");
        }
        assert!(Op::named(&[], "cast").is_none());
    }

    #[test]
    fn texts_are_the_same_if_all_bytes_are() {
        assert!(same_text("", ""));
        assert!(same_text("copy", "copy"));
        for (a, b) in [
            ("copy", "cope"),
            ("copy", "dopy"),
            ("copy", "cop"),
            ("", "a"),
        ] {
            assert!(!same_text(a, b) && !same_text(b, a), "{a} {b}");
        }
    }

    #[test]
    fn architectures_with_numbers_of_their_own_have_them() {
        let usual = Tuning::of("unknown");
        assert_eq!(usual, Tuning(0));
        let numbers = Tuned(std::array::from_fn(|number| 100 + number));
        assert_eq!(numbers.on(usual), 100);
        for (number, name) in TUNINGS.iter().enumerate() {
            let tuning = Tuning::of(&format!("{name}:xnack-"));
            assert_eq!(tuning, Tuning(number + 1), "{name}");
            assert_eq!(numbers.on(tuning), 101 + number, "{name}");
        }
    }
}
