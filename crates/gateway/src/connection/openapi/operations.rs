//! Turns the operations of a document into tool definitions.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderName, HeaderValue, Method, header};
use ringfence_catalog::{ServerHints, ServerListing, ToolDefinition};
use serde_json::{Map, Value, json};

use super::body::BodyEncoding;
use super::{ArgumentLocation, Operation, ParameterStyle, Place};
use crate::connection::mcp_client::gathered_tools::GatheredTools;
use crate::error::ServerError;

/// Most references that are followed for one schema, and its greatest depth.
const MAX_DEFINITIONS: usize = 200;
const MAX_SCHEMA_DEPTH: usize = 64;
const SCHEMAS_PREFIX: &str = "#/components/schemas/";

type ParsedOperations = (ServerListing, BTreeMap<String, Operation>);

/// Reads all operations; `given` are the headers that the operator sends with each request.
pub(super) fn read_operations(
    server: &str,
    document: &Value,
    given: &[&HeaderName],
) -> Result<ParsedOperations, ServerError> {
    let mut gathered = GatheredTools::new(server);
    let mut operations = BTreeMap::new();
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        let item = resolve_reference(document, item);
        for method in ["get", "put", "post", "delete", "patch", "head", "options"] {
            let Some(operation) = item.get(method) else { continue };
            let (definition, operation) =
                read_operation(InputSchemaBuilder::new(document, given), path, method, item, operation);
            if operations.contains_key(&definition.name) || !path.starts_with('/') {
                tracing::warn!(
                    server,
                    path,
                    method,
                    "an operation with the name of another is left out"
                );
                continue;
            }
            operations.insert(definition.name.clone(), operation);
            gathered.push(definition)?;
        }
    }
    let text = |key: &str| document.pointer(key).and_then(Value::as_str).unwrap_or_default();
    let about = [text("/info/title"), text("/info/description")];
    let listing = ServerListing {
        server: server.to_owned(),
        description: about.join(". ").chars().take(2_000).collect(),
        tools: gathered.tools,
    };
    Ok((listing, operations))
}

/// Resolves a reference within the document.
fn resolve_reference<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let mut value = value;
    for _ in 0..MAX_SCHEMA_DEPTH {
        let reference = value.get("$ref").and_then(Value::as_str);
        match reference
            .and_then(|reference| reference.strip_prefix('#'))
            .and_then(|at| document.pointer(at))
        {
            Some(found) => value = found,
            None => break,
        }
    }
    value
}

fn read_operation(
    mut shape: InputSchemaBuilder<'_>,
    path: &str,
    method: &str,
    item: &Value,
    operation: &Value,
) -> (ToolDefinition, Operation) {
    let document = shape.definitions.document;
    let text = |key: &str| {
        operation
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let name = text("operationId");
    let name = if name.is_empty() {
        operation_name(method, path)
    } else {
        name
    };
    let lists = [item.get("parameters"), operation.get("parameters")];
    for parameter in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        shape.add_parameter(resolve_reference(document, parameter));
    }
    let body = operation.get("requestBody");
    let body = body.map_or(BodyEncoding::Json, |body| {
        shape.add_body(resolve_reference(document, body))
    });
    let (input, places) = shape.finish();
    let texts = [text("summary"), text("description")];
    let texts: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let tags = operation.get("tags").and_then(Value::as_array).into_iter().flatten();
    let definition = ToolDefinition {
        name,
        title: None,
        description: texts.join("\n\n"),
        input,
        output: output_schema(document, operation),
        hints: ServerHints {
            read_only: Some(matches!(method, "get" | "head" | "options")),
            destructive: (method == "delete").then_some(true),
            idempotent: Some(!matches!(method, "post" | "patch")),
            open_world: None,
        },
        tags: tags.filter_map(Value::as_str).map(str::to_owned).take(32).collect(),
    };
    let operation = Operation {
        method: method.to_ascii_uppercase().parse().unwrap_or(Method::GET),
        path: path.to_owned(),
        places,
        body,
    };
    (definition, operation)
}

