//! The JSON Schemas of tool arguments and results.

use serde_json::{Map, Value, json};

use crate::params::{ParamType, ToolParam};
use crate::spec::{ActionEffect, Entity, EntityAction, EntityField, FieldChange, FieldKind, FieldOrigin, find_entity};
use crate::tool::ToolOperation;
use crate::value::{MAX_CENTS, MAX_MEMBERS};

/// The schema of an object with these parameters.
pub(crate) fn input_schema(params: &[ToolParam]) -> Map<String, Value> {
    let properties = params.iter().map(|param| {
        let mut schema = match &param.shape {
            ParamType::Single(kind) => kind_schema(*kind, SchemaSide::Given),
            ParamType::OneOf(words) => into_map(json!({ "type": "string", "enum": words })),
            ParamType::SomeOf(words) => {
                into_map(json!({ "type": "array", "items": { "type": "string", "enum": words }, "uniqueItems": true, "maxItems": words.len() }))
            }
        };
        if param.needed && matches!(param.shape, ParamType::Single(FieldKind::Text(_))) {
            schema.insert("minLength".into(), 1.into());
        }
        if param.nullable {
            allow_null(&mut schema);
        }
        schema.insert("description".into(), param.description.clone().into());
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
    object_schema(properties.collect(), needed)
}

/// The schema of the answer that this operation gives.
pub(crate) fn output_schema(entity: &'static Entity, op: ToolOperation) -> Map<String, Value> {
    let total = json!({ "type": "integer", "minimum": 0, "description": "How many records match in all." });
    let next = json!({ "type": ["string", "null"], "description": "Give it as `cursor` for the next page; null on the last page." });
    match op {
        ToolOperation::List | ToolOperation::Under(_) => closed_object(json!({
            "items": { "type": "array", "items": record_schema(entity), "description": "The records of this page." },
            "total": total,
            "next_cursor": next,
        })),
        ToolOperation::Search => closed_object(json!({
            "matches": { "type": "array", "description": "What was found, best first.", "items": Value::Object(closed_object(json!({
                "id": kind_schema(FieldKind::Link(entity.many), SchemaSide::Shown),
                "title": { "type": "string", "description": "Its name or title." },
                "field": { "type": "string", "description": "The field that the words were found in." },
                "excerpt": { "type": "string", "description": "The beginning of that field." },
            }))) },
            "total": total,
            "next_cursor": next,
        })),
        ToolOperation::Count => closed_object(json!({
            "total": total,
            "groups": { "type": "array", "description": "One for each value of the field counted by, the largest first; empty without `by`.", "items": Value::Object(closed_object(json!({
                "value": { "type": ["string", "null"], "description": "The value of the field." },
                "count": { "type": "integer", "minimum": 0, "description": "How many records have it." },
            }))) },
        })),
        ToolOperation::Export => closed_object(json!({
            "file_name": { "type": "string", "description": "A name for the file." },
            "media_type": { "type": "string", "enum": ["text/csv", "application/json"] },
            "rows": { "type": "integer", "minimum": 0, "description": "How many records it holds." },
            "total": total,
            "content": { "type": "string", "description": "The file itself." },
        })),
        ToolOperation::Get | ToolOperation::Create | ToolOperation::Update => record_schema(entity),
        ToolOperation::Delete => closed_object(json!({
            "id": kind_schema(FieldKind::Link(entity.many), SchemaSide::Shown),
            "deleted": { "type": "boolean", "description": "True: the record is gone." },
        })),
        ToolOperation::Act(act) => action_schema(entity, act),
    }
}

fn action_schema(owner: &'static Entity, act: &EntityAction) -> Map<String, Value> {
    match act.effect {
        ActionEffect::Add(many, _) => find_entity(many).map(record_schema).unwrap_or_default(),
        ActionEffect::Set(sets) => {
            let mut properties = Map::new();
            properties.insert(
                "id".into(),
                Value::Object(kind_schema(FieldKind::Link(owner.many), SchemaSide::Shown)),
            );
            for (_, field) in changed_fields(owner, sets) {
                properties.insert(field.name.into(), field_schema(field));
            }
            properties.insert("updated_at".into(), timestamp_schema("When the record last changed."));
            let needed = properties.keys().cloned().collect();
            object_schema(properties, needed)
        }
    }
}

/// The fields that an action changes, with their positions in the entity.
pub(crate) fn changed_fields(
    owner: &'static Entity,
    sets: &'static [FieldChange],
) -> impl Iterator<Item = (usize, &'static EntityField)> {
    sets.iter().filter_map(|set| match set {
        FieldChange::To(name, _)
        | FieldChange::Clear(name)
        | FieldChange::Now(name)
        | FieldChange::Given(name)
        | FieldChange::Flag(name, _) => owner.field(name),
    })
}

/// The schema of a whole record, with its id and times.
fn record_schema(entity: &'static Entity) -> Map<String, Value> {
    let mut id = kind_schema(FieldKind::Link(entity.many), SchemaSide::Shown);
    id.insert(
        "description".into(),
        format!("The id of the {}.", entity.spoken_name()).into(),
    );
    let mut properties = Map::new();
    properties.insert("id".into(), Value::Object(id));
    properties.extend(
        entity
            .fields
            .iter()
            .map(|field| (field.name.to_owned(), field_schema(field))),
    );
    properties.insert("created_at".into(), timestamp_schema("When the record was made."));
    properties.insert("updated_at".into(), timestamp_schema("When the record last changed."));
    let needed = properties.keys().cloned().collect();
    object_schema(properties, needed)
}

fn timestamp_schema(about: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": about })
}

fn field_schema(field: &EntityField) -> Value {
    let mut schema = kind_schema(field.kind, SchemaSide::Shown);
    if field.nullable {
        allow_null(&mut schema);
    }
    schema.insert("description".into(), field.about.into());
    Value::Object(schema)
}

/// Whether a schema describes an argument or a value in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaSide {
    Given,
    Shown,
}

fn kind_schema(kind: FieldKind, side: SchemaSide) -> Map<String, Value> {
    into_map(match kind {
        FieldKind::Text(most) => match side {
            SchemaSide::Given => json!({ "type": "string", "maxLength": most }),
            SchemaSide::Shown => json!({ "type": "string" }),
        },
        FieldKind::Email => json!({ "type": "string", "format": "email", "maxLength": 254 }),
        FieldKind::Uri => json!({ "type": "string", "format": "uri", "maxLength": 254, "pattern": "^https?://" }),
        FieldKind::Phone => json!({ "type": "string", "pattern": "^\\+[0-9][0-9 -]{5,24}$" }),
        FieldKind::Day => json!({ "type": "string", "format": "date" }),
        FieldKind::Time => json!({ "type": "string", "format": "date-time" }),
        FieldKind::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        FieldKind::Cents => match side {
            SchemaSide::Given => json!({ "type": "integer", "minimum": 0, "maximum": MAX_CENTS }),
            SchemaSide::Shown => json!({ "type": "integer", "minimum": 0 }),
        },
        FieldKind::Flag => json!({ "type": "boolean" }),
        FieldKind::Pick(words) => json!({ "type": "string", "enum": words }),
        FieldKind::Tags(words) => {
            json!({ "type": "array", "items": { "type": "string", "enum": words }, "uniqueItems": true, "maxItems": MAX_MEMBERS })
        }
        FieldKind::Link(many) => json!({ "type": "string", "pattern": id_pattern(many) }),
        FieldKind::Links(many) => {
            json!({ "type": "array", "items": { "type": "string", "pattern": id_pattern(many) }, "uniqueItems": true, "maxItems": MAX_MEMBERS })
        }
        FieldKind::Part(fields) => Value::Object(group_schema(fields, side)),
        FieldKind::Parts(fields) => {
            json!({ "type": "array", "items": group_schema(fields, side), "minItems": 1, "maxItems": MAX_MEMBERS })
        }
    })
}

fn id_pattern(many: &str) -> String {
    format!("^{}-[0-9]{{4,9}}$", find_entity(many).map_or("", |it| it.prefix))
}

fn group_schema(fields: &[EntityField], side: SchemaSide) -> Map<String, Value> {
    let properties = fields.iter().map(|field| {
        let mut schema = kind_schema(field.kind, side);
        if side == SchemaSide::Given
            && field.origin == FieldOrigin::Required
            && matches!(field.kind, FieldKind::Text(_))
        {
            schema.insert("minLength".into(), 1.into());
        }
        if field.nullable {
            allow_null(&mut schema);
        }
        schema.insert("description".into(), field.about.into());
        (field.name.to_owned(), Value::Object(schema))
    });
    let needed = fields
        .iter()
        .filter(|field| side == SchemaSide::Shown || field.origin == FieldOrigin::Required);
    object_schema(
        properties.collect(),
        needed.map(|field| field.name.to_owned()).collect(),
    )
}

fn allow_null(schema: &mut Map<String, Value>) {
    if let Some(kind) = schema.get("type").cloned() {
        schema.insert("type".into(), json!([kind, "null"]));
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
}

/// The schema of an object that has exactly these properties, all required.
fn closed_object(properties: Value) -> Map<String, Value> {
    let properties = into_map(properties);
    let needed = properties.keys().cloned().collect();
    object_schema(properties, needed)
}

fn object_schema(properties: Map<String, Value>, needed: Vec<String>) -> Map<String, Value> {
    let mut schema = into_map(json!({ "type": "object", "additionalProperties": false }));
    schema.insert("properties".into(), Value::Object(properties));
    if !needed.is_empty() {
        schema.insert("required".into(), needed.into());
    }
    schema
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
