//! Input that must not weaken a policy: paths in other spellings, numbers above a ceiling that does not name them.

use ringfence_policy::{Ceiling, Draft, UrlPath};

use super::ProbeJudgement;

/// Spellings of a path that some servers read as another one.
const PATH_SPELLINGS: [&str; 8] = [
    "/public/%c0%ae%c0%ae/secret",
    "/public/%e0%80%ae/secret",
    "/public%c0%afsecret",
    "/public/%ef%bc%8e%ef%bc%8e/secret",
    "/public/%e2%80%a5/secret",
    "/public%ef%bc%8fsecret",
    "/public/.%e2%80%8b./secret",
    "/public/%ff",
];

/// Numbers that a ceiling limits even if it does not name them.
const UNNAMED_NUMBERS: [(&str, &str); 6] = [
    ("tools.call_timeout", "10h"),
    ("proc.output", "1GiB"),
    ("proc.open_files", "65536"),
    ("net.limits.bytes", "1TiB"),
    ("data.return.bytes", "1GiB"),
    ("approvals.timeout", "30d"),
];

pub(crate) fn judge_paths() -> ProbeJudgement {
    let read = PATH_SPELLINGS.into_iter().find(|path| path.parse::<UrlPath>().is_ok());
    let plain = "/public/caf%C3%A9"
        .parse::<UrlPath>()
        .is_err()
        .then_some("a plain path is refused");
    let wrong = read
        .map(|path| format!("`{path}` is a path"))
        .or(plain.map(str::to_owned));
    ProbeJudgement::broken_if(wrong, format!("{} spellings are refused", PATH_SPELLINGS.len()))
}

pub(crate) fn judge_numbers() -> ProbeJudgement {
    let ceiling = Ceiling::from_draft(Draft::empty());
    let above = UNNAMED_NUMBERS.into_iter().find(|(key, value)| {
        let draft = Draft::empty().set(key, value);
        draft.is_ok_and(|draft| draft.under(&ceiling).is_ok())
    });
    let wrong = above.map(|(key, value)| format!("`{key}: {value}` went above the ceiling"));
    ProbeJudgement::broken_if(wrong, format!("{} numbers are held", UNNAMED_NUMBERS.len()))
}
