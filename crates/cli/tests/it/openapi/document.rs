//! A document of 280 operations, like that of a large web API: 40 resources with seven operations each.

use serde_json::{Map, Value, json};

/// The resources of the API; each has the same operations.
pub(super) const RESOURCES: [&str; 40] = [
    "accounts",
    "addresses",
    "assets",
    "audits",
    "backups",
    "batches",
    "branches",
    "budgets",
    "campaigns",
    "carts",
    "catalogs",
    "channels",
    "claims",
    "clusters",
    "contracts",
    "coupons",
    "devices",
    "disputes",
    "documents",
    "domains",
    "events",
    "exports",
    "folders",
    "forms",
    "gateways",
    "grants",
    "groups",
    "images",
    "imports",
    "invoices",
    "jobs",
    "keys",
    "labels",
    "ledgers",
    "licenses",
    "mandates",
    "meters",
    "payouts",
    "refunds",
    "tickets",
];

/// The document, with its server at this address.
pub(super) fn document(address: &str) -> Value {
    let mut paths = Map::new();
    for resource in RESOURCES {
        let at = format!("/{resource}");
        paths.insert(at.clone(), json!({ "get": list(resource), "post": create(resource) }));
        let one = json!({
            "parameters": [{ "$ref": "#/components/parameters/id" }],
            "get": get(resource), "put": replace(resource), "patch": patch(resource), "delete": delete(resource),
        });
        paths.insert(format!("{at}/{{id}}"), one);
        paths.insert(
            format!("{at}/{{id}}/history/{{codes}}"),
            json!({ "get": history(resource) }),
        );
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Everything", "version": "2026-11-01", "description": "All that a company keeps." },
        "servers": [{ "url": format!("http://{address}/{{version}}"), "variables": { "version": { "default": "v2" } } }],
        "security": [{ "bearer": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "parameters": { "id": { "name": "id", "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } } },
            "responses": { "Problem": { "description": "A refusal", "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } } } },
            "schemas": schemas(),
        },
    })
}

fn schemas() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "Problem": { "type": "object", "required": ["title"], "properties": { "title": text, "detail": text } },
        "Money": { "type": "object", "required": ["amount", "currency"], "properties": {
            "amount": { "type": "integer" }, "currency": { "type": "string", "enum": ["EUR", "USD", "CHF"] },
        } },
        "Base": { "type": "object", "required": ["name"], "properties": {
            "name": text, "note": { "type": ["string", "null"] }, "tags": { "type": "array", "items": text },
        } },
        "Row": { "allOf": [{ "$ref": "#/components/schemas/Base" }, { "type": "object", "required": ["id", "status"], "properties": {
            "id": text, "status": { "$ref": "#/components/schemas/Status" }, "price": { "$ref": "#/components/schemas/Money" },
            "parent": { "anyOf": [{ "$ref": "#/components/schemas/Row" }, { "type": "null" }] },
            "created": { "type": "string", "format": "date-time" },
        } }] },
        "Status": { "type": "string", "enum": ["open", "held", "closed"] },
        "Rename": { "type": "object", "required": ["kind", "name"], "additionalProperties": false, "properties": {
            "kind": { "const": "rename" }, "name": text,
        } },
        "Reprice": { "type": "object", "required": ["kind", "price"], "additionalProperties": false, "properties": {
            "kind": { "const": "reprice" }, "price": { "$ref": "#/components/schemas/Money" },
        } },
    })
}

fn parameter(name: &str, place: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": place, "schema": schema })
}

fn styled(name: &str, schema: &Value, style: &str, explode: bool) -> Value {
    let mut parameter = parameter(name, "query", schema);
    parameter["style"] = json!(style);
    parameter["explode"] = json!(explode);
    parameter
}

/// An operation that answers with this schema.
fn operation(id: &str, summary: &str, answer: &Value) -> Value {
    json!({
        "operationId": id, "summary": summary, "tags": [id.split('_').next_back()],
        "responses": {
            "200": { "description": "Done", "content": { "application/json": { "schema": answer } } },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    })
}

fn row() -> Value {
    json!({ "$ref": "#/components/schemas/Row" })
}

fn body(schema: &Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

fn singular(resource: &str) -> &str {
    resource.strip_suffix('s').unwrap_or(resource)
}

fn list(resource: &str) -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let time = json!({ "type": "string", "format": "date" });
    let page = json!({ "type": "object", "required": ["items", "next"], "properties": {
        "items": { "type": "array", "items": row() }, "next": { "type": ["string", "null"] },
    } });
    let mut list = operation(
        &format!("list_{resource}"),
        &format!("List {resource}, newest first"),
        &page,
    );
    list["parameters"] = json!([
        parameter("limit", "query", &json!({ "type": "integer", "minimum": 1, "maximum": 500 })),
        parameter("status", "query", &json!({ "$ref": "#/components/schemas/Status" })),
        parameter("tag", "query", &texts),
        styled("fields", &texts, "form", false),
        styled("colours", &texts, "pipeDelimited", false),
        styled("created", &json!({ "type": "object", "properties": { "from": time, "to": time } }), "deepObject", true),
        { "name": "where", "in": "query", "content": { "application/json": { "schema": { "type": "object" } } } },
        parameter("X-Request-Tag", "header", &json!({ "type": "string" })),
        parameter("Authorization", "header", &json!({ "type": "string" })),
    ]);
    list
}

fn create(resource: &str) -> Value {
    let new = json!({ "allOf": [{ "$ref": "#/components/schemas/Base" }, { "type": "object", "properties": {
        "price": { "$ref": "#/components/schemas/Money" },
    } }] });
    let mut create = operation(
        &format!("create_{resource}"),
        &format!("Create one of the {resource}"),
        &row(),
    );
    create["parameters"] = json!([parameter("Idempotency-Key", "header", &json!({ "type": "string" }))]);
    create["requestBody"] = body(&new);
    create
}

fn get(resource: &str) -> Value {
    let name = singular(resource);
    let mut get = operation(&format!("get_{resource}"), &format!("Get one {name} by its id"), &row());
    get["parameters"] = json!([parameter(
        "expand",
        "query",
        &json!({ "type": "boolean", "default": false })
    )]);
    get
}

fn replace(resource: &str) -> Value {
    let whole = json!({ "type": "object", "additionalProperties": false, "required": ["name", "status"], "properties": {
        "name": { "type": "string" }, "status": { "$ref": "#/components/schemas/Status" },
        "note": { "type": "string", "nullable": true }, "id": { "type": "string", "description": "a new id" },
    } });
    let mut replace = operation(
        &format!("replace_{resource}"),
        &format!("Replace one of the {resource}"),
        &row(),
    );
    replace["requestBody"] = body(&whole);
    replace
}

fn patch(resource: &str) -> Value {
    let change = json!({ "oneOf": [{ "$ref": "#/components/schemas/Rename" }, { "$ref": "#/components/schemas/Reprice" }],
        "discriminator": { "propertyName": "kind" } });
    let mut patch = operation(
        &format!("change_{resource}"),
        &format!("Rename or reprice one of the {resource}"),
        &row(),
    );
    patch["requestBody"] = body(&change);
    patch
}

fn delete(resource: &str) -> Value {
    json!({
        "operationId": format!("delete_{resource}"), "summary": format!("Delete one of the {resource} for good"),
        "parameters": [
            parameter("If-Match", "header", &json!({ "type": "string" })),
            parameter("force", "query", &json!({ "type": "boolean" })),
        ],
        "responses": { "204": { "description": "Gone" }, "default": { "$ref": "#/components/responses/Problem" } },
    })
}

fn history(resource: &str) -> Value {
    let codes = json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
    let entry = json!({ "type": "object", "properties": { "at": { "type": "string" }, "what": { "type": "string" } } });
    let answer = json!({ "type": "array", "items": entry });
    // Without an id of its own, as many documents have it.
    let mut history = operation("", &format!("What happened to one of the {resource}"), &answer);
    history.as_object_mut().unwrap().remove("operationId");
    history["parameters"] = json!([
        { "$ref": "#/components/parameters/id" },
        { "name": "codes", "in": "path", "required": true, "schema": codes },
        parameter("X-Labels", "header", &json!({ "type": "array", "items": { "type": "string" } })),
    ]);
    history
}
