//! Convolutions of dense tensors with one to three spatial dimensions.

/// Sizes of a convolution. Fewer than three spatial dimensions are filled up with ones at the front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub batch: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Channels of the output.
    pub filters: usize,
    pub groups: usize,
    pub input: [usize; 3],
    pub filter: [usize; 3],
    pub output: [usize; 3],
    pub pad: [usize; 3],
    pub stride: [usize; 3],
    pub dilation: [usize; 3],
}

/// All positions of a space, with their numbers.
fn positions([depth, height, width]: [usize; 3]) -> impl Iterator<Item = (usize, [usize; 3])> {
    (0..depth * height * width)
        .map(move |number| (number, [number / width / height, number / width % height, number % width]))
}

fn volume(space: [usize; 3]) -> usize {
    space.iter().product()
}

impl Geometry {
    /// The number of the input's position under a tap of the filter at a position of the output; none in the padding.
    fn under(&self, output: [usize; 3], tap: [usize; 3]) -> Option<usize> {
        (0..3).try_fold(0, |number, axis| {
            let padded = output[axis] * self.stride[axis] + tap[axis] * self.dilation[axis];
            let index = padded.checked_sub(self.pad[axis]).filter(|index| *index < self.input[axis])?;
            Some(number * self.input[axis] + index)
        })
    }

    /// Calls `visit` for every product of an input's element and a weight that an output's element sums up: with their
    /// numbers, the output's first.
    fn visit(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let (input, filter, output) = (volume(self.input), volume(self.filter), volume(self.output));
        let (channels, filters) = (self.channels / self.groups, self.filters / self.groups);
        for (place, position) in positions(self.output) {
            for (tap, offset) in positions(self.filter) {
                let Some(under) = self.under(position, offset) else { continue };
                for (image, filter_number) in
                    (0..self.batch).flat_map(|image| (0..self.filters).map(move |f| (image, f)))
                {
                    let first_channel = filter_number / filters * channels;
                    let output_number = (image * self.filters + filter_number) * output + place;
                    for channel in 0..channels {
                        let input_number = (image * self.channels + first_channel + channel) * input + under;
                        visit(output_number, input_number, (filter_number * channels + channel) * filter + tap);
                    }
                }
            }
        }
    }

    /// The convolution of an input with weights.
    pub fn convolve(&self, input: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut output = vec![0.0; self.batch * self.filters * volume(self.output)];
        self.visit(|to, from, weight| output[to] += input[from] * weights[weight]);
        output
    }

    /// Its transpose: from an output, what each element of the input has to do with it.
    pub fn transpose(&self, output: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut input = vec![0.0; self.batch * self.channels * volume(self.input)];
        self.visit(|from, to, weight| input[to] += output[from] * weights[weight]);
        input
    }

    /// Elements of the matrix that a convolution by matrix products unfolds an image to.
    pub fn unfolded(&self) -> usize {
        self.channels * volume(self.filter) * volume(self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One image of one channel, 1 x 4, and a filter of 1 x 2.
    const LINE: Geometry = Geometry {
        batch: 1,
        channels: 1,
        filters: 1,
        groups: 1,
        input: [1, 1, 4],
        filter: [1, 1, 2],
        output: [1, 1, 3],
        pad: [0; 3],
        stride: [1; 3],
        dilation: [1; 3],
    };

    #[test]
    fn a_line_is_convolved() {
        assert_eq!(LINE.convolve(&[1.0, 2.0, 3.0, 4.0], &[10.0, 1.0]), [12.0, 23.0, 34.0]);
    }

    #[test]
    fn padding_stride_and_dilation() {
        let geometry = Geometry { output: [1, 1, 2], pad: [0, 0, 1], stride: [1, 1, 2], dilation: [1, 1, 2], ..LINE };
        // Positions -1, 1 and 1, 3.
        assert_eq!(geometry.convolve(&[1.0, 2.0, 3.0, 4.0], &[10.0, 1.0]), [2.0, 24.0]);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let geometry =
            Geometry { channels: 2, filters: 2, groups: 2, input: [1; 3], filter: [1; 3], output: [1; 3], ..LINE };
        assert_eq!(geometry.convolve(&[3.0, 5.0], &[10.0, 100.0]), [30.0, 500.0]);
    }

    #[test]
    fn the_transpose_is_adjoint() {
        let (x, y, w) = ([1.0, -2.0, 3.0, 0.5], [2.0, 7.0, -1.0], [3.0, -4.0]);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert_eq!(dot(&LINE.convolve(&x, &w), &y), dot(&x, &LINE.transpose(&y, &w)));
    }
}
