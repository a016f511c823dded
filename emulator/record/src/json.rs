//! The little of JSON that a record needs.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A text in quotation marks.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ..' ' | '\u{7f}' => write!(quoted, "\\u{:04x}", u32::from(character)).expect("a string takes everything"),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// Numbers by name.
pub fn numbers(numbers: &BTreeMap<String, u64>) -> String {
    let entries: Vec<_> = numbers.iter().map(|(name, number)| format!("{}:{number}", quoted(name))).collect();
    format!("{{{}}}", entries.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_text_or_a_line_is_escaped() {
        assert_eq!(quoted("a\"b\\c\nd\u{7f}é"), r#""a\"b\\c\u000ad\u007fé""#);
    }

    #[test]
    fn numbers_stand_beside_their_names() {
        assert_eq!(numbers(&BTreeMap::new()), "{}");
        assert_eq!(numbers(&BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 2)])), r#"{"x":1,"y":2}"#);
    }
}
