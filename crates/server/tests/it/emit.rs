//! Emitted files: linked first, with their types, readable, and without other files.

use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::Setting;

/// The smallest possible PNG: one transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

async fn run(client: &mut Client, language: &str, code: &str) -> Value {
    let arguments = json!({ "language": language, "code": code, "session_id": "work" });
    client.call("sandboxed_code_run", arguments).await
}

fn blocks<'a>(result: &'a Value, kind: &str) -> Vec<&'a Value> {
    let content = result["content"].as_array().unwrap();
    content.iter().filter(|block| block["type"] == kind).collect()
}

fn names(result: &Value) -> Vec<&str> {
    let links = blocks(result, "resource_link");
    links.iter().map(|link| link["name"].as_str().unwrap()).collect()
}

async fn read(client: &mut Client, link: &Value) -> Value {
    let answer = client.ask("resources/read", json!({ "uri": link["uri"] })).await;
    answer["result"]["contents"][0].clone()
}

#[tokio::test]
async fn what_goes_out_is_linked_first_with_its_type_and_read_back() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = format!(
        "console.log('x'.repeat(200000)); files.write('a.txt', 'beside'); emit('a,b\\n1,2\\n', {{ name: 'z/table.csv' }}); \
         emit(Uint8Array.fromBase64('{PIXEL}'), {{ name: 'plot.png' }}); emit({{ n: 1 }}, {{ name: 'n.dat', type: 'application/x.own' }})"
    );
    let result = run(&mut client, "ts", &code).await;
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(names(&result), ["z/table.csv", "plot.png", "n.dat", "stdout", "a.txt"]);
    let links: Vec<Value> = blocks(&result, "resource_link").into_iter().cloned().collect();
    let types: Vec<&Value> = links.iter().map(|link| &link["mimeType"]).collect();
    assert_eq!(
        types,
        [
            &json!("text/csv"),
            &json!("image/png"),
            &json!("application/x.own"),
            &json!("text/plain"),
            &Value::Null
        ]
    );
    let files = &result["structuredContent"]["files"];
    let table = &files[0];
    assert_eq!(
        (&table["path"], &table["change"], &table["emitted"], &table["type"]),
        (
            &json!("z/table.csv"),
            &json!("created"),
            &json!(true),
            &json!("text/csv")
        )
    );
    assert_eq!(
        (&files[3]["path"], files[3].get("emitted"), files[3].get("type")),
        (&json!("a.txt"), None, None)
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("file z/table.csv (emitted as text/csv, 8 bytes)"),
        "{text}"
    );

    let table = read(&mut client, &links[0]).await;
    assert_eq!(
        (&table["mimeType"], &table["text"]),
        (&json!("text/csv"), &json!("a,b\n1,2\n"))
    );
    let plot = read(&mut client, &links[1]).await;
    assert_eq!((&plot["mimeType"], &plot["blob"]), (&json!("image/png"), &json!(PIXEL)));
    let own = read(&mut client, &links[2]).await;
    assert_eq!(
        (&own["mimeType"], &own["text"]),
        (&json!("application/x.own"), &json!("{\"n\":1}"))
    );
    let beside = read(&mut client, &links[4]).await;
    assert_eq!(
        (&beside["mimeType"], &beside["text"]),
        (&json!("text/plain"), &json!("beside"))
    );
}

#[tokio::test]
async fn a_small_image_is_shown_and_nothing_that_only_says_it_is_one() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = format!(
        "const plot = Uint8Array.fromBase64('{PIXEL}'); const large = new Uint8Array(60000); large.set(plot); \
         emit('mail ann.lee@example.com', {{ name: 'text.png' }}); emit(large, {{ name: 'large.png' }}); \
         emit(plot, {{ name: 'not.jpg' }}); emit(plot, {{ name: 'one.png' }}); files.write('beside.png', plot)"
    );
    let result = run(&mut client, "ts", &code).await;
    let images = blocks(&result, "image");
    assert_eq!(images.len(), 1, "{result}");
    assert_eq!(
        (&images[0]["data"], &images[0]["mimeType"]),
        (&json!(PIXEL), &json!("image/png"))
    );
    assert_eq!(result["content"][1]["type"], "image");
    assert_eq!(
        names(&result),
        ["text.png", "large.png", "not.jpg", "one.png", "beside.png"]
    );
    assert!(result.to_string().len() < 40_000);
    // A text file is cleaned like any other text.
    let link = blocks(&result, "resource_link")[0].clone();
    let text = read(&mut client, &link).await;
    let shown = text["text"].as_str().unwrap();
    assert!(shown.contains("‹email:") && !shown.contains("ann.lee"), "{text}");
}

