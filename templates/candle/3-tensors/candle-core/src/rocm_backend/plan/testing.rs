//! A launcher for tests of plans: it writes down what would be launched.
use super::family::Tuning;
use super::launch::{Launch, Pointer};
use super::launcher::{Card, Launcher, Limits, Refusal};
use super::views::View;
use std::cell::RefCell;

/// A launch without its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) symbol: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 2],
}

pub(crate) struct Recorder {
    pub(crate) card: Card,
    pub(crate) limits: Limits,
    pub(crate) launches: RefCell<Vec<Recorded>>,
    /// The bytes of each launch's arguments.
    pub(crate) arguments: RefCell<Vec<Vec<Vec<u8>>>>,
    /// The bytes of each workspace.
    pub(crate) workspaces: RefCell<Vec<usize>>,
}

impl Recorder {
    pub(crate) fn of(card: Card) -> Self {
        Self {
            card,
            limits: Limits::USUAL,
            launches: RefCell::default(),
            arguments: RefCell::default(),
            workspaces: RefCell::default(),
        }
    }
}

impl Launcher for Recorder {
    type Error = Refusal;
    type Workspace = ();

    fn tuning(&self) -> Tuning {
        Tuning::of("any")
    }

    fn card(&self) -> Card {
        self.card
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn workspace(&self, bytes: usize) -> Result<((), Pointer), Refusal> {
        self.workspaces.borrow_mut().push(bytes);
        Ok(((), Pointer::NULL.offset(1 << 40)))
    }

    fn zeros(&self, bytes: usize) -> Result<((), Pointer), Refusal> {
        self.workspace(bytes)
    }

    unsafe fn enqueue(&self, launch: Launch<'_, Self>) -> Result<(), Refusal> {
        let arguments = launch.bytes().map(<[u8]>::to_vec);
        self.arguments.borrow_mut().push(arguments.collect());
        self.launches.borrow_mut().push(Recorded {
            symbol: launch.kernel.symbol(),
            grid: launch.grid,
            block: launch.block,
        });
        Ok(())
    }
}

/// A view that has its own sizes.
#[derive(Clone, Debug)]
pub(crate) struct Strided {
    pub(crate) shape: Vec<usize>,
    pub(crate) strides: Vec<usize>,
    pub(crate) offset: usize,
}

/// Elements in row-major order without gaps, from the first on.
pub(crate) fn contiguous(shape: &[usize]) -> Strided {
    let stride = |d| shape[d + 1..].iter().product();
    Strided {
        shape: shape.to_vec(),
        strides: (0..shape.len()).map(stride).collect(),
        offset: 0,
    }
}

impl Strided {
    pub(crate) fn view(&self) -> View<'_> {
        View {
            shape: &self.shape,
            strides: &self.strides,
            offset: self.offset,
        }
    }

    /// With the dimensions in the other order.
    pub(crate) fn reversed(mut self) -> Self {
        self.shape.reverse();
        self.strides.reverse();
        self
    }

    /// So many places of a dimension, from `first` on.
    pub(crate) fn narrow(mut self, d: usize, first: usize, size: usize) -> Self {
        self.offset += first * self.strides[d];
        self.shape[d] = size;
        self
    }

    /// So often, along a new first dimension.
    pub(crate) fn repeated(mut self, times: usize) -> Self {
        self.shape.insert(0, times);
        self.strides.insert(0, 0);
        self
    }
}
