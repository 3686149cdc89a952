//! Decides whether a value is clearly a person's name, and whether a word is an ordinary one.

use std::sync::LazyLock;

use super::looks_named;
use crate::prose::look_up;
use crate::word_lists::WordLists;

/// Most words of a name.
const MAX_NAME_WORDS: usize = 4;

/// Whether a value is clearly a person's name: a given name alone, or one before other names.
pub(crate) fn is_person_name(value: &str) -> bool {
    let words = || value.split_whitespace().map(strip_punctuation);
    let count = words().count();
    if !looks_named(value) || !(1..=MAX_NAME_WORDS).contains(&count) || value.contains('/') {
        return false;
    }
    let (Some(first), Some(last)) = (words().next(), words().next_back()) else {
        return false;
    };
    if !value.is_ascii() && is_chinese(value) {
        return true;
    }
    let (given, family) = (look_up(first), look_up(last));
    if count == 1 {
        return given.is_given() && !given.is_common_word() && is_capitalised(first) && WORD_LISTS.flags(first) == 0;
    }
    if words().any(|word| WORD_LISTS.flags(word) & (ORGANISATION_WORDS | PLACE_WORDS) != 0)
        || WORD_LISTS.flags(first) != 0 && !family.is_surely_name()
    {
        return false;
    }
    if TITLE_WORDS.flags(first) != 0 && words().skip(1).all(is_capitalised) {
        return true;
    }
    let written = words().all(|word| is_capitalised(word) || PARTICLE_WORDS.flags(word) != 0);
    if !written {
        let small = !value.contains(char::is_uppercase);
        return small && given.is_given() && given.is_surely_name() && family.is_surely_name();
    }
    let known = given.is_given() && family.is_name() && !(given.is_common_word() && family.is_common_word());
    let middle = || words().skip(1).take(count - 2);
    let initial = count > 2 && middle().all(|word| word.chars().count() == 1);
    let particle = count > 2 && middle().all(|word| PARTICLE_WORDS.flags(word) != 0);
    let foreign = !value.is_ascii() && (given.is_surely_name() || family.is_surely_name());
    let unusual = given.is_given() && given.is_surely_name() && WORD_LISTS.flags(first) == 0 && is_not_a_word(last);
    known || initial || particle && given.is_given() || foreign || unusual
}

/// Whether a word that is in no list of names is hardly an English word either.
fn is_not_a_word(word: &str) -> bool {
    const ENDS: [&str; 30] = [
        "s", "ing", "ion", "er", "or", "ment", "ed", "ity", "ness", "al", "ive", "le", "age", "ance", "ence", "ure",
        "ism", "ist", "ary", "ory", "ful", "less", "ship", "ware", "ly", "ic", "et", "ck", "th", "ight",
    ];
    word.len() >= 5 && !look_up(word).is_common_word() && !ENDS.iter().any(|end| word.ends_with(end))
}

/// Whether a value is written like a name of several words, and does not name a company or place.
pub(super) fn is_titled(value: &str) -> bool {
    let words = || value.split_whitespace().map(strip_punctuation);
    (2..=MAX_NAME_WORDS).contains(&words().count())
        && looks_named(value)
        && !value.contains(['/', '(', '"'])
        && words().all(|word| is_capitalised(word) || PARTICLE_WORDS.flags(word) != 0)
        && !is_organisation(value)
        && !words().all(|word| look_up(word).is_common_word())
        && words().any(|word| look_up(word).is_name())
}

/// Whether a word of a value marks the name of a company, a place or a thing.
pub(super) fn is_organisation(value: &str) -> bool {
    let words = value.split(|letter: char| !letter.is_alphanumeric());
    words
        .into_iter()
        .any(|word| WORD_LISTS.flags(word) & (ORGANISATION_WORDS | PLACE_WORDS) != 0)
}

/// Whether a value that was found as a name, a town or a company is a single ordinary word: `Will`, `main`.
pub(crate) fn is_ordinary(value: &str) -> bool {
    let mut words = value.split_whitespace();
    let (Some(word), None) = (words.next(), words.next()) else {
        // Of several words, only names that are written like sentences are ordinary.
        return value.is_ascii() && value.bytes().all(|byte| !byte.is_ascii_uppercase()) && {
            let mut words = value.split_whitespace();
            words.all(|word| !look_up(word).is_name() || look_up(word).is_common_word())
        };
    };
    let known = look_up(word);
    let small = word.is_ascii() && !word.bytes().any(|byte| byte.is_ascii_uppercase());
    let named = word
        .bytes()
        .any(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'@'));
    known.is_common_word() || WORD_LISTS.flags(word) != 0 || small && !known.is_surely_name() && !named
}

/// Returns a word without the punctuation around it.
fn strip_punctuation(word: &str) -> &str {
    word.trim_matches(['.', ',', '"', '(', ')'])
}

/// Whether a word is written like a name: a capital, then lower-case letters if it is longer.
fn is_capitalised(word: &str) -> bool {
    let mut letters = word.chars();
    letters
        .next()
        .is_some_and(|first| first.is_uppercase() || first.is_alphabetic() && !first.is_lowercase())
        && (word.chars().count() <= 2 || letters.any(|letter| !letter.is_uppercase()))
}