/// Returns `get_items_id` for `GET /items/{id}`.
fn operation_name(method: &str, path: &str) -> String {
    let words = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// Returns the schema of the first successful JSON response.
fn output_schema(document: &Value, operation: &Value) -> Option<Value> {
    let responses = operation.get("responses")?.as_object()?;
    let success = responses
        .iter()
        .find(|(status, _)| status.starts_with('2'))
        .map(|(_, response)| response)?;
    let schema = json_schema(resolve_reference(document, success))?;
    let mut definitions = SchemaDefinitions::new(document);
    let mut schema = definitions.collect(schema, 0);
    definitions.attach_to(&mut schema);
    Some(schema)
}

fn json_schema(holder: &Value) -> Option<&Value> {
    let content = holder.get("content")?.as_object()?;
    let found = content.iter().find(|(kind, _)| kind.contains("json"));
    found.and_then(|(_, media)| media.get("schema"))
}

/// Returns the body type that is easiest to write, and its schema.
fn media<'a>(document: &'a Value, body: &'a Value) -> Option<(BodyEncoding, Option<&'a Value>)> {
    let content = body.get("content")?.as_object()?;
    if let Some(schema) = json_schema(body) {
        return Some((BodyEncoding::Json, Some(schema)));
    }
    let essence = |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let of_kind = |wanted: &str| content.iter().find(|(kind, _)| essence(kind) == wanted);
    if let Some((_, media)) = of_kind("application/x-www-form-urlencoded") {
        let encodings = media.get("encoding").and_then(Value::as_object).into_iter().flatten();
        let styles = encodings
            .filter(|(_, encoding)| encoding.get("style").or_else(|| encoding.get("explode")).is_some())
            .map(|(name, encoding)| {
                (
                    name.clone(),
                    ParameterStyle::of_parameter(encoding, ArgumentLocation::Query),
                )
            });
        return Some((BodyEncoding::Form(styles.collect()), media.get("schema")));
    }
    if let Some((_, media)) = of_kind("multipart/form-data") {
        let schema = media.get("schema");
        let fields = schema.map(|schema| resolve_reference(document, schema));
        let fields = fields.and_then(|schema| schema.get("properties")?.as_object());
        let is_file = |schema: &Value| {
            let schema = resolve_reference(document, schema);
            let schema = schema
                .get("items")
                .map_or(schema, |items| resolve_reference(document, items));
            schema.get("format").and_then(Value::as_str) == Some("binary") || schema.get("contentMediaType").is_some()
        };
        let files = fields.into_iter().flatten().filter(|(_, schema)| is_file(schema));
        return Some((
            BodyEncoding::Parts(files.map(|(name, _)| name.clone()).collect()),
            schema,
        ));
    }
    let (kind, media) = content.iter().next()?;
    if kind.contains('*') {
        return Some((BodyEncoding::Json, media.get("schema")));
    }
    Some((BodyEncoding::Text(HeaderValue::try_from(kind.as_str()).ok()?), None))
}

/// Builds one object schema from all parameters and the body.
struct InputSchemaBuilder<'a> {
    /// Headers that the operator sets, not the caller.
    given: &'a [&'a HeaderName],
    definitions: SchemaDefinitions<'a>,
    properties: Map<String, Value>,
    required: BTreeSet<String>,
    places: BTreeMap<String, Place>,
}

