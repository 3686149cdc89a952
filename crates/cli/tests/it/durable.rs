//! Executions that outlive their server: questions to people, kill -9 wherever it hurts, programs that go on as if nothing had
//! happened, and an upstream's own ledger as the witness that no tool was called twice.

mod answers;
mod asking;
mod broken;
mod generated;
mod promised;
mod roads;
mod waiting;
pub(crate) mod world;

pub(crate) use world::upstream;
