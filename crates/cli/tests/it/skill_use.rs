//! Skills used by programs that the command line runs, each run in a new session.

use serde_json::{Value, json};

use crate::setting::Setting;

const REPORT: &str =
    "export default async function (input: { of: number[] }) { return input.of.reduce((a, b) => a + b, 0) }\n";
const TWICE: &str = "async def main(of):\n    import skills\n    return 2 * await skills.add_up(of=of)\n";

fn save(setting: &Setting, name: &str, file: &str, source: &str) {
    setting.write(file, source);
    let done = setting.run(&[
        "skills",
        "save",
        name,
        "--file",
        file,
        "--description",
        "Adds up numbers.",
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn run(setting: &Setting, file: &str, source: &str) -> Value {
    setting.write(file, source);
    setting.json(&["run", file, "--json"])
}

#[test]
fn saved_skills_are_used_in_other_sessions_from_typescript_and_python() {
    let setting = Setting::new();
    save(&setting, "add-up", "add.ts", REPORT);
    save(&setting, "twice-up", "twice.py", TWICE);
    let typescript = run(
        &setting,
        "use.ts",
        "[await skills.add_up({ of: [1, 2] }), await skills.twice_up({ of: [3] })]",
    );
    let python = run(
        &setting,
        "use.py",
        "import skills\nfrom skills import twice_up\n[await skills.add_up(of=[1, 2]), await twice_up(of=[3])]",
    );
    for used in [&typescript, &python] {
        assert_eq!(
            (&used["status"], &used["value"]),
            (&json!("completed"), &json!([3, 6])),
            "{used}"
        );
    }
    assert_ne!(typescript["session_id"], python["session_id"]);
    // The session has four executions, of which three name who called them.
    let session = typescript["session_id"].as_str().unwrap();
    let exported = setting.run(&["audit", "show", session, "--json"]);
    assert_eq!(exported.code, Some(0), "{exported:?}");
    assert_eq!(
        exported.stdout.matches("\"parent\":\"x_").count(),
        3,
        "{}",
        exported.stdout
    );
    assert_eq!(setting.run(&["audit", "verify"]).code, Some(0));
}

#[test]
fn a_skill_that_asks_for_more_than_the_callers_policy_is_refused_naming_the_key() {
    let setting = Setting::new();
    let folder = "greedy";
    let front = "---\nname: greedy\ndescription: Wants much.\nmetadata:\n  ringfence-language: typescript\n  \
                 ringfence-needs: '{\"proc\":{\"mem_limit\":\"2GiB\"},\"net\":{\"enabled\":true}}'\n---\n";
    setting.write(&format!("{folder}/SKILL.md"), front);
    setting.write(&format!("{folder}/program.ts"), "export default () => 1");
    let imported = setting.run(&["skills", "import", folder]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let refused = run(&setting, "use.ts", "await skills.greedy()");
    let error = &refused["error"];
    assert_eq!(error["code"], "skill.policy", "{refused}");
    let rule = error["rule"].as_str().unwrap();
    assert!(
        rule.contains("proc.mem_limit") && rule.contains("net.enabled"),
        "{refused}"
    );
    let calls: Vec<&Value> = refused["calls"].as_array().unwrap().iter().collect();
    assert_eq!(
        (&calls[0]["tool"], &calls[0]["outcome"]),
        (&json!("skills.greedy"), &json!("refused"))
    );
    assert_eq!(refused["violations"][0]["kind"], "tool", "{refused}");
}

#[test]
fn a_server_called_skills_is_refused() {
    let setting = Setting::new();
    setting.write("servers.json", r#"{"mcpServers": {"skills": {"command": "true"}}}"#);
    setting.write("use.ts", "1");
    let done = setting.run(&["run", "use.ts", "--servers", "servers.json"]);
    assert_ne!(done.code, Some(0));
    assert!(done.stderr.contains("saved programs are called"), "{done:?}");
}

#[test]
fn a_skill_that_is_a_script_is_refused_where_only_code_runs() {
    let setting = Setting::new();
    save(&setting, "say-it", "say.sh", "echo '\"said\"'\n");
    setting.write(
        "use.ts",
        "let told: unknown = null;\n\
         try { await skills.say_it({}) } catch (error) {\n\
         told = [error.code, error.rule, error.message.includes('proc.programs'), typeof error.hint];\n}\ntold",
    );
    let refused = setting.json(&["run", "use.ts", "--json", "--policy", "level-1"]);
    let expected = json!(["skill.failed", "proc.programs", true, "string"]);
    assert_eq!(refused["value"], expected, "{refused}");
}
