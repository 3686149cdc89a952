//! The parameters of a tool: one list gives both the input schema and the check of arguments.

use serde_json::{Map, Value};

use crate::call::CompanyFault;
use crate::spec::{Entity, EntityField, FieldKind, FieldOrigin};
use crate::value::{FieldValue, parse_value};

/// The maximum number of records on one page.
pub(crate) const MAX_PAGE_SIZE: i64 = 100;

/// One parameter of a tool, as its schema describes it and as arguments are checked against it.
#[derive(Debug, Clone)]
pub(crate) struct ToolParam {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) shape: ParamType,
    pub(crate) needed: bool,
    pub(crate) nullable: bool,
    /// The value that the schema names for an absent argument.
    pub(crate) default: Option<Value>,
    pub(crate) role: ParamRole,
}

/// The values that a parameter takes.
#[derive(Debug, Clone)]
pub(crate) enum ParamType {
    /// The values that a field of this kind takes.
    Single(FieldKind),
    /// Exactly one of these words.
    OneOf(Vec<String>),
    /// A list of some of these words, each at most once.
    SomeOf(Vec<String>),
}

/// The effect of an argument on the call; a number is the position of a field in its entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamRole {
    Id,
    Value(usize),
    /// An argument of an action; the number is its position among the fields that the action takes.
    Taken(usize),
    Is(usize),
    Has(usize),
    From(usize),
    To(usize),
    MadeFrom,
    MadeTo,
    Sort,
    Limit,
    Cursor,
    Query,
    By,
    Format,
    Columns,
}

/// An argument that fits its parameter, converted to a field value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CheckedArgument {
    pub(crate) role: ParamRole,
    pub(crate) cell: FieldValue,
}

impl ToolParam {
    fn new(name: impl Into<String>, shape: ParamType, role: ParamRole, about: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: about.into(),
            shape,
            needed: false,
            nullable: false,
            default: None,
            role,
        }
    }

    fn required(mut self) -> Self {
        self.needed = true;
        self
    }

    fn with_default(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}

/// The required `id` parameter of tools that work on one record.
pub(crate) fn id_param(entity: &Entity) -> ToolParam {
    let about = format!("The id of the {}, such as `{}`.", entity.spoken_name(), entity.id(1));
    ToolParam::new(
        "id",
        ParamType::Single(FieldKind::Link(entity.many)),
        ParamRole::Id,
        about,
    )
    .required()
}

/// The required link of a list below one record, such as the customer of `list_customer_orders`.
pub(crate) fn parent_param(entity: &'static Entity, link: &str) -> Option<ToolParam> {
    let (at, field) = entity.field(link)?;
    Some(
        ToolParam::new(
            field.name,
            ParamType::Single(field.kind),
            ParamRole::Is(at),
            field.about,
        )
        .required(),
    )
}

/// The parameters that narrow a list: one or two for each filterable field, and the days of creation.
pub(crate) fn filter_params(entity: &'static Entity) -> Vec<ToolParam> {
    let fields = entity.fields.iter().enumerate().filter(|(_, field)| field.filter);
    let mut params: Vec<_> = fields.flat_map(|(at, field)| field_filters(at, field)).collect();
    let day = ParamType::Single(FieldKind::Day);
    let (from, to) = (
        "Only records made on this day or later.",
        "Only records made on this day or earlier.",
    );
    params.push(ToolParam::new("created_from", day.clone(), ParamRole::MadeFrom, from));
    params.push(ToolParam::new("created_to", day, ParamRole::MadeTo, to));
    params
}

/// The parameters that narrow a list by one field: a range for numbers, days and times, else a value.
fn field_filters(at: usize, field: &EntityField) -> Vec<ToolParam> {
    let EntityField { name, about, kind, .. } = *field;
    let range = |from: String, to: String, kind: FieldKind, words: [&str; 2]| {
        let [more, less] = words.map(|words| format!("{words} {about}"));
        vec![
            ToolParam::new(from, ParamType::Single(kind), ParamRole::From(at), more),
            ToolParam::new(to, ParamType::Single(kind), ParamRole::To(at), less),
        ]
    };
    let same = format!("Only with this one. {about}");
    match kind {
        FieldKind::Day | FieldKind::Time => {
            let words = ["Only from this day on.", "Only up to this day."];
            range(format!("{name}_from"), format!("{name}_to"), FieldKind::Day, words)
        }
        FieldKind::Integer(..) | FieldKind::Cents => range(
            format!("min_{name}"),
            format!("max_{name}"),
            kind,
            ["Only this or more.", "Only this or less."],
        ),
        FieldKind::Tags(words) => vec![ToolParam::new(
            name,
            ParamType::Single(FieldKind::Pick(words)),
            ParamRole::Has(at),
            same,
        )],
        FieldKind::Text(_)
        | FieldKind::Email
        | FieldKind::Uri
        | FieldKind::Phone
        | FieldKind::Flag
        | FieldKind::Pick(_)
        | FieldKind::Link(_)
        | FieldKind::Links(_)
        | FieldKind::Part(_)
        | FieldKind::Parts(_) => {
            let mut param = ToolParam::new(name, ParamType::Single(kind), ParamRole::Is(at), same);
            param.nullable = field.nullable;
            vec![param]
        }
    }
}

