//! A run as a stream: several readers, live output, and resumption after a broken stream.

use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use crate::world::{Holder, World};

/// Prints in steps; the last one is an incomplete line.
const SLOW: &str = "echo one; sleep 1; echo bad >&2; echo ann@example.com; sleep 1; printf half";

/// Starts the program without waiting, and returns its path.
async fn begun(me: &Holder) -> String {
    let ask = json!({ "language": "shell", "code": SLOW }).to_string();
    let run = me.send("POST", "/api/v1/runs?wait=0", &ask).await;
    assert_eq!(run.status, 202, "{run:?}");
    run.header("location").unwrap().to_owned()
}

/// Reads a stream to its end: the output of each stream, the last id, and the last event.
async fn to_the_end(me: &Holder, path: &str, more: &[(&str, &str)]) -> (String, String, Value) {
    let mut events = me.events(path, more).await;
    let (mut stdout, mut stderr, mut last) = (String::new(), String::new(), Value::Null);
    while let Some((name, _, data)) = events.named().await {
        assert!(["output", "status", "end"].contains(&name.as_str()), "{name}: {data}");
        if name == "output" {
            stdout.push_str(data["stdout"].as_str().unwrap());
            stderr.push_str(data["stderr"].as_str().unwrap());
        }
        last = json!({ "name": name, "data": data });
    }
    (stdout, stderr, last)
}

#[tokio::test]
async fn a_run_is_followed_by_several_and_taken_up_where_a_stream_broke() {
    let world = World::new().await;
    let me = world.holder("me", AccessScope::Agent).await;
    let place = begun(&me).await;
    let path = format!("{place}/events");
    let whole = tokio::spawn({
        let (me, path) = (me.clone(), path.clone());
        async move { to_the_end(&me, &path, &[]).await }
    });
    // A client disconnects after the first lines, and resumes there.
    let mut first = me.events(&path, &[]).await;
    let (id, begins) = loop {
        let (name, id, data) = first.named().await.unwrap();
        if name == "output" {
            break (id, data["stdout"].as_str().unwrap().to_owned());
        }
        assert_eq!((name.as_str(), &data), ("status", &json!({ "status": "running" })));
    };
    drop(first);
    assert_eq!((begins.as_str(), id.as_str()), ("one\n", "4-0"));
    // Meanwhile others read it as often as they like.
    for _ in 0..2 {
        let looked = me.get(&place).await;
        assert!(
            looked.json()["stdout"].as_str().unwrap().starts_with("one\n"),
            "{looked:?}"
        );
    }
    let (rest, _, _) = to_the_end(&me, &path, &[("Last-Event-ID", &id)]).await;
    let (stdout, stderr, last) = whole.await.unwrap();
    assert_eq!(begins + &rest, stdout);
    assert_eq!(stderr, "bad\n");
    // The live stream hides the same data.
    assert!(
        stdout.starts_with("one\n‹email:") && stdout.ends_with("\nhalf"),
        "{stdout}"
    );
    assert_eq!(last["name"], "end", "{last}");
    let run = me.get(&place).await.json();
    assert_eq!((&last["data"], &run["stdout"]), (&run, &json!(stdout)));
    // After the end, the stream has only the result.
    assert_eq!(to_the_end(&me, &path, &[]).await, (String::new(), String::new(), last));
}

#[tokio::test]
async fn a_run_is_followed_by_its_owner_from_a_place_that_there_is() {
    let world = World::new().await;
    let (me, other) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("other", AccessScope::Agent).await,
    );
    let place = begun(&me).await;
    let path = format!("{place}/events");
    let hidden = other.get(&path).await;
    assert_eq!((hidden.status, hidden.code().as_str()), (404, "run.unknown"));
    for after in ["x", "1", "1-", "-1-2"] {
        let wrong = me.get(&format!("{path}?after={after}")).await;
        assert_eq!((wrong.status, wrong.code().as_str()), (400, "events.id"), "{after}");
    }
    let ended = me.send("POST", &format!("{place}/cancel"), "").await;
    assert_eq!(ended.json()["status"], "cancelled", "{ended:?}");
}
