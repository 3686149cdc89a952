//! Schemas with matching and mismatching values, as far as a type can tell.

use serde_json::{Value, json};

/// A schema of arguments with matching and mismatching values.
pub(crate) struct Case {
    pub(crate) schema: Value,
    pub(crate) valid: Vec<Value>,
    pub(crate) invalid: Vec<Value>,
}

/// A case of one required parameter `v`.
fn one(schema: &Value, valid: &[Value], invalid: &[Value]) -> Case {
    let wrap = |value: &Value| json!({ "v": value });
    Case {
        schema: json!({ "type": "object", "properties": { "v": schema }, "required": ["v"] }),
        valid: valid.iter().map(wrap).collect(),
        invalid: invalid.iter().map(wrap).chain([json!({})]).collect(),
    }
}

fn whole(schema: Value, valid: &[Value], invalid: &[Value]) -> Case {
    Case {
        schema,
        valid: valid.to_vec(),
        invalid: invalid.to_vec(),
    }
}

/// Every keyword that a type can express.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = scalars();
    cases.extend(lists());
    cases.extend(objects());
    cases.extend(combinations());
    cases.extend(references());
    cases.extend(arguments());
    cases
}

fn scalars() -> Vec<Case> {
    vec![
        one(
            &json!({ "type": "string" }),
            &[json!("a"), json!("\u{2028}\"'\\")],
            &[json!(1), json!(null), json!(["a"])],
        ),
        one(&json!({ "type": "integer" }), &[json!(3)], &[json!("3"), json!(null)]),
        one(
            &json!({ "type": "number" }),
            &[json!(3), json!(2.5)],
            &[json!("3"), json!({})],
        ),
        one(
            &json!({ "type": "boolean" }),
            &[json!(true)],
            &[json!("true"), json!(1)],
        ),
        one(&json!({ "type": "null" }), &[json!(null)], &[json!(0), json!("null")]),
        one(
            &json!({ "type": ["string", "null"] }),
            &[json!("a"), json!(null)],
            &[json!(1)],
        ),
        one(
            &json!({ "type": "string", "nullable": true }),
            &[json!("a"), json!(null)],
            &[json!(1)],
        ),
        one(&json!({ "const": "fixed" }), &[json!("fixed")], &[json!("other")]),
        one(&json!({ "const": 7 }), &[json!(7)], &[json!(8), json!("7")]),
        one(
            &json!({ "enum": ["a", "b", "it's \"q\" */ \\"] }),
            &[json!("b"), json!("it's \"q\" */ \\")],
            &[json!("c")],
        ),
        one(
            &json!({ "enum": ["a", 1, true, null] }),
            &[json!("a"), json!(1), json!(true), json!(null)],
            &[json!("b"), json!(2), json!(false)],
        ),
        one(
            &json!({ "type": "string", "enum": ["a"], "nullable": true }),
            &[json!("a"), json!(null)],
            &[json!("b")],
        ),
        one(&json!({ "enum": [-1, 0, 1] }), &[json!(-1)], &[json!(2)]),
        one(
            &json!({ "type": "string", "format": "date-time" }),
            &[json!("2026-01-01T00:00:00Z")],
            &[json!(5)],
        ),
        one(
            &json!({ "minLength": 1, "type": "string", "pattern": "^a+$" }),
            &[json!("aa")],
            &[json!(5)],
        ),
        one(&json!(true), &[json!(1), json!("x"), json!(null)], &[]),
        one(&json!({}), &[json!({ "a": [1] })], &[]),
    ]
}

fn lists() -> Vec<Case> {
    vec![
        one(
            &json!({ "type": "array", "items": { "type": "string" } }),
            &[json!([]), json!(["a"])],
            &[json!("a"), json!([1])],
        ),
        one(
            &json!({ "type": "array", "items": { "type": "number" } }),
            &[json!([1, 2.5])],
            &[json!(["a"]), json!(1)],
        ),
        one(&json!({ "type": "array" }), &[json!([1, "a"])], &[json!("a"), json!(3)]),
        one(
            &json!({ "type": "array", "items": { "type": ["string", "integer"] } }),
            &[json!(["a", 1]), json!(["a"])],
            &[json!([null]), json!("a")],
        ),
        one(
            &json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "integer" }], "items": false, "minItems": 2 }),
            &[json!(["a", 1])],
            &[json!([null, 1]), json!("a")],
        ),
        one(
            &json!({ "type": "array", "items": [{ "type": "string" }, { "type": "string" }], "additionalItems": false }),
            &[json!(["a", "b"]), json!(["a"])],
            &[json!([1])],
        ),
        one(
            &json!({ "type": "array", "items": { "type": "array", "items": { "enum": ["x", "y"] } } }),
            &[json!([["x"], []])],
            &[json!([["z"]]), json!(["x"])],
        ),
    ]
}

