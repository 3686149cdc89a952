//! Rust text without comments, strings and characters: these become blanks, and lines stay where they are.

/// The text with every comment and literal blanked out; line by line as long as the original.
pub(super) fn blank_non_code(text: &str) -> String {
    let mut scanner = CodeScanner {
        rest: text,
        out: String::with_capacity(text.len()),
        last: ' ',
    };
    while !scanner.rest.is_empty() {
        scanner.step();
    }
    scanner.out
}

struct CodeScanner<'a> {
    rest: &'a str,
    out: String,
    /// The character before, to tell `r"…"` from a name that ends in `r`.
    last: char,
}

impl CodeScanner<'_> {
    fn step(&mut self) {
        let rest = self.rest;
        if rest.starts_with("//") {
            self.blank(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.blank(block_comment(rest));
        } else if let Some(length) = raw_string(rest).filter(|_| !self.in_name()) {
            self.blank(length);
        } else if rest.starts_with('"') {
            self.blank(quoted(rest, '"').unwrap_or(rest.len()));
        } else if let Some(length) = character(rest) {
            self.blank(length);
        } else {
            self.keep();
        }
    }

    fn in_name(&self) -> bool {
        self.last == '_' || self.last.is_alphanumeric()
    }

    fn keep(&mut self) {
        let mut characters = self.rest.chars();
        if let Some(next) = characters.next() {
            self.out.push(next);
            self.last = next;
        }
        self.rest = characters.as_str();
    }

    fn blank(&mut self, length: usize) {
        let (gone, rest) = self.rest.split_at(length);
        self.out
            .extend(gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        self.rest = rest;
        self.last = ' ';
    }
}

/// The length of a block comment; these nest.
fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// The length of `r"…"`, `r#"…"#`, `br"…"`, `cr#"…"#` and so on.
fn raw_string(text: &str) -> Option<usize> {
    let opened = text.strip_prefix(['b', 'c']).unwrap_or(text).strip_prefix('r')?;
    let hashes = opened.len() - opened.trim_start_matches('#').len();
    let inside = opened.get(hashes..)?.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inside.len();
    Some(inside.find(&end).map_or(text.len(), |found| start + found + end.len()))
}

/// The length up to the closing quote, with each escape counted as one character.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of a character literal; none for a lifetime, whose first character has no quote after it.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        return quoted(text, '\'');
    }
    inside
        .get(first.len_utf8()..)?
        .starts_with('\'')
        .then(|| 2 + first.len_utf8())
}

#[cfg(test)]
mod tests;
