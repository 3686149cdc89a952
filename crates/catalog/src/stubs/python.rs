//! Renders tools as Python stubs: a module per server, keyword-only functions, and a class for each object with a fixed form.

mod types;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ringfence_policy::SKILLS;
use serde_json::Value;

use super::{Offer, elisions, field_words, is_skills, result, tags, text};
use crate::schema::{Field, Object, Rest, Shape, Types, union};
use crate::tool::Tool;
use types::{Position, Scope, Writer};

/// The most branches of a union of arguments that become overloads; more branches are merged.
const OVERLOADS: usize = 8;
/// Names that can be imported besides the servers.
const HELPERS: [&str; 4] = ["ToolError", "describe", "list_tools", "search"];
/// The most characters of a signature.
const SIGNATURE: usize = 480;
/// The start of every module. No tool can have a name with two leading underscores.
const IMPORTS: &str = "import builtins as __builtins\n\
                       import collections.abc as __abc\n\
                       import typing_extensions as __typing\n\
                       from collections.abc import Mapping, Sequence\n\
                       from typing_extensions import Any, Literal, Never, NotRequired, TypeAlias, TypedDict, Unpack, overload\n";

/// The path of a server's module.
pub(super) fn path(tool: &Tool) -> String {
    if tool.name.is_skill() {
        return format!("{SKILLS}.pyi");
    }
    format!("tools/{}.pyi", tool.server_ident)
}