/// The parameter that orders a list; the default is the time of creation.
pub(crate) fn sort_param(entity: &Entity) -> ToolParam {
    let ranked = entity.fields.iter().filter(|it| {
        it.filter
            && matches!(
                it.kind,
                FieldKind::Day | FieldKind::Time | FieldKind::Cents | FieldKind::Integer(..)
            )
    });
    let names = std::iter::once("created_at").chain(ranked.map(|it| it.name));
    let words = names.flat_map(|name| [name.to_owned(), format!("-{name}")]).collect();
    ToolParam::new(
        "sort",
        ParamType::OneOf(words),
        ParamRole::Sort,
        "What to order by; a leading `-` means the largest or latest first.",
    )
    .with_default("created_at")
}

/// The page size and the cursor of a paged list.
pub(crate) fn paging_params() -> [ToolParam; 2] {
    let about = "The `next_cursor` of the page before; leave it out for the first page.";
    [
        limit_param(MAX_PAGE_SIZE, 20),
        ToolParam::new(
            "cursor",
            ParamType::Single(FieldKind::Text(120)),
            ParamRole::Cursor,
            about,
        ),
    ]
}

/// The number of records to return, from 1 to `most`.
pub(crate) fn limit_param(most: i64, default: i64) -> ToolParam {
    ToolParam::new(
        "limit",
        ParamType::Single(FieldKind::Integer(1, most)),
        ParamRole::Limit,
        format!("How many records to return, at most {most}."),
    )
    .with_default(default)
}

/// The words to search for in the searchable fields.
pub(crate) fn query_param(entity: &Entity) -> ToolParam {
    let fields: Vec<_> = entity
        .fields
        .iter()
        .filter(|field| field.search)
        .map(|field| format!("`{}`", field.name))
        .collect();
    let about = format!(
        "Words that must all occur in {}; letter case does not matter.",
        fields.join(" or ")
    );
    ToolParam::new(
        "query",
        ParamType::Single(FieldKind::Text(200)),
        ParamRole::Query,
        about,
    )
    .required()
}

/// The field by which records are counted separately.
pub(crate) fn group_by_param(entity: &Entity) -> ToolParam {
    let fields = entity.fields.iter().filter(|it| {
        it.filter
            && matches!(
                it.kind,
                FieldKind::Pick(_) | FieldKind::Flag | FieldKind::Link(_) | FieldKind::Tags(_)
            )
    });
    let names = fields.map(|it| it.name.to_owned()).collect();
    ToolParam::new(
        "by",
        ParamType::OneOf(names),
        ParamRole::By,
        "Count separately for each value of this field.",
    )
}

/// The file type of an export: CSV or JSON.
pub(crate) fn format_param() -> ToolParam {
    let words = ["csv", "json"].map(str::to_owned).to_vec();
    ToolParam::new(
        "file_type",
        ParamType::OneOf(words),
        ParamRole::Format,
        "The kind of file: comma separated values with a header line, or a JSON array.",
    )
    .with_default("csv")
}

/// The fields that an export contains beside the id; all of them by default.
pub(crate) fn columns_param(entity: &Entity) -> ToolParam {
    let words = entity.fields.iter().map(|field| field.name.to_owned()).collect();
    ToolParam::new(
        "columns",
        ParamType::SomeOf(words),
        ParamRole::Columns,
        "Which fields to export beside the id; all when left out.",
    )
}

/// The fields that a new record can have, without the managed ones and without the field `without`.
pub(crate) fn creation_params(entity: &'static Entity, without: Option<&str>) -> Vec<ToolParam> {
    let fields = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.origin != FieldOrigin::Managed && Some(field.name) != without);
    let params = fields.map(|(at, field)| {
        let mut param = field_param(field, ParamRole::Value(at));
        if !param.needed && !matches!(field.kind, FieldKind::Day | FieldKind::Time) {
            let blank = crate::value::blank_value(field).to_json(field.kind);
            param.default = Some(blank).filter(|it| !it.is_null());
        }
        param
    });
    params.collect()
}

