//! Draws lines of a terminal as an SVG that is plain text: no scripts, nothing loaded, readable on light and dark pages.

use std::fmt::Write as _;

use anyhow::{Result, bail};

/// The most characters of a line; longer ones are too small to read where the picture is shown.
const MAX_COLUMNS: usize = 100;
/// Pixels for one character of the font size below, in fonts whose characters are three fifths as wide as high.
const COLUMN_WIDTH: usize = 9;
const LINE_HEIGHT: usize = 21;
const MARGIN: usize = 18;

const HEAD: &str = r#"role="img" aria-labelledby="title">
<title id="title">A session with Ringfence in a terminal</title>
<style>
  text { font: 15px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #1f2328 }
  rect { fill: #f6f8fa; stroke: #d1d9e0 }
  .typed { font-weight: 600; fill: #0550ae }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    rect { fill: #0d1117; stroke: #3d444d }
    .typed { fill: #79c0ff }
  }
</style>
"#;

/// One line of the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenLine {
    /// What a person types, without the prompt.
    Typed(String),
    /// What a program prints.
    Printed(String),
}

/// The picture of the lines.
pub(super) fn draw(lines: &[ScreenLine]) -> Result<String> {
    let mut columns = 0;
    let mut texts = String::new();
    for (number, line) in lines.iter().enumerate() {
        let (class, shown) = match line {
            ScreenLine::Typed(command) => (r#" class="typed""#, format!("$ {command}")),
            ScreenLine::Printed(text) => ("", text.clone()),
        };
        let width = shown.chars().count();
        if width > MAX_COLUMNS {
            bail!("a line of the README's session has {width} characters, at most {MAX_COLUMNS}: {shown}");
        }
        if shown.is_empty() {
            continue;
        }
        columns = columns.max(width);
        let y = MARGIN + (number + 1) * LINE_HEIGHT - LINE_HEIGHT / 3;
        writeln!(texts, r#"<text x="{MARGIN}" y="{y}"{class}>{}</text>"#, escape(&shown)?)?;
    }
    let (width, height) = (
        columns * COLUMN_WIDTH + 2 * MARGIN,
        lines.len() * LINE_HEIGHT + 2 * MARGIN,
    );
    let size = format!(r#"width="{width}" height="{height}""#);
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {width} {height}\" xml:space=\"preserve\" {HEAD}\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n{texts}</svg>\n",
        width - 1,
        height - 1,
    ))
}

/// The text as content of an element. Control characters have no form in XML, and a terminal obeys them.
fn escape(text: &str) -> Result<String> {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            control if control.is_control() => {
                bail!("a line of the README's session has the control character {control:?}: {text:?}")
            }
            plain => escaped.push(plain),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests;
