//! Skills in MCP: saved in one session, found next to tools, used in another session.

use std::time::Duration;

use ringfence_engine::approvals::{self, AnswerSubmission, ApprovalQuery, ApprovalState};
use ringfence_journal::{ApprovalScope, ApprovalVia, Principal};
use ringfence_store::{RequiredTool, SkillBody, SkillLanguage, SkillMeta, SkillName, SkillScope};
use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::{ME, Setting};

const GREET: &str =
    "export default async function (input: { name: string }) { return (await tools.small.hello(input)).greeting }";
const COUNT: &str =
    "async def main(names):\n    from skills import greet\n    return [len(await greet(name=n)) for n in names]\n";

async fn save(client: &mut Client, arguments: Value) -> Value {
    let saved = client.call("save_skill", arguments).await;
    assert_ne!(saved["isError"], true, "{saved}");
    saved["structuredContent"].clone()
}

async fn run(client: &mut Client, language: &str, code: &str) -> Value {
    let ran = client
        .call("sandboxed_code_run", json!({ "language": language, "code": code }))
        .await;
    ran["structuredContent"].clone()
}

fn greet() -> Value {
    json!({
        "name": "greet",
        "description": "Greets somebody politely, by name.",
        "code": GREET,
        "language": "typescript",
        "inputs": { "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] },
        "outputs": { "type": "string" },
    })
}

#[tokio::test]
async fn a_skill_saved_in_one_session_is_used_in_another_from_each_language() {
    let setting = Setting::with_tools(&[]).await;
    let mut first = setting.client().await;
    let saved = save(&mut first, greet()).await;
    assert_eq!(
        (&saved["name"], &saved["version"], &saved["call"], &saved["tools"]),
        (
            &json!("greet"),
            &json!(1),
            &json!("skills.greet"),
            &json!(["small.hello"])
        )
    );
    let count = json!({
        "name": "count-letters", "description": "Counts the letters of greetings.", "code": COUNT, "language": "python",
    });
    assert_eq!(save(&mut first, count).await["call"], "skills.count_letters");
    let mut second = setting.client().await;
    let expected = json!(["hello ann", [9, 9]]);
    let code = "[await skills.greet({ name: 'ann' }), await skills.count_letters({ names: ['ann', 'bob'] })]";
    let typescript = run(&mut second, "typescript", code).await;
    assert_eq!(typescript["value"], expected, "{typescript}");
    let code = "import skills\n[await skills.greet(name='ann'), await skills.count_letters(names=['ann', 'bob'])]";
    let python = run(&mut second, "python", code).await;
    assert_eq!(python["value"], expected, "{python}");
    // A completed run can become a skill too, and other principals see no skills.
    let again = json!({ "name": "again", "description": "The same again.", "execution_id": python["execution_id"] });
    assert_eq!(save(&mut second, again).await["tools"], json!([]));
    let other = Principal::Local(2);
    let (stream, served) = setting.open(other);
    let mut stranger = Client::new(stream, served);
    stranger.hello().await;
    let refused = run(&mut stranger, "typescript", "await skills.greet({ name: 'x' })").await;
    assert_eq!(refused["error"]["code"], "skill.unknown", "{refused}");
    let listed = stranger.call("list_skills", json!({})).await;
    assert_eq!(listed["structuredContent"]["total"], 0, "{listed}");
}

#[tokio::test]
async fn skills_are_found_listed_and_described_like_tools() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let before = client.call("list_tools", json!({})).await;
    save(&mut client, greet()).await;
    let found = client
        .call("search_tools", json!({ "query": "greet somebody politely" }))
        .await;
    let slots = &found["structuredContent"]["intents"][0]["slots"];
    assert_eq!(slots[0]["name"], "skills.greet", "{found}");
    assert_eq!(slots[1]["name"], "small.hello", "{found}");
    let servers = client.call("list_tools", json!({})).await;
    let names = |answer: &Value| -> Vec<Value> {
        let servers = answer["structuredContent"]["servers"].as_array().unwrap();
        servers.iter().map(|server| server["server"].clone()).collect()
    };
    assert_eq!(
        (names(&before), names(&servers)),
        (vec![json!("small")], vec![json!("small"), json!("skills")])
    );
    let of_skills = client.call("list_tools", json!({ "server": "skills" })).await;
    assert_eq!(of_skills["structuredContent"]["tools"], json!(["skills.greet"]));
    for (language, expected) in [
        (
            "typescript",
            "function greet(args: {\n    name: string;\n  }): Promise<string>",
        ),
        ("python", "async def greet(*, name: str) -> str"),
        ("json", "\"call\":\"skills.greet\""),
    ] {
        let arguments = json!({ "tools": ["skills.greet"], "detail": "full", "language": language });
        let described = client.call("describe_tools", arguments).await;
        let stub = described["structuredContent"]["tools"][0]["stub"].as_str().unwrap();
        assert!(stub.contains(expected.split('\n').next().unwrap()), "{stub}");
    }
    let listed = client.call("list_skills", json!({ "query": "greeting" })).await;
    let skill = &listed["structuredContent"]["skills"][0];
    assert_eq!(
        (&skill["call"], &skill["scope"]),
        (&json!("skills.greet"), &json!("user")),
        "{listed}"
    );
    assert_eq!(skill.get("stale"), None);
    // Programs get the same answers.
    let inside = run(
        &mut client,
        "typescript",
        "(await search('greet politely')).intents[0].slots[0].name",
    )
    .await;
    assert_eq!(inside["value"], "skills.greet", "{inside}");
}

