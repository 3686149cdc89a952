//! The setup that the tests share: a data folder with a ledger upstream, servers that run on it one after another,
//! answers to approval requests, and means to hold parts of a server where a test needs it.

use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ringfence_engine::approvals::{
    self, AnswerError, AnswerReceipt, AnswerSubmission, ApprovalQuery, ApprovalState, ApprovalView,
};
use ringfence_journal::{ApprovalId, ApprovalScope, ApprovalVia, EventKind, ExecutionId, Principal};
use ringfence_store::{RecordingStatus, Store};
use ringfence_testkit::front_clients::{ClientEra, HttpClient, ServedProgram};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};

use crate::setting::{Setting, eventually};

/// Reads are allowed, and sends need an approval.
pub(crate) const RULES: &str = "
version: 1
tools:
  rules:
    - { allow: 'log.*' }
    - { ask: log.send }
  max_calls: 100000
approvals: { timeout: 10m, by: [inbox] }
";

/// A data folder, and the arguments of all servers on it.
pub(crate) struct World {
    pub(crate) setting: Setting,
    /// The access token of an agent.
    agent: String,
    operator: String,
}

/// A call as the upstream recorded it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) tool: String,
    pub(crate) arguments: String,
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    served: ServedProgram,
    agent: String,
    operator: String,
}

/// A run that was started.
pub(crate) struct Begun {
    pub(crate) execution: String,
    pub(crate) session: String,
}

/// The call number, reason and state of each approval request, ordered by number.
pub(crate) fn summary(all: &[ApprovalView]) -> Vec<(u32, String, ApprovalState)> {
    let mut all: Vec<_> = all
        .iter()
        .map(|one| (one.number, serde_json::to_value(one.why).unwrap(), one.state))
        .map(|(number, why, state)| (number, why.as_str().unwrap().to_owned(), state))
        .collect();
    all.sort_by_key(|(number, ..)| *number);
    all
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}

impl World {
    pub(crate) fn new() -> World {
        World::under(RULES)
    }

    pub(crate) fn under(rules: &str) -> World {
        let setting = Setting::new();
        fs::set_permissions(setting.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        setting.write("policy.yaml", rules);
        let token = |scope: &str| {
            let made = setting.json(&["token", "create", "--name", scope, "--scope", scope, "--json"]);
            made["secret"].as_str().unwrap().to_owned()
        };
        let (agent, operator) = (token("agent"), token("operator"));
        let world = World {
            setting,
            agent,
            operator,
        };
        world.servers(&json!({ "log": world.entry() }));
        world
    }

    /// The configuration entry of the ledger upstream.
    pub(crate) fn entry(&self) -> Value {
        json!({ "command": upstream(), "args": ["ledger"], "env": { "LEDGER": self.ledger_file() }, "policy": "host" })
    }

    /// Sets the tool servers that the next server is started with.
    pub(crate) fn servers(&self, entries: &Value) {
        let servers = json!({ "mcpServers": entries }).to_string();
        self.setting.write("servers.json", servers);
    }

    fn ledger_file(&self) -> PathBuf {
        self.setting.path("ledger")
    }

    /// The path of a file that a call waits for.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.setting.path(name)
    }

    pub(crate) fn serve(&self) -> Server {
        let args = self.setting.serve_args(&["--listen", "127.0.0.1:0"]);
        Server {
            served: ServedProgram::start(&mut self.setting.command(&args)).unwrap(),
            agent: self.agent.clone(),
            operator: self.operator.clone(),
        }
    }

