//! The tools there are: search, browse and detail; schema checks; typed stubs for TypeScript and Python.
//!
//! Everything a server says of its tools is data, never instruction: names become canonical, texts are capped, schemas are
//! bounded. This crate does not know how a tool is called, and touches neither networks nor files.
#![forbid(unsafe_code)]

mod catalog;
mod tool;

pub use catalog::{Catalog, Entry};
pub use tool::{Definition, Digest, Hints, Listing, Tool};