#[tokio::test]
async fn a_skill_whose_tool_changed_is_marked_and_refused_and_so_is_one_that_may_not_call_its_tool() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let known = setting.engine.tools().tool_gateway().unwrap().catalog_snapshot().await;
    let digest = |name: &str| known.catalog.get(name).unwrap().digest.to_string();
    let keep = |name: &str, tool: &str, digest: String| {
        let meta = SkillMeta {
            tools: vec![RequiredTool {
                name: tool.to_owned(),
                digest,
            }],
            ..SkillMeta::new(SkillName::parse(name).unwrap(), "Does it.", SkillLanguage::TypeScript)
        };
        let body = SkillBody {
            source: "export default 1".to_owned(),
            files: Vec::new(),
        };
        setting
            .engine
            .store()
            .skills()
            .save(SkillScope::User(ME), meta, body)
            .unwrap();
    };
    keep("whole", "small.hello", digest("small.hello"));
    keep("changed", "small.hello", "0".repeat(64));
    keep("gone", "small.hallo", digest("small.hello"));
    keep("forbidden", "small.delete_all", digest("small.delete_all"));
    let told = async |client: &mut Client, name: &str| {
        let code = format!("await skills.{name}().then((v) => [v], (e) => [e.code, e.rule, e.message])");
        run(client, "typescript", &code).await["value"].clone()
    };
    assert_eq!(told(&mut client, "whole").await, json!([1]));
    let (stale, tools) = ("skill.stale", "metadata.tools");
    for (name, code, rule, message) in [
        ("changed", stale, tools, "`small.hello`, which has changed"),
        ("gone", stale, tools, "`small.hallo`, which is not there any more"),
        (
            "forbidden",
            "skill.policy",
            "tools.rules[1]",
            "needs `small.delete_all`",
        ),
    ] {
        let said = told(&mut client, name).await;
        assert_eq!((&said[0], &said[1]), (&json!(code), &json!(rule)), "{said}");
        assert!(said[2].as_str().unwrap().contains(message), "{said}");
    }
    let listed = client.call("list_skills", json!({})).await;
    let stale: Vec<bool> = listed["structuredContent"]["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| skill["stale"].is_string())
        .collect();
    assert_eq!(stale, [true, false, true, false], "{listed}");
    let described = client
        .call(
            "describe_tools",
            json!({ "tools": ["skills.changed"], "detail": "summary" }),
        )
        .await;
    let says = &described["structuredContent"]["tools"][0]["server_says"];
    assert!(says.as_str().unwrap().starts_with("STALE"), "{described}");
}

