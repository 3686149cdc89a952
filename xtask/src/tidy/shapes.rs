//! How much one type may hold and do: fields of a struct, methods of a type. Tests do not count.

use std::collections::BTreeMap;

use super::RuleFinding;
use super::code::blank_non_code;
use super::tree::{ProjectFile, ProjectTree};

const RULE: &str = "shapes";

const MAX_FIELDS: usize = 15;
const MAX_METHODS: usize = 30;

/// Structs that have more fields, with their number. It may only fall; a struct that fits leaves the list.
const LARGE_STRUCTS: [(&str, &str, usize); 9] = [
    ("engine", "ExecutionReport", 21),
    ("gateway", "Pass", 19),
    ("sandbox", "HostPipe", 19),
    ("engine", "ApprovalView", 18),
    ("engine", "ExecutionAnswer", 18),
    ("engine", "ExecutionContext", 17),
    ("journal", "ExecutionSummary", 17),
    ("probe", "AttemptTargets", 17),
    ("engine", "TrackedRun", 16),
];

/// Types that have more methods, with their number, by the same rule.
const LARGE_TYPES: [(&str, &str, usize); 7] = [
    ("store", "Store", 105),
    ("policy", "Policy", 56),
    ("gateway", "Pass", 46),
    ("hygiene", "Aliases", 44),
    ("gateway", "Egress", 41),
    ("worker", "ChildPipe", 35),
    ("sandbox", "HostPipe", 31),
];

/// A type by the crate and the name under which it is declared.
type TypeKey = (String, String);

/// What the code of all crates says of its types.
#[derive(Default)]
struct TypeShapes {
    fields: BTreeMap<TypeKey, (usize, String)>,
    methods: BTreeMap<TypeKey, (usize, String)>,
}

/// The block of a struct or of an inherent implementation that the lines are in.
struct OpenBlock {
    indent: String,
    key: TypeKey,
    place: String,
    is_struct: bool,
    count: usize,
}

pub(super) fn check(tree: &ProjectTree) -> Vec<RuleFinding> {
    let mut shapes = TypeShapes::default();
    for file in tree.rust().filter(|file| !file.is_test()) {
        shapes.read(file);
    }
    let mut findings = too_large("fields", &shapes.fields, MAX_FIELDS, &LARGE_STRUCTS);
    findings.extend(too_large("methods", &shapes.methods, MAX_METHODS, &LARGE_TYPES));
    findings
}

impl TypeShapes {
    fn read(&mut self, file: &ProjectFile) {
        let Some(member) = file.member() else {
            return;
        };
        let mut open: Option<OpenBlock> = None;
        for (number, line) in blank_non_code(&file.text).lines().enumerate() {
            let Some(block) = &mut open else {
                open = opened(line).map(|(name, is_struct)| OpenBlock {
                    indent: indent(line).to_owned(),
                    key: (member.to_owned(), name.to_owned()),
                    place: format!("{}:{}", file.path, number + 1),
                    is_struct,
                    count: 0,
                });
                continue;
            };
            if line.trim_end() == format!("{}}}", block.indent) {
                if let Some(block) = open.take() {
                    self.add(block);
                }
            } else if indent(line).len() == block.indent.len() + 4 && block.counts(line) {
                block.count += 1;
            }
        }
    }

    fn add(&mut self, block: OpenBlock) {
        let all = if block.is_struct {
            &mut self.fields
        } else {
            &mut self.methods
        };
        all.entry(block.key).or_insert((0, block.place)).0 += block.count;
    }
}

impl OpenBlock {
    fn counts(&self, line: &str) -> bool {
        let line = without_visibility(line.trim());
        if self.is_struct {
            let name = line.split(':').next().unwrap_or_default();
            line.contains(':') && !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric())
        } else {
            let keywords = ["const", "async", "unsafe"];
            line.split_whitespace().find(|word| !keywords.contains(word)) == Some("fn")
        }
    }
}

/// The type that a line opens: a struct with named fields, or the implementation of a type's own methods.
fn opened(line: &str) -> Option<(&str, bool)> {
    let code = without_visibility(line.trim());
    if let Some(rest) = code.strip_prefix("struct ") {
        return line.trim_end().ends_with('{').then(|| (type_name(rest), true));
    }
    let rest = code.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') {
        rest.split_once("> ")?.1
    } else {
        rest.strip_prefix(' ')?
    };
    let is_own = !rest.contains(" for ") && !rest.trim_end().ends_with('}');
    is_own.then(|| (type_name(rest), false))
}

fn type_name(rest: &str) -> &str {
    let path = rest
        .split(|c: char| c != '_' && c != ':' && !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    path.rsplit(':').next().unwrap_or_default()
}

fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(line, |(_, rest)| rest),
        Some(rest) => rest.strip_prefix(' ').unwrap_or(line),
        None => line,
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

fn too_large(
    what: &str,
    shapes: &BTreeMap<TypeKey, (usize, String)>,
    most: usize,
    listed: &[(&str, &str, usize)],
) -> Vec<RuleFinding> {
    let finding = |((member, name), (count, place)): (&TypeKey, &(usize, String))| {
        let known = listed
            .iter()
            .find(|(in_member, of, _)| in_member == member && of == name);
        let most = known.map_or(most, |(.., number)| *number);
        let message = match known {
            _ if *count > most => {
                format!("`{name}` has {count} {what}; at most {most}, give a part of them to a type that owns the idea")
            }
            Some(_) if *count < most => {
                format!("`{name}` has {count} {what}; `xtask/src/tidy/shapes.rs` still says {most}")
            }
            Some(_) | None => return None,
        };
        Some(RuleFinding::fault(RULE, place.clone(), message))
    };
    shapes.iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests;
