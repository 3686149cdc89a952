use super::*;

fn listed() -> (ServerListing, BTreeMap<String, Operation>) {
    let document = json!({
        "openapi": "3.0.0",
        "paths": {
            "/items/{id}": {
                "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
                "put": {
                    "operationId": "put",
                    "parameters": [{"name": "id", "in": "query", "schema": {"type": "integer", "nullable": true}}],
                    "requestBody": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Item"}}}},
                },
                "get": {},
            },
        },
        "components": {"schemas": {"Item": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "child": {"$ref": "#/components/schemas/Item"}, "far": {"$ref": "https://example.com/x"},
        }}}},
    });
    operations::read_operations("one", &document, &[]).unwrap()
}

#[test]
fn an_operation_becomes_one_object_of_arguments() {
    let (listing, operations) = listed();
    let names: Vec<_> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["get_items_id", "put"]);
    let put = listing.tools.last().unwrap();
    let item = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"}, "child": {"$ref": "#/$defs/Item"}, "far": {}}});
    let expected = json!({
        "type": "object", "additionalProperties": false, "required": ["id", "name"],
        "properties": {
            "id": {"type": "string"}, "query_id": {"type": ["integer", "null"]},
            "name": {"type": "string"}, "child": {"$ref": "#/$defs/Item"}, "far": {},
        },
        "$defs": {"Item": item},
    });
    assert_eq!(put.input, expected);
    let place = Place {
        spot: ArgumentLocation::Query,
        called: "id".to_owned(),
        style: ParameterStyle::Apart,
    };
    assert_eq!(operations["put"].places["query_id"], place);
}

#[test]
fn what_the_operator_sends_is_no_parameter() {
    let document = json!({"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a", "parameters": [
        {"name": "X-Api-Key", "in": "header", "required": true, "schema": {"type": "string"}},
        {"name": "X-Page", "in": "header", "schema": {"type": "string"}},
    ]}}}});
    let given = HeaderName::from_static("x-api-key");
    for (given, expected) in [
        (&[][..], &["X-Api-Key", "X-Page"][..]),
        (&[&given][..], &["X-Page"][..]),
    ] {
        let (listing, _) = operations::read_operations("one", &document, given).unwrap();
        let properties = listing.tools[0].input["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_path_part_cannot_leave_its_place() {
    assert_eq!(encode_segment("a/../b?c#d"), "a%2F..%2Fb%3Fc%23d");
    assert_eq!(encode_segment("ä"), "%C3%A4");
}

#[test]
fn requests_go_where_the_document_says_and_only_safely() {
    for (servers, from, expected) in [
        (
            json!([{"url": "https://a.example/v1"}]),
            None,
            Some("https://a.example/v1"),
        ),
        (json!([{"url": "http://a.example/v1"}]), None, None),
        (
            json!([{"url": "/v2"}]),
            Some("https://b.example/doc.json"),
            Some("https://b.example/v2"),
        ),
        (json!([{"url": "/v2"}]), None, None),
        (
            json!([{"url": "https://{h}/", "variables": {"h": {"default": "c.example"}}}]),
            None,
            Some("https://c.example/"),
        ),
        (json!([{"url": "https://me@a.example/"}]), None, None),
    ] {
        let from = from.map(|from| Url::parse(from).unwrap());
        let found = base_url(&json!({"servers": servers}), from.as_ref());
        assert_eq!(found.as_ref().map(Url::as_str), expected);
    }
}

#[test]
fn lists_and_objects_are_written_in_the_style_of_the_document() {
    let (list, object) = (json!(["a b", "c,d", 7]), json!({ "from": "x&y", "to": 2 }));
    let query = |parameter: Value, value: &Value| {
        let pairs = ParameterStyle::of_parameter(&parameter, ArgumentLocation::Query).pairs("p", value);
        let pairs: Vec<String> = pairs.iter().map(|(name, text)| format!("{name}={text}")).collect();
        pairs.join("&")
    };
    for (parameter, value, expected) in [
        (json!({}), &list, "p=a b&p=c,d&p=7"),
        (json!({}), &object, "from=x&y&to=2"),
        (json!({ "explode": false }), &list, "p=a b,c,d,7"),
        (json!({ "explode": false }), &object, "p=from,x&y,to,2"),
        (
            json!({ "style": "pipeDelimited", "explode": false }),
            &list,
            "p=a b|c,d|7",
        ),
        (json!({ "style": "spaceDelimited" }), &list, "p=a b c,d 7"),
        (
            json!({ "style": "deepObject", "explode": true }),
            &object,
            "p[from]=x&y&p[to]=2",
        ),
        (json!({ "content": {} }), &object, r#"p={"from":"x&y","to":2}"#),
        (json!({ "style": "deepObject" }), &json!("text"), "p=text"),
    ] {
        assert_eq!(query(parameter.clone(), value), expected, "{parameter}");
    }
    let path = |parameter: Value, value: &Value| {
        ParameterStyle::of_parameter(&parameter, ArgumentLocation::Path).text(value, encode_segment)
    };
    assert_eq!(path(json!({}), &list), "a%20b,c%2Cd,7");
    assert_eq!(path(json!({}), &object), "from,x%26y,to,2");
    assert_eq!(path(json!({ "explode": true }), &object), "from=x%26y,to=2");
    let header = |parameter: Value, value: &Value| {
        ParameterStyle::of_parameter(&parameter, ArgumentLocation::Header).text(value, str::to_owned)
    };
    assert_eq!(header(json!({}), &list), "a b,c,d,7");
}
