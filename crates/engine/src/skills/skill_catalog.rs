//! The skill catalog of one session or principal, beside the tool catalog: built once, and again when skills or tools have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use ringfence_catalog::{Catalog, SearchIndex};
use ringfence_gateway::CatalogSnapshot;
use ringfence_journal::{Principal, SessionId};
use ringfence_store::{DamagedSkill, Skill, SkillError, SkillScope};

use super::required::stale_reason;
use super::{SkillLibrary, SkillLookup, skill_definition, skill_listing};
use crate::engine::lock;

/// Skill catalogs that are kept.
const MAX_CATALOGS: usize = 256;

/// A catalog of skills, as skills and as tools.
#[derive(Debug)]
pub(crate) struct SkillCatalog {
    /// The generations of skills and tools that it was built from.
    generations: (u64, u64),
    pub(crate) catalog: Catalog,
    index: OnceLock<SearchIndex>,
    pub(crate) skills: Vec<CatalogedSkill>,
    /// Skills that are damaged on disk.
    pub(crate) damaged: Vec<DamagedSkill>,
}

/// A skill, and whether it can be used.
#[derive(Debug, Clone)]
pub(crate) struct CatalogedSkill {
    pub(crate) skill: Skill,
    /// Why it cannot be used; none where it can.
    pub(crate) stale: Option<String>,
}

/// The catalogs by the principal and session that they belong to.
pub(crate) type SkillCatalogs = Arc<Mutex<HashMap<(Principal, Option<SessionId>), Arc<SkillCatalog>>>>;

impl SkillCatalog {
    fn new(
        library: &SkillLibrary,
        whose: SkillLookup,
        of: (u64, u64),
        known: &CatalogSnapshot,
    ) -> Result<SkillCatalog, SkillError> {
        let survey = library.skills.survey(&whose.scopes())?;
        let stocked: Vec<CatalogedSkill> = survey
            .skills
            .into_iter()
            .map(|skill| CatalogedSkill {
                stale: stale_reason(&skill.meta.tools, &known.catalog),
                skill: library.redact_skill(skill),
            })
            .collect();
        let definitions = stocked
            .iter()
            .map(|one| skill_definition(&one.skill, one.stale.as_deref()));
        Ok(SkillCatalog {
            generations: of,
            catalog: if stocked.is_empty() {
                Catalog::default()
            } else {
                Catalog::new([skill_listing(definitions)])
            },
            index: OnceLock::new(),
            skills: stocked,
            damaged: survey.damaged,
        })
    }

    /// The search index of the catalog, compatible with that of the tools.
    pub(crate) fn index(&self, tools: &SearchIndex) -> &SearchIndex {
        self.index.get_or_init(|| SearchIndex::new_beside(&self.catalog, tools))
    }
}

impl SkillLibrary {
    /// The catalog of a principal or session, checked against the known tools.
    pub(crate) async fn catalog(
        &self,
        whose: SkillLookup,
        known: &Arc<CatalogSnapshot>,
    ) -> Result<Arc<SkillCatalog>, SkillError> {
        let (library, known) = (self.clone(), Arc::clone(known));
        let made = tokio::task::spawn_blocking(move || library.build_catalog(whose, &known)).await;
        made.map_err(|error| SkillError::Format {
            what: "skills".to_owned(),
            why: error.to_string(),
        })?
    }

    fn build_catalog(&self, whose: SkillLookup, known: &CatalogSnapshot) -> Result<Arc<SkillCatalog>, SkillError> {
        let of = (self.skills.generation()?, known.generation);
        let session = match whose.session {
            Some(session) if !self.skills.list(&[SkillScope::Session(session)])?.is_empty() => Some(session),
            Some(_) | None => None,
        };
        // Most sessions have no skills of their own, and share the catalog of their principal.
        let key = (whose.principal, session);
        let kept = lock(&self.catalogs)
            .get(&key)
            .filter(|stock| stock.generations == of)
            .cloned();
        if let Some(stock) = kept {
            return Ok(stock);
        }
        let whose = SkillLookup { session, ..whose };
        let stock = Arc::new(SkillCatalog::new(self, whose, of, known)?);
        let mut stocks = lock(&self.catalogs);
        if stocks.len() >= MAX_CATALOGS {
            stocks.clear();
        }
        stocks.insert(key, Arc::clone(&stock));
        Ok(stock)
    }
}
