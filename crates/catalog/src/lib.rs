//! The catalog of tools: search, lists and details; schema checks; typed stubs for TypeScript and Python.
//!
//! Everything that a server says about its tools is data, never an instruction: names become canonical, texts are truncated,
//! schemas are bounded. This crate does not call tools, and it does not access networks or files.
#![forbid(unsafe_code)]

mod actions;
mod catalog;
mod check;
mod cursor;
mod describe;
mod detail;
mod fields;
mod glossary;
mod index;
mod language;
mod lexicon;
mod list;
mod observe;
mod parameters;
mod question;
mod rank;
mod said;
mod schema;
mod search;
mod slots;
mod stubs;
#[cfg(test)]
mod testdata;
pub mod tokens;
mod tool;
mod view;
mod words;

pub use catalog::{Catalog, Entry, identifier};
pub use check::{BadArguments, Checker, CheckerError, Problem};
pub use cursor::BadCursor;
pub use describe::{DescribeError, Described, Unknown};
pub use detail::{Detail, Shown};
pub use index::Index;
pub use language::Language;
pub use list::{ListError, Listed, ListedServer};
pub use observe::observe;
pub use said::summary;
pub use search::{Answer, Found, Hit, SLOTS, Search, SearchError};
pub use stubs::{Notes, Offer, Vagueness, files, prelude, signature, stub, stubs, vagueness};
pub use tool::{Definition, Digest, Hints, Listing, Tool};
pub use view::{Noted, View};
