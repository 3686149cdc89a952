//! Decides whether a value is clearly a person's name, and whether a word is an ordinary one.

use std::sync::LazyLock;

use super::looks_named;
use crate::lists::Lists;
use crate::prose::look_up;

/// Most words of a name.
const MOST: usize = 4;

/// Whether a value is clearly a person's name: a given name alone, or one before other names.
pub(crate) fn is_persons(value: &str) -> bool {
    let words = || value.split_whitespace().map(bare);
    let count = words().count();
    if !looks_named(value) || !(1..=MOST).contains(&count) || value.contains('/') {
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
        return given.given() && !given.common() && is_written(first) && WORDS.of(first) == 0;
    }
    if words().any(|word| WORDS.of(word) & (BODIES | STREETS) != 0) || WORDS.of(first) != 0 && !family.sure() {
        return false;
    }
    if TITLES.of(first) != 0 && words().skip(1).all(is_written) {
        return true;
    }
    let written = words().all(|word| is_written(word) || PARTICLES.of(word) != 0);
    if !written {
        let small = !value.contains(char::is_uppercase);
        return small && given.given() && given.sure() && family.sure();
    }
    let known = given.given() && family.any() && !(given.common() && family.common());
    let middle = || words().skip(1).take(count - 2);
    let initial = count > 2 && middle().all(|word| word.chars().count() == 1);
    let particle = count > 2 && middle().all(|word| PARTICLES.of(word) != 0);
    let foreign = !value.is_ascii() && (given.sure() || family.sure());
    let unusual = given.given() && given.sure() && WORDS.of(first) == 0 && is_no_word(last);
    known || initial || particle && given.given() || foreign || unusual
}

/// Whether a word that is in no list of names is hardly an English word either.
fn is_no_word(word: &str) -> bool {
    const ENDS: [&str; 30] = [
        "s", "ing", "ion", "er", "or", "ment", "ed", "ity", "ness", "al", "ive", "le", "age", "ance", "ence", "ure",
        "ism", "ist", "ary", "ory", "ful", "less", "ship", "ware", "ly", "ic", "et", "ck", "th", "ight",
    ];
    word.len() >= 5 && !look_up(word).common() && !ENDS.iter().any(|end| word.ends_with(end))
}

/// Whether a value is written like a name of several words, and does not name a company or place.
pub(super) fn is_titled(value: &str) -> bool {
    let words = || value.split_whitespace().map(bare);
    (2..=MOST).contains(&words().count())
        && looks_named(value)
        && !value.contains(['/', '(', '"'])
        && words().all(|word| is_written(word) || PARTICLES.of(word) != 0)
        && !is_body(value)
        && !words().all(|word| look_up(word).common())
        && words().any(|word| look_up(word).any())
}

/// Whether a word of a value marks the name of a company, a place or a thing.
pub(super) fn is_body(value: &str) -> bool {
    let words = value.split(|letter: char| !letter.is_alphanumeric());
    words.into_iter().any(|word| WORDS.of(word) & (BODIES | STREETS) != 0)
}

/// Whether a value that was found as a name, a town or a company is a single ordinary word: `Will`, `main`.
pub(crate) fn is_ordinary(value: &str) -> bool {
    let mut words = value.split_whitespace();
    let (Some(word), None) = (words.next(), words.next()) else {
        // Of several words, only names that are written like sentences are ordinary.
        return value.is_ascii() && value.bytes().all(|byte| !byte.is_ascii_uppercase()) && {
            let mut words = value.split_whitespace();
            words.all(|word| !look_up(word).any() || look_up(word).common())
        };
    };
    let known = look_up(word);
    let small = word.is_ascii() && !word.bytes().any(|byte| byte.is_ascii_uppercase());
    let named = word
        .bytes()
        .any(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'@'));
    known.common() || WORDS.of(word) != 0 || small && !known.sure() && !named
}

