//! Reads the tables of hostile spellings for tests.

/// One line of a table.
pub(crate) struct SpellingRow {
    pub(crate) spelling: String,
    pub(crate) expected: String,
    pub(crate) note: String,
}

/// The lines of a table whose first column is a JSON string.
pub(crate) fn rows(table: &str) -> Vec<SpellingRow> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<SpellingRow> = lines
        .map(|line| {
            let mut columns = line.split('\t');
            let spelling = columns.next().unwrap();
            SpellingRow {
                spelling: serde_json::from_str(spelling).unwrap(),
                expected: columns.next().unwrap().to_owned(),
                note: columns.next().unwrap().to_owned(),
            }
        })
        .collect();
    assert!(rows.len() > 20, "the table is there");
    rows
}
