//! What a convolution is asked to do: direction, tensors and descriptor, checked against each other.

use api::miopen::miopenStatusBadParm;
use candle_rocm_emulator_link::Extent;

use crate::Status;
use crate::convolution::Convolution;
use crate::geometry::Geometry;
use crate::tensor::Shape;

/// Which of the two tensors that are no weights is computed from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The output from the input.
    Forward,
    /// The input's gradient from the output's.
    BackwardData,
}

/// How a convolution is computed. They differ in their workspace only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Element by element.
    Direct,
    /// By a matrix product of unfolded images.
    Gemm,
}

impl Algorithm {
    /// Both, the faster one first.
    pub const ALL: [Self; 2] = [Self::Direct, Self::Gemm];

    /// The number that MIOpen's enumerations of algorithms give it.
    pub fn number(self) -> u32 {
        match self {
            Self::Gemm => 0,
            Self::Direct => 1,
        }
    }

    /// Its number as a solution: from one on.
    pub fn solution(self) -> u64 {
        u64::from(self.number()) + 1
    }

    /// Milliseconds that are reported for it; nothing is measured.
    pub fn time(self) -> f32 {
        match self {
            Self::Direct => 0.1,
            Self::Gemm => 0.2,
        }
    }
}

/// A convolution of certain tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    direction: Direction,
    input: Shape,
    weights: Shape,
    output: Shape,
    convolution: Convolution,
    geometry: Geometry,
}

/// Sizes along one axis: the other tensor's from one tensor's.
#[derive(Clone, Copy)]
struct Axis {
    filter: usize,
    pad: usize,
    stride: usize,
    dilation: usize,
}

impl Axis {
    fn reach(self) -> usize {
        self.dilation * (self.filter - 1) + 1
    }

    fn convolved(self, size: usize) -> Option<usize> {
        Some((size + 2 * self.pad).checked_sub(self.reach())? / self.stride + 1)
    }

    fn transposed(self, size: usize) -> Option<usize> {
        ((size - 1) * self.stride + self.reach()).checked_sub(2 * self.pad).filter(|size| *size > 0)
    }
}

/// Whether the tensor that is computed from is the input of the plain convolution.
fn is_plain(convolution: &Convolution, direction: Direction) -> bool {
    convolution.transposed == (direction == Direction::BackwardData)
}

fn axes<'a>(convolution: &'a Convolution, weights: &'a [usize]) -> impl Iterator<Item = Axis> + 'a {
    (0..convolution.pad.len()).map(|axis| Axis {
        filter: weights[2 + axis],
        pad: convolution.pad[axis],
        stride: convolution.stride[axis],
        dilation: convolution.dilation[axis],
    })
}

/// The dimensions of what is computed from a tensor of dimensions `input`.
///
/// # Errors
/// `miopenStatusBadParm` if tensors, weights and descriptor do not fit each other.
pub fn output_dims(
    convolution: &Convolution,
    direction: Direction,
    input: &[usize],
    weights: &[usize],
) -> Status<Vec<usize>> {
    let rank = convolution.pad.len() + 2;
    if input.len() != rank || weights.len() != rank || !weights[0].is_multiple_of(convolution.groups) {
        return Err(miopenStatusBadParm);
    }
    let plain = is_plain(convolution, direction);
    let (filters, channels) = (weights[0], weights[1] * convolution.groups);
    let (wanted, made) = if plain { (channels, filters) } else { (filters, channels) };
    if input[1] != wanted {
        return Err(miopenStatusBadParm);
    }
    let spatial = axes(convolution, weights).zip(&input[2..]);
    let sizes = spatial.map(|(axis, &size)| if plain { axis.convolved(size) } else { axis.transposed(size) });
    let sizes: Option<Vec<_>> = [Some(input[0]), Some(made)].into_iter().chain(sizes).collect();
    sizes.ok_or(miopenStatusBadParm)
}

