//! The JSON Schemas of tool arguments and results.

use serde_json::{Map, Value, json};

use crate::cell::{MOST_CENTS, MOST_MEMBERS};
use crate::param::{Param, Shape};
use crate::spec::{Act, Effect, Entity, Field, Given, Kind, Set, entity};
use crate::tool::Op;

/// The schema of an object with these parameters.
pub(crate) fn input(params: &[Param]) -> Map<String, Value> {
    let properties = params.iter().map(|param| {
        let mut schema = match &param.shape {
            Shape::Of(kind) => of_kind(*kind, Side::Given),
            Shape::OneOf(words) => object(json!({ "type": "string", "enum": words })),
            Shape::SomeOf(words) => {
                object(json!({ "type": "array", "items": { "type": "string", "enum": words }, "uniqueItems": true, "maxItems": words.len() }))
            }
        };
        if param.needed && matches!(param.shape, Shape::Of(Kind::Text(_))) {
            schema.insert("minLength".into(), 1.into());
        }
        if param.nullable {
            or_null(&mut schema);
        }
        schema.insert("description".into(), param.about.clone().into());
        if let Some(default) = &param.default {
            schema.insert("default".into(), default.clone());
        }
        (param.name.clone(), Value::Object(schema))
    });
    let needed: Vec<_> = params
        .iter()
        .filter(|param| param.needed)
        .map(|param| param.name.clone())
        .collect();
    closed(properties.collect(), needed)
}

/// The schema of the answer that this operation gives.
pub(crate) fn output(entity: &'static Entity, op: Op) -> Map<String, Value> {
    let total = json!({ "type": "integer", "minimum": 0, "description": "How many records match in all." });
    let next = json!({ "type": ["string", "null"], "description": "Give it as `cursor` for the next page; null on the last page." });
    match op {
        Op::List | Op::Under(_) => shut(json!({
            "items": { "type": "array", "items": record(entity), "description": "The records of this page." },
            "total": total,
            "next_cursor": next,
        })),
        Op::Search => shut(json!({
            "matches": { "type": "array", "description": "What was found, best first.", "items": Value::Object(shut(json!({
                "id": of_kind(Kind::Link(entity.many), Side::Shown),
                "title": { "type": "string", "description": "Its name or title." },
                "field": { "type": "string", "description": "The field that the words were found in." },
                "excerpt": { "type": "string", "description": "The beginning of that field." },
            }))) },
            "total": total,
            "next_cursor": next,
        })),
        Op::Count => shut(json!({
            "total": total,
            "groups": { "type": "array", "description": "One for each value of the field counted by, the largest first; empty without `by`.", "items": Value::Object(shut(json!({
                "value": { "type": ["string", "null"], "description": "The value of the field." },
                "count": { "type": "integer", "minimum": 0, "description": "How many records have it." },
            }))) },
        })),
        Op::Export => shut(json!({
            "file_name": { "type": "string", "description": "A name for the file." },
            "media_type": { "type": "string", "enum": ["text/csv", "application/json"] },
            "rows": { "type": "integer", "minimum": 0, "description": "How many records it holds." },
            "total": total,
            "content": { "type": "string", "description": "The file itself." },
        })),
        Op::Get | Op::Create | Op::Update => record(entity),
        Op::Delete => shut(json!({
            "id": of_kind(Kind::Link(entity.many), Side::Shown),
            "deleted": { "type": "boolean", "description": "True: the record is gone." },
        })),
        Op::Act(act) => of_act(entity, act),
    }
}

fn of_act(owner: &'static Entity, act: &Act) -> Map<String, Value> {
    match act.effect {
        Effect::Add(many, _) => entity(many).map(record).unwrap_or_default(),
        Effect::Set(sets) => {
            let mut properties = Map::new();
            properties.insert("id".into(), Value::Object(of_kind(Kind::Link(owner.many), Side::Shown)));
            for (_, field) in changed(owner, sets) {
                properties.insert(field.name.into(), of_field(field));
            }
            properties.insert("updated_at".into(), stamp("When the record last changed."));
            let needed = properties.keys().cloned().collect();
            closed(properties, needed)
        }
    }
}

/// The fields that an action changes, with their positions in the entity.
pub(crate) fn changed(owner: &'static Entity, sets: &'static [Set]) -> impl Iterator<Item = (usize, &'static Field)> {
    sets.iter().filter_map(|set| match set {
        Set::To(name, _) | Set::Clear(name) | Set::Now(name) | Set::Given(name) | Set::Flag(name, _) => {
            owner.field(name)
        }
    })
}