impl<'a> InputSchemaBuilder<'a> {
    fn new(document: &'a Value, given: &'a [&'a HeaderName]) -> InputSchemaBuilder<'a> {
        InputSchemaBuilder {
            given,
            definitions: SchemaDefinitions::new(document),
            properties: Map::new(),
            required: BTreeSet::new(),
            places: BTreeMap::new(),
        }
    }

    fn add_parameter(&mut self, parameter: &Value) {
        let Some(called) = parameter.get("name").and_then(Value::as_str) else {
            return;
        };
        let spot = match parameter.get("in").and_then(Value::as_str) {
            Some("path") => ArgumentLocation::Path,
            Some("query") => ArgumentLocation::Query,
            Some("header") => ArgumentLocation::Header,
            Some("cookie") => ArgumentLocation::Cookie,
            _ => return,
        };
        // Headers of the protocol or the operator are not arguments.
        let lower = called.to_ascii_lowercase();
        let is_ours = ["authorization", "accept", "content-type", "cookie", "host"].contains(&lower.as_str())
            || self.given.iter().any(|given| given.as_str() == lower);
        let has_cookies = self.given.contains(&&header::COOKIE);
        if spot == ArgumentLocation::Header && is_ours || spot == ArgumentLocation::Cookie && has_cookies {
            return;
        }
        let none = json!({});
        let given = parameter.get("schema").or_else(|| json_schema(parameter));
        let mut schema = self.definitions.collect(given.unwrap_or(&none), 0);
        let described = parameter.get("description").and_then(Value::as_str);
        if let (Value::Object(schema), Some(text)) = (&mut schema, described) {
            schema.entry("description").or_insert_with(|| text.into());
        }
        let required =
            spot == ArgumentLocation::Path || parameter.get("required").and_then(Value::as_bool) == Some(true);
        let style = ParameterStyle::of_parameter(parameter, spot);
        self.add_argument(
            Place {
                spot,
                called: called.to_owned(),
                style,
            },
            schema,
            required,
        );
    }

    /// Adds the arguments of a body, and returns how the body is written.
    fn add_body(&mut self, body: &Value) -> BodyEncoding {
        let document = self.definitions.document;
        let needed = body.get("required").and_then(Value::as_bool) == Some(true);
        let (kind, schema) = match media(document, body) {
            Some((kind @ BodyEncoding::Text(_), _)) => {
                self.add_argument(whole_body(), json!({ "type": "string" }), needed);
                return kind;
            }
            Some((kind, Some(schema))) => (kind, schema),
            Some((kind, None)) => return kind,
            None => return BodyEncoding::Json,
        };
        let plain = resolve_reference(document, schema);
        let simple = plain.get("type").and_then(Value::as_str) == Some("object")
            && ["oneOf", "anyOf", "allOf"].iter().all(|key| plain.get(*key).is_none())
            && plain
                .get("additionalProperties")
                .is_none_or(|more| *more == Value::Bool(false));
        if let Some(properties) = plain.get("properties").and_then(Value::as_object).filter(|_| simple) {
            let wanted: BTreeSet<&str> = plain
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            for (name, schema) in properties {
                let schema = self.definitions.collect(schema, 0);
                let place = Place {
                    spot: ArgumentLocation::Field,
                    called: name.clone(),
                    style: ParameterStyle::Json,
                };
                self.add_argument(place, schema, needed && wanted.contains(name.as_str()));
            }
        } else {
            let schema = self.definitions.collect(schema, 0);
            self.add_argument(whole_body(), schema, needed);
        }
        kind
    }

    fn add_argument(&mut self, place: Place, schema: Value, required: bool) {
        let called = place.called.as_str();
        let prefix = match place.spot {
            ArgumentLocation::Path => "path_",
            ArgumentLocation::Query => "query_",
            ArgumentLocation::Header => "header_",
            ArgumentLocation::Cookie => "cookie_",
            ArgumentLocation::Field | ArgumentLocation::Body => "body_",
        };
        let again =
            |known: Option<&Place>| known.is_some_and(|known| known.spot == place.spot && known.called == called);
        let taken = self.places.contains_key(called) && !again(self.places.get(called));
        let name = if taken {
            format!("{prefix}{called}")
        } else {
            called.to_owned()
        };
        if required {
            self.required.insert(name.clone());
        }
        self.properties.insert(name.clone(), schema);
        self.places.insert(name, place);
    }

    fn finish(self) -> (Value, BTreeMap<String, Place>) {
        let mut schema = json!({
            "type": "object", "properties": self.properties, "required": self.required, "additionalProperties": false,
        });
        self.definitions.attach_to(&mut schema);
        (schema, self.places)
    }
}

/// The place of a body that is one argument.
fn whole_body() -> Place {
    Place {
        spot: ArgumentLocation::Body,
        called: "body".to_owned(),
        style: ParameterStyle::Json,
    }
}

/// Collects the schemas that one schema refers to, as its own `$defs`.
struct SchemaDefinitions<'a> {
    document: &'a Value,
    taken: BTreeMap<String, Value>,
}

impl<'a> SchemaDefinitions<'a> {
    fn new(document: &'a Value) -> SchemaDefinitions<'a> {
        SchemaDefinitions {
            document,
            taken: BTreeMap::new(),
        }
    }

    /// Returns the schema with references to its own definitions; other references allow anything.
    fn collect(&mut self, schema: &Value, depth: usize) -> Value {
        if depth > MAX_SCHEMA_DEPTH {
            return json!({});
        }
        match schema {
            Value::Object(keys) => {
                if let Some(reference) = keys.get("$ref").and_then(Value::as_str) {
                    return self.collect_reference(reference, depth);
                }
                let mut taken: Map<String, Value> = keys
                    .iter()
                    .map(|(key, value)| (key.clone(), self.collect(value, depth + 1)))
                    .collect();
                convert_nullable(&mut taken);
                Value::Object(taken)
            }
            Value::Array(values) => values.iter().map(|value| self.collect(value, depth + 1)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }

    fn collect_reference(&mut self, reference: &str, depth: usize) -> Value {
        let name = reference
            .strip_prefix(SCHEMAS_PREFIX)
            .filter(|name| !name.contains('/'));
        let found = reference.strip_prefix('#').and_then(|at| self.document.pointer(at));
        let (Some(name), Some(found)) = (name, found) else {
            return json!({});
        };
        if !self.taken.contains_key(name) {
            if self.taken.len() >= MAX_DEFINITIONS {
                return json!({});
            }
            self.taken.insert(name.to_owned(), Value::Null);
            let schema = self.collect(found, depth + 1);
            self.taken.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/$defs/{name}")})
    }

    fn attach_to(self, schema: &mut Value) {
        if let (Value::Object(keys), false) = (schema, self.taken.is_empty()) {
            keys.insert("$defs".to_owned(), Value::Object(self.taken.into_iter().collect()));
        }
    }
}

/// Rewrites `nullable` of 3.0 as 3.1 does.
fn convert_nullable(keys: &mut Map<String, Value>) {
    if keys.shift_remove("nullable") == Some(Value::Bool(true))
        && let Some(Value::String(kind)) = keys.get("type").cloned()
    {
        keys.insert("type".to_owned(), json!([kind, "null"]));
    }
}
