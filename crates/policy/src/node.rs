//! A document as a tree with the position of each part, and a serde deserializer over it, so that every error has its key, line
//! and column.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde_saphyr::Spanned;

/// A position in a document. Line and column count from one; zero means unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl From<serde_saphyr::Location> for SourcePosition {
    fn from(location: serde_saphyr::Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

/// One value and its position.
#[derive(Debug, Clone)]
pub(crate) struct DocumentNode {
    pub(crate) at: SourcePosition,
    pub(crate) value: NodeValue,
}

/// The kinds of values in a document.
#[derive(Debug, Clone)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<DocumentNode>),
    Map(Vec<(String, SourcePosition, DocumentNode)>),
}

impl DocumentNode {
    /// The placeholder of a removed list entry, which the deserializer skips.
    const REMOVED: DocumentNode = DocumentNode {
        at: SourcePosition {
            line: u64::MAX,
            column: u64::MAX,
        },
        value: NodeValue::Null,
    };

    /// Removes the innermost part at a position, or the list entry that contains it. Returns whether there was one.
    pub(crate) fn remove_at(&mut self, at: SourcePosition) -> bool {
        match &mut self.value {
            NodeValue::List(list) => {
                let found = list.iter_mut().find(|node| node.contains_position(at));
                // The entries after it keep their indexes.
                found.map(|node| *node = DocumentNode::REMOVED).is_some()
            }
            NodeValue::Map(entries) => {
                if entries.iter_mut().any(|(_, _, node)| node.remove_at(at)) {
                    return true;
                }
                let found = entries.iter().position(|(_, key, node)| *key == at || node.at == at);
                found.map(|index| entries.remove(index)).is_some()
            }
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Signed(_)
            | NodeValue::Unsigned(_)
            | NodeValue::Float(_)
            | NodeValue::Text(_) => false,
        }
    }

    fn contains_position(&self, at: SourcePosition) -> bool {
        self.at == at
            || match &self.value {
                NodeValue::List(list) => list.iter().any(|node| node.contains_position(at)),
                NodeValue::Map(entries) => entries
                    .iter()
                    .any(|(_, key, node)| *key == at || node.contains_position(at)),
                NodeValue::Null
                | NodeValue::Bool(_)
                | NodeValue::Signed(_)
                | NodeValue::Unsigned(_)
                | NodeValue::Float(_)
                | NodeValue::Text(_) => false,
            }
    }
}

