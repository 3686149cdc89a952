//! Renders tools as Python stubs: a module per server, keyword-only functions, and a class for each object with a fixed form.

mod types;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfence_policy::SKILLS_SERVER;
use serde_json::Value;

use super::{OfferedTool, elision_note, field_annotations, is_skills_server, result_types, text, tool_tags};
use crate::schema::{AdditionalKeys, ObjectField, ObjectShape, SchemaShape, SchemaTypes, union};
use crate::tool::Tool;
use types::{ModuleScope, PythonTypeWriter, TypePosition};

/// The most branches of a union of arguments that become overloads; more branches are merged.
const MAX_OVERLOADS: usize = 8;
/// Names that can be imported besides the servers.
const HELPER_NAMES: [&str; 4] = ["ToolError", "describe", "list_tools", "search"];
/// The most characters of a signature.
const MAX_SIGNATURE_CHARS: usize = 480;
/// The start of every module. No tool can have a name with two leading underscores.
const IMPORTS: &str = "import builtins as __builtins\n\
                       import collections.abc as __abc\n\
                       import typing_extensions as __typing\n\
                       from collections.abc import Mapping, Sequence\n\
                       from typing_extensions import Any, Literal, Never, NotRequired, TypeAlias, TypedDict, Unpack, overload\n";

/// The path of a server's module.
pub(super) fn module_path(tool: &Tool) -> String {
    if tool.name.is_skill() {
        return format!("{SKILLS_SERVER}.pyi");
    }
    format!("tools/{}.pyi", tool.server_ident)
}

