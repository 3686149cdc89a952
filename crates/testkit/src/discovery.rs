//! Measures discovery with labelled questions over real catalogs, which are data from outside the project.

pub mod baseline;
pub mod cost;
pub mod data;
pub mod measure;
