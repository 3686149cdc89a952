//! Programs that call tools with given values, one call per line.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ringfence_catalog::{
    Catalog, OfferedTool, ServerHints, ServerListing, StubLanguage, StubNotes, Tool, ToolDefinition, stub_files,
};
use serde_json::Value;

/// One server `s` with a tool per schema, named `t0`, `t1`, …
pub(crate) fn catalog(schemas: &[Value]) -> Catalog {
    let tools = schemas.iter().enumerate().map(|(number, schema)| ToolDefinition {
        name: format!("t{number}"),
        title: None,
        description: "A tool.".to_owned(),
        input: schema.clone(),
        output: Some(schema.clone()),
        hints: ServerHints::default(),
        tags: Vec::new(),
    });
    let tools = tools.collect();
    Catalog::new([ServerListing {
        server: "s".to_owned(),
        description: String::new(),
        tools,
    }])
}

/// Writes the stubs that a checker reads.
pub(crate) fn write_stubs(folder: &Path, tools: &[&Tool], language: StubLanguage) {
    let offers: Vec<OfferedTool<'_>> = tools
        .iter()
        .map(|tool| OfferedTool {
            tool,
            notes: StubNotes::default(),
            observed: None,
        })
        .collect();
    for (path, text) in stub_files(&offers, language) {
        let place = folder.join(path);
        fs::create_dir_all(place.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(place, text).expect("a stub is written");
    }
}

/// The lines before the first call.
pub(crate) const HEAD: usize = 2;

/// Calls of `t<number>` with these arguments, the first on line `HEAD + 1`.
pub(crate) fn typescript(calls: &[(usize, Value)]) -> String {
    let mut out = "import { s } from \"tools\";\nexport default null;\n".to_owned();
    for (tool, arguments) in calls {
        writeln!(out, "s.t{tool}({});", escaped(&arguments.to_string())).expect("text");
    }
    out
}

/// The same in Python.
pub(crate) fn python(calls: &[(usize, Value)]) -> String {
    let mut out = "from tools import s\nasync def main() -> None:\n".to_owned();
    for (tool, arguments) in calls {
        let fields = arguments.as_object().expect("arguments are an object");
        let mut parts = Vec::new();
        let mut odd = Vec::new();
        for (name, value) in fields {
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_ascii_digit());
            let plain = plain
                && !name.is_empty()
                && !name.starts_with("__")
                && !["class", "from", "in", "is", "import", "as"].contains(&name.as_str());
            if plain {
                parts.push(format!("{name}={}", literal(value)));
            } else {
                odd.push(format!("{}: {}", literal(&Value::String(name.clone())), literal(value)));
            }
        }
        if !odd.is_empty() {
            parts.push(format!("**{{{}}}", odd.join(", ")));
        }
        writeln!(out, "    await s.t{tool}({})", parts.join(", ")).expect("text");
    }
    out.push_str("    pass\n");
    out
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => escaped(&value.to_string()),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{}: {}", literal(&Value::String(key.clone())), literal(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// JSON text that stays on its line.
fn escaped(text: &str) -> String {
    text.replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
        .replace('\u{85}', "\\u0085")
}