/// Whether a value is a Chinese family name that is rarely a word, followed by two characters.
fn is_chinese(value: &str) -> bool {
    const FAMILIES: &str = "王李张張刘劉陈陳杨楊赵趙吴吳周徐孙孫朱胡郭何罗羅郑鄭梁谢謝宋唐许許韩韓冯馮邓鄧曹彭曾肖董潘袁蔡蒋蔣杜魏苏蘇吕呂丁沈姚卢盧姜崔钟鍾谭譚陆陸汪范廖贾賈";
    let han = |letter: char| matches!(letter, '\u{4e00}'..='\u{9fff}');
    value.chars().count() == 3
        && value.chars().all(han)
        && value.chars().next().is_some_and(|first| FAMILIES.contains(first))
}

/// Words of companies, offices and shops.
const ORGANISATION_WORDS: u16 = 1;
/// Words of streets and other places.
const PLACE_WORDS: u16 = 1 << 1;
/// Given names that are better known as something else: countries, towns, programs.
const OTHER_MEANING_WORDS: u16 = 1 << 2;

static WORD_LISTS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[
        (
            ORGANISATION_WORDS,
            "inc llc ltd corp gmbh plc group company co ag sa bv oy ab kg university institute bank college school",
        ),
        (
            ORGANISATION_WORDS,
            "hospital museum foundation consulting software systems technologies labs airport church limited team",
        ),
        (
            ORGANISATION_WORDS,
            "office hotel café cafe restaurant store shop bar grill pizza bakery clinic pharmacy warehouse desk",
        ),
        (
            ORGANISATION_WORDS,
            "support service services department dept center centre club studio agency media solutions partners",
        ),
        (
            ORGANISATION_WORDS,
            "international global industries holdings news times weekly sales marketing engineering finance info",
        ),
        (
            ORGANISATION_WORDS,
            "room meeting server project plan api app bot agent tool data cloud db database test demo prod dev",
        ),
        (
            ORGANISATION_WORDS,
            "park station library theater theatre cinema stadium arena market mall gym spa salon garden gardens",
        ),
        (
            ORGANISATION_WORDS,
            "desktop pro lite plus edition release version report dashboard board list queue channel pipeline period salad",
        ),
        (
            PLACE_WORDS,
            "street road avenue drive lane court way boulevard square terrace county district region island",
        ),
        (
            PLACE_WORDS,
            "north south east west upper lower great new san santa los las saint st port fort lake mount cape",
        ),
        (
            PLACE_WORDS,
            "river valley hill hills bay beach city town village state states republic kingdom el united são rio monte",
        ),
        (
            OTHER_MEANING_WORDS,
            "ruby julia jasmine cassandra ada elm perl django jenkins travis pandora oracle apollo athena hermes",
        ),
        (
            OTHER_MEANING_WORDS,
            "iris siri alexa cortana gemini claude jupiter saturn mercury venus luna aurora atlas titan phoenix",
        ),
        (
            OTHER_MEANING_WORDS,
            "paris london berlin vienna rome milan florence geneva sydney melbourne austin dallas houston charlotte",
        ),
        (
            OTHER_MEANING_WORDS,
            "madison jackson lincoln denver orlando raleigh boston chicago phoenix savannah memphis brooklyn",
        ),
        (
            OTHER_MEANING_WORDS,
            "georgia jordan chad kenya india israel ireland france china iran cuba malta cyprus italy spain",
        ),
        (
            OTHER_MEANING_WORDS,
            "germany austria poland portugal brazil canada mexico argentina chile peru norway sweden denmark finland",
        ),
        (
            OTHER_MEANING_WORDS,
            "virginia carolina dakota montana nevada indiana louisiana florida victoria alberta ontario jersey asia",
        ),
        (
            OTHER_MEANING_WORDS,
            "africa america europe lima lagos sofia odessa verona eden troy adelaide perth kiel trier essen roma kali sonnet",
        ),
        (
            OTHER_MEANING_WORDS,
            "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august",
        ),
        (
            OTHER_MEANING_WORDS,
            "september october november december default main master develop staging production alpha beta gamma delta",
        ),
        (
            OTHER_MEANING_WORDS,
            "omega sigma home none general random admin user users guest test demo example sample title header",
        ),
        (
            OTHER_MEANING_WORDS,
            "mercedes tesla ford audi porsche chevrolet amber coral olive violet scarlet crystal pearl nova stella astro",
        ),
        (
            OTHER_MEANING_WORDS,
            "python java kotlin scala swift rust go node react angular vue svelte flask spring rails laravel symfony",
        ),
        (
            OTHER_MEANING_WORDS,
            "google amazon apple microsoft facebook meta netflix target oracle adobe intel nvidia samsung sony",
        ),
    ])
});

static TITLE_WORDS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[(
        1,
        "mr mrs ms miss dr prof professor sir madam herr frau señor señora mme",
    )])
});

static PARTICLE_WORDS: LazyLock<WordLists> = LazyLock::new(|| {
    WordLists::new(&[(
        1,
        "de van der den von la da di del dos du le bin al ibn af av zu ter ten y e",
    )])
});
