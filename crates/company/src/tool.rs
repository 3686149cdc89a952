//! The tools: each combines an entity with one operation on it.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::params::{self, ToolParam};
use crate::schema;
use crate::spec::{ActionEffect, COMPANY, Entity, EntityAction, find_entity};

/// The maximum number of records in one exported file.
pub(crate) const MAX_EXPORT_ROWS: i64 = 500;

/// A tool of the company under its public name.
#[derive(Debug)]
pub(crate) struct CompanyTool {
    pub(crate) name: String,
    pub(crate) entity: &'static Entity,
    pub(crate) op: ToolOperation,
}

/// The operation of a tool on its entity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolOperation {
    List,
    /// Lists the records that link to one record by this field.
    Under(&'static str),
    Get,
    Search,
    Count,
    Export,
    Create,
    Update,
    Delete,
    Act(&'static EntityAction),
}

/// All tools, ordered by name.
pub(crate) fn all_tools() -> &'static [CompanyTool] {
    static TOOLS: OnceLock<Vec<CompanyTool>> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let mut tools: Vec<_> = COMPANY.iter().flat_map(entity_tools).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    })
}

/// Finds a tool by its name.
pub(crate) fn find_tool(name: &str) -> Option<&'static CompanyTool> {
    let tools = all_tools();
    tools
        .binary_search_by(|tool| tool.name.as_str().cmp(name))
        .ok()
        .and_then(|at| tools.get(at))
}

/// All tools as `tools/list` returns them: name, title, description, both schemas, annotations and tags, ordered by name.
pub fn definitions() -> &'static [Value] {
    static DEFINITIONS: OnceLock<Vec<Value>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| all_tools().iter().map(CompanyTool::definition).collect())
}

fn entity_tools(entity: &'static Entity) -> Vec<CompanyTool> {
    let (one, many) = (entity.one, entity.many);
    let plain = [
        (format!("list_{many}"), ToolOperation::List),
        (format!("get_{one}"), ToolOperation::Get),
        (format!("search_{many}"), ToolOperation::Search),
        (format!("count_{many}"), ToolOperation::Count),
        (format!("export_{many}"), ToolOperation::Export),
        (format!("create_{one}"), ToolOperation::Create),
        (format!("update_{one}"), ToolOperation::Update),
        (format!("delete_{one}"), ToolOperation::Delete),
    ];
    let under = entity.under.iter().map(|link| {
        let stem = link.strip_suffix("_id").unwrap_or(link);
        (format!("list_{stem}_{many}"), ToolOperation::Under(link))
    });
    let acts = entity
        .actions
        .iter()
        .map(|act| (act.name.to_owned(), ToolOperation::Act(act)));
    let named = plain.into_iter().chain(under).chain(acts);
    named.map(|(name, op)| CompanyTool { name, entity, op }).collect()
}

impl CompanyTool {
    /// The parameters of the tool, in the order of its schema.
    pub(crate) fn params(&self) -> Vec<ToolParam> {
        let entity = self.entity;
        match self.op {
            ToolOperation::List => {
                let mut params = params::filter_params(entity);
                params.push(params::sort_param(entity));
                params.extend(params::paging_params());
                params
            }
            ToolOperation::Under(link) => {
                let mut params: Vec<_> = params::parent_param(entity, link).into_iter().collect();
                params.push(params::sort_param(entity));
                params.extend(params::paging_params());
                params
            }
            ToolOperation::Search => std::iter::once(params::query_param(entity))
                .chain(params::paging_params())
                .collect(),
            ToolOperation::Count => {
                let mut params = params::filter_params(entity);
                params.push(params::group_by_param(entity));
                params
            }
            ToolOperation::Export => {
                let mut params = params::filter_params(entity);
                params.extend([
                    params::format_param(),
                    params::columns_param(entity),
                    params::limit_param(MAX_EXPORT_ROWS, MAX_EXPORT_ROWS),
                ]);
                params
            }
            ToolOperation::Create => params::creation_params(entity, None),
            ToolOperation::Get | ToolOperation::Delete => vec![params::id_param(entity)],
            ToolOperation::Update => std::iter::once(params::id_param(entity))
                .chain(params::update_params(entity))
                .collect(),
            ToolOperation::Act(act) => {
                let mut params = vec![params::id_param(entity)];
                match act.effect {
                    ActionEffect::Set(_) => params.extend(params::action_params(act.takes)),
                    ActionEffect::Add(many, link) => {
                        params.extend(
                            crate::spec::find_entity(many)
                                .map(|it| params::creation_params(it, Some(link)))
                                .unwrap_or_default(),
                        );
                    }
                }
                params
            }
        }
    }

