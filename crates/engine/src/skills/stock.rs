//! The skill catalog of one session or principal, beside the tool catalog: built once, and again when skills or tools have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_catalog::{Catalog, Index};
use ringfence_gateway::Known;
use ringfence_journal::{Principal, SessionId};
use ringfence_store::{Damaged, Skill, SkillError, SkillScope};

use super::required::stale;
use super::{Library, Whose, definition, listing};
use crate::engine::lock;

/// Skill catalogs that are kept.
const MOST: usize = 256;

/// A catalog of skills, as skills and as tools.
#[derive(Debug)]
pub(crate) struct Stock {
    /// The generations of skills and tools that it was built from.
    of: (u64, u64),
    pub(crate) catalog: Catalog,
    index: OnceLock<Index>,
    pub(crate) skills: Vec<Stocked>,
    /// Skills that are damaged on disk.
    pub(crate) damaged: Vec<Damaged>,
}

/// A skill, and whether it can be used.
#[derive(Debug, Clone)]
pub(crate) struct Stocked {
    pub(crate) skill: Skill,
    /// Why it cannot be used; none where it can.
    pub(crate) stale: Option<String>,
}

/// The catalogs by the principal and session that they belong to.
pub(crate) type Stocks = Arc<Mutex<HashMap<(Principal, Option<SessionId>), Arc<Stock>>>>;

impl Stock {
    fn new(library: &Library, whose: Whose, of: (u64, u64), known: &Known) -> Result<Stock, SkillError> {
        let survey = library.skills.survey(&whose.scopes())?;
        let stocked: Vec<Stocked> = survey
            .skills
            .into_iter()
            .map(|skill| Stocked {
                stale: stale(&skill.meta.tools, &known.catalog),
                skill: library.told(skill),
            })
            .collect();
        let definitions = stocked.iter().map(|one| definition(&one.skill, one.stale.as_deref()));
        Ok(Stock {
            of,
            catalog: if stocked.is_empty() {
                Catalog::default()
            } else {
                Catalog::new([listing(definitions)])
            },
            index: OnceLock::new(),
            skills: stocked,
            damaged: survey.damaged,
        })
    }

    /// The search index of the catalog, compatible with that of the tools.
    pub(crate) fn index(&self, tools: &Index) -> &Index {
        self.index.get_or_init(|| Index::beside(&self.catalog, tools))
    }
}

impl Library {
    /// The catalog of a principal or session, checked against the known tools.
    pub(crate) async fn stock(&self, whose: Whose, known: &Arc<Known>) -> Result<Arc<Stock>, SkillError> {
        let (library, known) = (self.clone(), Arc::clone(known));
        let made = tokio::task::spawn_blocking(move || library.look(whose, &known)).await;
        made.map_err(|error| SkillError::Format {
            what: "skills".to_owned(),
            why: error.to_string(),
        })?
    }

    fn look(&self, whose: Whose, known: &Known) -> Result<Arc<Stock>, SkillError> {
        let of = (self.skills.generation()?, known.generation);
        let session = match whose.session {
            Some(session) if !self.skills.list(&[SkillScope::Session(session)])?.is_empty() => Some(session),
            Some(_) | None => None,
        };
        // Most sessions have no skills of their own, and share the catalog of their principal.
        let key = (whose.principal, session);
        let kept = lock(&self.stocks).get(&key).filter(|stock| stock.of == of).cloned();
        if let Some(stock) = kept {
            return Ok(stock);
        }
        let whose = Whose { session, ..whose };
        let stock = Arc::new(Stock::new(self, whose, of, known)?);
        let mut stocks = lock(&self.stocks);
        if stocks.len() >= MOST {
            stocks.clear();
        }
        stocks.insert(key, Arc::clone(&stock));
        Ok(stock)
    }
}