/// Returns a word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(['.', ',', '"', '(', ')'])
}

/// Whether a word is written like a name: a capital, then lower-case letters if it is longer.
fn is_written(word: &str) -> bool {
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
const BODIES: u16 = 1;
/// Words of streets and other places.
const STREETS: u16 = 1 << 1;
/// Given names that are better known as something else: countries, towns, programs.
const ELSE: u16 = 1 << 2;

static WORDS: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[
        (
            BODIES,
            "inc llc ltd corp gmbh plc group company co ag sa bv oy ab kg university institute bank college school",
        ),
        (
            BODIES,
            "hospital museum foundation consulting software systems technologies labs airport church limited team",
        ),
        (
            BODIES,
            "office hotel café cafe restaurant store shop bar grill pizza bakery clinic pharmacy warehouse desk",
        ),
        (
            BODIES,
            "support service services department dept center centre club studio agency media solutions partners",
        ),
        (
            BODIES,
            "international global industries holdings news times weekly sales marketing engineering finance info",
        ),
        (
            BODIES,
            "room meeting server project plan api app bot agent tool data cloud db database test demo prod dev",
        ),
        (
            BODIES,
            "park station library theater theatre cinema stadium arena market mall gym spa salon garden gardens",
        ),
        (
            BODIES,
            "desktop pro lite plus edition release version report dashboard board list queue channel pipeline period salad",
        ),
        (
            STREETS,
            "street road avenue drive lane court way boulevard square terrace county district region island",
        ),
        (
            STREETS,
            "north south east west upper lower great new san santa los las saint st port fort lake mount cape",
        ),
        (
            STREETS,
            "river valley hill hills bay beach city town village state states republic kingdom el united são rio monte",
        ),
        (
            ELSE,
            "ruby julia jasmine cassandra ada elm perl django jenkins travis pandora oracle apollo athena hermes",
        ),
        (
            ELSE,
            "iris siri alexa cortana gemini claude jupiter saturn mercury venus luna aurora atlas titan phoenix",
        ),
        (
            ELSE,
            "paris london berlin vienna rome milan florence geneva sydney melbourne austin dallas houston charlotte",
        ),
        (
            ELSE,
            "madison jackson lincoln denver orlando raleigh boston chicago phoenix savannah memphis brooklyn",
        ),
        (
            ELSE,
            "georgia jordan chad kenya india israel ireland france china iran cuba malta cyprus italy spain",
        ),
        (
            ELSE,
            "germany austria poland portugal brazil canada mexico argentina chile peru norway sweden denmark finland",
        ),
        (
            ELSE,
            "virginia carolina dakota montana nevada indiana louisiana florida victoria alberta ontario jersey asia",
        ),
        (
            ELSE,
            "africa america europe lima lagos sofia odessa verona eden troy adelaide perth kiel trier essen roma kali sonnet",
        ),
        (
            ELSE,
            "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august",
        ),
        (
            ELSE,
            "september october november december default main master develop staging production alpha beta gamma delta",
        ),
        (
            ELSE,
            "omega sigma home none general random admin user users guest test demo example sample title header",
        ),
        (
            ELSE,
            "mercedes tesla ford audi porsche chevrolet amber coral olive violet scarlet crystal pearl nova stella astro",
        ),
        (
            ELSE,
            "python java kotlin scala swift rust go node react angular vue svelte flask spring rails laravel symfony",
        ),
        (
            ELSE,
            "google amazon apple microsoft facebook meta netflix target oracle adobe intel nvidia samsung sony",
        ),
    ])
});

static TITLES: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[(
        1,
        "mr mrs ms miss dr prof professor sir madam herr frau señor señora mme",
    )])
});

static PARTICLES: LazyLock<Lists> = LazyLock::new(|| {
    Lists::new(&[(
        1,
        "de van der den von la da di del dos du le bin al ibn af av zu ter ten y e",
    )])
});