fn objects() -> Vec<Case> {
    let point = json!({ "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": "number" } }, "required": ["x"], "additionalProperties": false });
    vec![
        one(
            &point,
            &[json!({ "x": 1 }), json!({ "x": 1, "y": 2 })],
            &[json!({}), json!({ "x": "1" }), json!({ "x": 1, "z": 1 }), json!([])],
        ),
        one(
            &json!({ "type": "object" }),
            &[json!({ "any": 1 })],
            &[json!("a"), json!(1)],
        ),
        one(
            &json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
            &[json!({ "a": 1 }), json!({})],
            &[json!({ "a": "1" })],
        ),
        one(
            &json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": true }),
            &[json!({ "a": "x", "b": [1] })],
            &[json!({ "b": 1 }), json!({ "a": 1 })],
        ),
        one(
            &json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": { "type": "integer" } }),
            &[json!({ "a": "x", "b": 1 }), json!({ "b": 1 })],
            &[json!({ "a": "x", "b": null })],
        ),
        one(
            &json!({ "type": "object", "patternProperties": { "^x-": { "type": "boolean" } }, "additionalProperties": false }),
            &[json!({ "x-a": true })],
            &[json!({ "x-a": "no" })],
        ),
        one(
            &json!({ "properties": { "a": { "type": "integer" } } }),
            &[json!({ "a": 1 })],
            &[json!({ "a": "1" })],
        ),
        one(
            &json!({ "type": "object", "properties": { "user-id": { "type": "integer" }, "class": { "type": "string" }, "str": { "type": "integer" }, "": { "type": "string" }, "名前": { "type": "string" } }, "required": ["user-id"] }),
            &[json!({ "user-id": 1, "class": "c", "str": 2, "": "e", "名前": "n" })],
            &[
                json!({ "user-id": "1" }),
                json!({ "class": "c" }),
                json!({ "user-id": 1, "str": "s" }),
            ],
        ),
        one(
            &json!({ "const": { "kind": "a", "n": [1, "x"] } }),
            &[json!({ "kind": "a", "n": [1, "x"] })],
            &[json!({ "kind": "b", "n": [1, "x"] })],
        ),
    ]
}

fn combinations() -> Vec<Case> {
    let cat = json!({ "type": "object", "properties": { "kind": { "const": "cat" }, "lives": { "type": "integer" } }, "required": ["kind", "lives"] });
    let dog = json!({ "type": "object", "properties": { "kind": { "const": "dog" }, "tricks": { "type": "array", "items": { "type": "string" } } }, "required": ["kind"] });
    vec![
        one(
            &json!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] }),
            &[json!("a"), json!(1)],
            &[json!(null), json!([])],
        ),
        one(
            &json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null }),
            &[json!("a"), json!(null)],
            &[json!(1)],
        ),
        one(
            &json!({ "oneOf": [cat, dog] }),
            &[
                json!({ "kind": "cat", "lives": 9 }),
                json!({ "kind": "dog", "tricks": ["sit"] }),
            ],
            &[
                json!({ "kind": "cow" }),
                json!({ "kind": "cat" }),
                json!({ "kind": "dog", "tricks": [1] }),
            ],
        ),
        one(
            &json!({ "allOf": [{ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] }, { "type": "object", "properties": { "b": { "type": "integer" } }, "required": ["b"] }] }),
            &[json!({ "a": "x", "b": 1 })],
            &[json!({ "a": "x" }), json!({ "b": 1 }), json!({ "a": 1, "b": 1 })],
        ),
        one(
            &json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } }, "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] }),
            &[json!({ "a": "x" }), json!({ "b": "x" }), json!({ "a": "x", "b": "y" })],
            &[json!({}), json!({ "a": 1 })],
        ),
        one(
            &json!({ "type": "object", "properties": { "a": { "type": "string" } }, "if": { "required": ["a"] }, "then": { "minProperties": 1 }, "not": { "required": ["z"] } }),
            &[json!({ "a": "x" })],
            &[json!({ "a": 1 })],
        ),
        one(
            &json!({ "allOf": [{ "type": "string" }, { "enum": ["a", "b", 1] }] }),
            &[json!("a")],
            &[json!(1), json!("c")],
        ),
    ]
}

