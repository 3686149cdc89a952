use ringfence_journal::ExecutionId;

use super::{ResourcePart, ResourceUri};

#[test]
fn addresses_are_read_as_they_are_written() {
    let execution = ExecutionId::generate().unwrap();
    let parts = [
        ResourcePart::Stdout,
        ResourcePart::Stderr,
        ResourcePart::Value,
        ResourcePart::File("out/a b%2F.csv".to_owned()),
        ResourcePart::File("größe/日本.txt".to_owned()),
    ];
    for part in parts {
        let link = ResourceUri { execution, part };
        assert_eq!(
            ResourceUri::parse(&link.to_text()),
            Some(link.clone()),
            "{}",
            link.to_text()
        );
    }
}

#[test]
fn what_is_no_address_is_none() {
    let id = ExecutionId::generate().unwrap();
    for uri in [
        "file:///etc/passwd".to_owned(),
        "ringfence://executions/x_1/stdout".to_owned(),
        format!("ringfence://executions/{id}"),
        format!("ringfence://executions/{id}/secrets"),
        format!("ringfence://executions/{id}/files/%zz"),
        format!("ringfence://executions/{id}/files/%ff"),
        format!("ringfence://executions/{id}/files/%+f"),
        format!("ringfence://executions/{id}/files/%4"),
    ] {
        assert_eq!(ResourceUri::parse(&uri), None, "{uri}");
    }
}
