//! Text, bytes and lists with a maximum length, enforced while decoding too: a small frame must not become a large value.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value exceeds the maximum length of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("length {length} is more than the {limit} allowed")]
pub struct BoundExceeded {
    /// The maximum length, in bytes or items.
    pub limit: usize,
    /// The length of the value, in the same unit.
    pub length: usize,
}

impl BoundExceeded {
    fn check(length: usize, limit: usize) -> Result<(), Self> {
        if length > limit {
            return Err(Self { limit, length });
        }
        Ok(())
    }
}

/// UTF-8 of at most `N` bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BoundedText<const N: usize>(String);

impl<const N: usize> BoundedText<N> {
    /// Wraps the text, or fails if it is longer than `N` bytes.
    pub fn new(text: impl Into<String>) -> Result<Self, BoundExceeded> {
        let text = text.into();
        BoundExceeded::check(text.len(), N)?;
        Ok(Self(text))
    }

    /// As much of the text as fits, ending in `…` if it was truncated.
    pub fn truncated(text: &str) -> Self {
        const MARK: &str = "…";
        if text.len() <= N {
            return Self(text.to_owned());
        }
        let (room, mark) = match N.checked_sub(MARK.len()) {
            Some(room) => (room, MARK),
            None => (N, ""),
        };
        let kept = &text[..text.floor_char_boundary(room)];
        Self([kept, mark].concat())
    }

    /// Borrows the text, which has at most `N` bytes.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text without its length limit.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const N: usize> Deref for BoundedText<N> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> AsRef<str> for BoundedText<N> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<const N: usize> PartialEq<str> for BoundedText<N> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<const N: usize> PartialEq<&str> for BoundedText<N> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<const N: usize> fmt::Debug for BoundedText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> fmt::Display for BoundedText<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> TryFrom<&str> for BoundedText<N> {
    type Error = BoundExceeded;

    fn try_from(text: &str) -> Result<Self, BoundExceeded> {
        BoundExceeded::check(text.len(), N)?;
        Ok(Self(text.to_owned()))
    }
}

impl<const N: usize> TryFrom<String> for BoundedText<N> {
    type Error = BoundExceeded;

    fn try_from(text: String) -> Result<Self, BoundExceeded> {
        Self::new(text)
    }
}

impl<const N: usize> From<BoundedText<N>> for String {
    fn from(text: BoundedText<N>) -> Self {
        text.0
    }
}

impl<const N: usize> Serialize for BoundedText<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for BoundedText<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor::<N>)
    }
}

struct TextVisitor<const N: usize>;

impl<const N: usize> Visitor<'_> for TextVisitor<N> {
    type Value = BoundedText<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text of at most {N} bytes")
    }

    // Borrowed text comes here as well, so the length is checked before anything is allocated.
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<BoundedText<N>, E> {
        BoundedText::try_from(text).map_err(E::custom)
    }
}

/// At most `N` bytes of any kind.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct BoundedBytes<const N: usize>(Vec<u8>);

impl<const N: usize> BoundedBytes<N> {
    /// Wraps the bytes, or fails if there are more than `N`.
    pub fn new(bytes: Vec<u8>) -> Result<Self, BoundExceeded> {
        BoundExceeded::check(bytes.len(), N)?;
        Ok(Self(bytes))
    }

    /// Borrows the bytes, of which there are at most `N`.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes without their length limit.
    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

impl<const N: usize> Deref for BoundedBytes<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for BoundedBytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const N: usize> Serialize for BoundedBytes<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de, const N: usize> Deserialize<'de> for BoundedBytes<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor::<N>)
    }
}

struct BytesVisitor<const N: usize>;

impl<const N: usize> Visitor<'_> for BytesVisitor<N> {
    type Value = BoundedBytes<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {N} bytes")
    }

    // Borrowed bytes come here as well, so the length is checked before anything is allocated.
    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<BoundedBytes<N>, E> {
        BoundExceeded::check(bytes.len(), N).map_err(E::custom)?;
        Ok(BoundedBytes(bytes.to_vec()))
    }
}

/// At most `N` items.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BoundedList<T, const N: usize>(Vec<T>);

impl<T, const N: usize> BoundedList<T, N> {
    /// Wraps the items, or fails if there are more than `N`.
    pub fn new(items: Vec<T>) -> Result<Self, BoundExceeded> {
        BoundExceeded::check(items.len(), N)?;
        Ok(Self(items))
    }

    /// Keeps the first `N` items and drops the rest.
    pub fn truncated(mut items: Vec<T>) -> Self {
        items.truncate(N);
        Self(items)
    }

    /// Borrows the items, of which there are at most `N`.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Returns the items without their length limit.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const N: usize> Default for BoundedList<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const N: usize> Deref for BoundedList<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for BoundedList<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, const N: usize> IntoIterator for BoundedList<T, N> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T, const N: usize> IntoIterator for &'a BoundedList<T, N> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T: Serialize, const N: usize> Serialize for BoundedList<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&self.0)
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for BoundedList<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor::<T, N>(PhantomData))
    }
}

struct ListVisitor<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ListVisitor<T, N> {
    type Value = BoundedList<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {N} items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<BoundedList<T, N>, A::Error> {
        let claimed = items.size_hint().unwrap_or(0);
        BoundExceeded::check(claimed, N).map_err(A::Error::custom)?;
        // The exact claimed length: growing by doubling would exceed the budget. There is no hint where the claim is
        // more than the bytes that follow, and then the items run out first.
        let mut list = Vec::with_capacity(claimed);
        while let Some(item) = items.next_element()? {
            BoundExceeded::check(list.len() + 1, N).map_err(A::Error::custom)?;
            list.push(item);
        }
        Ok(BoundedList(list))
    }
}

#[cfg(test)]
mod tests;
