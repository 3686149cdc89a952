//! Reformats JSON text without parsing its values, so that the order of keys and the digits of numbers stay unchanged.

/// Formats valid JSON on one line without whitespace between values.
pub(crate) fn compact(json: &str) -> String {
    reformat(json, None)
}

/// Formats valid JSON with an indentation of two spaces per level.
pub(crate) fn pretty(json: &str) -> String {
    reformat(json, Some("  "))
}

fn reformat(json: &str, indent: Option<&str>) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut characters = json.chars().filter(BlankFilter::default().into_predicate()).peekable();
    let mut inside = StringTracker::default();
    while let Some(character) = characters.next() {
        if inside.is_in_string(character) {
            out.push(character);
            continue;
        }
        match character {
            '{' | '[' if matches!(characters.peek(), Some('}' | ']')) => {
                out.push(character);
                out.extend(characters.next());
            }
            '{' | '[' => {
                out.push(character);
                depth += 1;
                new_line(&mut out, indent, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, indent, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, indent, depth);
            }
            ':' if indent.is_some() => out.push_str(": "),
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut String, indent: Option<&str>, depth: usize) {
    if let Some(indent) = indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

/// Tracks whether a character is part of a string, including the quotes.
#[derive(Debug, Default, Clone, Copy)]
struct StringTracker {
    string: bool,
    escaped: bool,
}

impl StringTracker {
    fn is_in_string(&mut self, character: char) -> bool {
        let was = self.string;
        match character {
            _ if self.escaped => self.escaped = false,
            '\\' if was => self.escaped = true,
            '"' => self.string = !was,
            _ => {}
        }
        was || self.string
    }
}

/// Filters out the whitespace between values.
#[derive(Debug, Default)]
struct BlankFilter(StringTracker);

impl BlankFilter {
    fn into_predicate(mut self) -> impl FnMut(&char) -> bool {
        move |character| self.0.is_in_string(*character) || !character.is_ascii_whitespace()
    }
}

#[cfg(test)]
mod tests;
