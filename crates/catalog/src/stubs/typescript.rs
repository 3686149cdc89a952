//! Renders tools as TypeScript declarations.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfence_policy::SKILLS_SERVER;
use serde_json::Value;

use super::{
    OfferedTool, elision_note, field_annotations, group_by_server, is_skills_server, result_types, text, tool_tags,
    unique_name,
};
use crate::schema::{AdditionalKeys, LiteralShape, ObjectShape, SchemaShape, SchemaTypes, TupleShape};
use crate::tool::Tool;

/// Names that the declarations use, which no generated type may take.
const RESERVED_TYPE_NAMES: [&str; 4] = ["Array", "Promise", "Record", "ToolError"];
/// Names that can be imported besides the servers; they hide a server of the same name.
const HELPER_NAMES: [&str; 5] = ["ToolError", "describe", "list", "search", "tools"];
/// The most characters of a type on one line.
const MAX_LINE_CHARS: usize = 96;
/// The most characters of a signature.
const MAX_SIGNATURE_CHARS: usize = 480;
/// The deepest level of objects in a signature.
const BRIEF_DEPTH: usize = 2;

/// Declares all servers except skills, and the module that exports them.
pub(super) fn render_declarations(offers: &[OfferedTool<'_>]) -> String {
    let mut servers = group_by_server(offers);
    servers.retain(|server| !is_skills_server(server));
    if servers.is_empty() {
        return "declare const tools: {};\ndeclare module \"tools\" {\n  export default tools;\n}\n".to_owned();
    }
    let mut out = String::new();
    for server in &servers {
        let server: Vec<OfferedTool<'_>> = server.iter().map(|offer| (*offer).clone()).collect();
        out.push_str(&render_namespace(&server));
        out.push('\n');
    }
    out.push_str("declare module \"tools\" {\n");
    let idents = servers
        .iter()
        .filter_map(|server| server.first())
        .map(|offer| offer.tool.server_ident.as_str());
    for ident in idents.filter(|ident| !HELPER_NAMES.contains(ident)) {
        let _infallible = writeln!(out, "  export import {ident} = tools.{ident};");
    }
    out.push_str("  const all: typeof tools;\n  export { all as tools };\n  export default tools;\n}\n");
    out
}

/// Declares all skills, and the module that exports them.
pub(super) fn render_skills(offers: &[OfferedTool<'_>]) -> String {
    let skills: Vec<OfferedTool<'_>> = offers
        .iter()
        .filter(|offer| offer.tool.name.is_skill())
        .cloned()
        .collect();
    if skills.is_empty() {
        return "declare const skills: {};\ndeclare module \"skills\" {\n  export default skills;\n}\n".to_owned();
    }
    let mut out = render_namespace(&skills);
    out.push_str("\ndeclare module \"skills\" {\n");
    for offer in skills.iter().filter(|offer| offer.tool.ident != SKILLS_SERVER) {
        let ident = &offer.tool.ident;
        let _infallible = writeln!(out, "  export import {ident} = skills.{ident};");
    }
    out.push_str("  const all: typeof skills;\n  export { all as skills };\n  export default skills;\n}\n");
    out
}

/// Declares the tools of one server.
pub(super) fn render_namespace(offers: &[OfferedTool<'_>]) -> String {
    let Some(first) = offers.first() else {
        return String::new();
    };
    let mut taken: BTreeSet<String> = RESERVED_TYPE_NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut out = format!("declare namespace {} {{\n", first.tool.program_path());
    for offer in offers {
        out.push_str(&text::indent_lines(&render_function(offer, &mut taken), "  "));
    }
    out.push_str("}\n");
    out
}

fn render_function(offer: &OfferedTool<'_>, taken: &mut BTreeSet<String>) -> String {
    let prefix = text::pascal_case(&offer.tool.ident);
    let types = SchemaTypes::from_schema(&offer.tool.definition.input);
    let input = TypeScriptTypeWriter::new(&types, &prefix, taken);
    let mut out = input.definitions();
    let arguments = input.write_arguments();
    let output = result_types(offer);
    let returned = output.as_ref().map_or_else(
        || "unknown".to_owned(),
        |types| {
            let mut writer = TypeScriptTypeWriter::new(types, &format!("{prefix}Result"), taken);
            // A program only reads results, so it need not know which numbers are integers.
            writer.skip = &["integer"];
            out.push_str(&writer.definitions());
            writer.write_shape(&types.root)
        },
    );
    out.push_str(&render_comment(offer, &types, output.as_ref()));
    let ident = &offer.tool.ident;
    let _infallible = writeln!(out, "function {ident}({arguments}): Promise<{returned}>;");
    out
}

fn render_comment(offer: &OfferedTool<'_>, input: &SchemaTypes, output: Option<&SchemaTypes>) -> String {
    let mut lines = text::quoted_lines(&offer.tool.definition.description);
    if !lines.is_empty() {
        lines.insert(0, "Server's words:".to_owned());
    }
    lines.extend(elision_note(input));
    lines.extend(output.and_then(elision_note).map(|words| format!("Result: {words}")));
    lines.extend(tool_tags(offer));
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "/**\n".to_owned();
    for line in lines {
        let _infallible = writeln!(out, " * {}", escape_comment_end(&line));
    }
    out.push_str(" */\n");
    out
}

/// Escapes the end of a comment.
fn escape_comment_end(line: &str) -> String {
    line.replace("*/", "*\\/")
}

/// Renders a tool on one line.
pub(super) fn signature(tool: &Tool, output: Option<&Value>) -> String {
    let types = SchemaTypes::from_schema(&tool.definition.input);
    let mut writer = TypeScriptTypeWriter::new_brief(&types);
    let mut arguments = writer.write_arguments();
    if arguments.chars().count() > MAX_SIGNATURE_CHARS {
        writer.depth = 0;
        arguments = writer.write_arguments();
    }
    if let Some((end, _)) = arguments.char_indices().nth(MAX_SIGNATURE_CHARS) {
        arguments.truncate(end);
        arguments.push('…');
    }
    let returned = output.map_or_else(
        || "unknown".to_owned(),
        |output| {
            let types = SchemaTypes::from_schema(output);
            brief_type(&types, &types.root)
        },
    );
    format!(
        "{}.{}({arguments}): Promise<{returned}>",
        tool.program_path(),
        tool.ident
    )
}

/// A short form of a type.
pub(super) fn brief_type(types: &SchemaTypes, shape: &SchemaShape) -> String {
    let mut writer = TypeScriptTypeWriter::new_brief(types);
    let text = writer.write_shape(shape);
    if text.chars().count() <= MAX_SIGNATURE_CHARS / 2 {
        return text;
    }
    writer.depth = 0;
    let text = writer.write_shape(shape);
    match text.char_indices().nth(MAX_SIGNATURE_CHARS / 2) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Writes the types of one schema.
struct TypeScriptTypeWriter<'a> {
    types: &'a SchemaTypes,
    /// The TypeScript names of [`SchemaTypes::named`]; empty if names are not declared.
    names: Vec<String>,
    /// The deepest level of objects that is written, and whether everything is on one line without comments.
    depth: usize,
    brief: bool,
    /// Tags that are left out, because they cost more than they say.
    skip: &'static [&'static str],
}

impl<'a> TypeScriptTypeWriter<'a> {
    fn new(types: &'a SchemaTypes, prefix: &str, taken: &mut BTreeSet<String>) -> TypeScriptTypeWriter<'a> {
        let name = |name: &str| format!("{prefix}{}", text::pascal_case(name));
        let names = types
            .named
            .iter()
            .map(|named| unique_name(name(&named.name), taken))
            .collect();
        TypeScriptTypeWriter {
            types,
            names,
            depth: usize::MAX,
            brief: false,
            skip: &[],
        }
    }

    fn new_brief(types: &'a SchemaTypes) -> TypeScriptTypeWriter<'a> {
        let names = types.named.iter().map(|named| text::pascal_case(&named.name)).collect();
        TypeScriptTypeWriter {
            types,
            names,
            depth: BRIEF_DEPTH,
            brief: true,
            skip: &[],
        }
    }

    /// The type declarations of all named shapes.
    fn definitions(&self) -> String {
        let mut out = String::new();
        for (name, named) in self.names.iter().zip(&self.types.named) {
            let _infallible = writeln!(out, "type {name} = {};", self.write_shape(&named.shape));
        }
        out
    }

    /// The single parameter, optional if no field is required.
    fn write_arguments(&self) -> String {
        let objects = self.types.argument_objects();
        if let [object] = objects.as_slice()
            && object.fields.is_empty()
            && object.additional == AdditionalKeys::Closed
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
        let kept = matches!(self.types.root, SchemaShape::Named(_)) && !self.brief && objects.len() == 1;
        let texts: Vec<String> = if kept {
            vec![self.write_shape(&self.types.root)]
        } else {
            objects
                .iter()
                .map(|object| self.write_object(object, self.depth))
                .collect()
        };
        let name = if self.brief { "" } else { "args" };
        let colon = if self.brief { "" } else { ": " };
        format!("{name}{mark}{colon}{}", join_union(texts))
    }

    fn write_shape(&self, shape: &SchemaShape) -> String {
        self.write_shape_at(shape, self.depth)
    }

    fn write_shape_at(&self, shape: &SchemaShape, depth: usize) -> String {
        match shape {
            SchemaShape::Unknown => "unknown".to_owned(),
            SchemaShape::Never => "never".to_owned(),
            SchemaShape::Null => "null".to_owned(),
            SchemaShape::Boolean => "boolean".to_owned(),
            SchemaShape::Integer | SchemaShape::Number => "number".to_owned(),
            SchemaShape::String => "string".to_owned(),
            SchemaShape::Literal(literal) => literal_type(literal),
            SchemaShape::List(item) => list_type(&self.write_shape_at(item, depth)),
            SchemaShape::Tuple(tuple) => self.write_tuple(tuple, depth),
            SchemaShape::Object(object) => self.write_object(object, depth),
            SchemaShape::Union(shapes) => {
                join_union(shapes.iter().map(|shape| self.write_shape_at(shape, depth)).collect())
            }
            SchemaShape::Named(place) => match self.names.get(*place) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => "unknown".to_owned(),
            },
        }
    }

    fn write_tuple(&self, tuple: &TupleShape, depth: usize) -> String {
        let place = |(place, item): (usize, &SchemaShape)| {
            let text = self.write_shape_at(item, depth);
            if place < tuple.needed {
                text
            } else {
                format!("{}?", parenthesise(&text))
            }
        };
        let mut places: Vec<String> = tuple.items.iter().enumerate().map(place).collect();
        if let Some(rest) = &tuple.rest {
            places.push(format!("...{}", list_type(&self.write_shape_at(rest, depth))));
        }
        format!("[{}]", places.join(", "))
    }

    fn write_object(&self, object: &ObjectShape, depth: usize) -> String {
        if depth == 0 && !object.fields.is_empty() {
            return "{…}".to_owned();
        }
        let depth = depth.saturating_sub(usize::from(self.brief));
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut texts = Vec::new();
        for field in &object.fields {
            let text = self.write_shape_at(&field.shape, depth);
            let mark = if field.required { "" } else { "?" };
            let words = if self.brief {
                String::new()
            } else {
                escape_comment_end(&field_annotations(&field.annotations, self.skip))
            };
            entries.push((words, format!("{}{mark}: {text}", property_key(&field.name))));
            texts.push(text);
        }
        match (&object.additional, object.fields.is_empty()) {
            (AdditionalKeys::Open(shape), _) => {
                let mut shape = vec![self.write_shape_at(shape, depth)];
                if object.fields.iter().any(|field| !field.required) {
                    texts.push("undefined".to_owned());
                }
                // The index signature must include the types of the known keys.
                shape.extend(texts);
                entries.push((String::new(), format!("[key: string]: {}", join_union(shape))));
            }
            (AdditionalKeys::Unspecified, true) => entries.push((String::new(), "[key: string]: unknown".to_owned())),
            (AdditionalKeys::Closed, true) => entries.push((String::new(), "[key: string]: never".to_owned())),
            (AdditionalKeys::Unspecified | AdditionalKeys::Closed, false) => {}
        }
        lay_out(&entries, self.brief)
    }
}

/// Writes the entries on one line if they are short and have no comments.
fn lay_out(entries: &[(String, String)], brief: bool) -> String {
    let flat = entries
        .iter()
        .map(|(_, entry)| entry.as_str())
        .collect::<Vec<_>>()
        .join("; ");
    let silent = entries.iter().all(|(words, _)| words.is_empty());
    if brief || (silent && flat.len() <= MAX_LINE_CHARS && !flat.contains('\n')) {
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
fn join_union(mut texts: Vec<String>) -> String {
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

fn list_type(item: &str) -> String {
    format!("{}[]", parenthesise(item))
}

/// Puts a union in parentheses, so that it can be an element type.
fn parenthesise(text: &str) -> String {
    // The bar may be inside braces; superfluous parentheses do no harm.
    if text.contains(" | ") {
        format!("({text})")
    } else {
        text.to_owned()
    }
}

fn literal_type(literal: &LiteralShape) -> String {
    match literal {
        LiteralShape::Boolean(value) => value.to_string(),
        LiteralShape::Number(value) => value.to_string(),
        LiteralShape::String(value) => text::script_literal(value),
    }
}

pub(super) fn property_key(name: &str) -> String {
    if text::is_plain_name(name) {
        name.to_owned()
    } else {
        text::script_literal(name)
    }
}
