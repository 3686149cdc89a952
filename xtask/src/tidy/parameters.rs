//! No parameter of a function is a tuple: a tuple is two parameters that count as one. Closures and tests may have them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::ProjectTree;

const RULE: &str = "parameters";

/// Crates that have tuples, with their number. It may only fall; a crate without any leaves the list.
const TUPLE_PARAMETERS: [(&str, usize); 7] = [
    ("engine", 20),
    ("gateway", 7),
    ("hygiene", 1),
    ("jail", 2),
    ("sandbox", 4),
    ("testkit", 2),
    ("worker", 1),
];

/// A parameter that is a tuple.
struct TupleParameter {
    place: String,
    function: String,
}

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut found: BTreeMap<&str, Vec<TupleParameter>> = BTreeMap::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        let Some(member) = file.member() else { continue };
        let parameters = tuple_parameters(&file.text)
            .into_iter()
            .map(|(line, function)| TupleParameter {
                place: format!("{}:{line}", file.path),
                function,
            });
        found.entry(member).or_default().extend(parameters);
    }
    let finding = |(member, tuples): (&str, Vec<TupleParameter>)| {
        let known = TUPLE_PARAMETERS.iter().find(|(name, _)| *name == member);
        let most = known.map_or(0, |(_, number)| *number);
        let count = tuples.len();
        let functions: Vec<String> = tuples.iter().map(|tuple| format!("`{}`", tuple.function)).collect();
        let message = match count.cmp(&most) {
            Ordering::Greater => format!(
                "{count} parameters are tuples, at most {most} in `{member}`: make each a struct, or two parameters ({})",
                functions.join(", ")
            ),
            Ordering::Less => {
                format!("{count} parameters are tuples in `{member}`; `xtask/src/tidy/parameters.rs` still says {most}")
            }
            Ordering::Equal => return None,
        };
        let place = tuples
            .into_iter()
            .next()
            .map_or_else(|| format!("crates/{member}"), |first| first.place);
        Some(RuleFinding::fault(RULE, place, message))
    };
    found.into_iter().filter_map(finding).collect()
}

/// The parameters of functions that are tuples: the line and the name of the function.
fn tuple_parameters(text: &str) -> Vec<(usize, String)> {
    let code = blank_non_code(text);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_keyword = !code[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric());
        let rest = &code[at + 3..];
        let name: String = rest.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect();
        if name.is_empty() || !is_keyword {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let tuples = parameters(&rest[name.len()..])
            .into_iter()
            .filter(|parameter| is_tuple(parameter));
        found.extend(tuples.map(|_| (line, name.clone())));
    }
    found
}

/// The parameters in what follows the name of a function.
fn parameters(signature: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut angles, mut from) = (0_usize, 0_usize, None);
    let mut before = ' ';
    for (at, c) in signature.char_indices() {
        let is_outer = depth == 1 && angles == 0;
        match c {
            '(' | '[' | '{' => {
                if depth == 0 && angles == 0 {
                    from = Some(at + 1);
                }
                depth += 1;
            }
            ')' | ']' | '}' => {
                depth = depth.saturating_sub(1);
                if let Some(start) = from.filter(|_| depth == 0 && angles == 0) {
                    found.push(&signature[start..at]);
                    break;
                }
            }
            '<' => angles += 1,
            '>' if before != '-' && before != '=' => angles = angles.saturating_sub(1),
            ',' if is_outer => {
                if let Some(start) = from.replace(at + 1) {
                    found.push(&signature[start..at]);
                }
            }
            _ => {}
        }
        before = c;
    }
    found
}

/// Whether a parameter is a tuple, taken apart or not.
fn is_tuple(parameter: &str) -> bool {
    let parameter = parameter.trim();
    if parameter.starts_with('(') {
        return true;
    }
    let Some((_, kind)) = parameter.split_once(':') else {
        return false;
    };
    let kind = kind
        .trim()
        .trim_start_matches('&')
        .trim_start_matches("mut ")
        .trim_start();
    // A type in parentheses, such as `(dyn Error + 'static)`, has no comma.
    kind.starts_with('(') && kind.contains(',')
}

#[cfg(test)]
mod tests;
