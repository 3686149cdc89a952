//! Types observed in results of tools without an output schema: a convenience, stored beside the catalog.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ringfence_catalog::{Catalog, Tool, observe};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::keep::{read_bounded, replace};

/// Most results of one tool that one process observes; later ones change little.
const ENOUGH: u32 = 16;
/// Most bytes of the file.
const MOST: u64 = 16 * 1024 * 1024;
const FILE: &str = "observed.json";

/// Types observed in results, by tool and definition.
#[derive(Debug)]
pub struct Learnt {
    path: PathBuf,
    tools: Mutex<HashMap<String, Seen>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Seen {
    /// Digest of the definition whose results these were.
    digest: String,
    schema: Value,
    #[serde(skip)]
    looked: u32,
    #[serde(skip)]
    changed: bool,
}

impl Learnt {
    /// Loads the types observed before from the data folder `home`; an unreadable file counts as empty.
    pub fn open(home: &std::path::Path) -> Learnt {
        let path = home.join(FILE);
        let read = || -> io::Result<HashMap<String, Seen>> { Ok(serde_json::from_slice(&read_bounded(&path, MOST)?)?) };
        let tools = read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, "types learnt from results cannot be read");
            }
            HashMap::new()
        });
        Learnt {
            path,
            tools: Mutex::new(tools),
        }
    }

    /// Whether more results of a tool are observed.
    pub(crate) fn still_learns(&self, tool: &Tool) -> bool {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = tools.get(tool.name.as_str());
        seen.is_none_or(|seen| seen.looked < ENOUGH || seen.digest != tool.digest.to_string())
    }

    /// Merges the type of one result.
    pub(crate) fn learn(&self, tool: &Tool, result: &Value) {
        let digest = tool.digest.to_string();
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = tools.entry(tool.name.as_str().to_owned()).or_insert_with(|| Seen {
            digest: digest.clone(),
            schema: Value::Null,
            looked: 0,
            changed: false,
        });
        if seen.digest != digest {
            *seen = Seen {
                digest,
                schema: Value::Null,
                looked: 0,
                changed: true,
            };
        }
        if seen.looked >= ENOUGH {
            return;
        }
        seen.looked += 1;
        let previous = Some(seen.schema.clone()).filter(|schema| !schema.is_null());
        let schema = observe(previous, result);
        seen.changed |= schema != seen.schema;
        seen.schema = schema;
    }

    /// Returns the observed types for the current tools of a catalog, by name.
    pub fn known(&self, catalog: &Catalog) -> HashMap<String, Value> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let current = |name: &str, seen: &Seen| {
            let tool = catalog.get(name)?;
            (seen.digest == tool.digest.to_string() && !seen.schema.is_null()).then(|| seen.schema.clone())
        };
        tools
            .iter()
            .filter_map(|(name, seen)| Some((name.clone(), current(name, seen)?)))
            .collect()
    }

    /// Writes changed types to the file.
    pub fn save(&self) -> io::Result<()> {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if !tools.values().any(|seen| seen.changed) {
            return Ok(());
        }
        let ordered: BTreeMap<&String, &Seen> = tools.iter().collect();
        replace(&self.path, &serde_json::to_vec(&ordered)?)?;
        for seen in tools.values_mut() {
            seen.changed = false;
        }
        Ok(())
    }
}
