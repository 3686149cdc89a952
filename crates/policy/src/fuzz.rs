//! Entry points for fuzzing: functions over bytes that panic only if an invariant is broken. The tests run them on seeded inputs,
//! and any fuzzer can call them.

use std::net::IpAddr;

use crate::address::AddressKind;
use crate::ceiling::Ceiling;
use crate::decide::RuleEffect;
use crate::draft::Draft;
use crate::glob::Glob;
use crate::host::{Host, HostPattern};
use crate::net::{HostRequest, HttpMethod, Scheme};
use crate::path::{GuestPath, RelPath};
use crate::url::UrlPath;

/// Checks a policy document: parsing never panics, a parsed draft can be written and read again, and a policy fits under itself
/// as a ceiling.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(draft) = Draft::parse(text, "fuzz") else { return };
    let Ok(written) = serde_json::to_string(&draft) else {
        unreachable!("every draft can be written");
    };
    let again = Draft::parse(&written, "fuzz");
    assert_eq!(again.as_ref(), Ok(&draft), "what is written reads back");
    let Ok(yaml) = draft.to_yaml() else {
        unreachable!("every draft can be written");
    };
    assert_eq!(Draft::parse(&yaml, "fuzz").as_ref(), Ok(&draft), "as YAML too: {yaml}");
    let bare = Draft {
        examples: Vec::new(),
        ..draft
    };
    let policy = bare.clone().under(&Ceiling::unlimited());
    assert!(policy.is_ok(), "a user's own word has no ceiling: {policy:?}");
    let under_itself = bare.clone().under(&Ceiling::from_draft(&bare));
    assert!(under_itself.is_ok(), "a draft lies under itself: {under_itself:?}");
    assert_eq!(bare.layer(&bare), bare, "laying a draft over itself changes nothing");
}

/// Checks a host: the canonical form is a fixed point, and private addresses stay closed.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_host(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(pattern) = text.parse::<HostPattern>() {
        assert_eq!(pattern.as_str().parse::<HostPattern>().as_ref(), Ok(&pattern));
        assert!(pattern.contains(&pattern));
    }
    let Ok(host) = text.parse::<Host>() else { return };
    let written = host.to_string();
    assert_eq!(
        written.parse::<Host>().as_ref(),
        Ok(&host),
        "canonical is a fixed point"
    );
    assert!(
        written.is_ascii() && !written.contains(['%', '*', '/', '\0', '@']),
        "{written}"
    );
    assert_eq!(written, written.to_ascii_lowercase());
    if let Host::Ip(address) = host {
        assert_only_public_opens(address);
    }
}

fn assert_only_public_opens(address: IpAddr) {
    let Some(Ok(policy)) = Draft::preset("level-4").map(|d| d.under(&Ceiling::unlimited())) else {
        unreachable!("level-4 is part of the program and tested");
    };
    let request = HostRequest {
        host: Host::Ip(address),
        scheme: Scheme::Https,
        port: 443,
        method: Some(HttpMethod::Get),
        path: None,
    };
    let open = policy.decide_host(&request).effect() == RuleEffect::Allow;
    assert_eq!(open, AddressKind::classify(address) == AddressKind::Public, "{address}");
}

/// Checks paths and globs: an accepted path cannot leave its folder, and the canonical form is a fixed point.
///
/// # Panics
/// When an invariant is broken.
pub fn fuzz_path(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let escapes = |path: &str| path.split('/').any(|part| matches!(part, "" | "." | ".."));
    if let Ok(path) = text.parse::<RelPath>() {
        assert!(!escapes(path.as_str()) && !path.as_str().contains('\0'), "{text:?}");
        assert!(path.as_path().is_relative());
    }
    if let Ok(path) = text.parse::<GuestPath>() {
        assert!(!escapes(&path.as_str()[1..]), "{text:?}");
        assert!(path.as_path().is_absolute());
    }
    if let Ok(path) = text.parse::<UrlPath>() {
        assert_eq!(path.as_str().parse::<UrlPath>().as_ref(), Ok(&path));
        let lower = path.as_str().to_ascii_lowercase();
        assert!(
            !["%2e", "%2f", "%5c", "%25", "%00", ";", "\\", "//", "/../"]
                .iter()
                .any(|trick| lower.contains(trick)),
            "{text:?}"
        );
    }
    if let Ok(glob) = text.parse::<Glob>() {
        assert_eq!(glob.as_str().parse::<Glob>().as_ref(), Ok(&glob));
        if let Ok(path) = "a/b/c".parse::<RelPath>() {
            assert!(!glob.matches(&path) || glob.hides(&path));
        }
    }
}

#[cfg(test)]
mod tests;
