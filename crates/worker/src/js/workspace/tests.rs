use std::path::Path;

use super::workspace_path;

#[track_caller]
fn check(path: &str, inner: Option<&str>) {
    assert_eq!(workspace_path(path).as_deref(), inner.map(Path::new), "{path}");
}

#[test]
fn paths_stay_below_the_workspace() {
    check("a/b.txt", Some("a/b.txt"));
    check("./a//b", Some("a/b"));
    check("", Some(""));
    check("/workspace", Some(""));
    check("/workspace/a", Some("a"));
    check("a/../b", Some("b"));
    check("..", None);
    check("a/../../b", None);
    check("/workspace/../etc", None);
    check("/workspaces/a", None);
    check("/", None);
}
