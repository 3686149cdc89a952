//! Renders shapes as Python types.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "only a few shapes need a form of their own"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::super::{field_words, text, unique};
use super::docstring;
use crate::schema::{Literal, Object, Rest, Shape, Types};

/// The names that stubs use, with the module that provides them if a tool has taken the name.
const NAMES: [(&str, &str); 14] = [
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
const MORE: [(&str, &str); 2] = [("overload", "__typing.overload"), ("str", "__builtins.str")];

/// The keywords of Python.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Whether a value is passed to a tool or returned by it. An argument is accepted in every form that becomes the same JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Argument,
    Result,
}

/// The names of one module.
pub(super) struct Scope {
    taken: BTreeSet<String>,
    known: BTreeMap<&'static str, &'static str>,
}

impl Scope {
    pub(super) fn new(idents: &[&str]) -> Scope {
        let mut taken: BTreeSet<String> = idents.iter().map(|ident| (*ident).to_owned()).collect();
        let names = NAMES.iter().chain(&MORE);
        let known = names
            .map(|(name, full)| (*name, if taken.contains(*name) { *full } else { *name }))
            .collect();
        taken.extend(NAMES.iter().chain(&MORE).map(|(name, _)| (*name).to_owned()));
        Scope { taken, known }
    }

    /// The spelling of an imported name in this module.
    pub(super) fn name(&self, name: &'static str) -> &'static str {
        self.known.get(name).copied().unwrap_or(name)
    }
}

/// Whether a name can be that of a keyword argument.
pub(super) fn keyword(name: &str) -> bool {
    text::plain_name(name) && !KEYWORDS.contains(&name) && !name.starts_with("__") && name != "arguments_"
}

/// A field's name for a comment.
pub(super) fn shown(name: &str) -> String {
    if keyword(name) {
        name.to_owned()
    } else {
        text::python_literal(name)
    }
}

/// Writes the types of one schema.
pub(super) struct Writer<'a> {
    scope: &'a mut Scope,
    position: Position,
    /// The Python names of [`Types::named`].
    names: Vec<String>,
    /// The text of the classes, in the order of first use.
    classes: String,
    /// Whether objects are written as dictionaries, without classes.
    brief: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(types: &Types, position: Position, prefix: &str, scope: &'a mut Scope) -> Writer<'a> {
        let names = types
            .named
            .iter()
            .map(|named| format!("{prefix}{}", text::pascal(&named.name)));
        let names: Vec<String> = names.map(|name| unique(name, &mut scope.taken)).collect();
        let mut writer = Writer {
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
                Shape::Object(object) if classed(object) => writer.class(&name, object),
                other => {
                    let text = writer.shape(other, &name);
                    let alias = writer.name("TypeAlias");
                    // The text is quoted, because an alias may contain itself.
                    let text = text::python_literal(&text);
                    let _infallible = writeln!(writer.classes, "{name}: {alias} = {text}");
                }
            }
        }
        writer
    }