    /// All calls that the upstreams received, from every server.
    pub(crate) fn ledger(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.ledger_file()).unwrap_or_default();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            Line {
                tool: line["tool"].as_str().unwrap().to_owned(),
                arguments: line["arguments"].to_string(),
            }
        };
        text.lines().map(line).collect()
    }

    /// How often the upstreams received a call of this tool.
    pub(crate) fn calls_of(&self, tool: &str) -> usize {
        self.ledger().iter().filter(|line| line.tool == tool).count()
    }

    /// Fails if the upstreams received the same call twice.
    #[track_caller]
    pub(crate) fn nothing_twice(&self) {
        let mut lines = self.ledger();
        lines.sort();
        let twice: Vec<_> = lines.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "called twice: {twice:?}");
    }

    fn store<T>(&self, work: impl AsyncFnOnce(&Store) -> T) -> T {
        wait(async {
            let store = Store::open(&self.setting.home()).await.unwrap();
            let done = work(&store).await;
            store.close().await;
            done
        })
    }

    pub(crate) fn questions(&self, state: Option<ApprovalState>) -> Vec<ApprovalView> {
        self.list(ApprovalQuery {
            state,
            ..ApprovalQuery::default()
        })
    }

    /// A page of approval requests, newest first.
    pub(crate) fn list(&self, which: ApprovalQuery) -> Vec<ApprovalView> {
        self.store(async |store| approvals::list_approvals(store, which).await.unwrap())
    }

    /// Waits until this many requests are pending.
    #[track_caller]
    pub(crate) fn pending(&self, count: usize) -> Vec<ApprovalView> {
        eventually(&format!("{count} questions"), || {
            let mut pending = self.questions(Some(ApprovalState::Pending));
            pending.sort_by_key(|one| one.number);
            (pending.len() == count).then_some(pending)
        })
    }

    /// The pending request whose arguments contain this text.
    #[track_caller]
    pub(crate) fn pending_of(&self, text: &str) -> ApprovalView {
        eventually(&format!("a question about {text}"), || {
            let pending = self.questions(Some(ApprovalState::Pending));
            pending.into_iter().find(|one| one.arguments["text"] == *text)
        })
    }

    pub(crate) fn answer(&self, id: ApprovalId, approve: bool) -> Result<AnswerReceipt, AnswerError> {
        self.say(id, say(approve))
    }

    pub(crate) fn say(&self, id: ApprovalId, say: AnswerSubmission) -> Result<AnswerReceipt, AnswerError> {
        self.store(async |store| approvals::answer_approval(store, id, say).await)
    }

    /// The state of an execution in the store.
    pub(crate) fn standing(&self, run: &Begun) -> Option<RecordingStatus> {
        let id: ExecutionId = run.execution.parse().unwrap();
        self.store(async |store| store.recording_status(id).await.unwrap())
    }

    /// Waits until the store has the execution as waiting, so that it has no sandbox.
    #[track_caller]
    pub(crate) fn suspended(&self, run: &Begun) {
        eventually("it gave up its sandbox", || {
            let standing = self.standing(run)?;
            (standing.state == ringfence_store::RecordingState::Waiting).then_some(())
        });
    }

    /// Holds the write lock of the database until the connection is dropped.
    pub(crate) fn lock(&self) -> rusqlite::Connection {
        let database = rusqlite::Connection::open(self.setting.home().join("ringfence.db")).unwrap();
        database.busy_timeout(Duration::from_secs(10)).unwrap();
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        database
    }

    /// Waits until no process holds a lease: one killed while it forked leaves it to the child for a moment.
    #[track_caller]
    pub(crate) fn left_by_all(&self) {
        let run = self.setting.home().join("run");
        eventually("nobody has a lease", || {
            let files = fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().path());
            let mut locks = files.filter(|path| path.extension().is_some_and(|ending| ending == "lock"));
            locks
                .all(|lock| fs::File::open(lock).unwrap().try_lock().is_ok())
                .then_some(())
        });
    }

    /// Whether the database file itself contains an event of a call.
    pub(crate) fn committed(&self, session: &str, kind: &str, number: i64) -> bool {
        let database = rusqlite::Connection::open(self.setting.home().join("ringfence.db")).unwrap();
        let sql = "SELECT count(*) FROM events WHERE session = ? AND json ->> 'kind' = ? AND json ->> 'number' = ?";
        let count: i64 = database
            .query_row(sql, (session, kind, number), |row| row.get(0))
            .unwrap();
        count > 0
    }

    /// The events of a session in the journal.
    pub(crate) fn journal(&self, session: &str) -> Vec<EventKind> {
        let id = session.parse().unwrap();
        let records = self.store(async |store| store.session_records(id).await.unwrap());
        records.iter().map(|record| record.event().unwrap().kind).collect()
    }

    /// Waits until the journal contains an event of a session.
    #[track_caller]
    pub(crate) fn written(&self, session: &str, what: &str, is: impl Fn(&EventKind) -> bool) {
        eventually(what, || self.journal(session).iter().any(&is).then_some(()));
    }

    /// Checks that the chains are unbroken.
    #[track_caller]
    pub(crate) fn verified(&self) {
        let checked = self.setting.run(&["audit", "verify"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
    }
}

pub(crate) fn say(approve: bool) -> AnswerSubmission {
    AnswerSubmission {
        approve,
        scope: ApprovalScope::Once,
        shown: None,
        by: Principal::Local(0),
        via: ApprovalVia::Cli,
        note: None,
    }
}

impl Server {
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask_as(&self.agent, method, path, body)
    }

    pub(crate) fn ask_operator(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.ask_as(&self.operator, method, path, body)
    }

    /// Requests a run with an idempotency key of the client.
    pub(crate) fn ask_keyed(&self, key: &str, query: &str, ask: &Value) -> (u16, Value) {
        let mut client = HttpClient::connect(&self.served.address, None, ClientEra::Legacy).unwrap();
        let headers = [
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {}", self.agent)),
            ("Idempotency-Key", key.to_owned()),
        ];
        let path = format!("/api/v1/runs{query}");
        let reply = client
            .send("POST", &path, &headers, ask.to_string().as_bytes())
            .unwrap();
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        (reply.status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn ask_as(&self, secret: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let mut client = HttpClient::connect(&self.served.address, None, ClientEra::Legacy).unwrap();
        let headers = [
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {secret}")),
        ];
        let body = body.map(Value::to_string).unwrap_or_default();
        let reply = client.send(method, path, &headers, body.as_bytes()).unwrap();
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        (reply.status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Starts a run and does not wait for it.
    #[track_caller]
    pub(crate) fn begin(&self, language: &str, code: &str) -> Begun {
        self.begin_with(&json!({ "language": language, "code": code }))
    }

    #[track_caller]
    pub(crate) fn begin_with(&self, ask: &Value) -> Begun {
        let (status, begun) = self.ask("POST", "/api/v1/runs?wait=0", Some(ask));
        assert_eq!(status, 202, "{begun}");
        let text = |key: &str| begun[key].as_str().unwrap().to_owned();
        Begun {
            execution: text("execution_id"),
            session: text("session_id"),
        }
    }

    /// The state of a run. A request for an interrupted run resumes it.
    pub(crate) fn look(&self, run: &Begun) -> (u16, Value) {
        self.ask("GET", &format!("/api/v1/runs/{}", run.execution), None)
    }

    /// Waits for the end of a run.
    #[track_caller]
    pub(crate) fn ended(&self, run: &Begun) -> Value {
        let started = Instant::now();
        loop {
            let (status, now) = self.ask("GET", &format!("/api/v1/runs/{}?wait=2", run.execution), None);
            if status == 200 {
                return now;
            }
            assert_eq!(status, 202, "{now}");
            assert!(started.elapsed() < Duration::from_secs(40), "it never ends: {now}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a run only waits for approvals; returns its answer.
    #[track_caller]
    pub(crate) fn waits(&self, run: &Begun) -> Value {
        eventually("it waits for people", || {
            let (status, now) = self.look(run);
            assert_eq!(status, 202, "{now}");
            (now["status"] == "waiting_approval").then_some(now)
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.served.pid()
    }

    /// Connects the agent as an MCP client.
    pub(crate) fn client(&self) -> HttpClient {
        HttpClient::start(&self.served.address, Some(&self.agent), ClientEra::Legacy).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn address(&self) -> &str {
        &self.served.address
    }

    /// Kills the server and its upstreams, even if they are stopped.
    pub(crate) fn kill(mut self) {
        let upstreams = self.upstreams();
        self.signal(Signal::KILL);
        self.served.wait().unwrap();
        send_all(&upstreams, Signal::KILL);
    }

    /// Stops all workers with a signal; returns their ids so that the test can continue them.
    pub(crate) fn hold(&self) -> Vec<u32> {
        let mut held = Vec::new();
        loop {
            let workers = self.workers();
            // A worker may have forked before it was stopped; once all are stopped, none forks.
            if workers.iter().all(|worker| held.contains(worker)) {
                return held;
            }
            send_all(&workers, Signal::STOP);
            held = workers;
        }
    }

    /// Runs `act`, which makes the server write to a file beyond its limit, and waits until the kernel has killed it for
    /// that; the write does not happen.
    #[track_caller]
    pub(crate) fn dies_at_its_next_write_after(&self, act: impl FnOnce()) {
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        prlimit(Some(pid(self.pid())), Resource::Fsize, none).unwrap();
        act();
        eventually("it dies at a write", || {
            let state = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
            state.rsplit(')').next()?.trim_start().starts_with('Z').then_some(())
        });
    }

    /// Asks the server to end, and waits for its exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.served.wait().unwrap().code()
    }

    /// The ids of the upstream processes of the server.
    pub(crate) fn upstreams(&self) -> Vec<u32> {
        let is_upstream = |pid: &u32| command(*pid).contains("ringfence-upstream");
        children(self.pid()).into_iter().filter(is_upstream).collect()
    }

    /// The ids of its other processes and their children.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let upstreams = self.upstreams();
        let own = children(self.pid());
        let mut found: Vec<u32> = own.into_iter().filter(|pid| !upstreams.contains(pid)).collect();
        let mut next = 0;
        while let Some(pid) = found.get(next) {
            found.extend(children(*pid));
            next += 1;
        }
        found
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn send(to: u32, signal: Signal) {
    kill_process(pid(to), signal).unwrap();
}

/// Sends a signal to processes; those that have ended are ignored.
pub(crate) fn send_all(to: &[u32], signal: Signal) {
    for one in to {
        let _ = kill_process(pid(*one), signal);
    }
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).into_owned()
}

fn children(of: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{of}/task")) else {
        return Vec::new();
    };
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let all: Vec<String> = threads.flatten().map(of_thread).collect();
    let numbers = all.iter().flat_map(|text| text.split_whitespace());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

/// The program of the test servers.
pub(crate) fn upstream() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| ringfence_testkit::upstream::program().unwrap());
    &PROGRAM
}
