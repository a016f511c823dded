//! This release weighs no columns when it quantizes.