fn references() -> Vec<Case> {
    let tree = json!({
        "type": "object",
        "properties": { "v": { "$ref": "#/$defs/Node" } },
        "required": ["v"],
        "$defs": { "Node": { "type": "object", "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#/$defs/Node" } } }, "required": ["name"] } },
    });
    let json_value = json!({
        "type": "object",
        "properties": { "v": { "$ref": "#/definitions/json" } },
        "required": ["v"],
        "definitions": { "json": { "anyOf": [{ "type": "string" }, { "type": "number" }, { "type": "array", "items": { "$ref": "#/definitions/json" } }, { "type": "object", "additionalProperties": { "$ref": "#/definitions/json" } }] } },
    });
    let shared = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/P" }, "b": { "$ref": "#/$defs/P" }, "c": { "allOf": [{ "$ref": "#/$defs/P" }], "description": "as pydantic writes it" } },
        "required": ["a"],
        "$defs": { "P": { "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"] } },
    });
    let root = json!({ "type": "object", "properties": { "name": { "type": "string" }, "next": { "$ref": "#" } }, "required": ["name"] });
    let remote = json!({ "type": "object", "properties": { "v": { "$ref": "https://example.com/schema.json" }, "w": { "type": "integer" } }, "required": ["v"] });
    vec![
        whole(
            tree,
            &[json!({ "v": { "name": "a", "children": [{ "name": "b", "children": [] }] } })],
            &[
                json!({ "v": { "name": "a", "children": [{ "name": 1 }] } }),
                json!({ "v": {} }),
                json!({ "v": { "name": "a", "children": ["b"] } }),
            ],
        ),
        whole(
            json_value,
            &[json!({ "v": { "a": ["x", 1, { "b": 2 }] } })],
            &[json!({ "v": { "a": [null] } }), json!({ "v": null })],
        ),
        whole(
            shared,
            &[json!({ "a": { "x": 1 }, "b": { "x": 2 }, "c": { "x": 3 } })],
            &[json!({ "a": { "x": "1" } }), json!({ "a": { "x": 1 }, "c": {} })],
        ),
        whole(
            root,
            &[json!({ "name": "a", "next": { "name": "b" } })],
            &[json!({ "name": "a", "next": {} }), json!({ "next": { "name": "b" } })],
        ),
        whole(
            remote,
            &[json!({ "v": 1 }), json!({ "v": "x", "w": 1 })],
            &[json!({ "v": 1, "w": "x" }), json!({ "w": 1 })],
        ),
    ]
}

fn arguments() -> Vec<Case> {
    vec![
        whole(
            json!({ "type": "object", "properties": {}, "additionalProperties": false }),
            &[json!({})],
            &[json!({ "a": 1 })],
        ),
        whole(json!({ "type": "object" }), &[json!({}), json!({ "a": 1 })], &[]),
        whole(
            json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
            &[json!({}), json!({ "a": "x" })],
            &[json!({ "a": 1 })],
        ),
        whole(
            json!({ "type": "object", "properties": { "id": { "type": "integer" }, "user-name": { "type": "string" }, "from": { "type": "string" } }, "required": ["id", "user-name"], "additionalProperties": false }),
            &[
                json!({ "id": 1, "user-name": "n", "from": "f" }),
                json!({ "id": 1, "user-name": "n" }),
            ],
            &[
                json!({ "id": 1 }),
                json!({ "id": 1, "user-name": 2 }),
                json!({ "id": "1", "user-name": "n" }),
            ],
        ),
        whole(
            json!({ "oneOf": [{ "type": "object", "properties": { "id": { "type": "integer" } }, "required": ["id"], "additionalProperties": false }, { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"], "additionalProperties": false }] }),
            &[json!({ "id": 1 }), json!({ "name": "n" })],
            &[json!({}), json!({ "id": "x" }), json!({ "name": 1 })],
        ),
        whole(
            json!({ "type": "object", "additionalProperties": { "type": "integer" } }),
            &[json!({ "a": 1 })],
            &[json!({ "a": "x" })],
        ),
    ]
}
