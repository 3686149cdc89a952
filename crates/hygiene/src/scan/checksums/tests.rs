//! Tests of checksums.

use super::{luhn, mod11_10, mod97_text, verhoeff};

#[test]
fn a_wrong_digit_is_noticed() {
    assert!(luhn(&[7, 9, 9, 2, 7, 3, 9, 8, 7, 1, 3]) && !luhn(&[7, 9, 9, 2, 7, 3, 9, 8, 7, 1, 4]));
    assert!(verhoeff(&[2, 3, 6, 3]) && !verhoeff(&[2, 3, 6, 4]) && !verhoeff(&[3, 2, 6, 3]));
    assert!(mod11_10(&[3, 3, 3, 9, 2, 0, 0, 5, 9, 6, 1]) && !mod11_10(&[3, 3, 3, 9, 2, 0, 0, 5, 9, 6, 2]));
    assert!(
        mod97_text("gb82 west 1234 5698 7654 32") && !mod97_text("gb82 west 1234 5698 7654 33") && !mod97_text("x")
    );
}
