//! Clients that are broken, hostile or disconnected.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::setting::{ME, Setting};

#[tokio::test]
async fn what_is_no_message_gets_an_error_and_the_conversation_goes_on() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let check = async |client: &mut Client, line: &str, id: Value, code: i64| {
        client.line(line.as_bytes()).await;
        let heard = client.hear().await.unwrap();
        assert_eq!(heard.get("id").unwrap_or(&Value::Null), &id, "{line}: {heard}");
        assert_eq!(heard["error"]["code"], code, "{line}: {heard}");
    };
    check(&mut client, "{ nonsense", Value::Null, -32700).await;
    check(&mut client, &"[".repeat(100_000), Value::Null, -32700).await;
    check(&mut client, "[]", Value::Null, -32600).await;
    check(
        &mut client,
        r#"{"jsonrpc":"2.0","id":77,"method":"no/such/method","params":{}}"#,
        json!(77),
        -32601,
    )
    .await;
    check(
        &mut client,
        r#"{"jsonrpc":"2.0","id":78,"method":"tools/call","params":{}}"#,
        json!(78),
        -32602,
    )
    .await;
    check(
        &mut client,
        r#"{"jsonrpc":"2.0","id":79,"method":"tools/call"}"#,
        json!(79),
        -32602,
    )
    .await;
    check(
        &mut client,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        Value::Null,
        -32600,
    )
    .await;
    client.line(b"\xff\xfe\x00").await;
    assert_eq!(client.hear().await.unwrap()["error"]["code"], -32700);
    client
        .line(br#"{"jsonrpc":"2.0","method":"notifications/unheard/of"}"#)
        .await;
    assert_eq!(client.run("ts", "3").await["value"], 3);
}

#[tokio::test]
async fn a_line_of_100_mb_is_refused_with_its_id() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    client
        .line(
            &[
                br#"{"jsonrpc":"2.0","id":55,"method":"tools/call","params":{"name":""#.as_slice(),
                &vec![b'x'; 100_000_000],
                b"\"}}",
            ]
            .concat(),
        )
        .await;
    let heard = client.hear().await.unwrap();
    assert_eq!(
        (&heard["id"], &heard["error"]["code"]),
        (&json!(55), &json!(-32600)),
        "{heard}"
    );
    assert_eq!(client.run("ts", "4").await["value"], 4);
}

#[tokio::test]
async fn an_id_that_is_under_way_cannot_be_used_again() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let run = |code: &str| {
        json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": {
        "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": code },
    } })
    };
    client.send(&run("sleep 2; echo first")).await;
    client.send(&run("echo second")).await;
    let refused = client.answer(&json!("same")).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let first = client.answer(&json!("same")).await;
    assert_eq!(first["result"]["structuredContent"]["stdout"], "first\n");
    client.send(&run("echo third")).await;
    assert_eq!(
        client.answer(&json!("same")).await["result"]["structuredContent"]["stdout"],
        "third\n"
    );
}

#[tokio::test]
async fn a_client_that_never_reads_stops_being_read() {
    let setting = Setting::new().await;
    let (stream, _served) = setting.open(ME);
    let mut silent = Client::new(stream, tokio::spawn(async { Ok(()) }));
    let flood = async {
        for number in 0..200_000_u32 {
            silent
                .send(&json!({ "jsonrpc": "2.0", "id": number, "method": "ping" }))
                .await;
        }
    };
    // The server does not read from a client whose answers wait.
    assert!(tokio::time::timeout(Duration::from_secs(3), flood).await.is_err());
    // Other clients are served meanwhile.
    assert_eq!(setting.client().await.run("ts", "5").await["value"], 5);
}

#[tokio::test]
async fn too_many_requests_at_once_are_refused_one_by_one() {
    let setting = Setting::new().await;
    let mut client = setting.client().await;
    let wait = json!({ "name": "sandboxed_code_run", "arguments": { "language": "shell", "code": "sleep 20", "session_id": "one" } });
    for _ in 0..256 {
        client.begin("tools/call", wait.clone()).await;
    }
    let over = client.ask("ping", json!({})).await;
    assert_eq!(over["error"]["code"], -32600, "{over}");
    let begun = Instant::now();
    assert!(client.ended().await.is_ok());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn eras_may_be_mixed_and_odd_beginnings_are_answered() {
    let setting = Setting::new().await;
    let (stream, served) = setting.open(ME);
    let mut client = Client::new(stream, served);
    client
        .line(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        .await;
    client.line(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    let early = client.ask("tools/list", json!({})).await;
    assert_eq!(early["error"]["code"], -32602, "{early}");
    let meta = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "1999-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    } });
    let old = client.ask("tools/list", meta).await;
    assert_eq!(old["error"]["code"], -32022, "{old}");
    client.hello().await;
    assert_eq!(
        client.ask("tools/list", json!({})).await["result"]["tools"]
            .as_array()
            .unwrap()
            .len(),
        7
    );
    let modern = json!({ "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    } });
    let modern = client.ask("tools/list", modern).await;
    assert_eq!(modern["result"]["resultType"], "complete", "{modern}");
}
