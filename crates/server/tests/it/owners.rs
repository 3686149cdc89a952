//! Two principals never see what belongs to the other.

use ringfence_journal::{Principal, TokenId};
use serde_json::{Value, json};

use crate::setting::Setting;

#[tokio::test]
async fn runs_sessions_and_outputs_are_their_owners() {
    let setting = Setting::new().await;
    let mut mine = setting.client().await;
    let mut other = setting.client_of(Principal::Token(TokenId::generate().unwrap())).await;
    let run = json!({ "language": "shell", "code": "seq 30000; echo secret > s.txt", "session_id": "work" });
    let done = mine.call("sandboxed_code_run", run).await["structuredContent"].clone();
    let id = done["execution_id"].as_str().unwrap();
    let waited = other.call("wait_run", json!({ "execution_id": id })).await;
    assert_eq!(waited["structuredContent"]["error"]["code"], "execution.unknown");
    for uri in [
        format!("ringfence://executions/{id}/stdout"),
        format!("ringfence://executions/{id}/files/s.txt"),
    ] {
        assert!(mine.ask("resources/read", json!({ "uri": uri })).await["result"].is_object());
        let stolen = other.ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(stolen["error"]["code"], -32002, "{stolen}");
    }
    let look = |session: &Value| json!({ "language": "shell", "code": "ls", "session_id": session });
    let by_name = other.call("sandboxed_code_run", look(&json!("work"))).await;
    assert_eq!(by_name["structuredContent"]["stdout"], "");
    let by_id = other.call("sandboxed_code_run", look(&done["session_id"])).await;
    assert_eq!(by_id["structuredContent"]["error"]["code"], "session.unknown");
}
