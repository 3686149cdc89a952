//! Renders shapes as Python types.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "only a few shapes need a form of their own"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::{field_annotations, text, unique_name};
use super::docstring;
use crate::schema::{AdditionalKeys, LiteralShape, ObjectShape, SchemaShape, SchemaTypes};

/// The names that stubs use, with the module that provides them if a tool has taken the name.
const IMPORTED_NAMES: [(&str, &str); 14] = [
    ("Any", "__typing.Any"),
    ("Literal", "__typing.Literal"),
    ("Mapping", "__abc.Mapping"),
    ("Never", "__typing.Never"),
    ("NotRequired", "__typing.NotRequired"),
    ("Sequence", "__abc.Sequence"),
    ("TypeAlias", "__typing.TypeAlias"),
    ("TypedDict", "__typing.TypedDict"),
    ("Unpack", "__typing.Unpack"),
    ("bool", "__builtins.bool"),
    ("dict", "__builtins.dict"),
    ("float", "__builtins.float"),
    ("int", "__builtins.int"),
    ("list", "__builtins.list"),
];
const EXTRA_NAMES: [(&str, &str); 2] = [("overload", "__typing.overload"), ("str", "__builtins.str")];

/// The keywords of Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Whether a value is passed to a tool or returned by it. An argument is accepted in every form that becomes the same JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypePosition {
    Argument,
    Result,
}

/// The names of one module.
pub(super) struct ModuleScope {
    taken: BTreeSet<String>,
    known: BTreeMap<&'static str, &'static str>,
}

impl ModuleScope {
    pub(super) fn new(idents: &[&str]) -> ModuleScope {
        let mut taken: BTreeSet<String> = idents.iter().map(|ident| (*ident).to_owned()).collect();
        let names = IMPORTED_NAMES.iter().chain(&EXTRA_NAMES);
        let known = names
            .map(|(name, full)| (*name, if taken.contains(*name) { *full } else { *name }))
            .collect();
        taken.extend(
            IMPORTED_NAMES
                .iter()
                .chain(&EXTRA_NAMES)
                .map(|(name, _)| (*name).to_owned()),
        );
        ModuleScope { taken, known }
    }

    /// The spelling of an imported name in this module.
    pub(super) fn imported_name(&self, name: &'static str) -> &'static str {
        self.known.get(name).copied().unwrap_or(name)
    }
}

/// Whether a name can be that of a keyword argument.
pub(super) fn can_be_keyword(name: &str) -> bool {
    text::is_plain_name(name) && !KEYWORDS.contains(&name) && !name.starts_with("__") && name != "arguments_"
}

/// A field's name for a comment.
pub(super) fn comment_name(name: &str) -> String {
    if can_be_keyword(name) {
        name.to_owned()
    } else {
        text::python_literal(name)
    }
}

/// Writes the types of one schema.
pub(super) struct PythonTypeWriter<'a> {
    scope: &'a mut ModuleScope,
    position: TypePosition,
    /// The Python names of [`SchemaTypes::named`].
    names: Vec<String>,
    /// The text of the classes, in the order of first use.
    classes: String,
    /// Whether objects are written as dictionaries, without classes.
    brief: bool,
}