#[tokio::test]
async fn where_personal_data_is_blocked_no_image_is_shown() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = format!("emit(Uint8Array.fromBase64('{PIXEL}'), {{ name: 'plot.png' }})");
    let arguments =
        json!({ "language": "ts", "code": code, "sandbox_policy": { "data": { "pii": { "mode": "block" } } } });
    let result = client.call("sandboxed_code_run", arguments).await;
    assert_eq!(result["structuredContent"]["status"], "completed", "{result}");
    assert_eq!((blocks(&result, "image").len(), names(&result)), (0, vec!["plot.png"]));
    let link = blocks(&result, "resource_link")[0].clone();
    let answer = client.ask("resources/read", json!({ "uri": link["uri"] })).await;
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("held back"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_hostile_program_lets_nothing_out_that_is_no_plain_file_of_its_own() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    // The built-in functions refuse each of these, so the program sends the messages itself.
    let tell = "import json, os, struct\n\
        def tell(path, type='text/plain'):\n    \
            body = json.dumps({'emit': {'path': path, 'type': type}}).encode()\n    \
            os.write(3, struct.pack('>I', len(body)) + body)\n";
    // Code on the engines cannot make a pipe; a script in the same workspace can.
    let made = run(&mut client, "shell", "mkfifo fifo").await;
    assert_eq!(made["structuredContent"]["exit_code"], 0, "{made}");
    let places = "os.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'folder')\nos.mkdir('sub')\n\
        for path in ('link', 'folder/passwd', 'fifo', 'sub', 'missing', '.ssh/id'): tell(path)\nfiles.write('ok.txt', 'ok')\ntell('ok.txt')";
    let result = run(&mut client, "python", &format!("{tell}{places}")).await;
    let structured = &result["structuredContent"];
    assert_eq!(structured["status"], "completed", "{structured}");
    assert_eq!(names(&result), ["ok.txt"]);
    let held: Vec<(&str, &str)> = structured["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["detail"].as_str().unwrap(), one["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        held,
        [
            ("`link`: a link", "fs.plain"),
            ("`folder/passwd`: a link", "fs.plain"),
            ("`fifo`: not a plain file", "fs.plain"),
            ("`sub`: not a plain file", "fs.plain"),
            ("`missing`: no file there", "fs.plain"),
            ("`.ssh/id`: fs.deny", "fs.deny"),
        ]
    );
    for hostile in [
        "tell('../x')",
        "tell('/etc/passwd')",
        "tell('a\\nb')",
        "tell('ok.txt', 'text/plain\\r\\nX-Evil: 1')",
        "tell('ok.txt', 'a/' + 'b' * 100000)",
        "for i in range(10000): tell(f'{i}.txt')",
    ] {
        let result = run(
            &mut client,
            "python",
            &format!("{tell}{hostile}\nimport time\ntime.sleep(20)"),
        )
        .await;
        let structured = &result["structuredContent"];
        assert_eq!(structured["error"]["code"], "python.ended", "{hostile}: {structured}");
        assert!(!result.to_string().contains("X-Evil"), "{hostile}: {result}");
    }
    let after = run(&mut client, "python", "1 + 1").await;
    assert_eq!(after["structuredContent"]["value"], 2, "{after}");
}

#[tokio::test]
async fn a_file_that_came_in_goes_out_as_it_came() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let arguments =
        json!({ "language": "py", "code": "emit('in.csv')", "files": { "in.csv": "1,2\n", "other.csv": "3\n" } });
    let result = client.call("sandboxed_code_run", arguments).await;
    let files = result["structuredContent"]["files"].as_array().unwrap();
    assert_eq!((files.len(), &files[0]["change"]), (1, &json!("same")), "{files:?}");
    let link = blocks(&result, "resource_link")[0].clone();
    assert_eq!(read(&mut client, &link).await["text"], "1,2\n");
}

#[tokio::test]
async fn names_from_inside_hide_nothing_and_what_a_name_keeps_is_told() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let code = "printf x > \"$(printf 'gpj.\\342\\200\\256exe')\"; printf x > \"$(printf 'a\\nb')\"; printf x > \"$(printf 'bad\\377')\"; mkdir .ssh; printf x > .ssh/id; ln -s a l";
    let result = run(&mut client, "shell", code).await;
    let structured = &result["structuredContent"];
    // The link's name is for people; its URI and `path` are those of the file.
    assert_eq!(names(&result), ["gpj.\\u{202e}exe"], "{result}");
    assert_eq!(structured["files"][0]["path"], "gpj.\u{202e}exe");
    let link = blocks(&result, "resource_link")[0].clone();
    assert_eq!(read(&mut client, &link).await["text"], "x");
    let told: Vec<(&str, &str)> = structured["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["detail"].as_str().unwrap(), one["rule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [
            ("`.ssh` left behind: fs.deny; use another name", "fs.deny"),
            (
                "`a\\nb` left behind: a name that is not plain text; use a short name of plain text",
                "fs.plain"
            ),
            (
                "`bad\\xff` left behind: a name that is not UTF-8; use a short name of plain text",
                "fs.plain"
            ),
        ]
    );
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(!text.contains('\u{202e}'), "{text}");
}