#[tokio::test]
async fn a_question_of_a_skill_is_asked_and_its_caller_waits() {
    let setting = Setting::asking("[inbox]", &[]).await;
    let mut client = setting.client().await;
    save(&mut client, greet()).await;
    let store = setting.engine.store();
    let answered = async {
        loop {
            let which = ApprovalQuery {
                state: Some(ApprovalState::Pending),
                ..ApprovalQuery::default()
            };
            if let Some(one) = approvals::list_approvals(store, which).await.unwrap().pop() {
                let say = AnswerSubmission {
                    approve: true,
                    scope: ApprovalScope::Once,
                    shown: None,
                    by: ME,
                    via: ApprovalVia::Cli,
                    note: None,
                };
                return approvals::answer_approval(store, one.id, say).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (ran, _) = tokio::join!(
        run(&mut client, "typescript", "await skills.greet({ name: 'ann' })"),
        answered
    );
    assert_eq!(ran["value"], "hello ann", "{ran}");
}

#[tokio::test]
async fn what_cannot_be_saved_says_why() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let with = |key: &str, value: Value| {
        let mut arguments = greet();
        arguments[key] = value;
        arguments
    };
    for (arguments, code) in [
        (with("name", json!("../up")), "skill.name"),
        (with("name", json!("Greet")), "skill.name"),
        (with("description", json!("")), "skill.format"),
        (with("inputs", json!({ "type": "array" })), "skill.schema"),
        (with("outputs", json!({ "$ref": "http://127.0.0.1/x" })), "skill.schema"),
        (with("scope", json!("team")), "arguments.invalid"),
        (with("scope", json!("session")), "session.unknown"),
        (with("code", json!("x".repeat(2 << 20))), "skill.quota"),
        (with("files", json!({ "../x": "y" })), "arguments.invalid"),
        (with("code", json!("export default '‹email:k7q2›'")), "skill.aliases"),
        (with("policy", json!({})), "arguments.unknown"),
    ] {
        let refused = client.call("save_skill", arguments).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], code, "{refused}");
        assert_eq!(refused["isError"], true);
    }
    let someone_elses = json!({ "name": "a", "description": "b", "execution_id": "x_01m7je60ve1ds5aad4x2n1azbb" });
    let refused = client.call("save_skill", someone_elses).await;
    assert_eq!(
        refused["structuredContent"]["error"]["code"], "skill.unkept",
        "{refused}"
    );
    let unknown = json!({
        "name": "a", "description": "b", "scope": "session", "execution_id": "x_01m7je60ve1ds5aad4x2n1azbb",
    });
    let refused = client.call("save_skill", unknown).await;
    assert_eq!(
        refused["structuredContent"]["error"]["code"], "skill.unkept",
        "{refused}"
    );
    // A skill of an open session is visible in that session only.
    let open = json!({ "language": "typescript", "code": "1", "session_id": "work" });
    client.call("sandboxed_code_run", open).await;
    let mut own = with("scope", json!("session"));
    own["session_id"] = json!("work");
    assert_eq!(save(&mut client, own).await["scope"], "session");
    let within = json!({ "language": "typescript", "code": "await skills.greet({ name: 'b' })", "session_id": "work" });
    let inside = client.call("sandboxed_code_run", within).await;
    assert_eq!(inside["structuredContent"]["value"], "hello b", "{inside}");
    let outside = run(&mut client, "typescript", "await skills.greet({ name: 'b' })").await;
    assert_eq!(outside["error"]["code"], "skill.unknown", "{outside}");
}

#[tokio::test]
async fn skills_of_a_session_are_found_by_who_names_it() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let opened = json!({ "language": "typescript", "code": "1", "session_id": "work" });
    client.call("sandboxed_code_run", opened).await;
    let mut kept = greet();
    kept["scope"] = json!("session");
    kept["session_id"] = json!("work");
    save(&mut client, kept).await;
    for (session, count) in [(None, 0), (Some("work"), 1)] {
        let with = |mut arguments: Value| {
            if let Some(session) = session {
                arguments["session_id"] = json!(session);
            }
            arguments
        };
        let listed = client.call("list_skills", with(json!({}))).await;
        assert_eq!(listed["structuredContent"]["total"], count, "{listed}");
        let asked = with(json!({ "query": "greet somebody politely" }));
        let found = client.call("search_tools", asked).await.to_string();
        assert_eq!(found.contains("skills.greet"), count == 1, "{found}");
        let asked = with(json!({ "tools": ["skills.greet"] }));
        let described = client.call("describe_tools", asked).await.to_string();
        assert_eq!(
            described.contains("Greets somebody politely"),
            count == 1,
            "{described}"
        );
    }
    let unknown = client.call("list_skills", json!({ "session_id": "elsewhere" })).await;
    assert_eq!(
        unknown["structuredContent"]["error"]["code"], "session.unknown",
        "{unknown}"
    );
}

#[tokio::test]
async fn what_is_said_of_a_skill_has_no_personal_data_for_who_reads_it() {
    let setting = Setting::with_tools(&[]).await;
    let mut client = setting.client().await;
    let kept = json!({
        "name": "tell", "description": "Tells ann.lee@example.com of new orders.", "language": "typescript",
        "code": "export default async () => 'ann.lee@example.com'.length",
        "inputs": { "type": "object", "properties": { "to": { "type": "string", "description": "e.g. bo.ek@example.org" } } },
    });
    let saved = save(&mut client, kept).await;
    let listed = client.call("list_skills", json!({})).await;
    let found = client
        .call("search_tools", json!({ "query": "tell of new orders" }))
        .await;
    let described = client
        .call("describe_tools", json!({ "tools": ["skills.tell"], "detail": "full" }))
        .await;
    let whole = setting.engine.skills().find(ME, None, "tell").await.unwrap();
    for text in [saved, listed, found, described, json!(whole)].map(|value| value.to_string()) {
        assert!(text.contains("Tells ") || text.contains("tell"), "{text}");
        assert!(!text.contains("ann.lee") && !text.contains("bo.ek"), "{text}");
    }
    // The skill still works as written.
    let ran = run(&mut client, "typescript", "await skills.tell({})").await;
    assert_eq!(ran["value"], 19, "{ran}");
}
