//! Access tokens on the command line.

use serde_json::Value;

use crate::setting::Setting;

#[test]
fn a_token_is_made_listed_and_revoked_and_its_secret_is_shown_once() {
    let setting = Setting::new();
    let none = setting.run(&["token", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    let made = setting.run(&["token", "create", "--name", "ci", "--scope", "agent"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let secret = made.stdout.trim();
    assert!(secret.starts_with("rf_") && secret.len() == 93, "{secret}");
    assert!(made.stderr.contains("not shown again"), "{}", made.stderr);
    let listed = setting.run(&["token", "list"]);
    assert!(
        listed.stdout.contains("agent") && listed.stdout.contains("in use"),
        "{}",
        listed.stdout
    );
    let json = setting.json(&["token", "list", "--json"]);
    let id = json[0]["id"].as_str().unwrap().to_owned();
    assert_eq!((&json[0]["name"], &json[0]["revoked"]), (&"ci".into(), &Value::Null));
    assert!(!format!("{listed:?}{json}").contains(&secret[29..]));

    let again = setting.run(&["token", "create", "--name", "ci", "--scope", "viewer"]);
    assert_eq!(again.code, Some(1));
    assert!(
        again.stderr.contains("there is an access token called `ci` already"),
        "{}",
        again.stderr
    );
    let revoked = setting.run(&["token", "revoke", &id]);
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(setting.json(&["token", "list", "--json"])[0]["revoked"].is_string());
    let second = setting.json(&["token", "create", "--name", "ci", "--scope", "viewer", "--json"]);
    assert_eq!(second["scope"], "viewer");
    assert!(second["secret"].as_str().unwrap().starts_with("rf_"));
}

#[test]
fn what_is_no_token_is_said() {
    let setting = Setting::new();
    setting.run(&["token", "create", "--name", "ci", "--scope", "agent"]);
    let cases: [(&[&str], i32, &str); 4] = [
        (&["token", "revoke", "ci"], 1, "`ringfence token list` shows the ids"),
        (
            &["token", "revoke", "t_00000000000000000000000000"],
            1,
            "there is no access token",
        ),
        (
            &["token", "create", "--name", "a\nb", "--scope", "agent"],
            1,
            "no name for an access token",
        ),
        (
            &["token", "create", "--name", "a", "--scope", "root"],
            2,
            "viewer, agent, operator",
        ),
    ];
    for (args, code, words) in cases {
        let done = setting.run(args);
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
}