impl<'de> Deserialize<'de> for DocumentNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<NodeValue>::deserialize(deserializer)?;
        Ok(Self {
            at: spanned.referenced.into(),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for NodeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = NodeValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<NodeValue, E> {
        Ok(NodeValue::Null)
    }

    fn visit_none<E>(self) -> Result<NodeValue, E> {
        Ok(NodeValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeValue, D::Error> {
        NodeValue::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<NodeValue, E> {
        Ok(NodeValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<NodeValue, E> {
        Ok(NodeValue::Signed(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<NodeValue, E> {
        Ok(NodeValue::Unsigned(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<NodeValue, E> {
        Ok(NodeValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<NodeValue, E> {
        Ok(NodeValue::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeValue, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(NodeValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeValue, A::Error> {
        let mut entries: Vec<(String, SourcePosition, DocumentNode)> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, DocumentNode>()? {
            if !seen.insert(key.value.clone()) {
                return Err(de::Error::custom(format!("duplicate key `{}`", key.value)));
            }
            entries.push((key.value, key.referenced.into(), node));
        }
        Ok(NodeValue::Map(entries))
    }
}

/// A deserialization error with the innermost position that is known.
#[derive(Debug, Clone)]
pub(crate) struct NodeError {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) at: Option<SourcePosition>,
    /// The keys from the innermost outwards.
    pub(crate) path: Vec<String>,
    /// The unknown key, which is the last part of the dotted key.
    pub(crate) unknown: Option<String>,
}

impl NodeError {
    fn new(message: String) -> Self {
        Self {
            message,
            hint: None,
            at: None,
            path: Vec::new(),
            unknown: None,
        }
    }

    fn with_position(mut self, at: SourcePosition) -> Self {
        self.at.get_or_insert(at);
        self
    }

    fn under_key(mut self, key: &str) -> Self {
        self.path.push(key.to_owned());
        self
    }

    /// The dotted key with list indexes in brackets: `tools.rules[3].rate`.
    pub(crate) fn key(&self) -> String {
        let mut key = String::new();
        for part in self.path.iter().rev().chain(&self.unknown) {
            if !key.is_empty() && !part.starts_with('[') {
                key.push('.');
            }
            key.push_str(part);
        }
        key
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let mut error = Self::new("unknown key".to_owned());
        error.unknown = Some(field.to_owned());
        error.hint = Some(match nearest_name(field, expected) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("known here: {}", join_names(expected)),
        });
        error
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let mut error = Self::new(format!("`{variant}` is not one of {}", join_names(expected)));
        error.hint = nearest_name(variant, expected).map(|known| format!("did you mean `{known}`?"));
        error
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("`{field}` is missing"))
    }

    fn invalid_value(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = match expected.to_string().as_str() {
            "a nonzero u16" => "a whole number from 1 to 65535".to_owned(),
            "a nonzero u32" => "a whole number from 1 to 4294967295".to_owned(),
            "u32" => "a whole number from 0 to 4294967295".to_owned(),
            other => other.to_owned(),
        };
        Self::new(format!("expected {expected}, found {unexpected}"))
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {expected}, found {unexpected}"))
    }
}

/// The known name most similar to a misspelt one; `None` if none is similar.
pub(crate) fn nearest_name<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), *name))
        .filter(|(distance, name)| *distance <= name.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl<'de> Deserializer<'de> for DocumentNode {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let at = self.at;
        match self.value {
            NodeValue::Null => visitor.visit_unit(),
            NodeValue::Bool(value) => visitor.visit_bool(value),
            NodeValue::Signed(value) => visitor.visit_i64(value),
            NodeValue::Unsigned(value) => visitor.visit_u64(value),
            NodeValue::Float(value) => visitor.visit_f64(value),
            NodeValue::Text(value) => visitor.visit_string(value),
            NodeValue::List(list) => visitor.visit_seq(NodeElements {
                rest: list.into_iter().enumerate(),
            }),
            NodeValue::Map(entries) => visitor.visit_map(NodeEntries {
                rest: entries.into_iter(),
                value: None,
            }),
        }
        .map_err(|error| error.with_position(at))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        if matches!(self.value, NodeValue::Null) {
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let at = self.at;
        match self.value {
            NodeValue::Text(text) => visitor.visit_enum(UnitVariant(text)),
            NodeValue::Bool(value) => Err(NodeError::new(format!(
                "expected a word, found the boolean `{value}`, quote it"
            ))),
            NodeValue::Null
            | NodeValue::Signed(_)
            | NodeValue::Unsigned(_)
            | NodeValue::Float(_)
            | NodeValue::List(_)
            | NodeValue::Map(_) => Err(NodeError::new("expected a word".to_owned())),
        }
        .map_err(|error| error.with_position(at))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        // Otherwise a list would be read as the fields in their order.
        if matches!(self.value, NodeValue::Map(_)) {
            self.deserialize_any(visitor)
        } else {
            Err(NodeError::new("expected keys with values".to_owned()).with_position(self.at))
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

struct NodeElements {
    rest: std::iter::Enumerate<std::vec::IntoIter<DocumentNode>>,
}

impl<'de> SeqAccess<'de> for NodeElements {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, NodeError> {
        let Some((index, node)) = self.rest.find(|(_, node)| node.at != DocumentNode::REMOVED.at) else {
            return Ok(None);
        };
        let at = node.at;
        seed.deserialize(node)
            .map(Some)
            .map_err(|error| error.with_position(at).under_key(&format!("[{index}]")))
    }
}

struct NodeEntries {
    rest: std::vec::IntoIter<(String, SourcePosition, DocumentNode)>,
    value: Option<(String, DocumentNode)>,
}

impl<'de> MapAccess<'de> for NodeEntries {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, NodeError> {
        let Some((key, at, node)) = self.rest.next() else {
            return Ok(None);
        };
        self.value = Some((key.clone(), node));
        seed.deserialize(IntoDeserializer::<NodeError>::into_deserializer(key))
            .map(Some)
            .map_err(|error| error.with_position(at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, NodeError> {
        let Some((key, node)) = self.value.take() else {
            return Err(NodeError::new("a value was read before its key".to_owned()));
        };
        let at = node.at;
        seed.deserialize(node)
            .map_err(|error| error.with_position(at).under_key(&key))
    }
}

struct UnitVariant(String);

impl<'de> EnumAccess<'de> for UnitVariant {
    type Error = NodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), NodeError> {
        let word = IntoDeserializer::<NodeError>::into_deserializer(self.0.clone());
        Ok((seed.deserialize(word)?, self))
    }
}

impl<'de> VariantAccess<'de> for UnitVariant {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, NodeError> {
        Err(NodeError::new(format!("`{}` takes no value", self.0)))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, NodeError> {
        Err(NodeError::new(format!("`{}` takes no value", self.0)))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, NodeError> {
        Err(NodeError::new(format!("`{}` takes no value", self.0)))
    }
}