    /// Whether the tool changes no record.
    pub(crate) fn is_read_only(&self) -> bool {
        match self.op {
            ToolOperation::List
            | ToolOperation::Under(_)
            | ToolOperation::Get
            | ToolOperation::Search
            | ToolOperation::Count
            | ToolOperation::Export => true,
            ToolOperation::Create | ToolOperation::Update | ToolOperation::Delete | ToolOperation::Act(_) => false,
        }
    }

    fn definition(&self) -> Value {
        let destroys = matches!(self.op, ToolOperation::Delete);
        let once = matches!(
            self.op,
            ToolOperation::Create
                | ToolOperation::Act(EntityAction {
                    effect: ActionEffect::Add(..),
                    ..
                })
        );
        let mut annotations =
            json!({ "title": self.title(), "readOnlyHint": self.is_read_only(), "openWorldHint": false });
        if let (false, Some(annotations)) = (self.is_read_only(), annotations.as_object_mut()) {
            annotations.insert("destructiveHint".into(), destroys.into());
            annotations.insert("idempotentHint".into(), (!once).into());
        }
        json!({
            "name": self.name,
            "title": self.title(),
            "description": self.description(),
            "inputSchema": self.input_schema(),
            "outputSchema": self.output_schema(),
            "annotations": annotations,
            "_meta": { "tags": [self.entity.area] },
        })
    }

    fn input_schema(&self) -> Map<String, Value> {
        schema::input_schema(&self.params())
    }

    fn output_schema(&self) -> Map<String, Value> {
        schema::output_schema(self.entity, self.op)
    }

    fn title(&self) -> String {
        let mut title = self.name.replace('_', " ");
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        title
    }

    fn description(&self) -> String {
        let (one, about) = (self.entity.spoken_name(), self.entity.about);
        let many = self.entity.many.replace('_', " ");
        match self.op {
            ToolOperation::List => format!(
                "List {many}, narrowed by any of the filters, in pages of at most {} records. One of the {many} is {about}. \
                 All filters given must hold. Follow `next_cursor` until it is null to see every record.",
                params::MAX_PAGE_SIZE
            ),
            ToolOperation::Under(link) => format!(
                "List the {many} of one record, given by its `{link}`, in pages. One of the {many} is {about}. \
                 Follow `next_cursor` until it is null to see every record."
            ),
            ToolOperation::Get => format!("Read one {one} by its id, with all its fields: {about}."),
            ToolOperation::Search => format!(
                "Find {many} by words in their texts. Answers with ids, titles and excerpts, best match first; read a whole record \
                 with `get_{}`.",
                self.entity.one
            ),
            ToolOperation::Count => {
                format!("Count {many}, narrowed by any of the filters, in all or for each value of a field (`by`).")
            }
            ToolOperation::Export => format!(
                "Write {many}, narrowed by any of the filters, into one file of at most {MAX_EXPORT_ROWS} records, as comma separated \
                 values or JSON."
            ),
            ToolOperation::Create => {
                format!("Create a new {one}: {about}. Answers with the whole record and its new id.")
            }
            ToolOperation::Update => format!(
                "Change fields of one {one}; fields that are left out stay as they are. Answers with the whole record."
            ),
            ToolOperation::Delete => {
                format!("Delete one {one} for good. Refused while other records refer to it. This cannot be undone.")
            }
            ToolOperation::Act(act) => {
                let only = act
                    .only
                    .map(|(field, words)| format!(" Possible while `{field}` is `{}`.", words.join("` or `")));
                let adds = match act.effect {
                    ActionEffect::Add(many, _) => {
                        find_entity(many).map(|it| format!(" Answers with the new {}.", it.spoken_name()))
                    }
                    ActionEffect::Set(_) => None,
                };
                format!("{}{}{}", act.about, only.unwrap_or_default(), adds.unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests;
