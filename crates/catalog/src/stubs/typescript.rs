//! Renders tools as TypeScript declarations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfence_policy::SKILLS;
use serde_json::Value;

use super::{Offer, elisions, field_words, is_skills, result, servers, tags, text, unique};
use crate::schema::{Literal, Object, Rest, Shape, Tuple, Types};
use crate::tool::Tool;

/// Names that the declarations use, which no generated type may take.
const TAKEN: [&str; 4] = ["Array", "Promise", "Record", "ToolError"];
/// Names that can be imported besides the servers; they hide a server of the same name.
const HELPERS: [&str; 5] = ["ToolError", "describe", "list", "search", "tools"];
/// The most characters of a type on one line.
const LINE: usize = 96;
/// The most characters of a signature.
const SIGNATURE: usize = 480;
/// The deepest level of objects in a signature.
const BRIEF: usize = 2;

/// Declares all servers except skills, and the module that exports them.
pub(super) fn declarations(offers: &[Offer<'_>]) -> String {
    let mut servers = servers(offers);
    servers.retain(|server| !is_skills(server));
    if servers.is_empty() {
        return "declare const tools: {};\ndeclare module \"tools\" {\n  export default tools;\n}\n".to_owned();
    }
    let mut out = String::new();
    for server in &servers {
        let server: Vec<Offer<'_>> = server.iter().map(|offer| (*offer).clone()).collect();
        out.push_str(&namespace(&server));
        out.push('\n');
    }
    out.push_str("declare module \"tools\" {\n");
    let idents = servers
        .iter()
        .filter_map(|server| server.first())
        .map(|offer| offer.tool.server_ident.as_str());
    for ident in idents.filter(|ident| !HELPERS.contains(ident)) {
        let _infallible = writeln!(out, "  export import {ident} = tools.{ident};");
    }
    out.push_str("  const all: typeof tools;\n  export { all as tools };\n  export default tools;\n}\n");
    out
}

/// Declares all skills, and the module that exports them.
pub(super) fn skills(offers: &[Offer<'_>]) -> String {
    let skills: Vec<Offer<'_>> = offers
        .iter()
        .filter(|offer| offer.tool.name.is_skill())
        .cloned()
        .collect();
    if skills.is_empty() {
        return "declare const skills: {};\ndeclare module \"skills\" {\n  export default skills;\n}\n".to_owned();
    }
    let mut out = namespace(&skills);
    out.push_str("\ndeclare module \"skills\" {\n");
    for offer in skills.iter().filter(|offer| offer.tool.ident != SKILLS) {
        let ident = &offer.tool.ident;
        let _infallible = writeln!(out, "  export import {ident} = skills.{ident};");
    }
    out.push_str("  const all: typeof skills;\n  export { all as skills };\n  export default skills;\n}\n");
    out
}

/// Declares the tools of one server.
pub(super) fn namespace(offers: &[Offer<'_>]) -> String {
    let Some(first) = offers.first() else {
        return String::new();
    };
    let mut taken: BTreeSet<String> = TAKEN.iter().map(|name| (*name).to_owned()).collect();
    let mut out = format!("declare namespace {} {{\n", first.tool.path());
    for offer in offers {
        out.push_str(&text::indented(&function(offer, &mut taken), "  "));
    }
    out.push_str("}\n");
    out
}

fn function(offer: &Offer<'_>, taken: &mut BTreeSet<String>) -> String {
    let prefix = text::pascal(&offer.tool.ident);
    let types = Types::of(&offer.tool.definition.input);
    let input = Writer::new(&types, &prefix, taken);
    let mut out = input.definitions();
    let arguments = input.arguments();
    let output = result(offer);
    let returned = output.as_ref().map_or_else(
        || "unknown".to_owned(),
        |types| {
            let mut writer = Writer::new(types, &format!("{prefix}Result"), taken);
            // A program only reads results, so it need not know which numbers are integers.
            writer.skip = &["integer"];
            out.push_str(&writer.definitions());
            writer.shape(&types.root)
        },
    );
    out.push_str(&comment(offer, &types, output.as_ref()));
    let ident = &offer.tool.ident;
    let _infallible = writeln!(out, "function {ident}({arguments}): Promise<{returned}>;");
    out
}

fn comment(offer: &Offer<'_>, input: &Types, output: Option<&Types>) -> String {
    let mut lines = text::quoted(&offer.tool.definition.description);
    if !lines.is_empty() {
        lines.insert(0, "Server's words:".to_owned());
    }
    lines.extend(elisions(input));
    lines.extend(output.and_then(elisions).map(|words| format!("Result: {words}")));
    lines.extend(tags(offer));
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "/**\n".to_owned();
    for line in lines {
        let _infallible = writeln!(out, " * {}", contained(&line));
    }
    out.push_str(" */\n");
    out
}

/// Escapes the end of a comment.
fn contained(line: &str) -> String {
    line.replace("*/", "*\\/")
}

/// Renders a tool on one line.
pub(super) fn signature(tool: &Tool, output: Option<&Value>) -> String {
    let types = Types::of(&tool.definition.input);
    let mut writer = Writer::brief(&types);
    let mut arguments = writer.arguments();
    if arguments.chars().count() > SIGNATURE {
        writer.depth = 0;
        arguments = writer.arguments();
    }
    if let Some((end, _)) = arguments.char_indices().nth(SIGNATURE) {
        arguments.truncate(end);
        arguments.push('…');
    }
    let returned = output.map_or_else(
        || "unknown".to_owned(),
        |output| {
            let types = Types::of(output);
            brief(&types, &types.root)
        },
    );
    format!("{}.{}({arguments}): Promise<{returned}>", tool.path(), tool.ident)
}

/// A short form of a type.
pub(super) fn brief(types: &Types, shape: &Shape) -> String {
    let mut writer = Writer::brief(types);
    let text = writer.shape(shape);
    if text.chars().count() <= SIGNATURE / 2 {
        return text;
    }
    writer.depth = 0;
    let text = writer.shape(shape);
    match text.char_indices().nth(SIGNATURE / 2) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Writes the types of one schema.
struct Writer<'a> {
    types: &'a Types,
    /// The TypeScript names of [`Types::named`]; empty if names are not declared.
    names: Vec<String>,
    /// The deepest level of objects that is written, and whether everything is on one line without comments.
    depth: usize,
    brief: bool,
    /// Tags that are left out, because they cost more than they say.
    skip: &'static [&'static str],
}

impl<'a> Writer<'a> {
    fn new(types: &'a Types, prefix: &str, taken: &mut BTreeSet<String>) -> Writer<'a> {
        let name = |name: &str| format!("{prefix}{}", text::pascal(name));
        let names = types
            .named
            .iter()
            .map(|named| unique(name(&named.name), taken))
            .collect();
        Writer {
            types,
            names,
            depth: usize::MAX,
            brief: false,
            skip: &[],
        }
    }

    fn brief(types: &'a Types) -> Writer<'a> {
        let names = types.named.iter().map(|named| text::pascal(&named.name)).collect();
        Writer {
            types,
            names,
            depth: BRIEF,
            brief: true,
            skip: &[],
        }
    }

    /// The type declarations of all named shapes.
    fn definitions(&self) -> String {
        let mut out = String::new();
        for (name, named) in self.names.iter().zip(&self.types.named) {
            let _infallible = writeln!(out, "type {name} = {};", self.shape(&named.shape));
        }
        out
    }

    /// The single parameter, optional if no field is required.
    fn arguments(&self) -> String {
        let objects = self.types.arguments();
        if let [object] = objects.as_slice()
            && object.fields.is_empty()
            && object.rest == Rest::Closed
        {
            return if self.brief {
                String::new()
            } else {
                "args?: { [key: string]: never }".to_owned()
            };
        }
        let optional = objects
            .iter()
            .any(|object| object.fields.iter().all(|field| !field.required));
        let mark = if optional && !self.brief { "?" } else { "" };
        let kept = matches!(self.types.root, Shape::Named(_)) && !self.brief && objects.len() == 1;
        let texts: Vec<String> = if kept {
            vec![self.shape(&self.types.root)]
        } else {
            objects.iter().map(|object| self.object(object, self.depth)).collect()
        };
        let name = if self.brief { "" } else { "args" };
        let colon = if self.brief { "" } else { ": " };
        format!("{name}{mark}{colon}{}", joined(texts))
    }

    fn shape(&self, shape: &Shape) -> String {
        self.at(shape, self.depth)
    }

    fn at(&self, shape: &Shape, depth: usize) -> String {
        match shape {
            Shape::Unknown => "unknown".to_owned(),
            Shape::Never => "never".to_owned(),
            Shape::Null => "null".to_owned(),
            Shape::Boolean => "boolean".to_owned(),
            Shape::Integer | Shape::Number => "number".to_owned(),
            Shape::String => "string".to_owned(),
            Shape::Literal(literal) => script(literal),
            Shape::List(item) => listed(&self.at(item, depth)),
            Shape::Tuple(tuple) => self.tuple(tuple, depth),
            Shape::Object(object) => self.object(object, depth),
            Shape::Union(shapes) => joined(shapes.iter().map(|shape| self.at(shape, depth)).collect()),
            Shape::Named(place) => match self.names.get(*place) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => "unknown".to_owned(),
            },
        }
    }

    fn tuple(&self, tuple: &Tuple, depth: usize) -> String {
        let place = |(place, item): (usize, &Shape)| {
            let text = self.at(item, depth);
            if place < tuple.needed {
                text
            } else {
                format!("{}?", grouped(&text))
            }
        };
        let mut places: Vec<String> = tuple.items.iter().enumerate().map(place).collect();
        if let Some(rest) = &tuple.rest {
            places.push(format!("...{}", listed(&self.at(rest, depth))));
        }
        format!("[{}]", places.join(", "))
    }

    fn object(&self, object: &Object, depth: usize) -> String {
        if depth == 0 && !object.fields.is_empty() {
            return "{…}".to_owned();
        }
        let depth = depth.saturating_sub(usize::from(self.brief));
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut texts = Vec::new();
        for field in &object.fields {
            let text = self.at(&field.shape, depth);
            let mark = if field.required { "" } else { "?" };
            let words = if self.brief {
                String::new()
            } else {
                contained(&field_words(&field.words, self.skip))
            };
            entries.push((words, format!("{}{mark}: {text}", key(&field.name))));
            texts.push(text);
        }
        match (&object.rest, object.fields.is_empty()) {
            (Rest::Open(shape), _) => {
                let mut shape = vec![self.at(shape, depth)];
                if object.fields.iter().any(|field| !field.required) {
                    texts.push("undefined".to_owned());
                }
                // The index signature must include the types of the known keys.
                shape.extend(texts);
                entries.push((String::new(), format!("[key: string]: {}", joined(shape))));
            }
            (Rest::Unsaid, true) => entries.push((String::new(), "[key: string]: unknown".to_owned())),
            (Rest::Closed, true) => entries.push((String::new(), "[key: string]: never".to_owned())),
            (Rest::Unsaid | Rest::Closed, false) => {}
        }
        laid_out(&entries, self.brief)
    }
}

/// Writes the entries on one line if they are short and have no comments.
fn laid_out(entries: &[(String, String)], brief: bool) -> String {
    let flat = entries
        .iter()
        .map(|(_, entry)| entry.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let silent = entries.iter().all(|(words, _)| words.is_empty());
    if brief || (silent && flat.len() <= LINE && !flat.contains('\n')) {
        return format!("{{ {flat} }}");
    }
    let mut out = "{\n".to_owned();
    for (words, entry) in entries {
        if !words.is_empty() {
            let _infallible = writeln!(out, "  /** {words} */");
        }
        let _infallible = writeln!(out, "  {};", entry.replace('\n', "\n  "));
    }
    out.push('}');
    out
}

/// The union of these types.
fn joined(mut texts: Vec<String>) -> String {
    if texts.iter().any(|text| text == "unknown") {
        return "unknown".to_owned();
    }
    let mut seen = BTreeSet::new();
    texts.retain(|text| text != "never" && seen.insert(text.clone()));
    if texts.is_empty() {
        return "never".to_owned();
    }
    texts.join(" | ")
}

fn listed(item: &str) -> String {
    format!("{}[]", grouped(item))
}

/// Puts a union in parentheses, so that it can be an element type.
fn grouped(text: &str) -> String {
    // The bar may be inside braces; superfluous parentheses do no harm.
    if text.contains(" | ") {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

fn script(literal: &Literal) -> String {
    match literal {
        Literal::Boolean(value) => value.to_string(),
        Literal::Number(value) => value.to_string(),
        Literal::String(value) => text::script_literal(value),
    }
}

pub(super) fn key(name: &str) -> String {
    if text::plain_name(name) {
        name.to_owned()
    } else {
        text::script_literal(name)
    }
}
