//! Memory that belongs to no process is the program's all the same, with control groups and without.

use std::fs::File;
use std::sync::Arc;

use ringfence_sandbox::{Backend, BackendKind, ExecutionLimit, Spec, SpecOptions, Verdict};

use crate::harness::{Ran, policy, run_in, shell, spec};
use crate::jail::backend;

const LITTLE: &[(&str, &str)] = &[
    ("proc.mem_limit", "64MiB"),
    ("proc.wall_timeout", "60s"),
    (
        "fs.mounts",
        "[{ path: /workspace, access: rw, quota: 128MiB }, { path: /tmp, access: rw, quota: 8MiB }]",
    ),
];

fn without_groups() -> Backend {
    Backend::without_groups(BackendKind::default(), "ringfence-test-memory").unwrap()
}

async fn run_on(backend: &Backend, script: &str) -> Ran {
    let mut sandbox = backend.launch(&spec(LITTLE)).await.unwrap();
    let ran = run_in(&mut sandbox, shell(script)).await;
    sandbox.end().await.unwrap();
    ran
}

/// Six processes that each do `work` in Python until it is refused, and then wait.
fn flood(work: &str) -> String {
    format!(
        "cat > /tmp/flood.py <<'END'\n\
         import fcntl, socket, os, time, mmap\n\
         for _ in range(5):\n    if os.fork() == 0: break\n\
         keep = []\n\
         try:\n    while True:\n{work}\n\
         except OSError: pass\n\
         time.sleep(15)\n\
         END\n\
         python3 /tmp/flood.py"
    )
}

const NETLINK: &str = "        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); keep.append(s); s.bind((0, 0)); s.setblocking(False)\n        \
    for _ in range(60):\n            s.send(bytes([20,0,0,0, 18,0, 1,3]) + bytes(12))";
const UDP: &str = "        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); keep.append(s); s.bind(('127.0.0.1', 0))\n        \
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)\n        \
    for _ in range(40): keep[0].sendto(bytes(60000), s.getsockname())";
const TCP: &str = "        l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(200); keep.append(l)\n        \
    for _ in range(100):\n            c = socket.create_connection(l.getsockname()); c.setblocking(False); keep += [c, l.accept()[0]]\n            \
    try:\n                while True: c.send(bytes(60000))\n            \
    except BlockingIOError: pass";
const UNIX: &str = "        a, b = socket.socketpair(); keep += [a, b]; a.setblocking(False)\n        \
    try:\n            while True: a.send(bytes(65536))\n        \
    except BlockingIOError: pass";

#[track_caller]
fn check_bounded(ran: &Ran) {
    assert_eq!(ran.ended.verdict, Verdict::Limit(ExecutionLimit::Memory), "{ran:?}");
}

#[tokio::test]
async fn queues_of_netlink_count_as_memory() {
    check_bounded(&run_on(&backend(), &flood(NETLINK)).await);
    check_bounded(&run_on(&without_groups(), &flood(NETLINK)).await);
}

#[tokio::test]
async fn buffers_of_sockets_count_as_memory_without_groups() {
    for work in [UDP, TCP, UNIX] {
        check_bounded(&run_on(&without_groups(), &flood(work)).await);
    }
}

#[tokio::test]
async fn buffers_of_connections_count_as_memory() {
    check_bounded(&run_on(&backend(), &flood(TCP)).await);
}

/// Connections that are not accepted and whose makers are gone: the kernel charges them to no process.
const TCP_UNACCEPTED: &str = "        l = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(4096); keep.append(l)\n        \
    for _ in range(4000):\n            c = socket.socket(); c.connect(l.getsockname()); c.close()";
/// Datagrams that are assembled and never sent.
const CORKED: &str = "        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); keep.append(s); s.connect(('127.0.0.1', 9))\n        \
    s.send(bytes(60000), socket.MSG_MORE)";