/// Numbers of spatial dimensions, filled up with `fill` at the front.
fn filled(numbers: &[usize], fill: usize) -> [usize; 3] {
    let mut three = [fill; 3];
    three[3 - numbers.len()..].copy_from_slice(numbers);
    three
}

impl Problem {
    /// Checks that all fits.
    ///
    /// # Errors
    /// `miopenStatusBadParm` if it does not.
    pub fn new(direction: Direction, convolution: Convolution, [input, weights, output]: [Shape; 3]) -> Status<Self> {
        let expected = output_dims(&convolution, direction, &input.dims, &weights.dims);
        // The gradient of an input may be longer: a stride leaves its last elements out.
        let fits = match direction {
            Direction::Forward => expected? == output.dims,
            Direction::BackwardData => {
                output_dims(&convolution, Direction::Forward, &output.dims, &weights.dims)? == input.dims
            }
        };
        if !fits || input.format != weights.format {
            return Err(miopenStatusBadParm);
        }
        let plain = is_plain(&convolution, direction);
        let (from, to) = if plain { (&input, &output) } else { (&output, &input) };
        let geometry = Geometry {
            batch: from.dims[0],
            channels: from.dims[1],
            filters: to.dims[1],
            groups: convolution.groups,
            input: filled(&from.dims[2..], 1),
            filter: filled(&weights.dims[2..], 1),
            output: filled(&to.dims[2..], 1),
            pad: filled(&convolution.pad, 0),
            stride: filled(&convolution.stride, 1),
            dilation: filled(&convolution.dilation, 1),
        };
        Ok(Self { direction, input, weights, output, convolution, geometry })
    }

    /// Bytes of workspace that an algorithm needs.
    pub fn workspace(&self, algorithm: Algorithm) -> usize {
        match algorithm {
            Algorithm::Direct => 0,
            Algorithm::Gemm => self.geometry.unfolded() * self.weights.format.size(),
        }
    }

    /// The part of a workspace that an algorithm uses.
    ///
    /// # Errors
    /// `miopenStatusBadParm` if it is missing or too short.
    pub fn scratch(&self, algorithm: Algorithm, address: usize, size: usize) -> Status<Option<Extent>> {
        match self.workspace(algorithm) {
            0 => Ok(None),
            bytes if address == 0 || size < bytes => Err(miopenStatusBadParm),
            bytes => Ok(Some(Extent { address, bytes, writes: true })),
        }
    }

    /// Computes the elements of the output.
    pub fn compute(&self, input: &[f64], weights: &[f64]) -> Vec<f64> {
        if is_plain(&self.convolution, self.direction) {
            self.geometry.convolve(input, weights)
        } else {
            self.geometry.transpose(input, weights)
        }
    }

    /// What tells it from other problems.
    pub fn key(&self) -> String {
        format!("{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(transposed: bool, groups: usize) -> Convolution {
        Convolution { transposed, groups, pad: vec![1], stride: vec![2], dilation: vec![1] }
    }

    #[test]
    fn a_convolution_and_its_transpose_make_each_other_s_sizes() {
        let dims =
            |transposed, input: &[usize]| output_dims(&line(transposed, 1), Direction::Forward, input, &[3, 2, 4]);
        assert_eq!(dims(false, &[5, 2, 8]), Ok(vec![5, 3, 4]));
        assert_eq!(dims(true, &[5, 3, 4]), Ok(vec![5, 2, 8]));
        assert_eq!(dims(false, &[5, 3, 8]), Err(miopenStatusBadParm), "channels");
        assert_eq!(dims(false, &[5, 2, 1]), Err(miopenStatusBadParm), "shorter than the filter");
    }

    #[test]
    fn groups_divide_the_filters() {
        let dims = |filters| output_dims(&line(false, 2), Direction::Forward, &[1, 4, 8], &[filters, 2, 4]);
        assert_eq!(dims(6), Ok(vec![1, 6, 4]));
        assert_eq!(dims(5), Err(miopenStatusBadParm));
    }
}
