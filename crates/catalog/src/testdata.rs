//! Small catalogs for tests.

use serde_json::json;

use crate::{Catalog, ServerHints, ServerListing, ToolDefinition};

pub(crate) fn definition(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input: json!({ "type": "object", "properties": { "path": { "type": "string", "description": "where" } } }),
        output: None,
        hints: ServerHints::default(),
        tags: Vec::new(),
    }
}

pub(crate) fn listing(server: &str, tools: &[(&str, &str)]) -> ServerListing {
    ServerListing {
        server: server.to_owned(),
        description: format!("The {server} server."),
        tools: tools
            .iter()
            .map(|(name, description)| definition(name, description))
            .collect(),
    }
}

/// Four servers of the usual kind.
pub(crate) fn catalog() -> Catalog {
    Catalog::new([
        listing(
            "files",
            &[
                ("read_file", "Read the contents of a file from disk."),
                ("write_file", "Write text to a file on disk."),
                ("delete_file", "Delete a file from disk."),
                ("list_directory", "List what a directory holds."),
            ],
        ),
        listing(
            "disk",
            &[
                ("read_file", "Read the contents of a file from the disk."),
                ("usage", "How much room is left."),
            ],
        ),
        listing(
            "mail",
            &[
                ("send_email", "Send an email to somebody."),
                ("search_inbox", "Search messages in the inbox."),
            ],
        ),
        listing(
            "weather",
            &[
                ("get_forecast", "Get the weather forecast for a city."),
                ("天气查询", "查询城市天气"),
            ],
        ),
    ])
}