impl<'a> PythonTypeWriter<'a> {
    pub(super) fn new(
        types: &SchemaTypes,
        position: TypePosition,
        prefix: &str,
        scope: &'a mut ModuleScope,
    ) -> PythonTypeWriter<'a> {
        let names = types
            .named
            .iter()
            .map(|named| format!("{prefix}{}", text::pascal_case(&named.name)));
        let names: Vec<String> = names.map(|name| unique_name(name, &mut scope.taken)).collect();
        let mut writer = PythonTypeWriter {
            scope,
            position,
            names,
            classes: String::new(),
            brief: false,
        };
        for (place, named) in types.named.iter().enumerate() {
            let Some(name) = writer.names.get(place).cloned() else {
                continue;
            };
            match &named.shape {
                SchemaShape::Object(object) if needs_class(object) => writer.write_class(&name, object),
                other => {
                    let text = writer.write_shape(other, &name);
                    let alias = writer.imported_name("TypeAlias");
                    // The text is quoted, because an alias may contain itself.
                    let text = text::python_literal(&text);
                    let _infallible = writeln!(writer.classes, "{name}: {alias} = {text}");
                }
            }
        }
        writer
    }

    pub(super) fn new_brief(types: &SchemaTypes, scope: &'a mut ModuleScope) -> PythonTypeWriter<'a> {
        let names = types.named.iter().map(|named| text::pascal_case(&named.name)).collect();
        PythonTypeWriter {
            scope,
            position: TypePosition::Argument,
            names,
            classes: String::new(),
            brief: true,
        }
    }

    /// The definitions that the types written so far need.
    pub(super) fn definitions(&mut self) -> String {
        std::mem::take(&mut self.classes)
    }

    pub(super) fn imported_name(&self, name: &'static str) -> &'static str {
        self.scope.imported_name(name)
    }

    /// Writes a shape as a type; `hint` names the class that it may need.
    pub(super) fn write_shape(&mut self, shape: &SchemaShape, hint: &str) -> String {
        match shape {
            SchemaShape::Unknown => self.imported_name("Any").to_owned(),
            SchemaShape::Never => self.imported_name("Never").to_owned(),
            SchemaShape::Null => "None".to_owned(),
            SchemaShape::Boolean => self.imported_name("bool").to_owned(),
            SchemaShape::Integer => self.imported_name("int").to_owned(),
            SchemaShape::Number => self.imported_name("float").to_owned(),
            SchemaShape::String => self.imported_name("str").to_owned(),
            SchemaShape::Literal(_) => self.write_union(std::slice::from_ref(shape), hint),
            SchemaShape::List(item) => self.write_list(item, hint),
            SchemaShape::Tuple(tuple) => {
                let rest = tuple.rest.as_deref();
                self.write_list(&crate::schema::union(tuple.items.iter().chain(rest).cloned()), hint)
            }
            SchemaShape::Object(object) => self.write_object(object, hint),
            SchemaShape::Union(shapes) => self.write_union(shapes, hint),
            SchemaShape::Named(place) => match self.names.get(*place) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => self.imported_name("Any").to_owned(),
            },
        }
    }

    fn write_list(&mut self, item: &SchemaShape, hint: &str) -> String {
        let hint = format!("{hint}Item");
        let list = self.imported_name("list");
        let text = self.write_shape(item, &hint);
        if self.position == TypePosition::Result || self.brief {
            return format!("{list}[{text}]");
        }
        // A Python string is also a sequence of strings, but its JSON is not a list.
        match item {
            SchemaShape::Union(shapes)
                if shapes.iter().any(is_text)
                    && !shapes.iter().any(|shape| matches!(shape, SchemaShape::Literal(_))) =>
            {
                let mut forms = vec![format!("{list}[{text}]")];
                for shape in shapes.iter().take(4) {
                    forms.push(format!("{list}[{}]", self.write_shape(shape, &hint)));
                }
                self.join_union(forms)
            }
            item if is_text(item) => format!("{list}[{text}]"),
            _ => format!("{}[{text}]", self.imported_name("Sequence")),
        }
    }

    fn write_object(&mut self, object: &ObjectShape, hint: &str) -> String {
        if self.brief || !needs_class(object) {
            let value = match &object.additional {
                AdditionalKeys::Open(shape) if object.fields.is_empty() => {
                    self.write_shape(shape, &format!("{hint}Value"))
                }
                AdditionalKeys::Open(_) | AdditionalKeys::Unspecified | AdditionalKeys::Closed => {
                    self.imported_name("Any").to_owned()
                }
            };
            let kind = match self.position {
                TypePosition::Argument if !self.brief => self.imported_name("Mapping"),
                TypePosition::Argument | TypePosition::Result => self.imported_name("dict"),
            };
            return format!("{kind}[{}, {value}]", self.imported_name("str"));
        }
        let name = unique_name(hint.to_owned(), &mut self.scope.taken);
        self.write_class(&name, object);
        name
    }

    fn write_class(&mut self, name: &str, object: &ObjectShape) {
        let fields: Vec<(String, String)> = object
            .fields
            .iter()
            .map(|field| {
                let shape = self.write_shape(&field.shape, &format!("{name}{}", text::pascal_case(&field.name)));
                let text = if field.required {
                    shape
                } else {
                    format!("{}[{shape}]", self.imported_name("NotRequired"))
                };
                (field.name.clone(), text)
            })
            .collect();
        let extra = match &object.additional {
            AdditionalKeys::Open(shape) => {
                format!(", extra_items={}", self.write_shape(shape, &format!("{name}Value")))
            }
            AdditionalKeys::Unspecified | AdditionalKeys::Closed => String::new(),
        };
        let words = object
            .fields
            .iter()
            .map(|field| (field, field_annotations(&field.annotations, &["integer"])));
        let words = words.filter(|(_, words)| !words.is_empty());
        let words: Vec<String> = words
            .map(|(field, words)| format!("{}: {words}", comment_name(&field.name)))
            .collect();
        let words = docstring(&words);
        let dict = self.imported_name("TypedDict");
        // In a class body, a field hides a name of the module.
        let plain = |name: &String| can_be_keyword(name) && !self.scope.taken.contains(name);
        let mut out = String::new();
        if fields.iter().all(|(name, _)| plain(name)) {
            let _infallible = writeln!(out, "class {name}({dict}{extra}):");
            out.push_str(&text::indent_lines(&words, "    "));
            for (field, text) in &fields {
                let _infallible = writeln!(out, "    {field}: {text}");
            }
            if fields.is_empty() {
                out.push_str("    ...\n");
            }
        } else {
            let fields: Vec<String> = fields
                .iter()
                .map(|(field, text)| format!("{}: {text}", text::python_literal(field)))
                .collect();
            let _infallible = writeln!(out, "{name} = {dict}(\"{name}\", {{{}}}{extra})", fields.join(", "));
            out.push_str(&words);
        }
        self.classes.push_str(&out);
    }

    fn write_union(&mut self, shapes: &[SchemaShape], hint: &str) -> String {
        let mut spelt = Vec::new();
        let mut forms = Vec::new();
        for (place, shape) in shapes.iter().enumerate() {
            match shape {
                SchemaShape::Literal(LiteralShape::Number(value)) if value.is_f64() => {
                    forms.push(self.imported_name("float").to_owned());
                }
                SchemaShape::Literal(LiteralShape::Number(value)) => spelt.push(value.to_string()),
                SchemaShape::Literal(LiteralShape::String(value)) => spelt.push(text::python_literal(value)),
                SchemaShape::Literal(LiteralShape::Boolean(value)) => {
                    spelt.push(if *value { "True" } else { "False" }.to_owned());
                }
                SchemaShape::Null => {}
                other => {
                    let hint = if place == 0 {
                        hint.to_owned()
                    } else {
                        format!("{hint}{}", place + 1)
                    };
                    forms.push(self.write_shape(other, &hint));
                }
            }
        }
        if !spelt.is_empty() {
            forms.insert(0, format!("{}[{}]", self.imported_name("Literal"), spelt.join(", ")));
        }
        if shapes.contains(&SchemaShape::Null) {
            forms.push("None".to_owned());
        }
        self.join_union(forms)
    }

    fn join_union(&self, mut forms: Vec<String>) -> String {
        let any = self.imported_name("Any");
        if forms.iter().any(|form| form == any) {
            return any.to_owned();
        }
        let mut seen = BTreeSet::new();
        forms.retain(|form| seen.insert(form.clone()));
        forms.join(" | ")
    }
}

/// Whether an object gets a class: it has known keys, or allows no keys at all.
fn needs_class(object: &ObjectShape) -> bool {
    !object.fields.is_empty() || object.additional == AdditionalKeys::Closed
}

/// Whether a value of this shape may be a text.
fn is_text(shape: &SchemaShape) -> bool {
    match shape {
        SchemaShape::String
        | SchemaShape::Unknown
        | SchemaShape::Named(_)
        | SchemaShape::Literal(LiteralShape::String(_)) => true,
        SchemaShape::Union(shapes) => shapes.iter().any(is_text),
        _ => false,
    }
}
