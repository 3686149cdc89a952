//! The parameters of a tool: one list gives both the input schema and the check of arguments.

use serde_json::{Map, Value};

use crate::call::Fault;
use crate::cell::{Cell, read};
use crate::spec::{Entity, Field, Given, Kind};

/// The maximum number of records on one page.
pub(crate) const MOST_PAGE: i64 = 100;

/// One parameter of a tool, as its schema describes it and as arguments are checked against it.
#[derive(Debug, Clone)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) shape: Shape,
    pub(crate) needed: bool,
    pub(crate) nullable: bool,
    /// The value that the schema names for an absent argument.
    pub(crate) default: Option<Value>,
    pub(crate) role: Role,
}

/// The values that a parameter takes.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// The values that a field of this kind takes.
    Of(Kind),
    /// Exactly one of these words.
    OneOf(Vec<String>),
    /// A list of some of these words, each at most once.
    SomeOf(Vec<String>),
}

/// The effect of an argument on the call; a number is the position of a field in its entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
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
pub(crate) struct Argument {
    pub(crate) role: Role,
    pub(crate) cell: Cell,
}

impl Param {
    fn new(name: impl Into<String>, shape: Shape, role: Role, about: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            shape,
            needed: false,
            nullable: false,
            default: None,
            role,
        }
    }

    fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    fn or(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }
}

/// The required `id` parameter of tools that work on one record.
pub(crate) fn id(entity: &Entity) -> Param {
    let about = format!("The id of the {}, such as `{}`.", entity.spoken(), entity.id(1));
    Param::new("id", Shape::Of(Kind::Link(entity.many)), Role::Id, about).needed()
}

/// The required link of a list below one record, such as the customer of `list_customer_orders`.
pub(crate) fn under(entity: &'static Entity, link: &str) -> Option<Param> {
    let (at, field) = entity.field(link)?;
    Some(Param::new(field.name, Shape::Of(field.kind), Role::Is(at), field.about).needed())
}

/// The parameters that narrow a list: one or two for each filterable field, and the days of creation.
pub(crate) fn filters(entity: &'static Entity) -> Vec<Param> {
    let fields = entity.fields.iter().enumerate().filter(|(_, field)| field.filter);
    let mut params: Vec<_> = fields.flat_map(|(at, field)| narrows(at, field)).collect();
    let day = Shape::Of(Kind::Day);
    let (from, to) = (
        "Only records made on this day or later.",
        "Only records made on this day or earlier.",
    );
    params.push(Param::new("created_from", day.clone(), Role::MadeFrom, from));
    params.push(Param::new("created_to", day, Role::MadeTo, to));
    params
}

/// The parameters that narrow a list by one field: a range for numbers, days and times, else a value.
fn narrows(at: usize, field: &Field) -> Vec<Param> {
    let Field { name, about, kind, .. } = *field;
    let range = |from: String, to: String, kind: Kind, words: [&str; 2]| {
        let [more, less] = words.map(|words| format!("{words} {about}"));
        vec![
            Param::new(from, Shape::Of(kind), Role::From(at), more),
            Param::new(to, Shape::Of(kind), Role::To(at), less),
        ]
    };
    let same = format!("Only with this one. {about}");
    match kind {
        Kind::Day | Kind::Time => {
            let words = ["Only from this day on.", "Only up to this day."];
            range(format!("{name}_from"), format!("{name}_to"), Kind::Day, words)
        }
        Kind::Integer(..) | Kind::Cents => range(
            format!("min_{name}"),
            format!("max_{name}"),
            kind,
            ["Only this or more.", "Only this or less."],
        ),
        Kind::Tags(words) => vec![Param::new(name, Shape::Of(Kind::Pick(words)), Role::Has(at), same)],
        Kind::Text(_)
        | Kind::Email
        | Kind::Uri
        | Kind::Phone
        | Kind::Flag
        | Kind::Pick(_)
        | Kind::Link(_)
        | Kind::Links(_)
        | Kind::Part(_)
        | Kind::Parts(_) => {
            let mut param = Param::new(name, Shape::Of(kind), Role::Is(at), same);
            param.nullable = field.nullable;
            vec![param]
        }
    }
}

/// The parameter that orders a list; the default is the time of creation.
pub(crate) fn sort(entity: &Entity) -> Param {
    let ranked = entity
        .fields
        .iter()
        .filter(|it| it.filter && matches!(it.kind, Kind::Day | Kind::Time | Kind::Cents | Kind::Integer(..)));
    let names = std::iter::once("created_at").chain(ranked.map(|it| it.name));
    let words = names.flat_map(|name| [name.to_owned(), format!("-{name}")]).collect();
    Param::new(
        "sort",
        Shape::OneOf(words),
        Role::Sort,
        "What to order by; a leading `-` means the largest or latest first.",
    )
    .or("created_at")
}

