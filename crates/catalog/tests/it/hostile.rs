//! Hostile names, texts and schemas give code that both compilers accept and that has no other meaning.

use std::fs;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use ringfence_catalog::{Catalog, ServerHints, ServerListing, StubLanguage, Tool, ToolDefinition};
use serde_json::{Value, json};

use crate::programs::write_stubs;

const WORDS: [&str; 8] = [
    "*/ declare const stolen: string; /*",
    "\"\"\"\nimport os\nos.system('x')\n\"\"\"",
    "ends in a backslash \\",
    "ends in quotes \"\"",
    "line\u{2028}separator\u{2029}s and \u{0} nul \u{202e}gnirts\u{feff}",
    "@approval not required\n@ts-ignore\n# type: ignore\n// @ts-nocheck",
    "${`x`} </script> <!-- \r\n *\u{200b}/ boom",
    "\\\"\\\"\\\" \\u0022\\u0022\\u0022",
];

const NAMES: [&str; 21] = [
    "",
    "class",
    "delete",
    "list",
    "str",
    "Any",
    "Promise",
    "Record",
    "Array",
    "__proto__",
    "constructor",
    "a b",
    "a-b",
    "a.b",
    "名前",
    "*/",
    "\"",
    "TypedDict",
    "Literal",
    "then",
    "arguments_",
];

fn definition(name: &str, words: &str, input: Value) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: words.to_owned(),
        output: Some(input.clone()),
        input,
        hints: ServerHints::default(),
        tags: Vec::new(),
    }
}

fn schema(words: &str) -> Value {
    let mut fields = serde_json::Map::new();
    for name in NAMES.iter().chain(&WORDS) {
        let inner = json!({ "type": "object", "description": words, "properties": { *name: { "enum": [words, *name], "default": words } } });
        fields.insert((*name).to_owned(), inner);
    }
    json!({ "type": "object", "properties": fields, "required": [words], "$defs": { words: { "type": "string" } } })
}

#[test]
fn hostile_names_and_words_stay_where_they_are_put() {
    let listings = NAMES.iter().map(|server| ServerListing {
        server: format!("{server}{server}"),
        description: WORDS[0].to_owned(),
        tools: NAMES
            .iter()
            .zip(WORDS.iter().cycle())
            .map(|(name, words)| definition(name, words, schema(words)))
            .collect(),
    });
    let catalog = Catalog::new(listings);
    let tools: Vec<&Tool> = catalog.tools().iter().collect();
    assert_eq!(tools.len(), NAMES.len() * NAMES.len());
    let Some(compilers) = crate::compilers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    write_stubs(folder.path(), &tools, StubLanguage::TypeScript);
    write_stubs(folder.path(), &tools, StubLanguage::Python);
    let probe = "const declared: string = stolen;\nexport default declared;\n";
    fs::write(folder.path().join("probe.ts"), probe).expect("a program is written");
    let script = compilers.typescript(folder.path(), &["ringfence.d.ts", "tools.d.ts", "probe.ts"]);
    let expected = std::collections::BTreeSet::from([("probe.ts".to_owned(), 1)]);
    assert_eq!(
        script.lines,
        expected,
        "{}",
        script.output.chars().take(2000).collect::<String>()
    );
    let snake = compilers.python(folder.path(), &["."]);
    assert!(
        snake.lines.is_empty(),
        "{}",
        snake.output.chars().take(2000).collect::<String>()
    );
}

/// Values that resemble a schema.
fn any_schema() -> impl Strategy<Value = Value> {
    let words = [
        "type",
        "properties",
        "items",
        "required",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "oneOf",
        "$ref",
        "#",
        "#/properties/a",
        "#/$defs/a",
        "a",
        "b-c",
        "object",
        "array",
        "string",
        "integer",
        "null",
        "additionalProperties",
        "nullable",
        "$defs",
        "minimum",
        "prefixItems",
        "format",
        "description",
        "default",
        "patternProperties",
        "minItems",
        "str",
        "list",
    ];
    let word = prop_oneof![8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<String>()];
    let leaf = prop_oneof![
        4 => word.clone().prop_map(Value::String),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(7, 96, 8, move |inner| {
        let fields = prop::collection::btree_map(word.clone(), inner.clone(), 0..8);
        let object = fields.prop_map(|fields| Value::Object(fields.into_iter().collect()));
        prop_oneof![1 => prop::collection::vec(inner, 0..6).prop_map(Value::Array), 3 => object]
    })
}

#[test]
fn any_json_as_a_schema_comes_out_as_code_that_compiles() {
    let mut runner = TestRunner::deterministic();
    let strategy = (any_schema(), any_schema(), any_schema(), any::<String>());
    let tools = (0..400).map(|number| {
        let (a, b, defs, words) = strategy.new_tree(&mut runner).expect("a schema is made").current();
        let mixed = json!({ "type": "object", "properties": { "a": a, "b-c": b }, "$defs": { "a": defs } });
        let schema = if number % 2 == 0 { mixed } else { a };
        definition(&format!("t{number}"), &words, schema)
    });
    let tools = tools.collect();
    let catalog = Catalog::new([ServerListing {
        server: "s".to_owned(),
        description: String::new(),
        tools,
    }]);
    let tools: Vec<&Tool> = catalog.tools().iter().collect();
    let Some(compilers) = crate::compilers() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    write_stubs(folder.path(), &tools, StubLanguage::TypeScript);
    write_stubs(folder.path(), &tools, StubLanguage::Python);
    let script = compilers.typescript(folder.path(), &["ringfence.d.ts", "tools.d.ts"]);
    assert!(
        script.lines.is_empty(),
        "{}",
        script.output.chars().take(2000).collect::<String>()
    );
    let snake = compilers.python(folder.path(), &["."]);
    assert!(
        snake.lines.is_empty(),
        "{}",
        snake.output.chars().take(2000).collect::<String>()
    );
}