/// The schema of a whole record, with its id and times.
fn record(entity: &'static Entity) -> Map<String, Value> {
    let mut id = of_kind(Kind::Link(entity.many), Side::Shown);
    id.insert(
        "description".into(),
        format!("The id of the {}.", entity.spoken()).into(),
    );
    let mut properties = Map::new();
    properties.insert("id".into(), Value::Object(id));
    properties.extend(
        entity
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), of_field(field))),
    );
    properties.insert("created_at".into(), stamp("When the record was made."));
    properties.insert("updated_at".into(), stamp("When the record last changed."));
    let needed = properties.keys().cloned().collect();
    closed(properties, needed)
}

fn stamp(about: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": about })
}

fn of_field(field: &Field) -> Value {
    let mut schema = of_kind(field.kind, Side::Shown);
    if field.nullable {
        or_null(&mut schema);
    }
    schema.insert("description".into(), field.about.into());
    Value::Object(schema)
}

/// Whether a schema describes an argument or a value in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Given,
    Shown,
}

fn of_kind(kind: Kind, side: Side) -> Map<String, Value> {
    object(match kind {
        Kind::Text(most) => match side {
            Side::Given => json!({ "type": "string", "maxLength": most }),
            Side::Shown => json!({ "type": "string" }),
        },
        Kind::Email => json!({ "type": "string", "format": "email", "maxLength": 254 }),
        Kind::Uri => json!({ "type": "string", "format": "uri", "maxLength": 254, "pattern": "^https?://" }),
        Kind::Phone => json!({ "type": "string", "pattern": "^\\+[0-9][0-9 -]{5,24}$" }),
        Kind::Day => json!({ "type": "string", "format": "date" }),
        Kind::Time => json!({ "type": "string", "format": "date-time" }),
        Kind::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Cents => match side {
            Side::Given => json!({ "type": "integer", "minimum": 0, "maximum": MOST_CENTS }),
            Side::Shown => json!({ "type": "integer", "minimum": 0 }),
        },
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Pick(words) => json!({ "type": "string", "enum": words }),
        Kind::Tags(words) => {
            json!({ "type": "array", "items": { "type": "string", "enum": words }, "uniqueItems": true, "maxItems": MOST_MEMBERS })
        }
        Kind::Link(many) => json!({ "type": "string", "pattern": pattern(many) }),
        Kind::Links(many) => {
            json!({ "type": "array", "items": { "type": "string", "pattern": pattern(many) }, "uniqueItems": true, "maxItems": MOST_MEMBERS })
        }
        Kind::Part(fields) => Value::Object(part(fields, side)),
        Kind::Parts(fields) => {
            json!({ "type": "array", "items": part(fields, side), "minItems": 1, "maxItems": MOST_MEMBERS })
        }
    })
}

fn pattern(many: &str) -> String {
    format!("^{}-[0-9]{{4,9}}$", entity(many).map_or("", |it| it.prefix))
}

fn part(fields: &[Field], side: Side) -> Map<String, Value> {
    let properties = fields.iter().map(|field| {
        let mut schema = of_kind(field.kind, side);
        if side == Side::Given && field.given == Given::Needed && matches!(field.kind, Kind::Text(_)) {
            schema.insert("minLength".into(), 1.into());
        }
        if field.nullable {
            or_null(&mut schema);
        }
        schema.insert("description".into(), field.about.into());
        (field.name.to_owned(), Value::Object(schema))
    });
    let needed = fields
        .iter()
        .filter(|field| side == Side::Shown || field.given == Given::Needed);
    closed(
        properties.collect(),
        needed.map(|field| field.name.to_owned()).collect(),
    )
}

fn or_null(schema: &mut Map<String, Value>) {
    if let Some(kind) = schema.get("type").cloned() {
        schema.insert("type".into(), json!([kind, "null"]));
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
}

/// The schema of an object that has exactly these properties, all required.
fn shut(properties: Value) -> Map<String, Value> {
    let properties = object(properties);
    let needed = properties.keys().cloned().collect();
    closed(properties, needed)
}

fn closed(properties: Map<String, Value>, needed: Vec<String>) -> Map<String, Value> {
    let mut schema = object(json!({ "type": "object", "additionalProperties": false }));
    schema.insert("properties".into(), Value::Object(properties));
    if !needed.is_empty() {
        schema.insert("required".into(), needed.into());
    }
    schema
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
