//! Package managers with their presets, against registries of the test under the real host names.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ringfence_testkit::internet::{SiteAnswer, SiteHandler, SiteRequest};
use serde_json::{Value, json};

use super::world::{self, Net, enter_internet};

/// A policy of one preset.
fn preset(name: &str) -> Value {
    world::policy(&json!({ "enabled": true, "presets": [name] }))
}

fn run(folder: &Path, words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(folder).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// `git http-backend`, as web servers run it.
fn backend(root: &Path, asked: &SiteRequest) -> SiteAnswer {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let mut command = Command::new("git");
    command
        .arg("http-backend")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &asked.method)
        .env("CONTENT_TYPE", asked.header("content-type").unwrap_or_default())
        .env(
            "HTTP_CONTENT_ENCODING",
            asked.header("content-encoding").unwrap_or_default(),
        )
        .env("GIT_PROTOCOL", asked.header("git-protocol").unwrap_or_default())
        .env("CONTENT_LENGTH", asked.body.len().to_string());
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = asked.body.clone();
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&body)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let end = output.stdout.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&output.stdout[..end]).into_owned();
    let headers: Vec<(String, String)> = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let status = headers.iter().find(|(name, _)| name == "Status");
    let status = status
        .and_then(|(_, value)| value.split(' ').next()?.parse().ok())
        .unwrap_or(200);
    SiteAnswer {
        status,
        headers: headers.into_iter().filter(|(name, _)| name != "Status").collect(),
        body: output.stdout[end + 4..].to_vec(),
    }
}

#[test]
fn git_clones_and_does_not_push_with_the_preset() {
    if !enter_internet(concat!(
        module_path!(),
        "::git_clones_and_does_not_push_with_the_preset"
    )) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("team");
    std::fs::create_dir_all(root.join("work")).unwrap();
    let work = root.join("work");
    let git = |words: &[&str]| {
        let own = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"];
        run(&work, &own.into_iter().chain(words.iter().copied()).collect::<Vec<_>>());
    };
    git(&["init", "-q", "-b", "main"]);
    std::fs::write(work.join("README"), "hello from the other side\n".repeat(1000)).unwrap();
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    run(&root, &["git", "clone", "-q", "--bare", "work", "project.git"]);
    // The server itself would take a push: what keeps it out must be the policy.
    run(
        &root.join("project.git"),
        &["git", "config", "http.receivepack", "true"],
    );
    let place = folder.path().to_owned();
    let site: SiteHandler =
        Arc::new(move |asked: &SiteRequest| (asked.host == "github.com").then(|| backend(&place, asked)));
    let net = Net::new(|world| world.with_site(site));
    let script = "git clone -q https://github.com/team/project.git && cd project && head -n1 README && \
                  git -c user.name=t -c user.email=t@example.com commit -q --allow-empty -m second && \
                  git push -q origin main 2>push.txt; echo $?; cat push.txt";
    let result = net.exec(&preset("github-read"), &["sh", "-c", script]);
    let text = result["stdout"].as_str().unwrap();
    assert!(text.starts_with("hello from the other side\n"), "{result}");
    assert!(text.contains("403"), "{result}");
    assert!(!text.contains("\n0\n"), "a push went through: {result}");
    let violations = result["violations"].to_string();
    assert!(violations.contains("git-receive-pack"), "{result}");
    let log = Command::new("git")
        .args(["-C"])
        .arg(root.join("project.git"))
        .args(["-c", "safe.directory=*", "rev-list", "--count", "main"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&log.stdout), "1\n", "{log:?}");
    net.check_nobody_strayed();
}

const WHEEL: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("tiny.py", "word = 'a package of our own'\n")
    info = "tiny-1.0.dist-info/"
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(info + "RECORD", "tiny.py,,\n" + "".join(info + n + ",,\n" for n in ["METADATA", "WHEEL", "RECORD"]))
"#;

#[test]
fn pip_installs_with_the_preset_and_uploads_nothing() {
    if !enter_internet(concat!(
        module_path!(),
        "::pip_installs_with_the_preset_and_uploads_nothing"
    )) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["python3", "-c", WHEEL, "tiny-1.0-py3-none-any.whl"]);
    let wheel = std::fs::read(folder.path().join("tiny-1.0-py3-none-any.whl")).unwrap();
    let file = "https://files.pythonhosted.org/packages/t/tiny-1.0-py3-none-any.whl";
    let page = format!("<!DOCTYPE html><html><body><a href=\"{file}\">tiny-1.0-py3-none-any.whl</a></body></html>");
    let site: SiteHandler = Arc::new(
        move |asked: &SiteRequest| match (asked.host.as_str(), asked.path.as_str()) {
            ("pypi.org", "/simple/tiny/") => Some(SiteAnswer::ok("text/html", page.clone())),
            ("files.pythonhosted.org", "/packages/t/tiny-1.0-py3-none-any.whl") => {
                Some(SiteAnswer::ok("application/octet-stream", wheel.clone()))
            }
            _ => None,
        },
    );
    let net = Net::new(|world| world.with_site(site));
    let script = "python3 -m pip install --no-input --disable-pip-version-check --no-cache-dir -q --target lib tiny && \
                  PYTHONPATH=lib python3 -c 'import tiny; print(tiny.word)'; \
                  curl -s -o /dev/null -w '%{http_code}\n' -X POST -d x https://pypi.org/simple/tiny/";
    let result = net.exec(&preset("python-packages"), &["sh", "-c", script]);
    assert_eq!(result["stdout"], "a package of our own\n403\n", "{result}");
    net.check_nobody_strayed();
}

#[test]
fn npm_installs_with_the_preset_and_publishes_nothing() {
    if !enter_internet(concat!(
        module_path!(),
        "::npm_installs_with_the_preset_and_publishes_nothing"
    )) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("package");
    std::fs::create_dir(&package).unwrap();
    std::fs::write(
        package.join("package.json"),
        json!({"name": "tiny", "version": "1.0.0"}).to_string(),
    )
    .unwrap();
    std::fs::write(package.join("index.js"), "module.exports = 'a package of our own'\n").unwrap();
    run(folder.path(), &["tar", "czf", "tiny.tgz", "package"]);
    let tarball = std::fs::read(folder.path().join("tiny.tgz")).unwrap();
    let document = json!({
        "name": "tiny",
        "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": {
            "name": "tiny", "version": "1.0.0",
            "dist": { "tarball": "https://registry.npmjs.org/tiny/-/tiny-1.0.0.tgz" },
        }},
    });
    let site: SiteHandler = Arc::new(
        move |asked: &SiteRequest| match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/tiny") => Some(SiteAnswer::ok("application/json", document.to_string())),
            ("GET", "/tiny/-/tiny-1.0.0.tgz") => Some(SiteAnswer::ok("application/octet-stream", tarball.clone())),
            _ => None,
        },
    );
    let net = Net::new(|world| world.with_site(site));
    let script = "npm install --no-audit --no-fund --loglevel=error --fetch-retries=0 tiny >npm.txt 2>&1 || cat npm.txt; \
                  node -p 'require(\"tiny\")'; mkdir p && cd p && echo '{\"name\":\"p\",\"version\":\"1.0.0\"}' > package.json && \
                  npm publish --//registry.npmjs.org/:_authToken=x --fetch-retries=0 >publish.txt 2>&1; echo $?; cat publish.txt";
    let result = net.exec(&preset("npm"), &["sh", "-c", script]);
    let text = result["stdout"].as_str().unwrap();
    assert!(text.starts_with("a package of our own\n1\n"), "{result}");
    assert!(text.contains("403"), "{result}");
    net.check_nobody_strayed();
}