/// The fields that an update may change; none of them is required.
pub(crate) fn update_params(entity: &'static Entity) -> Vec<ToolParam> {
    let fields = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.origin != FieldOrigin::Managed);
    fields
        .map(|(at, field)| ToolParam {
            needed: false,
            ..field_param(field, ParamRole::Value(at))
        })
        .collect()
}

/// The parameters of an action, one for each field that it takes.
pub(crate) fn action_params(fields: &[EntityField]) -> impl Iterator<Item = ToolParam> + '_ {
    fields
        .iter()
        .enumerate()
        .map(|(at, field)| field_param(field, ParamRole::Taken(at)))
}

fn field_param(field: &EntityField, role: ParamRole) -> ToolParam {
    let mut param = ToolParam::new(field.name, ParamType::Single(field.kind), role, field.about);
    param.needed = field.origin == FieldOrigin::Required;
    param.nullable = field.nullable;
    param
}

/// Checks arguments against the parameters; the error lists every problem and the names of all parameters.
pub(crate) fn check_arguments(
    tool: &str,
    params: &[ToolParam],
    given: &Map<String, Value>,
) -> Result<Vec<CheckedArgument>, CompanyFault> {
    let mut problems = Vec::new();
    for unknown in given
        .keys()
        .filter(|key| !params.iter().any(|param| param.name == **key))
        .take(8)
    {
        let unknown: String = unknown.chars().take(60).collect();
        let near = params
            .iter()
            .map(|param| (strsim::jaro_winkler(&param.name, &unknown), &param.name));
        let near = near.filter(|(like, _)| *like > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
        let hint = near
            .map(|(_, name)| format!("; did you mean `{name}`?"))
            .unwrap_or_default();
        problems.push(format!("`{unknown}` is unknown{hint}"));
    }
    let mut arguments = Vec::with_capacity(given.len());
    for param in params {
        match given.get(&param.name) {
            Some(value) => {
                let cell = accept_value(param, value, &mut problems);
                arguments.extend(cell.map(|cell| CheckedArgument { role: param.role, cell }));
            }
            None if param.needed => problems.push(format!("`{}` is missing", param.name)),
            None => {}
        }
    }
    if problems.is_empty() {
        return Ok(arguments);
    }
    let takes = params.iter().map(|param| {
        if param.needed {
            format!("`{}` (required)", param.name)
        } else {
            format!("`{}`", param.name)
        }
    });
    Err(CompanyFault::Arguments {
        problems: problems.join("; "),
        tool: tool.to_owned(),
        takes: takes.collect::<Vec<_>>().join(", "),
    })
}

fn accept_value(param: &ToolParam, value: &Value, problems: &mut Vec<String>) -> Option<FieldValue> {
    match &param.shape {
        ParamType::Single(kind) => {
            let mut field = EntityField::new("", *kind, "");
            field.nullable = param.nullable;
            field.origin = if param.needed {
                FieldOrigin::Required
            } else {
                FieldOrigin::Optional
            };
            parse_value(&field, &param.name, value, problems)
        }
        ParamType::OneOf(words) => {
            let cell = value
                .as_str()
                .filter(|text| words.iter().any(|word| word == text))
                .map(|text| FieldValue::Text(text.into()));
            if cell.is_none() {
                problems.push(format!("`{}` must be one of `{}`", param.name, words.join("`, `")));
            }
            cell
        }
        ParamType::SomeOf(words) => {
            let known = |value: &Value| {
                value
                    .as_str()
                    .filter(|text| words.iter().any(|word| word == text))
                    .map(|text| FieldValue::Text(text.into()))
            };
            let cells = value.as_array().filter(|values| values.len() <= words.len());
            let cells = cells.and_then(|values| values.iter().map(known).collect::<Option<Vec<_>>>());
            let once = cells.filter(|cells| {
                cells
                    .iter()
                    .enumerate()
                    .all(|(at, cell)| !cells.iter().skip(at + 1).any(|other| other == cell))
            });
            if once.is_none() {
                problems.push(format!(
                    "`{}` must be a list of some of `{}`, each once",
                    param.name,
                    words.join("`, `")
                ));
            }
            once.map(FieldValue::Many)
        }
    }
}