/// The package: the helpers and every server's module, by name. A helper hides a server of the same name.
pub(super) fn render_package(servers: &[Vec<&OfferedTool<'_>>]) -> String {
    let idents = servers
        .iter()
        .filter(|server| !is_skills_server(server))
        .filter_map(|server| server.first())
        .map(|offer| offer.tool.server_ident.as_str())
        .filter(|ident| !HELPER_NAMES.contains(ident));
    let helpers: Vec<String> = HELPER_NAMES.iter().map(|name| format!("{name} as {name}")).collect();
    let helpers = format!("from __builtins__ import {}\n", helpers.join(", "));
    idents.fold(helpers, |mut out, ident| {
        let _infallible = writeln!(out, "from . import {ident} as {ident}");
        out
    })
}

/// Renders the module of one server.
pub(super) fn render_module(offers: &[&OfferedTool<'_>]) -> String {
    let idents: Vec<&str> = offers.iter().map(|offer| offer.tool.ident.as_str()).collect();
    let mut scope = ModuleScope::new(&idents);
    let mut out = IMPORTS.to_owned();
    for offer in offers {
        out.push('\n');
        out.push_str(&render_function(offer, &mut scope));
    }
    out
}

/// Renders one tool as in its module.
pub(super) fn render_excerpt(offer: &OfferedTool<'_>) -> String {
    let mut scope = ModuleScope::new(&[&offer.tool.ident]);
    let text = render_function(offer, &mut scope);
    if offer.tool.name.is_skill() {
        return format!("# import {SKILLS_SERVER}\n{text}");
    }
    format!("# from tools import {}\n{text}", offer.tool.server_ident)
}

/// Renders a tool on one line.
pub(super) fn signature(tool: &Tool, output: Option<&Value>) -> String {
    let types = SchemaTypes::from_schema(&tool.definition.input);
    let mut scope = ModuleScope::new(&[]);
    let mut writer = PythonTypeWriter::new_brief(&types, &mut scope);
    let mut parameters = render_parameters(&mut writer, &merge_arguments(types.argument_objects()), "");
    if let Some((end, _)) = parameters.char_indices().nth(MAX_SIGNATURE_CHARS) {
        parameters.truncate(end);
        parameters.push('…');
    }
    let returned = output.map_or_else(
        || "Any".to_owned(),
        |output| {
            let types = SchemaTypes::from_schema(output);
            PythonTypeWriter::new_brief(&types, &mut scope).write_shape(&types.root, "")
        },
    );
    format!("async {}.{}({parameters}) -> {returned}", tool.server_ident, tool.ident)
}

fn render_function(offer: &OfferedTool<'_>, scope: &mut ModuleScope) -> String {
    let prefix = text::pascal_case(&offer.tool.ident);
    let types = SchemaTypes::from_schema(&offer.tool.definition.input);
    let mut objects = types.argument_objects();
    if objects.len() > MAX_OVERLOADS {
        objects = vec![merge_arguments(objects)];
    }
    let mut writer = PythonTypeWriter::new(&types, TypePosition::Argument, &prefix, scope);
    let forms: Vec<String> = objects
        .iter()
        .map(|object| render_parameters(&mut writer, object, &prefix))
        .collect();
    let mut out = writer.definitions();
    let output = result_types(offer);
    let returned = match &output {
        None => scope.imported_name("Any").to_owned(),
        Some(types) => {
            let prefix = format!("{prefix}Result");
            let mut writer = PythonTypeWriter::new(types, TypePosition::Result, &prefix, scope);
            let returned = writer.write_shape(&types.root, &prefix);
            out.push_str(&writer.definitions());
            returned
        }
    };
    let ident = &offer.tool.ident;
    let overloaded = forms.len() > 1;
    for (place, parameters) in forms.iter().enumerate() {
        if overloaded {
            let _infallible = writeln!(out, "@{}", scope.imported_name("overload"));
        }
        let body = if place == 0 {
            docstring(&render_comment(offer, &types, output.as_ref(), &objects))
        } else {
            String::new()
        };
        let colon = if body.is_empty() { ": ..." } else { ":" };
        let _infallible = writeln!(out, "async def {ident}({parameters}) -> {returned}{colon}");
        out.push_str(&text::indent_lines(&body, "    "));
    }
    out
}

/// The keyword parameters of a function; names that are not Python identifiers are passed by `**`.
fn render_parameters(writer: &mut PythonTypeWriter<'_>, object: &ObjectShape, prefix: &str) -> String {
    let (plain, odd): (Vec<&ObjectField>, Vec<&ObjectField>) = object
        .fields
        .iter()
        .partition(|field| types::can_be_keyword(&field.name));
    let mut parts = Vec::new();
    for field in &plain {
        let shape = writer.write_shape(&field.shape, &format!("{prefix}{}", text::pascal_case(&field.name)));
        let default = if field.required { "" } else { " = ..." };
        parts.push(format!("{}: {shape}{default}", field.name));
    }
    if !parts.is_empty() {
        parts.insert(0, "*".to_owned());
    }
    let free = object.fields.is_empty() && object.additional == AdditionalKeys::Unspecified;
    let rest = match &object.additional {
        AdditionalKeys::Open(shape) => Some((**shape).clone()),
        AdditionalKeys::Unspecified if free => Some(SchemaShape::Unknown),
        AdditionalKeys::Unspecified | AdditionalKeys::Closed => None,
    };
    if !odd.is_empty() {
        let fields = odd.into_iter().cloned().collect();
        let kept = ObjectShape {
            fields,
            additional: object.additional.clone(),
        };
        let name = writer.write_shape(&SchemaShape::Object(kept), &format!("{prefix}Keywords"));
        parts.push(format!("**arguments_: {}[{name}]", writer.imported_name("Unpack")));
    } else if let Some(shape) = rest {
        parts.push(format!(
            "**arguments_: {}",
            writer.write_shape(&shape, &format!("{prefix}Value"))
        ));
    }
    parts.join(", ")
}

/// One object that accepts everything that any of these accepts.
fn merge_arguments(objects: Vec<ObjectShape>) -> ObjectShape {
    let count = objects.len();
    let mut fields: Vec<(ObjectField, usize)> = Vec::new();
    let mut rest = AdditionalKeys::Closed;
    for object in objects {
        for field in object.fields {
            match fields.iter_mut().find(|(known, _)| known.name == field.name) {
                Some((known, seen)) => {
                    let shape = std::mem::replace(&mut known.shape, SchemaShape::Never);
                    known.shape = union([shape, field.shape]);
                    known.required &= field.required;
                    *seen += 1;
                }
                None => fields.push((field, 1)),
            }
        }
        rest = match (rest, object.additional) {
            (AdditionalKeys::Open(one), AdditionalKeys::Open(other)) => {
                AdditionalKeys::Open(Box::new(union([*one, *other])))
            }
            (AdditionalKeys::Open(shape), _) | (_, AdditionalKeys::Open(shape)) => AdditionalKeys::Open(shape),
            (AdditionalKeys::Closed, AdditionalKeys::Closed) => AdditionalKeys::Closed,
            _ => AdditionalKeys::Unspecified,
        };
    }
    let mut fields: Vec<ObjectField> = fields
        .into_iter()
        .map(|(mut field, seen)| {
            field.required &= seen == count;
            field
        })
        .collect();
    fields.sort_by_key(|field| !field.required);
    ObjectShape {
        fields,
        additional: rest,
    }
}

fn render_comment(
    offer: &OfferedTool<'_>,
    input: &SchemaTypes,
    output: Option<&SchemaTypes>,
    objects: &[ObjectShape],
) -> Vec<String> {
    let mut lines = text::quoted_lines(&offer.tool.definition.description);
    if !lines.is_empty() {
        lines.insert(0, "Server's words:".to_owned());
    }
    let mut seen = BTreeSet::new();
    for field in objects.iter().flat_map(|object| &object.fields) {
        let odd = !types::can_be_keyword(&field.name);
        let mut words = field_annotations(&field.annotations, &["integer"]);
        if odd {
            words.insert_str(
                0,
                if words.is_empty() {
                    "by `**{…}`"
                } else {
                    "by `**{…}` "
                },
            );
        }
        if !words.is_empty() && seen.insert(&field.name) {
            lines.push(format!("{}: {words}", types::comment_name(&field.name)));
        }
    }
    lines.extend(elision_note(input));
    lines.extend(output.and_then(elision_note).map(|words| format!("Result: {words}")));
    lines.extend(tool_tags(offer));
    lines
}

/// A string literal of these lines, which they cannot end; empty if there are no lines.
fn docstring(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut out = "\"\"\"\n".to_owned();
    for line in lines {
        out.push_str(&line.replace('\\', "\\\\").replace("\"\"", "\\\"\\\""));
        out.push('\n');
    }
    out.push_str("\"\"\"\n");
    out
}
