//! Reformats JSON text without parsing its values, so that the order of keys and the digits of numbers stay unchanged.

/// Formats valid JSON on one line without whitespace between values.
pub(crate) fn compact(json: &str) -> String {
    lay(json, None)
}

/// Formats valid JSON with an indentation of two spaces per level.
pub(crate) fn pretty(json: &str) -> String {
    lay(json, Some("  "))
}

fn lay(json: &str, indent: Option<&str>) -> String {
    let mut out = String::with_capacity(json.len());
    let mut depth = 0_usize;
    let mut characters = json.chars().filter(Blanks::default().outside()).peekable();
    let mut inside = Inside::default();
    while let Some(character) = characters.next() {
        if inside.next(character) {
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
struct Inside {
    string: bool,
    escaped: bool,
}

impl Inside {
    fn next(&mut self, character: char) -> bool {
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
struct Blanks(Inside);

impl Blanks {
    fn outside(mut self) -> impl FnMut(&char) -> bool {
        move |character| self.0.next(*character) || !character.is_ascii_whitespace()
    }
}

#[cfg(test)]
mod tests;