/// The package: the helpers and every server's module, by name. A helper hides a server of the same name.
pub(super) fn package(servers: &[Vec<&Offer<'_>>]) -> String {
    let idents = servers
        .iter()
        .filter(|server| !is_skills(server))
        .filter_map(|server| server.first())
        .map(|offer| offer.tool.server_ident.as_str())
        .filter(|ident| !HELPERS.contains(ident));
    let helpers: Vec<String> = HELPERS.iter().map(|name| format!("{name} as {name}")).collect();
    let helpers = format!("from __builtins__ import {}\n", helpers.join(", "));
    idents.fold(helpers, |mut out, ident| {
        let _infallible = writeln!(out, "from . import {ident} as {ident}");
        out
    })
}

/// Renders the module of one server.
pub(super) fn module(offers: &[&Offer<'_>]) -> String {
    let idents: Vec<&str> = offers.iter().map(|offer| offer.tool.ident.as_str()).collect();
    let mut scope = Scope::new(&idents);
    let mut out = IMPORTS.to_owned();
    for offer in offers {
        out.push('\n');
        out.push_str(&function(offer, &mut scope));
    }
    out
}

/// Renders one tool as in its module.
pub(super) fn excerpt(offer: &Offer<'_>) -> String {
    let mut scope = Scope::new(&[&offer.tool.ident]);
    let text = function(offer, &mut scope);
    if offer.tool.name.is_skill() {
        return format!("# import {SKILLS}\n{text}");
    }
    format!("# from tools import {}\n{text}", offer.tool.server_ident)
}

/// Renders a tool on one line.
pub(super) fn signature(tool: &Tool, output: Option<&Value>) -> String {
    let types = Types::of(&tool.definition.input);
    let mut scope = Scope::new(&[]);
    let mut writer = Writer::brief(&types, &mut scope);
    let mut parameters = parameters(&mut writer, &superset(types.arguments()), "");
    if let Some((end, _)) = parameters.char_indices().nth(SIGNATURE) {
        parameters.truncate(end);
        parameters.push('…');
    }
    let returned = output.map_or_else(
        || "Any".to_owned(),
        |output| {
            let types = Types::of(output);
            Writer::brief(&types, &mut scope).shape(&types.root, "")
        },
    );
    format!("async {}.{}({parameters}) -> {returned}", tool.server_ident, tool.ident)
}

fn function(offer: &Offer<'_>, scope: &mut Scope) -> String {
    let prefix = text::pascal(&offer.tool.ident);
    let types = Types::of(&offer.tool.definition.input);
    let mut objects = types.arguments();
    if objects.len() > OVERLOADS {
        objects = vec![superset(objects)];
    }
    let mut writer = Writer::new(&types, Position::Argument, &prefix, scope);
    let forms: Vec<String> = objects
        .iter()
        .map(|object| parameters(&mut writer, object, &prefix))
        .collect();
    let mut out = writer.definitions();
    let output = result(offer);
    let returned = match &output {
        None => scope.name("Any").to_owned(),
        Some(types) => {
            let prefix = format!("{prefix}Result");
            let mut writer = Writer::new(types, Position::Result, &prefix, scope);
            let returned = writer.shape(&types.root, &prefix);
            out.push_str(&writer.definitions());
            returned
        }
    };
    let ident = &offer.tool.ident;
    let overloaded = forms.len() > 1;
    for (place, parameters) in forms.iter().enumerate() {
        if overloaded {
            let _infallible = writeln!(out, "@{}", scope.name("overload"));
        }
        let body = if place == 0 {
            docstring(&comment(offer, &types, output.as_ref(), &objects))
        } else {
            String::new()
        };
        let colon = if body.is_empty() { ": ..." } else { ":" };
        let _infallible = writeln!(out, "async def {ident}({parameters}) -> {returned}{colon}");
        out.push_str(&text::indented(&body, "    "));
    }
    out
}

/// The keyword parameters of a function; names that are not Python identifiers are passed by `**`.
fn parameters(writer: &mut Writer<'_>, object: &Object, prefix: &str) -> String {
    let (plain, odd): (Vec<&Field>, Vec<&Field>) = object.fields.iter().partition(|field| types::keyword(&field.name));
    let mut parts = Vec::new();
    for field in &plain {
        let shape = writer.shape(&field.shape, &format!("{prefix}{}", text::pascal(&field.name)));
        let default = if field.required { "" } else { " = ..." };
        parts.push(format!("{}: {shape}{default}", field.name));
    }
    if !parts.is_empty() {
        parts.insert(0, "*".to_owned());
    }
    let free = object.fields.is_empty() && object.rest == Rest::Unsaid;
    let rest = match &object.rest {
        Rest::Open(shape) => Some((**shape).clone()),
        Rest::Unsaid if free => Some(Shape::Unknown),
        Rest::Unsaid | Rest::Closed => None,
    };
    if !odd.is_empty() {
        let fields = odd.into_iter().cloned().collect();
        let kept = Object {
            fields,
            rest: object.rest.clone(),
        };
        let name = writer.shape(&Shape::Object(kept), &format!("{prefix}Keywords"));
        parts.push(format!("**arguments_: {}[{name}]", writer.name("Unpack")));
    } else if let Some(shape) = rest {
        parts.push(format!(
            "**arguments_: {}",
            writer.shape(&shape, &format!("{prefix}Value"))
        ));
    }
    parts.join(", ")
}

/// One object that accepts everything that any of these accepts.
fn superset(objects: Vec<Object>) -> Object {
    let count = objects.len();
    let mut fields: Vec<(Field, usize)> = Vec::new();
    let mut rest = Rest::Closed;
    for object in objects {
        for field in object.fields {
            match fields.iter_mut().find(|(known, _)| known.name == field.name) {
                Some((known, seen)) => {
                    let shape = std::mem::replace(&mut known.shape, Shape::Never);
                    known.shape = union([shape, field.shape]);
                    known.required &= field.required;
                    *seen += 1;
                }
                None => fields.push((field, 1)),
            }
        }
        rest = match (rest, object.rest) {
            (Rest::Open(one), Rest::Open(other)) => Rest::Open(Box::new(union([*one, *other]))),
            (Rest::Open(shape), _) | (_, Rest::Open(shape)) => Rest::Open(shape),
            (Rest::Closed, Rest::Closed) => Rest::Closed,
            _ => Rest::Unsaid,
        };
    }
    let mut fields: Vec<Field> = fields
        .into_iter()
        .map(|(mut field, seen)| {
            field.required &= seen == count;
            field
        })
        .collect();
    fields.sort_by_key(|field| !field.required);
    Object { fields, rest }
}

fn comment(offer: &Offer<'_>, input: &Types, output: Option<&Types>, objects: &[Object]) -> Vec<String> {
    let mut lines = text::quoted(&offer.tool.definition.description);
    if !lines.is_empty() {
        lines.insert(0, "Server's words:".to_owned());
    }
    let mut seen = BTreeSet::new();
    for field in objects.iter().flat_map(|object| &object.fields) {
        let odd = !types::keyword(&field.name);
        let mut words = field_words(&field.words, &["integer"]);
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
            lines.push(format!("{}: {words}", types::shown(&field.name)));
        }
    }
    lines.extend(elisions(input));
    lines.extend(output.and_then(elisions).map(|words| format!("Result: {words}")));
    lines.extend(tags(offer));
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
