//! Checksums over digits.

use super::number::Digits;

/// The Luhn checksum of cards and many other numbers.
pub(crate) fn luhn(digits: &[u8]) -> bool {
    let double = |(index, digit): (usize, &u8)| match (index % 2, u32::from(*digit)) {
        (0, digit) => digit,
        (_, digit) if digit > 4 => digit * 2 - 9,
        (_, digit) => digit * 2,
    };
    digits.iter().rev().enumerate().map(double).sum::<u32>() % 10 == 0
}

/// The Luhn checksum over the digits of a text.
pub(crate) fn luhn_text(text: &str) -> bool {
    Digits::from_text(text.as_bytes()).is_some_and(|digits| digits.get().len() > 1 && luhn(digits.get()))
}

/// Whether letters and digits, with the first four moved to the end, have the remainder 1 modulo 97. Capitals only.
pub(crate) fn mod97(letters: &[u8]) -> bool {
    let (Some(head), Some(tail)) = (letters.get(..4), letters.get(4..)) else {
        return false;
    };
    let rest = tail.iter().chain(head).fold(0_u32, |rest, letter| match letter {
        b'0'..=b'9' => (rest * 10 + u32::from(letter - b'0')) % 97,
        letter => (rest * 100 + u32::from(letter.wrapping_sub(b'A')) + 10) % 97,
    });
    rest == 1
}

/// The same checksum over a text as it is written.
pub(crate) fn mod97_text(text: &str) -> bool {
    let letters = text
        .bytes()
        .filter(u8::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_uppercase());
    mod97(&letters.collect::<Vec<_>>())
}

/// Returns the sum of the digits times their weights.
pub(super) fn weighted_sum(digits: &[u8], weights: &[u8]) -> u32 {
    let pairs = digits.iter().zip(weights);
    pairs
        .map(|(digit, weight)| u32::from(*digit) * u32::from(*weight))
        .sum()
}

/// Returns the number that the digits write.
pub(super) fn digits_value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(*digit))
}

/// ISO 7064, modulus 11 and 10: German and Croatian numbers.
pub(super) fn mod11_10(digits: &[u8]) -> bool {
    let Some((check, body)) = digits.split_last() else {
        return false;
    };
    let product = body.iter().fold(10_u32, |product, digit| {
        let sum = (product + u32::from(*digit)) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(*check)
}

/// Verhoeff's checksum, of Indian numbers.
pub(super) fn verhoeff(digits: &[u8]) -> bool {
    let check = digits.iter().rev().enumerate().fold(0_u8, |check, (index, digit)| {
        let moved = (0..index % 8).fold(*digit, |digit, _| VERHOEFF_PERMUTATION[usize::from(digit)]);
        dihedral_product(check, moved)
    });
    check == 0
}

const VERHOEFF_PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];

/// Returns the product of two elements of the dihedral group of the pentagon.
fn dihedral_product(left: u8, right: u8) -> u8 {
    match (left < 5, right < 5) {
        (true, true) => (left + right) % 5,
        (true, false) => (left + right - 5) % 5 + 5,
        (false, true) => (left - 5 + 5 - right) % 5 + 5,
        (false, false) => (left + 5 - right) % 5,
    }
}

/// Whether the month and the day are valid.
pub(super) fn is_day(month: u64, day: u64) -> bool {
    let last = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return false,
    };
    (1..=last).contains(&day)
}

#[cfg(test)]
mod tests;
