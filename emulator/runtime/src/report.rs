//! What the emulator found wrong, in words.

use std::ffi::CString;
use std::fmt::Write;
use std::sync::Mutex;

use crate::error::HipError;

/// A fault of a program: the code that the next waiting call returns, and the full text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// `hipErrorIllegalAddress` or `hipErrorLaunchFailure`.
    pub code: HipError,
    /// One paragraph: what, by which kernel, block and thread, where.
    pub text: String,
}

static LAST: Mutex<Option<CString>> = Mutex::new(None);

impl Report {
    /// Writes the text to standard error and keeps it for [`last_report`].
    pub fn publish(&self) {
        eprintln!("candle-rocm emulator: {}", self.text);
        self.remember();
    }

    /// Keeps the text for [`last_report`].
    pub fn remember(&self) {
        *LAST.lock().expect("no panic while held") = CString::new(self.text.replace('\0', " ")).ok();
    }
}

/// The text of the last report.
pub fn last_report() -> Option<CString> {
    LAST.lock().expect("no panic while held").clone()
}

/// Forgets the last report.
pub fn forget_reports() {
    *LAST.lock().expect("no panic while held") = None;
}

/// Numbers with runs as ranges: "0-31, 40".
pub fn ranges(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut text = String::new();
    let mut numbers = numbers.into_iter().peekable();
    while let Some(first) = numbers.next() {
        let mut last = first;
        while numbers.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        let separator = if text.is_empty() { "" } else { ", " };
        let _ =
            if first == last { write!(text, "{separator}{first}") } else { write!(text, "{separator}{first}-{last}") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_become_ranges() {
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([3]), "3");
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
    }
}
