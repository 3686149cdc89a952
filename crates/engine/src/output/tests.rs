//! Aliases in output that arrives in pieces.

use ringfence_hygiene::{Aliases, Detector, DetectorConfig, NameDetection, SecretDetection, SensitiveKinds};

use super::*;

#[test]
fn no_alias_is_cut() {
    let alias = "‹email:k7q2bx›";
    for cut in 0..=alias.len() {
        let text = [b"to ".as_slice(), &alias.as_bytes()[..cut]].concat();
        let expected = if cut == 0 || cut == alias.len() { text.len() } else { 3 };
        assert_eq!(safe_prefix(&text), expected, "{cut}");
    }
    let long = "‹ and much more than an alias could ever have".as_bytes();
    assert_eq!(safe_prefix(long), long.len());
    assert_eq!(safe_prefix(b""), 0);
}

#[test]
fn values_stand_in_place_of_aliases_wherever_the_output_is_cut() {
    let settings = DetectorConfig {
        kinds: SensitiveKinds::all(),
        names: NameDetection::Keys,
        secrets: SecretDetection::Redact,
        own: Vec::new(),
    };
    let mut aliases = Aliases::new().unwrap();
    let said = "è, ann@example.com, Привет, ann@example.com; ";
    let hidden = aliases.hide(&Detector::new(&settings), said).shown;
    assert!(!hidden.contains("ann@"), "{hidden}");
    let kept = aliases.to_bytes();
    for other in [&b""[..], b"\xe9"] {
        let (printed, expected) = ([hidden.as_bytes(), other].concat(), [said.as_bytes(), other].concat());
        for cut in 0..=printed.len() {
            let mut own = AliasRevealer {
                screen: Arc::new(Redactor::restore([kept.as_slice()]).unwrap()),
                stdout: Vec::new(),
                stderr: Vec::new(),
            };
            let (first, rest) = printed.split_at(cut);
            let mut shown = own.reveal_ready(ProgramStream::Stdout, first, false);
            shown.extend(own.reveal_ready(ProgramStream::Stdout, rest, true));
            assert_eq!(shown, expected, "{cut}");
        }
    }
}