#[tokio::test]
async fn what_a_group_does_not_count_of_sockets_counts_as_memory() {
    for work in [TCP_UNACCEPTED, CORKED] {
        check_bounded(&run_on(&backend(), &flood(work)).await);
        check_bounded(&run_on(&without_groups(), &flood(work)).await);
    }
}

/// One byte in each of many connections that are not accepted, from senders that are gone.
const UNACCEPTED: &str = "        l = socket.socket(socket.AF_UNIX); l.bind('\\0' + str(os.getpid()) + '-' + str(len(keep))); l.listen(4096); keep.append(l)\n        \
    for _ in range(200):\n            c = socket.socket(socket.AF_UNIX); c.setblocking(False); c.connect(l.getsockname())\n            \
    try:\n                while True: c.send(b'x')\n            \
    except BlockingIOError: c.close()";
/// Datagrams of which the first one is empty, from senders that are gone.
const EMPTY_FIRST: &str = "        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('\\0' + str(os.getpid()) + '-' + str(len(keep))); keep.append(s)\n        \
    for n in range(8):\n            c = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); c.setblocking(False)\n            \
    c.sendto(bytes(60000 if n else 0), s.getsockname()); c.close()";
/// Mappings of one page each, which cannot be joined.
const MAPPINGS: &str = "        for n in range(20000): keep.append(mmap.mmap(-1, 4096, prot=1 + n % 2))";

/// Locks that cannot be joined, in many files: the kernel looks through those of one file for each new one.
const LOCKS: &str = "        f = open(f'/tmp/{os.getpid()}-{len(keep)}', 'w+b'); keep.append(f)\n        \
    for n in range(1000): fcntl.lockf(f, fcntl.LOCK_EX, 1, 2 * n)";

#[tokio::test]
async fn record_locks_count_as_memory() {
    for backend in [backend(), without_groups()] {
        let ran = run_on(&backend, &flood(LOCKS)).await;
        check_bounded(&ran);
    }
}

