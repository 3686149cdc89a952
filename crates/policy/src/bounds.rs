//! What no policy and no request may ask for, whatever a ceiling says: values under which no program could start, and amounts
//! that the host does not carry.

use std::fmt;

use serde::Serialize;

use crate::draft::Draft;

/// The fewest open files of a process: the engines of code mode hold fewer than this before a program's first line.
pub const MIN_OPEN_FILES: u32 = 16;
/// The most bytes of `env`: each variable as its name, `=`, its value and an end.
pub const MAX_ENV_BYTES: usize = 32 << 10;
/// The most variables of `env`.
pub const MAX_ENV_VARIABLES: usize = 512;
/// The longest name of a variable, in bytes.
const MAX_ENV_NAME: usize = 255;
/// The most files that come with one request.
pub const MAX_INPUT_FILES: usize = 10_000;
/// The most bytes of the names of those files: all of them are written into one event.
const MAX_INPUT_NAME_BYTES: usize = 512 << 10;

/// One key outside of what any policy or request may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutOfBounds {
    /// The key.
    pub key: String,
    /// What is asked, in words that follow the key, such as `is 3`.
    pub asked: String,
    /// The bound, such as `the least is 16`.
    pub bound: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}, {}", self.key, self.asked, self.bound)
    }
}

fn out_of_bounds(key: &str, asked: String, bound: String, hint: &str) -> OutOfBounds {
    OutOfBounds {
        key: key.to_owned(),
        asked,
        bound,
        hint: hint.to_owned(),
    }
}

/// Every key of a complete draft that is out of bounds.
pub(crate) fn check(full: &Draft) -> Vec<OutOfBounds> {
    let mut found = Vec::new();
    let open_files = full.proc.as_ref().and_then(|proc| proc.open_files);
    if let Some(few) = open_files.filter(|count| count.get() < MIN_OPEN_FILES) {
        found.push(out_of_bounds(
            "proc.open_files",
            format!("is {few}"),
            format!("the least is {MIN_OPEN_FILES}"),
            "no program could start: raise `proc.open_files`, or leave it out",
        ));
    }
    found.extend(environment(full));
    found
}

fn environment(full: &Draft) -> Option<OutOfBounds> {
    const HINT: &str = "bring large values in as a file, and leave out what the program does not read";
    let env = full.env.as_ref()?;
    if let Some((name, _)) = env.iter().find(|(name, _)| name.len() > MAX_ENV_NAME) {
        let (asked, bound) = (
            format!("has a name of {} bytes", name.len()),
            format!("the most is {MAX_ENV_NAME}"),
        );
        return Some(out_of_bounds("env", asked, bound, "use a shorter name"));
    }
    if env.len() > MAX_ENV_VARIABLES {
        let (asked, bound) = (
            format!("has {} variables", env.len()),
            format!("the most is {MAX_ENV_VARIABLES}"),
        );
        return Some(out_of_bounds("env", asked, bound, HINT));
    }
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    (bytes > MAX_ENV_BYTES).then(|| {
        let (asked, bound) = (format!("has {bytes} bytes"), format!("the most is {MAX_ENV_BYTES}"));
        out_of_bounds("env", asked, bound, HINT)
    })
}

/// Refuses more input files, or longer names of them, than one request may bring.
pub fn check_input_files<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Result<(), OutOfBounds> {
    let count = names.len();
    if count > MAX_INPUT_FILES {
        return Err(out_of_bounds(
            "files",
            format!("has {count} entries"),
            format!("the most is {MAX_INPUT_FILES}"),
            "pack them into one archive, and unpack it in the program",
        ));
    }
    // As they are written down: what cannot be seen is escaped, and takes more.
    let bytes: usize = names.map(|name| crate::unseen::visible(name).len()).sum();
    if bytes > MAX_INPUT_NAME_BYTES {
        return Err(out_of_bounds(
            "files",
            format!("has {bytes} bytes of names"),
            format!("the most is {MAX_INPUT_NAME_BYTES}"),
            "use shorter names, or pack the files into one archive",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
