//! Types observed in results of tools without an output schema: a convenience, stored beside the catalog.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ringfence_catalog::{Catalog, Tool, observe};
use ringfence_disk::{read_bounded, replace_file};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most results of one tool that one process observes; later ones change little.
const MAX_SAMPLES: u32 = 16;
/// Most bytes of the file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
const FILE_NAME: &str = "observed.json";

/// Types observed in results, by tool and definition.
#[derive(Debug)]
pub struct ObservedTypes {
    path: PathBuf,
    tools: Mutex<HashMap<String, ObservedType>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct ObservedType {
    /// Digest of the definition whose results these were.
    digest: String,
    schema: Value,
    #[serde(skip)]
    looked: u32,
    #[serde(skip)]
    changed: bool,
}

impl ObservedTypes {
    /// Loads the types observed before from the data folder `home`; an unreadable file counts as empty.
    pub fn open(home: &std::path::Path) -> ObservedTypes {
        let path = home.join(FILE_NAME);
        let read = || -> io::Result<HashMap<String, ObservedType>> {
            Ok(serde_json::from_slice(&read_bounded(&path, MAX_FILE_BYTES)?)?)
        };
        let tools = read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(%error, "types learnt from results cannot be read");
            }
            HashMap::new()
        });
        ObservedTypes {
            path,
            tools: Mutex::new(tools),
        }
    }

    /// Whether more results of a tool are observed.
    pub(crate) fn still_learns(&self, tool: &Tool) -> bool {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = tools.get(tool.name.as_str());
        seen.is_none_or(|seen| seen.looked < MAX_SAMPLES || seen.digest != tool.digest.to_string())
    }

    /// Merges the type of one result.
    pub(crate) fn learn(&self, tool: &Tool, result: &Value) {
        let digest = tool.digest.to_string();
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = tools
            .entry(tool.name.as_str().to_owned())
            .or_insert_with(|| ObservedType {
                digest: digest.clone(),
                schema: Value::Null,
                looked: 0,
                changed: false,
            });
        if seen.digest != digest {
            *seen = ObservedType {
                digest,
                schema: Value::Null,
                looked: 0,
                changed: true,
            };
        }
        if seen.looked >= MAX_SAMPLES {
            return;
        }
        seen.looked += 1;
        let previous = Some(seen.schema.clone()).filter(|schema| !schema.is_null());
        let schema = observe(previous, result);
        seen.changed |= schema != seen.schema;
        seen.schema = schema;
    }

    /// Returns the observed types for the current tools of a catalog, by name.
    pub fn schemas_for(&self, catalog: &Catalog) -> HashMap<String, Value> {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let current = |name: &str, seen: &ObservedType| {
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
        let ordered: BTreeMap<&String, &ObservedType> = tools.iter().collect();
        replace_file(&self.path, &serde_json::to_vec(&ordered)?)?;
        for seen in tools.values_mut() {
            seen.changed = false;
        }
        Ok(())
    }
}
