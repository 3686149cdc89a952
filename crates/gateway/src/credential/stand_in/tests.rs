use std::path::Path;

use ringfence_policy::HttpMethod;
use serde_json::json;

use super::*;

const SECRET: &str = "s3cr3t/with+signs=";

fn stand_ins() -> (Arc<StandIns>, String) {
    let environment: EnvironmentLookup = Arc::new(|name| (name == "KEY").then(|| SECRET.to_owned()));
    let credentials = json!([
        { "name": "TOKEN", "from": "env:KEY", "for": [{ "host": "api.example.org", "paths": ["/v1/**"] }] },
        { "name": "GONE", "from": "env:NONE", "for": [{ "host": "api.example.org" }] },
    ]);
    let credentials = Credentials::from_section(&credentials, Path::new("/")).unwrap();
    let vault = Vault::in_data_folder(Path::new("/nowhere"), &environment);
    let stand_ins = StandIns::new(&credentials, environment, vault).unwrap();
    let value = stand_ins.environment().next().unwrap().1;
    (Arc::new(stand_ins), value)
}

fn request(host: &str, scheme: Scheme, path: &str) -> HostRequest {
    HostRequest {
        host: host.parse().unwrap(),
        scheme,
        port: scheme.port(),
        method: Some(HttpMethod::Get),
        path: Some(path.parse().unwrap()),
    }
}

async fn attach(
    all: &Arc<StandIns>,
    request: &HostRequest,
    header: &'static str,
    value: &str,
) -> Result<(String, Vec<String>), (&'static str, &'static str)> {
    let mut headers = HeaderMap::new();
    headers.insert(header, HeaderValue::try_from(value).unwrap());
    let used = all
        .attach(request, "/v1/x", &mut headers)
        .await
        .map_err(|misuse| (misuse.refusal.code, misuse.place))?;
    Ok((headers[header].to_str().unwrap().to_owned(), used))
}

#[tokio::test]
async fn a_stand_in_is_replaced_where_its_credential_belongs() {
    let (all, value) = stand_ins();
    let right = request("api.example.org", Scheme::Https, "/v1/x");
    let bearer = attach(&all, &right, "authorization", &format!("Bearer {value}")).await;
    assert_eq!(bearer, Ok((format!("Bearer {SECRET}"), vec!["TOKEN".to_owned()])));
    let encoded = STANDARD.encode(format!("user:{value}"));
    let basic = attach(&all, &right, "authorization", &format!("Basic {encoded}"))
        .await
        .unwrap()
        .0;
    assert_eq!(basic, format!("Basic {}", STANDARD.encode(format!("user:{SECRET}"))));
    let none = attach(&all, &right, "authorization", "Bearer of-their-own").await;
    assert_eq!(none, Ok(("Bearer of-their-own".to_owned(), Vec::new())));
}

#[tokio::test]
async fn a_stand_in_anywhere_else_is_refused() {
    let (all, value) = stand_ins();
    let right = request("api.example.org", Scheme::Https, "/v1/x");
    let check =
        async |request: &HostRequest, header, value: &str| attach(&all, request, header, value).await.unwrap_err();
    let wrong = request("evil.example.org", Scheme::Https, "/v1/x");
    assert_eq!(
        check(&wrong, "authorization", &value).await,
        ("credential.host", "header")
    );
    let path = request("api.example.org", Scheme::Https, "/v2");
    assert_eq!(
        check(&path, "authorization", &value).await,
        ("credential.host", "header")
    );
    let plain = request("api.example.org", Scheme::Http, "/v1/x");
    assert_eq!(
        check(&plain, "authorization", &value).await,
        ("credential.plain", "header")
    );
    assert_eq!(check(&right, "x-other", &value).await, ("credential.place", "header"));
    let encoded = STANDARD.encode(format!("user:{value}"));
    assert_eq!(
        check(&wrong, "authorization", &format!("Basic {encoded}")).await,
        ("credential.host", "header")
    );
    let mut headers = HeaderMap::new();
    let misuse = all
        .attach(&right, &format!("/v1/x?key={value}"), &mut headers)
        .await
        .unwrap_err();
    assert_eq!((misuse.refusal.code, misuse.place), ("credential.place", "URL"));
    let gone = all.environment().nth(1).unwrap().1;
    assert_eq!(
        check(&right, "authorization", &gone).await,
        ("credential.missing", "header")
    );
}

#[tokio::test]
async fn what_is_not_certain_gets_no_credential() {
    let (all, value) = stand_ins();
    let strange = HostRequest {
        path: None,
        ..request("api.example.org", Scheme::Https, "/v1/x")
    };
    let bearer = format!("Bearer {value}");
    let refused = attach(&all, &strange, "authorization", &bearer).await.unwrap_err();
    assert_eq!(refused, ("credential.host", "header"));
    let right = request("api.example.org", Scheme::Https, "/v1/x");
    let twice = format!("{value} {value}");
    let refused = attach(&all, &right, "authorization", &twice).await.unwrap_err();
    assert_eq!(refused, ("credential.place", "header"));
}

#[tokio::test]
async fn a_secret_is_covered_in_base64_of_anything_around_it() {
    let (all, value) = stand_ins();
    let right = request("api.example.org", Scheme::Https, "/v1/x");
    attach(&all, &right, "authorization", &value).await.unwrap();
    for user in ["", "u", "us", "use", "user"] {
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let text = engine.encode(format!("{user}:{SECRET}:tail"));
            let mut mask = all.response_mask();
            let shown = String::from_utf8([mask.push(text.as_bytes()), mask.finish()].concat()).unwrap();
            let stars = shown.matches('*').count();
            assert!(stars + 4 >= SECRET.len() * 4 / 3, "{user}: {text} {shown}");
        }
    }
}

#[tokio::test]
async fn what_was_attached_is_covered_in_answers() {
    let (all, value) = stand_ins();
    assert!(all.response_mask().is_idle());
    let right = request("api.example.org", Scheme::Https, "/v1/x");
    let encoded = STANDARD.encode(format!("user:{value}"));
    attach(&all, &right, "authorization", &format!("Basic {encoded}"))
        .await
        .unwrap();
    let mut mask = all.response_mask();
    let sent = STANDARD.encode(format!("user:{SECRET}"));
    let urlencoded = "s3cr3t%2Fwith%2Bsigns%3D";
    let echoed = format!("a {SECRET} b {sent} c {urlencoded} d {}", STANDARD.encode(SECRET));
    let shown = String::from_utf8([mask.push(echoed.as_bytes()), mask.finish()].concat()).unwrap();
    assert_eq!(shown.len(), echoed.len());
    for secret in [SECRET, &sent, urlencoded, &STANDARD.encode(SECRET)] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn stand_ins_are_of_their_session_and_have_nothing_in_common() {
    let many: Vec<String> = (0..50).map(|_| stand_ins().1).collect();
    for (index, one) in many.iter().enumerate() {
        assert!((MIN_LENGTH..MIN_LENGTH + MAX_EXTRA_LENGTH).contains(&one.len()));
        assert!(many[index + 1..].iter().all(|other| other[..6] != one[..6]));
    }
    let mut spotter = stand_ins().0.leak_detector();
    assert!(!spotter.is_idle() && spotter.push(b"plain") == b"plain");
}
