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
mod query;
mod rank;
mod ranking_weights;
mod sanitize;
mod schema;
mod search;
mod slots;
mod stubs;
mod terms;
#[cfg(test)]
mod testdata;
pub mod tokens;
mod tool;
mod view;

pub use catalog::{Catalog, CatalogServer, identifier};
pub use check::{BadArguments, CheckerError, SchemaChecker, SchemaMismatch};
pub use cursor::BadCursor;
pub use describe::{DescribeError, ToolDetails, UnknownToolName};
pub use detail::{DetailLevel, ToolEntry};
pub use index::SearchIndex;
pub use language::StubLanguage;
pub use list::{ListError, ListedServer, ToolListPage};
pub use observe::observe;
pub use sanitize::summary;
pub use search::{DEFAULT_SLOTS, IntentHits, SearchError, SearchHit, SearchPage, ToolSearch};
pub use stubs::{
    OfferedTool, StubNotes, UntypedCounts, count_untyped, prelude, render_stub, render_stubs, signature, stub_files,
};
pub use tool::{DefinitionDigest, ServerHints, ServerListing, Tool, ToolDefinition};
pub use view::{CatalogView, ToolExtras};
