//! Bounds that no policy and no request may exceed, whatever the ceiling: values under which no program can start, and amounts
//! that the host cannot carry.

use std::fmt;

use serde::Serialize;

use crate::draft::Draft;

/// The fewest open files of a process. The engines of code mode need fewer than this before a program's first line runs.
pub const MIN_OPEN_FILES: u32 = 16;
/// The most bytes of `env`. Each variable counts its name, `=`, its value and a terminating byte.
pub const MAX_ENV_BYTES: usize = 32 << 10;
/// The most variables of `env`.
pub const MAX_ENV_VARIABLES: usize = 512;
/// The longest name of a variable, in bytes.
const MAX_ENV_NAME: usize = 255;
/// The most input files of one request.
pub const MAX_INPUT_FILES: usize = 10_000;
/// The most bytes of the names of all input files: one event records all of them.
const MAX_INPUT_NAME_BYTES: usize = 512 << 10;

/// One key outside the bounds of every policy and request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutOfBounds {
    /// The dotted key that is out of bounds, such as `proc.open_files`, or `files` for input files.
    pub key: String,
    /// The requested value as text that follows the key, such as `is 3`.
    pub asked: String,
    /// The bound, such as `the least is 16`.
    pub bound: String,
    /// How to change the request so that it is within the bound.
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

/// Lists the keys of a complete draft that are out of bounds.
pub(crate) fn check_bounds(full: &Draft) -> Vec<OutOfBounds> {
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
    found.extend(check_environment(full));
    found
}

fn check_environment(full: &Draft) -> Option<OutOfBounds> {
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
    // The event records the escaped form, in which invisible characters take more bytes.
    let bytes: usize = names.map(|name| crate::invisible::escape_invisible(name).len()).sum();
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
