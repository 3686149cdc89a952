use super::*;

fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap()
}

#[test]
fn text_holds_its_limit_in_bytes() {
    assert_eq!(BoundedText::<4>::new("abcd").unwrap(), "abcd");
    assert_eq!(BoundedText::<4>::new("é€").map(BoundedText::into_string), {
        Err(BoundExceeded { limit: 4, length: 5 })
    });
    assert_eq!(BoundedText::<0>::new("").unwrap(), "");
}

#[test]
fn text_is_cut_between_characters_and_says_so() {
    #[track_caller]
    fn check<const N: usize>(text: &str, cut: &str) {
        assert_eq!(BoundedText::<N>::truncated(text), cut);
        assert!(cut.len() <= N);
    }
    check::<5>("hello", "hello");
    check::<5>("hello!", "he…");
    check::<5>("é€é", "é…");
    check::<4>("€uro", "…");
    check::<3>("four", "…");
    check::<2>("four", "fo");
    check::<1>("é", "");
    check::<0>("four", "");
}

#[test]
fn text_that_is_too_long_or_not_text_does_not_decode() {
    let decode = |bytes: &[u8]| postcard::from_bytes::<BoundedText<3>>(bytes);
    assert_eq!(decode(&bytes_of(&"abc")).unwrap(), "abc");
    assert_eq!(decode(&bytes_of(&"abcd")), Err(postcard::Error::SerdeDeCustom));
    assert_eq!(decode(&[2, 0xff, 0xff]), Err(postcard::Error::DeserializeBadUtf8));
    assert_eq!(decode(&[3, b'a']), Err(postcard::Error::DeserializeUnexpectedEnd));
}

#[test]
fn a_list_holds_its_limit() {
    assert_eq!(BoundedList::<u8, 2>::new(vec![1, 2]).unwrap().as_slice(), [1, 2]);
    assert_eq!(
        BoundedList::<u8, 2>::new(vec![1, 2, 3]),
        Err(BoundExceeded { limit: 2, length: 3 })
    );
    assert_eq!(BoundedList::<u8, 2>::truncated(vec![1, 2, 3]).into_vec(), [1, 2]);
}

#[test]
fn a_list_is_refused_by_its_claim_before_its_items() {
    let decode = |bytes: &[u8]| postcard::from_bytes::<BoundedList<bool, 3>>(bytes);
    assert_eq!(decode(&[3, 1, 0, 1]).unwrap().len(), 3);
    // No item here is a boolean, so decoding any of them would be this error.
    assert_eq!(decode(&[3, 9, 9, 9]), Err(postcard::Error::DeserializeBadBool));
    assert_eq!(decode(&[4, 9, 9, 9, 9]), Err(postcard::Error::SerdeDeCustom));
}

#[test]
fn a_list_that_claims_more_than_came_is_refused() {
    let decode = |bytes: &[u8]| postcard::from_bytes::<BoundedList<bool, 3>>(bytes);
    let cut = Err(postcard::Error::DeserializeUnexpectedEnd);
    assert_eq!(decode(&[3, 1]), cut);
    assert_eq!(decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]), cut);
    assert_eq!(decode(&[9, 1, 1, 1, 1]), Err(postcard::Error::SerdeDeCustom));
}

#[test]
fn a_decoded_list_takes_no_more_than_it_claimed() {
    let bytes = bytes_of(&vec![7_u8; 100]);
    let list = postcard::from_bytes::<BoundedList<u8, 4096>>(&bytes).unwrap();
    assert_eq!(list.0.capacity(), 100);
}