    pub(super) fn brief(types: &Types, scope: &'a mut Scope) -> Writer<'a> {
        let names = types.named.iter().map(|named| text::pascal(&named.name)).collect();
        Writer {
            scope,
            position: Position::Argument,
            names,
            classes: String::new(),
            brief: true,
        }
    }

    /// The definitions that the types written so far need.
    pub(super) fn definitions(&mut self) -> String {
        std::mem::take(&mut self.classes)
    }

    pub(super) fn name(&self, name: &'static str) -> &'static str {
        self.scope.name(name)
    }

    /// Writes a shape as a type; `hint` names the class that it may need.
    pub(super) fn shape(&mut self, shape: &Shape, hint: &str) -> String {
        match shape {
            Shape::Unknown => self.name("Any").to_owned(),
            Shape::Never => self.name("Never").to_owned(),
            Shape::Null => "None".to_owned(),
            Shape::Boolean => self.name("bool").to_owned(),
            Shape::Integer => self.name("int").to_owned(),
            Shape::Number => self.name("float").to_owned(),
            Shape::String => self.name("str").to_owned(),
            Shape::Literal(_) => self.union(std::slice::from_ref(shape), hint),
            Shape::List(item) => self.list(item, hint),
            Shape::Tuple(tuple) => {
                let rest = tuple.rest.as_deref();
                self.list(&crate::schema::union(tuple.items.iter().chain(rest).cloned()), hint)
            }
            Shape::Object(object) => self.object(object, hint),
            Shape::Union(shapes) => self.union(shapes, hint),
            Shape::Named(place) => match self.names.get(*place) {
                Some(name) if !name.is_empty() => name.clone(),
                _ => self.name("Any").to_owned(),
            },
        }
    }

    fn list(&mut self, item: &Shape, hint: &str) -> String {
        let hint = format!("{hint}Item");
        let list = self.name("list");
        let text = self.shape(item, &hint);
        if self.position == Position::Result || self.brief {
            return format!("{list}[{text}]");
        }
        // A Python string is also a sequence of strings, but its JSON is not a list.
        match item {
            Shape::Union(shapes)
                if shapes.iter().any(wordy) && !shapes.iter().any(|shape| matches!(shape, Shape::Literal(_))) =>
            {
                let mut forms = vec![format!("{list}[{text}]")];
                for shape in shapes.iter().take(4) {
                    forms.push(format!("{list}[{}]", self.shape(shape, &hint)));
                }
                self.either(forms)
            }
            item if wordy(item) => format!("{list}[{text}]"),
            _ => format!("{}[{text}]", self.name("Sequence")),
        }
    }

    fn object(&mut self, object: &Object, hint: &str) -> String {
        if self.brief || !classed(object) {
            let value = match &object.rest {
                Rest::Open(shape) if object.fields.is_empty() => self.shape(shape, &format!("{hint}Value")),
                Rest::Open(_) | Rest::Unsaid | Rest::Closed => self.name("Any").to_owned(),
            };
            let kind = match self.position {
                Position::Argument if !self.brief => self.name("Mapping"),
                Position::Argument | Position::Result => self.name("dict"),
            };
            return format!("{kind}[{}, {value}]", self.name("str"));
        }
        let name = unique(hint.to_owned(), &mut self.scope.taken);
        self.class(&name, object);
        name
    }

    fn class(&mut self, name: &str, object: &Object) {
        let fields: Vec<(String, String)> = object
            .fields
            .iter()
            .map(|field| {
                let shape = self.shape(&field.shape, &format!("{name}{}", text::pascal(&field.name)));
                let text = if field.required {
                    shape
                } else {
                    format!("{}[{shape}]", self.name("NotRequired"))
                };
                (field.name.clone(), text)
            })
            .collect();
        let extra = match &object.rest {
            Rest::Open(shape) => format!(", extra_items={}", self.shape(shape, &format!("{name}Value"))),
            Rest::Unsaid | Rest::Closed => String::new(),
        };
        let words = object
            .fields
            .iter()
            .map(|field| (field, field_words(&field.words, &["integer"])));
        let words = words.filter(|(_, words)| !words.is_empty());
        let words: Vec<String> = words
            .map(|(field, words)| format!("{}: {words}", shown(&field.name)))
            .collect();
        let words = docstring(&words);
        let dict = self.name("TypedDict");
        // In a class body, a field hides a name of the module.
        let plain = |name: &String| keyword(name) && !self.scope.taken.contains(name);
        let mut out = String::new();
        if fields.iter().all(|(name, _)| plain(name)) {
            let _infallible = writeln!(out, "class {name}({dict}{extra}):");
            out.push_str(&text::indented(&words, "    "));
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

    fn union(&mut self, shapes: &[Shape], hint: &str) -> String {
        let mut spelt = Vec::new();
        let mut forms = Vec::new();
        for (place, shape) in shapes.iter().enumerate() {
            match shape {
                Shape::Literal(Literal::Number(value)) if value.is_f64() => forms.push(self.name("float").to_owned()),
                Shape::Literal(Literal::Number(value)) => spelt.push(value.to_string()),
                Shape::Literal(Literal::String(value)) => spelt.push(text::python_literal(value)),
                Shape::Literal(Literal::Boolean(value)) => spelt.push(if *value { "True" } else { "False" }.to_owned()),
                Shape::Null => {}
                other => {
                    let hint = if place == 0 {
                        hint.to_owned()
                    } else {
                        format!("{hint}{}", place + 1)
                    };
                    forms.push(self.shape(other, &hint));
                }
            }
        }
        if !spelt.is_empty() {
            forms.insert(0, format!("{}[{}]", self.name("Literal"), spelt.join(", ")));
        }
        if shapes.contains(&Shape::Null) {
            forms.push("None".to_owned());
        }
        self.either(forms)
    }

    fn either(&self, mut forms: Vec<String>) -> String {
        let any = self.name("Any");
        if forms.iter().any(|form| form == any) {
            return any.to_owned();
        }
        let mut seen = BTreeSet::new();
        forms.retain(|form| seen.insert(form.clone()));
        forms.join(" | ")
    }
}

/// Whether an object gets a class: it has known keys, or allows no keys at all.
fn classed(object: &Object) -> bool {
    !object.fields.is_empty() || object.rest == Rest::Closed
}

/// Whether a value of this shape may be a text.
fn wordy(shape: &Shape) -> bool {
    match shape {
        Shape::String | Shape::Unknown | Shape::Named(_) | Shape::Literal(Literal::String(_)) => true,
        Shape::Union(shapes) => shapes.iter().any(wordy),
        _ => false,
    }
}
