//! Skills over the JSON API: those of each caller, and those of the team, which an operator keeps.

use ringfence_engine::storage::AccessScope;
use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn skills_are_saved_listed_shown_and_removed() {
    let world = World::new().await;
    let (me, viewer) = (
        world.holder("me", AccessScope::Agent).await,
        world.holder("viewer", AccessScope::Viewer).await,
    );
    let operator = world.holder("operator", AccessScope::Operator).await;
    let ask = |name: &str, scope: &str| {
        let ask = json!({ "name": name, "description": "Adds.", "code": "export default 1", "language": "ts", "scope": scope });
        ask.to_string()
    };
    let saved = me.send("POST", "/api/v1/skills", &ask("one-more", "user")).await;
    assert_eq!(saved.status, 200, "{saved:?}");
    assert_eq!(saved.json()["call"], "skills.one_more");
    let refused = me.send("POST", "/api/v1/skills", &ask("ours", "team")).await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "auth.scope"));
    assert_eq!(
        operator
            .send("POST", "/api/v1/skills", &ask("ours", "team"))
            .await
            .status,
        200
    );
    assert_eq!(
        viewer.send("POST", "/api/v1/skills", &ask("mine", "user")).await.status,
        403
    );
    let names = |page: Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(me.get("/api/v1/skills").await.json()), ["one-more", "ours"]);
    assert_eq!(names(viewer.get("/api/v1/skills").await.json()), ["ours"]);
    let first = me.get("/api/v1/skills?limit=1").await.json();
    let next = format!("/api/v1/skills?limit=1&cursor={}", first["next"].as_str().unwrap());
    assert_eq!(names(me.get(&next).await.json()), ["ours"]);
    let shown = me.get("/api/v1/skills/one-more").await.json();
    assert_eq!(
        (&shown["source"], &shown["version"]),
        (&json!("export default 1"), &json!(1))
    );
    assert_eq!(viewer.get("/api/v1/skills/one-more").await.status, 404);
    assert_eq!(
        me.send("DELETE", "/api/v1/skills/ours?scope=team", "").await.status,
        403
    );
    assert_eq!(me.send("DELETE", "/api/v1/skills/one-more", "").await.status, 204);
    assert_eq!(me.send("DELETE", "/api/v1/skills/one-more", "").await.status, 404);
    assert_eq!(names(me.get("/api/v1/skills").await.json()), ["ours"]);
    let document = me.get("/api/v1/openapi.json").await.json();
    for path in ["/api/v1/skills", "/api/v1/skills/{id}"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}