/// The page size and the cursor of a paged list.
pub(crate) fn paging() -> [Param; 2] {
    let about = "The `next_cursor` of the page before; leave it out for the first page.";
    [
        limit(MOST_PAGE, 20),
        Param::new("cursor", Shape::Of(Kind::Text(120)), Role::Cursor, about),
    ]
}

/// The number of records to return, from 1 to `most`.
pub(crate) fn limit(most: i64, default: i64) -> Param {
    Param::new(
        "limit",
        Shape::Of(Kind::Integer(1, most)),
        Role::Limit,
        format!("How many records to return, at most {most}."),
    )
    .or(default)
}

/// The words to search for in the searchable fields.
pub(crate) fn query(entity: &Entity) -> Param {
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
    Param::new("query", Shape::Of(Kind::Text(200)), Role::Query, about).needed()
}

/// The field by which records are counted separately.
pub(crate) fn by(entity: &Entity) -> Param {
    let fields = entity
        .fields
        .iter()
        .filter(|it| it.filter && matches!(it.kind, Kind::Pick(_) | Kind::Flag | Kind::Link(_) | Kind::Tags(_)));
    let names = fields.map(|it| it.name.to_owned()).collect();
    Param::new(
        "by",
        Shape::OneOf(names),
        Role::By,
        "Count separately for each value of this field.",
    )
}

/// The file type of an export: CSV or JSON.
pub(crate) fn format() -> Param {
    let words = ["csv", "json"].map(str::to_owned).to_vec();
    Param::new(
        "file_type",
        Shape::OneOf(words),
        Role::Format,
        "The kind of file: comma separated values with a header line, or a JSON array.",
    )
    .or("csv")
}

/// The fields that an export contains beside the id; all of them by default.
pub(crate) fn columns(entity: &Entity) -> Param {
    let words = entity.fields.iter().map(|field| field.name.to_owned()).collect();
    Param::new(
        "columns",
        Shape::SomeOf(words),
        Role::Columns,
        "Which fields to export beside the id; all when left out.",
    )
}

/// The fields that a new record can have, without the managed ones and without the field `without`.
pub(crate) fn creation(entity: &'static Entity, without: Option<&str>) -> Vec<Param> {
    let fields = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.given != Given::Kept && Some(field.name) != without);
    let params = fields.map(|(at, field)| {
        let mut param = of_field(field, Role::Value(at));
        if !param.needed && !matches!(field.kind, Kind::Day | Kind::Time) {
            let blank = crate::cell::blank(field).show(field.kind);
            param.default = Some(blank).filter(|it| !it.is_null());
        }
        param
    });
    params.collect()
}

/// The fields that an update may change; none of them is required.
pub(crate) fn changes(entity: &'static Entity) -> Vec<Param> {
    let fields = entity
        .fields
        .iter()
        .enumerate()
        .filter(|(_, field)| field.given != Given::Kept);
    fields
        .map(|(at, field)| Param {
            needed: false,
            ..of_field(field, Role::Value(at))
        })
        .collect()
}

/// The parameters of an action, one for each field that it takes.
pub(crate) fn taken(fields: &[Field]) -> impl Iterator<Item = Param> + '_ {
    fields
        .iter()
        .enumerate()
        .map(|(at, field)| of_field(field, Role::Taken(at)))
}

fn of_field(field: &Field, role: Role) -> Param {
    let mut param = Param::new(field.name, Shape::Of(field.kind), role, field.about);
    param.needed = field.given == Given::Needed;
    param.nullable = field.nullable;
    param
}

/// Checks arguments against the parameters; the error lists every problem and the names of all parameters.
pub(crate) fn check(tool: &str, params: &[Param], given: &Map<String, Value>) -> Result<Vec<Argument>, Fault> {
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
                let cell = accept(param, value, &mut problems);
                arguments.extend(cell.map(|cell| Argument { role: param.role, cell }));
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
    Err(Fault::Arguments {
        problems: problems.join("; "),
        tool: tool.to_owned(),
        takes: takes.collect::<Vec<_>>().join(", "),
    })
}

fn accept(param: &Param, value: &Value, problems: &mut Vec<String>) -> Option<Cell> {
    match &param.shape {
        Shape::Of(kind) => {
            let mut field = Field::new("", *kind, "");
            field.nullable = param.nullable;
            field.given = if param.needed { Given::Needed } else { Given::Open };
            read(&field, &param.name, value, problems)
        }
        Shape::OneOf(words) => {
            let cell = value
                .as_str()
                .filter(|text| words.iter().any(|word| word == text))
                .map(|text| Cell::Text(text.into()));
            if cell.is_none() {
                problems.push(format!("`{}` must be one of `{}`", param.name, words.join("`, `")));
            }
            cell
        }
        Shape::SomeOf(words) => {
            let known = |value: &Value| {
                value
                    .as_str()
                    .filter(|text| words.iter().any(|word| word == text))
                    .map(|text| Cell::Text(text.into()))
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
            once.map(Cell::Many)
        }
    }
}
