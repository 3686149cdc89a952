//! Tests of credentials in requests: attached where they belong, refused elsewhere, masked in responses.

use std::path::Path;
use std::sync::Arc;

use ringfence_gateway::{Credentials, EnvironmentLookup, Vault};
use tokio::io::DuplexStream;
use tokio_rustls::client::TlsStream;

use crate::client::{ask, code, connect, shake, status, tls};
use crate::rig::{Rig, rig_with, tests};

const BOTH: &str = "allowlist: [web.example.com, other.example.com, { host: web.example.com, scheme: http }]";
const SECRET: &str = "ghp_0123456789abcdefghij";

async fn holding() -> (Rig, String) {
    let environment: EnvironmentLookup = Arc::new(|name| (name == "KEY").then(|| SECRET.to_owned()));
    let credentials = serde_json::json!([
        { "name": "TOKEN", "from": "env:KEY", "for": [{ "host": "web.example.com", "paths": ["/v1/**"] }] },
    ]);
    let credentials = Credentials::from_section(&credentials, Path::new("/")).unwrap();
    let vault = Vault::in_data_folder(Path::new("/nowhere"), &environment);
    let rig = rig_with(BOTH, |settings| {
        *settings = settings
            .clone()
            .with_credentials(&credentials, &environment, &vault)
            .unwrap();
    })
    .await;
    let variables = rig.variables();
    let stand_in = variables.into_iter().find(|(name, _)| name == "TOKEN").unwrap().1;
    (rig, stand_in)
}

async fn tunnel(rig: &Rig, host: &str) -> TlsStream<DuplexStream> {
    let mut stream = rig.open();
    connect(&mut stream, &format!("{host}:443")).await;
    // Every tunnel is inspected: the program sees the session's own certificate.
    shake(stream, tls(rig.egress.ca_certificate(), &["http/1.1"]), host)
        .await
        .unwrap()
}

fn get(host: &str, path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")
}

tests! {
    async fn a_credential_is_attached_and_covered_in_the_echo() {
        let (rig, stand_in) = holding().await;
        let mut stream = tunnel(&rig, "web.example.com").await;
        let answer = ask(&mut stream, &get("web.example.com", "/v1/x", &format!("Authorization: Bearer {stand_in}\r\n"))).await;
        assert_eq!(status(&answer), 200);
        let seen = rig.world.last();
        assert_eq!(seen["headers"]["authorization"], format!("Bearer {SECRET}"));
        assert!(!answer.contains(SECRET) && answer.contains(&"*".repeat(SECRET.len())), "{answer}");
        // A secret that was read once is masked wherever it comes back.
        let again = ask(&mut stream, &get("web.example.com", "/v1/y", &format!("X-Mine: {SECRET}\r\n"))).await;
        assert_eq!(status(&again), 200);
        assert!(!again.contains(SECRET), "{again}");
        drop(stream);
        let events = format!("{:?}", rig.book.events.lock().unwrap());
        assert!(events.contains("CredentialUsed") && !events.contains(SECRET) && !events.contains(&stand_in));
    }

    async fn a_stand_in_elsewhere_is_refused_and_told() {
        let (rig, stand_in) = holding().await;
        let bearer = format!("Authorization: Bearer {stand_in}\r\n");
        let mut other = tunnel(&rig, "other.example.com").await;
        assert_eq!(code(&ask(&mut other, &get("other.example.com", "/v1/x", &bearer)).await), "credential.host");
        let mut right = tunnel(&rig, "web.example.com").await;
        assert_eq!(code(&ask(&mut right, &get("web.example.com", "/v2", &bearer)).await), "credential.host");
        let place = format!("X-Key: {stand_in}\r\n");
        assert_eq!(code(&ask(&mut right, &get("web.example.com", "/v1/x", &place)).await), "credential.place");
        assert_eq!(code(&ask(&mut right, &get("web.example.com", &format!("/v1/x?k={stand_in}"), "")).await), "credential.place");
        let plain = format!("GET http://web.example.com/v1/x HTTP/1.1\r\nHost: web.example.com\r\n{bearer}\r\n");
        assert_eq!(code(&ask(&mut rig.open(), &plain).await), "credential.plain");
        assert!(rig.world.requests().is_empty(), "nothing arrived");
        let events = format!("{:?}", rig.book.events.lock().unwrap());
        assert_eq!(events.matches("CredentialMisused").count(), 5, "{events}");
    }

    async fn a_stand_in_in_a_body_ends_it() {
        let (rig, stand_in) = holding().await;
        let mut stream = tunnel(&rig, "web.example.com").await;
        let body = format!("{{\"token\": \"{stand_in}\"}}");
        let request = format!(
            "POST /v1/x HTTP/1.1\r\nHost: web.example.com\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = ask(&mut stream, &request).await;
        assert_eq!((status(&answer), code(&answer).as_str()), (403, "credential.place"), "{answer}");
        drop(stream);
        rig.closed().await;
        assert!(rig.world.requests().iter().all(|request| !request.contains(&stand_in)));
        assert!(!rig.world.last().to_string().contains(&stand_in), "{}", rig.world.last());
        let events = format!("{:?}", rig.book.events.lock().unwrap());
        assert_eq!(events.matches("CredentialMisused").count(), 1, "{events}");
    }
}
