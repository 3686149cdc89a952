//! The tools: each combines an entity with one operation on it.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::param::{self, Param};
use crate::schema;
use crate::spec::{Act, COMPANY, Effect, Entity, entity};

/// The maximum number of records in one exported file.
pub(crate) const MOST_EXPORT: i64 = 500;

/// A tool of the company under its public name.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) entity: &'static Entity,
    pub(crate) op: Op,
}

/// The operation of a tool on its entity.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op {
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
    Act(&'static Act),
}

/// All tools, ordered by name.
pub(crate) fn all() -> &'static [Tool] {
    static TOOLS: OnceLock<Vec<Tool>> = OnceLock::new();
    TOOLS.get_or_init(|| {
        let mut tools: Vec<_> = COMPANY.iter().flat_map(of_entity).collect();
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools
    })
}

/// Finds a tool by its name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    let tools = all();
    tools
        .binary_search_by(|tool| tool.name.as_str().cmp(name))
        .ok()
        .and_then(|at| tools.get(at))
}

/// All tools as `tools/list` returns them: name, title, description, both schemas, annotations and tags, ordered by name.
pub fn definitions() -> &'static [Value] {
    static DEFINITIONS: OnceLock<Vec<Value>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| all().iter().map(Tool::definition).collect())
}

fn of_entity(entity: &'static Entity) -> Vec<Tool> {
    let (one, many) = (entity.one, entity.many);
    let plain = [
        (format!("list_{many}"), Op::List),
        (format!("get_{one}"), Op::Get),
        (format!("search_{many}"), Op::Search),
        (format!("count_{many}"), Op::Count),
        (format!("export_{many}"), Op::Export),
        (format!("create_{one}"), Op::Create),
        (format!("update_{one}"), Op::Update),
        (format!("delete_{one}"), Op::Delete),
    ];
    let under = entity.under.iter().map(|link| {
        let stem = link.strip_suffix("_id").unwrap_or(link);
        (format!("list_{stem}_{many}"), Op::Under(link))
    });
    let acts = entity.acts.iter().map(|act| (act.name.to_owned(), Op::Act(act)));
    let named = plain.into_iter().chain(under).chain(acts);
    named.map(|(name, op)| Tool { name, entity, op }).collect()
}

impl Tool {
    /// The parameters of the tool, in the order of its schema.
    pub(crate) fn params(&self) -> Vec<Param> {
        let entity = self.entity;
        match self.op {
            Op::List => {
                let mut params = param::filters(entity);
                params.push(param::sort(entity));
                params.extend(param::paging());
                params
            }
            Op::Under(link) => {
                let mut params: Vec<_> = param::under(entity, link).into_iter().collect();
                params.push(param::sort(entity));
                params.extend(param::paging());
                params
            }
            Op::Search => std::iter::once(param::query(entity)).chain(param::paging()).collect(),
            Op::Count => {
                let mut params = param::filters(entity);
                params.push(param::by(entity));
                params
            }
            Op::Export => {
                let mut params = param::filters(entity);
                params.extend([
                    param::format(),
                    param::columns(entity),
                    param::limit(MOST_EXPORT, MOST_EXPORT),
                ]);
                params
            }
            Op::Create => param::creation(entity, None),
            Op::Get | Op::Delete => vec![param::id(entity)],
            Op::Update => std::iter::once(param::id(entity))
                .chain(param::changes(entity))
                .collect(),
            Op::Act(act) => {
                let mut params = vec![param::id(entity)];
                match act.effect {
                    Effect::Set(_) => params.extend(param::taken(act.takes)),
                    Effect::Add(many, link) => {
                        params.extend(
                            crate::spec::entity(many)
                                .map(|it| param::creation(it, Some(link)))
                                .unwrap_or_default(),
                        );
                    }
                }
                params
            }
        }
    }

    /// Whether the tool changes no record.
    pub(crate) fn reads(&self) -> bool {
        match self.op {
            Op::List | Op::Under(_) | Op::Get | Op::Search | Op::Count | Op::Export => true,
            Op::Create | Op::Update | Op::Delete | Op::Act(_) => false,
        }
    }

    fn definition(&self) -> Value {
        let destroys = matches!(self.op, Op::Delete);
        let once = matches!(
            self.op,
            Op::Create
                | Op::Act(Act {
                    effect: Effect::Add(..),
                    ..
                })
        );
        let mut annotations = json!({ "title": self.title(), "readOnlyHint": self.reads(), "openWorldHint": false });
        if let (false, Some(annotations)) = (self.reads(), annotations.as_object_mut()) {
            annotations.insert("destructiveHint".into(), destroys.into());
            annotations.insert("idempotentHint".into(), (!once).into());
        }
        json!({
            "name": self.name,
            "title": self.title(),
            "description": self.about(),
            "inputSchema": self.input(),
            "outputSchema": self.output(),
            "annotations": annotations,
            "_meta": { "tags": [self.entity.area] },
        })
    }

    fn input(&self) -> Map<String, Value> {
        schema::input(&self.params())
    }

    fn output(&self) -> Map<String, Value> {
        schema::output(self.entity, self.op)
    }

    fn title(&self) -> String {
        let mut title = self.name.replace('_', " ");
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        title
    }

    fn about(&self) -> String {
        let (one, about) = (self.entity.spoken(), self.entity.about);
        let many = self.entity.many.replace('_', " ");
        match self.op {
            Op::List => format!(
                "List {many}, narrowed by any of the filters, in pages of at most {} records. One of the {many} is {about}. \
                 All filters given must hold. Follow `next_cursor` until it is null to see every record.",
                param::MOST_PAGE
            ),
            Op::Under(link) => format!(
                "List the {many} of one record, given by its `{link}`, in pages. One of the {many} is {about}. \
                 Follow `next_cursor` until it is null to see every record."
            ),
            Op::Get => format!("Read one {one} by its id, with all its fields: {about}."),
            Op::Search => format!(
                "Find {many} by words in their texts. Answers with ids, titles and excerpts, best match first; read a whole record \
                 with `get_{}`.",
                self.entity.one
            ),
            Op::Count => {
                format!("Count {many}, narrowed by any of the filters, in all or for each value of a field (`by`).")
            }
            Op::Export => format!(
                "Write {many}, narrowed by any of the filters, into one file of at most {MOST_EXPORT} records, as comma separated \
                 values or JSON."
            ),
            Op::Create => format!("Create a new {one}: {about}. Answers with the whole record and its new id."),
            Op::Update => format!(
                "Change fields of one {one}; fields that are left out stay as they are. Answers with the whole record."
            ),
            Op::Delete => {
                format!("Delete one {one} for good. Refused while other records refer to it. This cannot be undone.")
            }
            Op::Act(act) => {
                let only = act
                    .only
                    .map(|(field, words)| format!(" Possible while `{field}` is `{}`.", words.join("` or `")));
                let adds = match act.effect {
                    Effect::Add(many, _) => entity(many).map(|it| format!(" Answers with the new {}.", it.spoken())),
                    Effect::Set(_) => None,
                };
                format!("{}{}{}", act.about, only.unwrap_or_default(), adds.unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests;
