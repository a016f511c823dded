//! Which cards a process sees, as ROCm's runtimes decide it.
//!
//! `ROCR_VISIBLE_DEVICES` comes first. Of what it leaves, `HIP_VISIBLE_DEVICES` chooses, or `CUDA_VISIBLE_DEVICES` where
//! that one is unset or empty; their numbers count what is left
//! (<https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html>). What the pages leave open is as in the sources
//! of ROCR-Runtime and clr: a list ends at the first entry that is no device, an empty list hides all devices from ROCr,
//! and for HIP is none.

use crate::model::Card;

/// The cards that are left, in the order in which they are listed.
pub fn visible(cards: Vec<Card>, variable: impl Fn(&str) -> Option<String>) -> Vec<Card> {
    let cards = match variable("ROCR_VISIBLE_DEVICES") {
        Some(list) => by_rocr(&cards, &list),
        None => cards,
    };
    let non_empty = |name| variable(name).filter(|list| !list.is_empty());
    match non_empty("HIP_VISIBLE_DEVICES").or_else(|| non_empty("CUDA_VISIBLE_DEVICES")) {
        Some(list) => by_hip(&cards, &list),
        None => cards,
    }
}

/// Numbers, or beginnings of identities that only one device has, with spaces around them and in any case. An entry that
/// comes again ends the list.
fn by_rocr(cards: &[Card], list: &str) -> Vec<Card> {
    let mut chosen: Vec<Card> = Vec::new();
    for entry in list.split(',').map(|entry| entry.trim().to_uppercase()) {
        let found = if entry.starts_with('G') {
            let mut fitting = cards.iter().filter(|card| identity(card).to_uppercase().starts_with(&entry));
            fitting.next().filter(|_| fitting.next().is_none() && entry.len() > "GPU-".len())
        } else {
            entry.parse::<usize>().ok().and_then(|number| cards.get(number))
        };
        match found {
            Some(card) if !chosen.contains(card) => chosen.push(*card),
            _ => break,
        }
    }
    chosen
}

/// Numbers as HIP itself writes them, or parts of identities. An entry that comes again is passed over.
fn by_hip(cards: &[Card], list: &str) -> Vec<Card> {
    let mut chosen: Vec<Card> = Vec::new();
    for entry in list.split(',') {
        let found = if entry.contains("GPU-") {
            cards.iter().find(|card| identity(card).contains(entry))
        } else {
            let number = entry.parse::<usize>().ok().filter(|number| number.to_string() == entry);
            number.and_then(|number| cards.get(number))
        };
        match found {
            Some(card) if chosen.contains(card) => {}
            Some(card) => chosen.push(*card),
            None => break,
        }
    }
    chosen
}

fn identity(card: &Card) -> String {
    format!("GPU-{}", card.identity())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    /// The numbers of the cards that are left of three.
    fn left(variables: &[(&str, &str)]) -> Vec<usize> {
        let model = Model::named("gfx1100").expect("it is known");
        let cards = (0..3).map(|number| Card { model, number }).collect();
        let variable = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string());
        visible(cards, variable).iter().map(|card| card.number).collect()
    }

    #[test]
    fn hip_takes_numbers_in_their_order_up_to_the_first_that_is_none() {
        let hip = |list| left(&[("HIP_VISIBLE_DEVICES", list)]);
        assert_eq!(hip("1,0"), [1, 0]);
        assert_eq!(hip("2"), [2]);
        assert_eq!(hip("0,0,2"), [0, 2]);
        for (list, expected) in [("2,3,0", &[2][..]), ("0,-1,1", &[0]), ("1,,0", &[1]), ("1,x", &[1]), ("0,01", &[0])] {
            assert_eq!(hip(list), expected, "{list}");
        }
        for list in ["-1", "3", " 0", "0 ", "00", "+1", ",0", "none"] {
            assert_eq!(hip(list), [0; 0], "{list}");
        }
    }

    #[test]
    fn cuda_s_list_counts_where_hip_s_is_unset_or_empty() {
        assert_eq!(left(&[("CUDA_VISIBLE_DEVICES", "2,1")]), [2, 1]);
        assert_eq!(left(&[("HIP_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "2,1")]), [2, 1]);
        assert_eq!(left(&[("HIP_VISIBLE_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "2,1")]), [0]);
        assert_eq!(left(&[("HIP_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "")]), [0, 1, 2]);
    }

    #[test]
    fn rocr_takes_numbers_up_to_the_first_that_is_none_or_comes_again() {
        let rocr = |list| left(&[("ROCR_VISIBLE_DEVICES", list)]);
        assert_eq!(rocr(" 2 , 0"), [2, 0]);
        assert_eq!(rocr("1,1,0"), [1]);
        assert_eq!(rocr("1,3,0"), [1]);
        for list in ["", ",", "-1", "3", "x"] {
            assert_eq!(rocr(list), [0; 0], "{list}");
        }
    }

    #[test]
    fn hip_s_numbers_count_what_rocr_leaves() {
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", "2,1"), ("HIP_VISIBLE_DEVICES", "1,0")]), [1, 2]);
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", "2"), ("HIP_VISIBLE_DEVICES", "2")]), [0; 0]);
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", ""), ("HIP_VISIBLE_DEVICES", "0")]), [0; 0]);
    }

    #[test]
    fn a_card_goes_by_its_identity_too() {
        assert_eq!(left(&[("HIP_VISIBLE_DEVICES", "GPU-emulated-0000002,0")]), [2, 0]);
        assert_eq!(left(&[("HIP_VISIBLE_DEVICES", "GPU-emulated-0000003,0")]), [0; 0]);
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", "gpu-emulated-0000001")]), [1]);
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", "GPU-emulated")]), [0; 0], "all three begin so");
        assert_eq!(left(&[("ROCR_VISIBLE_DEVICES", "GPU-")]), [0; 0]);
    }
}
