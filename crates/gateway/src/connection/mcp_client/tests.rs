use super::*;
use crate::connection::line_transport::LineTransport;
use crate::connection::process::{self, ProcessSpec};
use crate::credential::EnvironmentLookup;

/// The end is noticed when writing or when reading, whichever is first: here when writing.
#[tokio::test]
async fn a_program_that_ended_before_our_first_word_is_named_with_its_last() {
    let start = ProcessSpec {
        command: "/bin/sh",
        args: &["-c".to_owned(), "echo cannot begin >&2; exit 3".to_owned()],
        env: Vec::new(),
        cwd: None,
    };
    let environment: EnvironmentLookup = Arc::new(|_| None);
    let (process, silent, stdin) = process::start_process(&start, &environment, Scrubber::default()).unwrap();
    drop((silent, stdin));
    let (nobody, write) = tokio::io::duplex(64);
    drop(nobody);
    let (_quiet, read) = tokio::io::duplex(64);
    let (lines, fault) = LineTransport::new(read, write);
    let opening = McpClientConfig {
        server: "gone",
        scrubber: Scrubber::default(),
        person: None,
        seen: None,
        within: Duration::from_secs(20),
    };
    let footing = ClientResources {
        process: Some(process),
        state: fault,
        ..ClientResources::default()
    };
    let error = McpClient::open(opening, lines, footing).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "server `gone`: the connection ended: its program ended with exit code 3; its last words:\ncannot begin"
    );
}
