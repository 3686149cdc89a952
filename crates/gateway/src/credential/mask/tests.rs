use super::*;

fn mask(words: &[&str]) -> StreamMask {
    StreamMask::new(words.iter().map(|word| word.as_bytes().to_vec()))
}

fn run(mut mask: StreamMask, pieces: &[&str]) -> (String, bool) {
    let mut all = Vec::new();
    for piece in pieces {
        all.extend(mask.push(piece.as_bytes()));
    }
    all.extend(mask.finish());
    (String::from_utf8(all).unwrap(), mask.has_matched())
}

#[test]
fn words_are_covered_wherever_pieces_are_cut() {
    let text = "a secret-1 b secret-1secret-1 sec";
    let expected = "a ******** b **************** sec";
    for size in 1..text.len() {
        let bytes: Vec<&str> = text
            .as_bytes()
            .chunks(size)
            .map(|piece| std::str::from_utf8(piece).unwrap())
            .collect();
        assert_eq!(run(mask(&["secret-1"]), &bytes), (expected.to_owned(), true), "{size}");
    }
}

#[test]
fn a_word_within_a_word_leaves_nothing() {
    assert_eq!(run(mask(&["abc", "xabcx"]), &["xab", "cx abc"]).0, "***** ***");
}

#[test]
fn a_longer_word_is_waited_for_and_a_shorter_one_is_not_forgotten() {
    assert_eq!(run(mask(&["abc", "xabcx"]), &["xabc", "x"]).0, "*****");
    assert_eq!(run(mask(&["abc", "xabcx"]), &["xabc", "y"]).0, "x***y");
    assert_eq!(run(mask(&["abc", "xabcx"]), &["xabc"]).0, "x***");
    assert_eq!(
        run(mask(&["key", "key-of-more"]), &["a key", "-of", "-more b"]).0,
        "a *********** b"
    );
}

#[test]
fn words_that_come_later_are_covered_too() {
    let source = SharedMaskPatterns::new(RwLock::new(sorted_patterns([])));
    let mut mask = StreamMask::from_shared(Arc::clone(&source));
    assert_eq!(mask.push(b"secret "), b"secret ");
    *source.write().unwrap() = sorted_patterns([b"secret".to_vec()]);
    assert_eq!(mask.push(b"secret "), b"****** ");
}

#[test]
fn what_is_no_beginning_of_a_word_is_not_held_up() {
    let mut mask = mask(&["token"]);
    assert_eq!(mask.push(b"data: 1\n\n"), b"data: 1\n\n");
    assert_eq!(mask.push(b"data: to"), b"data: ");
    assert_eq!(mask.push(b"day\n\n"), b"today\n\n");
    assert!(!mask.has_matched());
}

#[test]
fn nothing_to_look_for_changes_nothing() {
    assert_eq!(run(mask(&[""]), &["abc", "def"]), ("abcdef".to_owned(), false));
}

#[test]
fn a_word_is_found_in_the_name_of_a_header_in_any_case() {
    let mut mask = StreamMask::new([b"Secret-Token-1".to_vec(), b"type".to_vec()]);
    assert!(!mask.matches_header_name("content-type") && !mask.has_matched());
    assert!(mask.matches_header_name("x-secret-token-1-echo") && mask.has_matched());
}
