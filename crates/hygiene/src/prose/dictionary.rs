//! Given and family names of many countries, folded to plain lower-case letters; `LICENSE-THIRD-PARTY.md` lists their
//! sources.

/// One name per line, in order, each with a digit for its flags.
const NAME_LIST: &str = include_str!("../../data/names.txt");

/// The flags of a name in the dictionary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NameFlags(u8);

impl NameFlags {
    pub(crate) fn is_given(self) -> bool {
        self.0 & 1 != 0
    }

    pub(crate) fn is_family(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether it is also an everyday word.
    pub(crate) fn is_common_word(self) -> bool {
        self.0 & 4 != 0
    }

    pub(crate) fn is_name(self) -> bool {
        self.0 & 3 != 0
    }

    /// Whether it is hardly anything but a name.
    pub(crate) fn is_surely_name(self) -> bool {
        self.is_name() && !self.is_common_word()
    }
}

/// Most bytes of a name that is looked up.
const MAX_NAME_BYTES: usize = 32;

/// Looks up a word as it is written. For names joined by hyphens, the parts are looked up.
pub(crate) fn look_up(word: &str) -> NameFlags {
    match word.split_once('-') {
        Some((first, rest)) => {
            let (first, rest) = (look_up(first), look_up(rest));
            NameFlags(first.0 & rest.0)
        }
        None => look_up_part(word),
    }
}

fn look_up_part(word: &str) -> NameFlags {
    let mut folded = [0; MAX_NAME_BYTES];
    let Some(folded) = fold_into(word, &mut folded) else {
        return NameFlags(0);
    };
    let (mut low, mut high) = (0, NAME_LIST.len());
    let bytes = NAME_LIST.as_bytes();
    while low < high {
        let middle = low + (high - low) / 2;
        let start = bytes[low..middle]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(low, |index| low + index + 1);
        let length = bytes[start..]
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(bytes.len() - start);
        let line = &bytes[start..start + length];
        let Some((flags, name)) = line.split_last() else {
            return NameFlags(0);
        };
        match name.cmp(folded) {
            std::cmp::Ordering::Equal => return NameFlags(flags - b'0'),
            std::cmp::Ordering::Less => low = start + length + 1,
            std::cmp::Ordering::Greater => high = start,
        }
    }
    NameFlags(if ends_like_family_name(folded) { FAMILY_FLAG } else { 0 })
}

const FAMILY_FLAG: u8 = 2;

/// Whether an unlisted word ends like family names in languages that build them with endings.
fn ends_like_family_name(word: &[u8]) -> bool {
    const ENDS: [&str; 22] = [
        "sson", "sdottir", "dottir", "vich", "vic", "enko", "escu", "poulos", "idis", "akis", "shvili", "adze", "iyan",
        "ovic", "evic", "ova", "eva", "kov", "nov", "rov", "lov", "inen",
    ];
    word.len() >= 6 && ENDS.iter().any(|end| word.ends_with(end.as_bytes()))
}

/// Folds a word to plain lower-case letters, if it has such letters.
pub(crate) fn fold_word(word: &str) -> Option<String> {
    let mut folded = [0; MAX_NAME_BYTES];
    let folded = fold_into(word, &mut folded)?;
    String::from_utf8(folded.to_vec()).ok()
}

/// Folds a word into a buffer.
fn fold_into<'b>(word: &str, into: &'b mut [u8; MAX_NAME_BYTES]) -> Option<&'b [u8]> {
    let mut length = 0;
    for letter in word.chars() {
        for byte in plain_letter(letter)?.bytes() {
            *into.get_mut(length)? = if byte == b' ' {
                u8::try_from(letter.to_ascii_lowercase()).ok()?
            } else {
                byte
            };
            length += 1;
        }
    }
    Some(&into[..length])
}

/// Returns the plain letters for one with diacritics; a space if it is plain already.
fn plain_letter(letter: char) -> Option<&'static str> {
    if letter.is_ascii_alphabetic() || letter == '\'' {
        return Some(" ");
    }
    if letter == '’' {
        return Some("'");
    }
    let small = letter.to_lowercase().next()?;
    let pairs = [
        ("àáâãäåāăą", "a"),
        ("çćĉċč", "c"),
        ("ďđð", "d"),
        ("èéêëēĕėęě", "e"),
        ("ĝğġģ", "g"),
        ("ĥħ", "h"),
        ("ìíîïĩīĭįı", "i"),
        ("ĵ", "j"),
        ("ķ", "k"),
        ("ĺļľŀł", "l"),
        ("ñńņňŋ", "n"),
        ("òóôõöøōŏő", "o"),
        ("ŕŗř", "r"),
        ("śŝşšș", "s"),
        ("ţťŧț", "t"),
        ("ùúûüũūŭůűų", "u"),
        ("ŵ", "w"),
        ("ýÿŷ", "y"),
        ("źżž", "z"),
        ("æ", "ae"),
        ("œ", "oe"),
        ("ß", "ss"),
        ("þ", "th"),
    ];
    pairs
        .iter()
        .find(|(letters, _)| letters.contains(small))
        .map(|(_, plain)| *plain)
}

#[cfg(test)]
mod tests;
