//! An example company as a tool server whose answers never change.
//!
//! A few hundred tools over customers, orders, products, invoices, issues, documents, people and meetings follow from the
//! tables in `spec`. There is no clock and no randomness: two processes give the same answers to the same calls. Writes
//! change only the memory of their process. This crate does not know its callers, nor that a policy guards its tools.
#![forbid(unsafe_code)]

mod call;
mod params;
mod read;
mod schema;
mod seed;
mod server;
mod spec;
mod store;
mod tool;
mod value;
mod write;

pub use call::{Company, CompanyCallError, CompanyFault};
pub use server::{CompanyServer, StdioServeError, serve_stdio};
pub use tool::definitions;