#[tokio::test]
async fn locks_of_ordinary_programs_work_and_those_of_open_files_are_not_supported() {
    let script = "cat > /tmp/locks.py <<'END'\nimport ctypes, fcntl, sqlite3, struct, time\n\
                  one, other = sqlite3.connect('/tmp/db', timeout=0), sqlite3.connect('/tmp/db', timeout=0)\n\
                  one.execute('create table t (x)'); one.commit(); one.execute('begin exclusive')\n\
                  try: other.execute('insert into t values (1)')\nexcept sqlite3.OperationalError as error: print(error)\n\
                  one.commit(); other.execute('insert into t values (1)'); other.commit()\n\
                  files = [open('/tmp/file', 'w+b') for _ in range(100)]\n\
                  fcntl.flock(files[1], fcntl.LOCK_EX)\n\
                  for n in range(2000): fcntl.lockf(files[0], fcntl.LOCK_EX, 1, 2 * n)\n\
                  time.sleep(0.5)\n\
                  try: fcntl.fcntl(files[0], 37, struct.pack('hhqqi', 1, 0, 9999, 1, 0)); print('locked')\n\
                  except OSError as error: print(error.errno)\nEND\npython3 /tmp/locks.py";
    for backend in [backend(), without_groups()] {
        let ran = run_on(&backend, script).await;
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "database is locked\n22\n"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn queues_whose_sender_is_gone_and_mappings_count_without_groups() {
    for work in [UNACCEPTED, EMPTY_FIRST, MAPPINGS] {
        let ran = run_on(&without_groups(), &flood(work)).await;
        check_bounded(&ran);
        assert!(ran.ended.usage.peak_memory < 8 << 30, "{ran:?}");
    }
}

/// One page in each GiB, read only: nothing is resident but the tables that lead to it.
const PAGE_TABLES: &str = "import ctypes, time\nlib = ctypes.CDLL(None); lib.mmap.restype = ctypes.c_void_p\n\
     lib.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n\
     for n in range(40000):\n    at = lib.mmap(0x10000000000 + n * 2 ** 30, 4096, 1, 0x100022, -1, 0)\n    \
     ctypes.string_at(at, 1)\ntime.sleep(15)";
/// Each mapping of a forked process is linked to the same one of all its ancestors.
const FORKED_MAPPINGS: &str = "import mmap, os, time\n\
     keep = [mmap.mmap(-1, 4096, prot=1 + 2 * (n % 2)) for n in range(2000)]\n\
     for m in keep[1::2]: m[0] = 1\n\
     for _ in range(55):\n    if os.fork(): break\n\
     time.sleep(15)";

#[tokio::test]
async fn what_the_kernel_keeps_for_mappings_counts_without_groups() {
    for source in [PAGE_TABLES, FORKED_MAPPINGS] {
        let script = format!("cat > /tmp/tables.py <<'END'\n{source}\nEND\npython3 /tmp/tables.py");
        let ran = run_on(&without_groups(), &script).await;
        check_bounded(&ran);
    }
}

/// Closed connections leave little behind, however many there were.
#[tokio::test]
async fn connections_that_were_closed_end_nobody() {
    let script = "cat > /tmp/closed.py <<'END'\nimport socket\nl = socket.socket(); l.bind(('127.0.0.1', 0)); l.listen(64)\n\
                  for _ in range(25000):\n    c = socket.create_connection(l.getsockname()); l.accept()[0].close(); c.close()\n\
                  print('done', flush=True)\nEND\npython3 /tmp/closed.py";
    for backend in [backend(), without_groups()] {
        let ran = run_on(&backend, script).await;
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
    }
}

/// More than sixteen empty sockets of each kind.
#[tokio::test]
async fn sockets_without_anything_in_them_count_as_what_they_are() {
    let script = "cat > /tmp/fresh.py <<'END'\nimport socket, time\nkeep = []\nfor n in range(160):\n    \
                  s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); keep.append(s)\n    \
                  if n % 2: s.bind(f'\\0fresh-{n}')\n\
                  for n in range(40):\n    keep[n].sendto(b'x', b'\\0fresh-1'); keep[1].recv(1)\n\
                  keep += [socket.socketpair()[0] for n in range(40)]\n\
                  time.sleep(1); print('done', flush=True)\nEND\npython3 /tmp/fresh.py";
    for backend in [backend(), without_groups()] {
        let ran = run_on(&backend, script).await;
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn memory_counts_where_the_first_thread_has_ended() {
    let script = "cat > /tmp/dead.py <<'END'\nimport ctypes, os, threading, time\n\
                  for _ in range(3):\n    if os.fork() == 0: break\n\
                  def hold():\n    keep = bytearray(40 << 20); time.sleep(10); print(len(keep), flush=True)\n\
                  threading.Thread(target=hold).start(); time.sleep(0.05)\n\
                  ctypes.CDLL(None).syscall(60, 0)\nEND\npython3 /tmp/dead.py";
    check_bounded(&run_on(&without_groups(), script).await);
}

#[tokio::test]
async fn pages_are_copied_and_not_passed_on() {
    let script = "head -c 3000000 /dev/zero > a; cp a b; cat a | cat > c; python3 -c \"\nimport os, shutil\nshutil.copyfile('a', 'd')\n\
                  for call in (lambda: os.sendfile(1, os.open('a', 0), 0, 9), lambda: os.splice(os.open('a', 0), os.pipe()[1], 9)):\n    \
                  try: call(); print('passed')\n    except OSError as error: print(error.errno)\n\
                  try: os.posix_fallocate(os.open('e', os.O_RDWR | os.O_CREAT), 0, 1 << 20)\n\
                  except OSError as error: print(error.errno)\n\"; stat -c %s b c d e | tr '\\n' ' '";
    let ran = run_on(&backend(), script).await;
    assert_eq!(ran.stdout, "22\n22\n3000000 3000000 3000000 1048576 ", "{ran:?}");
}

#[tokio::test]
async fn shared_memory_that_nobody_looks_at_counts_without_groups() {
    let work = "        m = mmap.mmap(-1, 4 << 20); m.write(bytes([1]) * (4 << 20)); m.madvise(mmap.MADV_DONTNEED); keep.append(m)";
    check_bounded(&run_on(&without_groups(), &flood(work)).await);
}

#[tokio::test]
async fn room_for_files_in_memory_is_not_the_programs() {
    // 100 MiB fit into the group's own limit of 64 MiB and 152 MiB for files.
    let script = "python3 -c 'import time; x = bytearray(100 << 20); time.sleep(15); print(len(x))'";
    let ran = run_on(&backend(), script).await;
    // Where each process has a limit of its own, that limit applies first.
    if !ran.stderr.contains("MemoryError") {
        check_bounded(&ran);
    }
    assert_eq!(ran.stdout, "", "{ran:?}");
}

#[tokio::test]
async fn a_place_in_memory_is_filled_at_full_speed_within_its_quota() {
    for backend in [backend(), without_groups()] {
        let ran = run_on(
            &backend,
            "head -c 125000000 /dev/zero > /workspace/a && sleep 0.3; rm /workspace/a; head -c 120000000 /dev/zero > /workspace/b; sleep 0.3; echo done",
        )
        .await;
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
        let usage = ran.ended.usage;
        assert!(usage.peak_tmpfs > 115_000_000, "{usage:?}");
        assert!(usage.peak_memory < 64 << 20, "{usage:?}");
    }
}

#[tokio::test]
async fn a_large_tree_of_names_ends_nobody() {
    let ran = run_on(
        &backend(),
        "find /usr > /dev/null 2>&1; cat /usr/bin/* 2>/dev/null | head -c 200000000 > /dev/null; echo done",
    )
    .await;
    assert_eq!(
        (ran.ended.verdict, ran.stdout.as_str()),
        (Verdict::Finished, "done\n"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_size_of_buffers_that_is_asked_for_is_not_had() {
    let script = "python3 -c \"\nimport socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
                  before = s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)\ns.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 3 << 20)\n\
                  print(before == s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), len(socket.if_nameindex()), \
                  len(socket.getaddrinfo('localhost', 80)) > 0)\"";
    let ran = run_on(&backend(), script).await;
    assert_eq!(ran.stdout, "True 1 True\n", "{ran:?}");
}

#[tokio::test]
async fn no_program_gains_priority() {
    let script = "ulimit -e; ulimit -r";
    assert_eq!(
        run_on(&backend(), &format!("bash -c '{script}'")).await.stdout,
        "0\n0\n"
    );
}

#[tokio::test]
async fn files_without_a_name_count_against_the_quota_on_disk() {
    let settings = [
        ("proc.wall_timeout", "20s"),
        (
            "fs.mounts",
            "[{ path: /workspace, access: rw, quota: 32MiB, keep: true }]",
        ),
    ];
    // A file that is opened and deleted; mapped, closed and deleted; in transit to another process.
    let held = [
        "keep.append(f)",
        "L.mmap(None, ctypes.c_size_t(4096), 1, 1, f.fileno(), ctypes.c_long(0)); f.close()",
        "socket.send_fds(a, [b'x'], [f.fileno()]); f.close()",
        "c = socket.socket(socket.AF_UNIX); c.connect(l.getsockname()); socket.send_fds(c, [b'x'], [f.fileno()]); c.close(); f.close()",
    ];
    for backend in [backend(), without_groups()] {
        for hold in held {
            let folder = tempfile::tempdir().unwrap();
            let options = SpecOptions {
                kept: Some(folder.path().to_owned()),
                folders: Some(folder.path().to_owned()),
                ..SpecOptions::default()
            };
            let spec = Arc::new(Spec::new(&policy(&settings), &options).unwrap());
            let mut sandbox = backend.launch(&spec).await.unwrap();
            let script = format!(
                "cat > /tmp/hold.py <<'END'\nimport ctypes, os, socket, time\nkeep = []\nL = ctypes.CDLL(None)\na, b = socket.socketpair()\n\
                 l = socket.socket(socket.AF_UNIX); l.bind('\\0late'); l.listen(100)\n\
                 for n in range(20):\n    f = open(f'/workspace/{{n}}', 'w+b'); f.write(bytes(8 << 20)); f.flush(); time.sleep(0.4)\n    \
                 os.unlink(f.name); {hold}\nprint('held', flush=True); time.sleep(15)\nEND\npython3 /tmp/hold.py"
            );
            let ran = run_in(&mut sandbox, shell(&script)).await;
            sandbox.end().await.unwrap();
            assert_eq!(
                (ran.ended.verdict, ran.stdout.as_str()),
                (Verdict::Limit(ExecutionLimit::Disk), ""),
                "{hold}: {ran:?}"
            );
        }
    }
}

/// Runs `script` in a kept workspace of 32 MiB, with control groups and without.
async fn in_a_kept_place(script: &str) -> Vec<Ran> {
    one_after_another_in_a_kept_place(&[script]).await
}

/// A file system that no build and no other test writes to.
const FILES_IN_MEMORY: &str = "/dev/shm";

/// A lock that one test of this user holds at a time, in whatever process it runs.
fn alone_in_memory() -> File {
    let user = rustix::process::geteuid().as_raw();
    let file = File::create(format!("{FILES_IN_MEMORY}/ringfence-test-alone-{user}")).unwrap();
    file.lock().unwrap();
    file
}

/// Runs several scripts there; returns the result of the last one.
async fn one_after_another_in_a_kept_place(scripts: &[&str]) -> Vec<Ran> {
    let mounts = "[{ path: /workspace, access: rw, quota: 32MiB, keep: true }]";
    let mut all = Vec::new();
    // The growth of the file system is among what the test judges: nothing else writes to this one.
    let _alone = alone_in_memory();
    for backend in [backend(), without_groups()] {
        let folder = tempfile::tempdir_in(FILES_IN_MEMORY).unwrap();
        let options = SpecOptions {
            kept: Some(folder.path().to_owned()),
            folders: Some(folder.path().to_owned()),
            ..SpecOptions::default()
        };
        let spec = Arc::new(Spec::new(&policy(&[("fs.mounts", mounts)]), &options).unwrap());
        let mut last = None;
        for script in scripts {
            let mut sandbox = backend.launch(&spec).await.unwrap();
            last = Some(run_in(&mut sandbox, shell(script)).await);
            sandbox.end().await.unwrap();
        }
        all.extend(last);
    }
    all
}

#[tokio::test]
async fn a_kept_place_that_cannot_be_counted_is_held_to_its_quota() {
    // More nested folders than fit into a path.
    let deep = "python3 -c \"\nimport os\nfor n in range(300): os.mkdir('x' * 200); os.chdir('x' * 200)\n\"";
    let write = "head -c 100000000 /dev/zero > /workspace/a; sleep 1; echo written";
    for ran in one_after_another_in_a_kept_place(&[deep, write]).await {
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Limit(ExecutionLimit::Disk), ""),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn files_that_nobody_has_any_more_do_not_count() {
    let script = "for n in 1 2 3 4 5 6 7 8 9 10; do head -c 8000000 /dev/zero > a; sleep 0.15; rm a; sleep 0.15; done; echo done";
    for ran in in_a_kept_place(script).await {
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn deleted_files_count_where_only_another_thread_has_them() {
    let script = "cat > /tmp/dead.py <<'END'\nimport ctypes, os, threading, time\n\
                  def hold():\n    keep = []\n    for n in range(12):\n        f = open(f'/workspace/{n}', 'wb'); os.unlink(f.name)\n        \
                  f.write(bytes(8 << 20)); f.flush(); keep.append(f); time.sleep(0.1)\n    print('held', flush=True); time.sleep(5)\n\
                  threading.Thread(target=hold).start(); ctypes.CDLL(None).syscall(60, 0)\nEND\npython3 /tmp/dead.py";
    for ran in in_a_kept_place(script).await {
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Limit(ExecutionLimit::Disk), ""),
            "{ran:?}"
        );
    }
}

#[tokio::test]
async fn other_names_and_closed_folders_end_nobody() {
    let script = "head -c 20000000 /dev/zero > a; for n in 1 2 3 4; do ln a b$n; done; mkdir q r; chmod 300 q; echo x > q/x; chmod 000 r; \
                  sleep 0.4; echo done";
    for ran in in_a_kept_place(script).await {
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
    }
}

/// Files of 1 MiB that never had a name, each passed on immediately by `send`, more than the place holds; then a wait.
fn sent_files(send: &str) -> String {
    format!(
        "cat > /tmp/sent.py <<'END'\nimport os, socket, time\na, b = socket.socketpair()\n\
         l = socket.socket(socket.AF_UNIX); l.bind('\\0late'); l.listen(300)\n\
         for n in range(200):\n    f = os.open('/workspace', os.O_TMPFILE | os.O_RDWR); os.write(f, bytes(1 << 20))\n    \
         {send}\n    os.close(f)\ntime.sleep(3); print('held', flush=True)\nEND\npython3 /tmp/sent.py"
    )
}

#[tokio::test]
async fn files_that_were_sent_before_anybody_saw_them_count_by_what_the_disk_grew() {
    for send in [
        "socket.send_fds(a, [b'x'], [f])",
        "c = socket.socket(socket.AF_UNIX); c.connect(l.getsockname()); socket.send_fds(c, [b'x'], [f]); c.close()",
    ] {
        for ran in in_a_kept_place(&sent_files(send)).await {
            assert_eq!(
                (ran.ended.verdict, ran.stdout.as_str()),
                (Verdict::Limit(ExecutionLimit::Disk), ""),
                "{send}: {ran:?}"
            );
        }
    }
}

#[tokio::test]
async fn files_of_a_program_that_hides_its_descriptors_count_too() {
    let script = "cp /usr/bin/python3 /tmp/p && chmod 111 /tmp/p; cat > /tmp/hide.py <<'END'\nimport ctypes, os, time\n\
                  ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
                  keep = []\nfor n in range(200):\n    f = os.open('/workspace', os.O_TMPFILE | os.O_RDWR); os.write(f, bytes(1 << 20)); keep.append(f)\n\
                  time.sleep(3); print('held', flush=True)\nEND\n";
    for command in ["python3 /tmp/hide.py", "/tmp/p /tmp/hide.py"] {
        for ran in in_a_kept_place(&format!("{script}{command}")).await {
            assert_eq!(
                (ran.ended.verdict, ran.stdout.as_str()),
                (Verdict::Limit(ExecutionLimit::Disk), ""),
                "{command}: {ran:?}"
            );
        }
    }
}

#[tokio::test]
async fn descriptors_that_are_passed_on_and_taken_end_nobody() {
    let script = "cat > /tmp/pass.py <<'END'\nimport os, socket, time\na, b = socket.socketpair()\n\
                  l = socket.socket(socket.AF_UNIX); l.bind('\\0pass'); l.listen(9)\n\
                  waiting = socket.socket(socket.AF_UNIX); waiting.connect(l.getsockname()); waiting.send(b'x')\n\
                  for n in range(60):\n    f = os.open('/workspace', os.O_TMPFILE | os.O_RDWR); os.write(f, bytes(1 << 20))\n    \
                  socket.send_fds(a, [b'x'], [f]); os.close(f)\n    \
                  os.close(socket.recv_fds(b, 1, 1)[1][0]); time.sleep(0.01)\n\
                  print('done', flush=True)\nEND\npython3 /tmp/pass.py";
    for ran in in_a_kept_place(script).await {
        assert_eq!(
            (ran.ended.verdict, ran.stdout.as_str()),
            (Verdict::Finished, "done\n"),
            "{ran:?}"
        );
    }
}
