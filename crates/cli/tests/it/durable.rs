//! Executions that outlive their server: approval requests, kill -9 at any point, programs that continue as if nothing
//! had happened. The ledger of an upstream proves that no tool was called twice.

mod answers;
mod asking;
mod broken;
mod generated;
mod promised;
mod roads;
mod waiting;
pub(crate) mod world;

pub(crate) use world::upstream;
