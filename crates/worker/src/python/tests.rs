use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{IoSlice, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{
    ENVIRONMENT, FrameBuffer, JobError, MAX_JOB, MAX_PACKET, PythonError, PythonFrame, PythonJob, PythonReadError,
    PythonRemark, PythonResult, READY, ZygoteReply, ZygoteRequest, append_return_frame, is_ready, wait_query_frame,
    zygote_arguments,
};

mod again;
mod emit;
mod frames;
mod programs;
mod values;

const ALLOW_ALL: [u8; 8] = [0x06, 0, 0, 0, 0, 0, 0xff, 0x7f];

static SEEDS: AtomicU64 = AtomicU64::new(1);

fn clock_now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros() / 100).unwrap()
}

/// A zygote outside any jail, as the worker would start it.
struct Zygote {
    process: Child,
    control: OwnedFd,
}

struct Forked {
    pid: i32,
    stream: UnixStream,
    stdout: File,
    stderr: File,
}

impl Zygote {
    #[expect(clippy::disallowed_methods, reason = "the worker starts Python")]
    /// Standard input becomes descriptor 3 by way of the shell, so that no unsafe code is needed here.
    fn spawn(filter: &[u8]) -> Zygote {
        let (control, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
            .into_iter()
            .find(|place| Path::new(place).exists())
            .expect("these tests need python3");
        let process = Command::new("/bin/sh")
            .args(["-c", "exec 3<&0 0</dev/null; exec \"$@\"", "sh", python])
            .args(zygote_arguments(filter))
            .env_clear()
            .envs(ENVIRONMENT)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Zygote { process, control }
    }

    fn start(filter: &[u8]) -> Zygote {
        let zygote = Zygote::spawn(filter);
        assert_eq!(zygote.receive(), READY);
        zygote
    }

    fn receive(&self) -> Vec<u8> {
        let mut packet = vec![0; MAX_PACKET];
        let (size, _) = recv(&self.control, &mut packet, RecvFlags::empty()).unwrap();
        packet.truncate(size);
        packet
    }

    fn ask(&self, request: &ZygoteRequest, descriptors: &[BorrowedFd<'_>]) -> ZygoteReply {
        let packet = request.to_packet();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        sendmsg(
            &self.control,
            &[IoSlice::new(&packet)],
            &mut ancillary,
            SendFlags::empty(),
        )
        .unwrap();
        ZygoteReply::from_packet(&self.receive()).unwrap()
    }

    fn fork(&self, rlimits: &[(&str, u64)], groups: &[&File]) -> Forked {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let (stdout, out) = pipe();
        let (stderr, err) = pipe();
        let rlimits = rlimits
            .iter()
            .map(|(name, limit)| ((*name).to_owned(), *limit))
            .collect();
        let mut descriptors = vec![theirs.as_fd(), out.as_fd(), err.as_fd()];
        descriptors.extend(groups.iter().map(|group| group.as_fd()));
        let reply = self.ask(&ZygoteRequest::Fork { rlimits }, &descriptors);
        let ZygoteReply::Child { pid } = reply else {
            panic!("{reply:?}")
        };
        Forked {
            pid,
            stream,
            stdout,
            stderr,
        }
    }

    fn reap(&self, pid: i32) -> i32 {
        let reply = self.ask(&ZygoteRequest::Reap { pid }, &[]);
        let ZygoteReply::Reaped { pid: reaped, status } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!(reaped, pid);
        status
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn pipe() -> (File, File) {
    let (read, write) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(read)), File::from(OwnedFd::from(write)))
}

/// Everything that a run leaves.
#[derive(Debug)]
struct Ran {
    result: PythonResult,
    stdout: String,
    stderr: String,
    status: i32,
    workspace: TempDir,
    emitted: Vec<(String, Option<String>)>,
}

/// The result frame of a child; the frames before it are skipped.
fn last_frame(frames: &mut FrameBuffer, stream: &mut UnixStream) -> Option<Vec<u8>> {
    last_frame_and_files(frames, stream, &mut Vec::new())
}

/// The result frame of a child. The files that it emits are added to the list.
fn last_frame_and_files(
    frames: &mut FrameBuffer,
    stream: &mut UnixStream,
    emitted: &mut Vec<(String, Option<String>)>,
) -> Option<Vec<u8>> {
    loop {
        let frame = frames.read_frame(stream).unwrap()?;
        match PythonFrame::read(&frame).unwrap() {
            PythonFrame::Result(_) => return Some(frame),
            PythonFrame::Remark(PythonRemark::Emit { path, media_type }) => emitted.push((path, media_type)),
            PythonFrame::Remark(_) | PythonFrame::Call(_) => {}
        }
    }
}

fn run_on(zygote: &Zygote, source: &str, args: &[&str], prepare: impl Fn(&Path)) -> Ran {
    let workspace = tempfile::tempdir().unwrap();
    let deps = tempfile::tempdir().unwrap();
    prepare(workspace.path());
    fs::write(deps.path().join("helper_package.py"), "ANSWER = 42\n").unwrap();
    let mut child = zygote.fork(&[], &[]);
    let mut frames = FrameBuffer::new(1 << 20);
    assert!(is_ready(&frames.read_frame(&mut child.stream).unwrap().unwrap()));
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let env = BTreeMap::from([("GREETING".to_owned(), "hällo".to_owned())]);
    let job = PythonJob {
        source,
        file_name: "program.py",
        args: &args,
        input: None,
        env: &env,
        workspace: workspace.path(),
        deps: deps.path(),
        seed: SEEDS.fetch_add(1, Ordering::Relaxed),
        clock: clock_now(),
        trace: &[],
        network: false,
    };
    child.stream.write_all(&job.to_frame().unwrap()).unwrap();
    let mut emitted = Vec::new();
    let answer = last_frame_and_files(&mut frames, &mut child.stream, &mut emitted);
    let mut stdout = String::new();
    child.stdout.read_to_string(&mut stdout).unwrap();
    let mut stderr = String::new();
    child.stderr.read_to_string(&mut stderr).unwrap();
    let status = zygote.reap(child.pid);
    let answer = answer.unwrap_or_else(|| panic!("no answer, status {status}: {stderr}"));
    let result = PythonResult::from_frame(&answer).unwrap();
    Ran {
        result,
        stdout,
        stderr,
        status,
        workspace,
        emitted,
    }
}

#[test]
fn one_zygote_serves_many_children_and_survives_their_death() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let first = zygote.fork(&[], &[]);
    kill_process(Pid::from_raw(first.pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(zygote.reap(first.pid), -9);
    let second = run_on(&zygote, "1 + 1", &[], |_| {});
    assert_eq!(
        second.result,
        PythonResult::Completed {
            value_json: Some("2".to_owned())
        }
    );
    assert_eq!(second.status, 0);
    let mut third = zygote.fork(&[], &[]);
    assert!(FrameBuffer::new(64).read_frame(&mut third.stream).unwrap().is_some());
    drop(third.stream);
    assert_eq!(zygote.reap(third.pid), 71);
    let reply = zygote.ask(&ZygoteRequest::Reap { pid: 999_999 }, &[]);
    assert!(matches!(reply, ZygoteReply::Refused { .. }), "{reply:?}");
    let reply = zygote.ask(
        &ZygoteRequest::Fork {
            rlimits: BTreeMap::new(),
        },
        &[],
    );
    assert!(matches!(reply, ZygoteReply::Refused { .. }), "{reply:?}");
}

#[test]
fn a_child_joins_its_groups_and_keeps_nothing_else_open() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let folder = tempfile::tempdir().unwrap();
    let group = File::create(folder.path().join("tasks")).unwrap();
    let mut child = zygote.fork(&[("NOFILE", 64), ("CORE", 0)], &[&group]);
    let mut frames = FrameBuffer::new(1 << 20);
    assert!(is_ready(&frames.read_frame(&mut child.stream).unwrap().unwrap()));
    assert_eq!(fs::read_to_string(folder.path().join("tasks")).unwrap(), "0");
    let source = "import os, resource\n(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4], resource.getrlimit(resource.RLIMIT_NOFILE))";
    let env = BTreeMap::new();
    let places = (folder.path(), Path::new("/nonexistent"));
    let job = PythonJob {
        source,
        file_name: "p.py",
        args: &[],
        input: None,
        env: &env,
        workspace: places.0,
        deps: places.1,
        seed: 0,
        clock: clock_now(),
        trace: &[],
        network: false,
    };
    child.stream.write_all(&job.to_frame().unwrap()).unwrap();
    let answer = last_frame(&mut frames, &mut child.stream).unwrap();
    let expected = "[[0, 1, 2, 3], [64, 64]]".to_owned();
    assert_eq!(
        PythonResult::from_frame(&answer).unwrap(),
        PythonResult::Completed {
            value_json: Some(expected)
        }
    );
}

#[test]
fn a_group_that_cannot_be_joined_ends_the_child_before_its_job() {
    let zygote = Zygote::start(&ALLOW_ALL);
    let readonly = File::open("/dev/null").unwrap();
    let mut child = zygote.fork(&[], &[&readonly]);
    assert!(
        FrameBuffer::new(1 << 20)
            .read_frame(&mut child.stream)
            .unwrap()
            .is_none()
    );
    assert_eq!(zygote.reap(child.pid), 70);
}

#[test]
fn without_a_filter_nothing_runs() {
    for broken in [&[][..], &ALLOW_ALL[..7]] {
        let mut zygote = Zygote::spawn(broken);
        assert!(!zygote.process.wait().unwrap().success());
    }
    // Whole instructions, but no program: the kernel refuses it in the child.
    let zygote = Zygote::start(&[0xff; 8]);
    let mut child = zygote.fork(&[], &[]);
    assert!(
        FrameBuffer::new(1 << 20)
            .read_frame(&mut child.stream)
            .unwrap()
            .is_none()
    );
    assert_eq!(zygote.reap(child.pid), 70);
    let mut said = String::new();
    child.stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("cannot confine the program"), "{said}");
}

#[test]
fn the_filter_is_in_force() {
    let number: u8 = if cfg!(target_arch = "x86_64") { 41 } else { 198 };
    let mut filter = Vec::new();
    filter.extend([0x20, 0, 0, 0, 0, 0, 0, 0]); // load the system call's number
    filter.extend([0x15, 0, 0, 1, number, 0, 0, 0]); // `socket`?
    filter.extend([0x06, 0, 0, 0, 1, 0, 5, 0]); // EPERM
    filter.extend(ALLOW_ALL);
    let zygote = Zygote::start(&filter);
    let ran = run_on(&zygote, "import socket\nsocket.socket()", &[], |_| {});
    let PythonResult::Failed(error) = ran.result else {
        panic!("{ran:?}")
    };
    assert_eq!((error.kind.as_str(), error.line), ("PermissionError", Some(2)));
    let ran = run_on(
        &zygote,
        "import asyncio\nawait asyncio.sleep(0)\n'still works'",
        &[],
        |_| {},
    );
    let expected = PythonResult::Completed {
        value_json: Some("\"still works\"".to_owned()),
    };
    assert_eq!(ran.result, expected);
}
