//! The format of call log entries: one byte of version, a small header, and the text as it is. Calls are many and
//! texts are long, so the text is not encoded as JSON again. Damaged entries are an error, never a panic.

use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, Hash};
use ringfence_policy::Hints;

use super::{Answered, Asking, TapeError, Taped, TapedArguments, What};
use crate::refusal::Told;

const VERSION: u8 = 1;

/// The stage of a call when its entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The call was about to be sent.
    Started,
    /// An approval was requested for it.
    Asked(ApprovalId),
    /// It was answered without being sent.
    Settled,
}

/// The decoded entry of a call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) stage: Stage,
    pub(super) taped: Taped,
    /// The arguments are omitted because the execution kept too much.
    pub(super) spoiled: bool,
}

/// The arguments to encode into an entry.
#[derive(Debug)]
pub(super) enum Body<'a> {
    Text(&'a str),
    Digest(Hash),
    /// The arguments are omitted because the execution kept too much.
    Spoiled,
}

/// The decoded entry of an answer.
#[derive(Debug)]
pub(super) enum Answer {
    Kept(Answered),
    /// The answer is omitted because the execution kept too much.
    Spoiled,
}

const STARTED: u8 = 0;
const ASKED: u8 = 1;
const SETTLED: u8 = 2;

const TEXT: u8 = 0;
const SPOILED: u8 = 1;
const DIGEST: u8 = 2;

const TOOL: u8 = 0;
const SEARCH: u8 = 1;
const DESCRIBE: u8 = 2;
const LIST: u8 = 3;
/// A tool, with a byte for the server's hints about it.
const HINTED: u8 = 4;
const FETCH: u8 = 5;

/// Encodes the entry of a call.
pub(super) fn call(stage: Stage, asking: &Asking<'_>, body: &Body<'_>) -> Vec<u8> {
    let name = asking.name.unwrap_or_default();
    let (what, server, tool) = match asking.what {
        What::Tool { server, tool } if asking.hints.is_some() => (HINTED, server, tool),
        What::Tool { server, tool } => (TOOL, server, tool),
        What::Search => (SEARCH, "", ""),
        What::Describe => (DESCRIBE, "", ""),
        What::List => (LIST, "", ""),
        What::Fetch => (FETCH, "", ""),
    };
    let (flag, text) = match body {
        Body::Text(text) => (TEXT, text.as_bytes()),
        Body::Spoiled => (SPOILED, &[][..]),
        Body::Digest(digest) => (DIGEST, &digest.as_bytes()[..]),
    };
    let mut bytes = Vec::with_capacity(64 + server.len() + tool.len() + name.len() + text.len());
    bytes.push(VERSION);
    match stage {
        Stage::Started => bytes.push(STARTED),
        Stage::Asked(id) => {
            bytes.push(ASKED);
            put_text(&mut bytes, &id.to_string());
        }
        Stage::Settled => bytes.push(SETTLED),
    }
    bytes.push(flag);
    bytes.push(what);
    if what == HINTED {
        bytes.push(asking.hints.map_or(0, hints_number));
    }
    for part in [server, tool, name] {
        put_text(&mut bytes, part);
    }
    bytes.extend_from_slice(text);
    bytes
}

/// Decodes the entry of a call.
pub(super) fn read_call(bytes: Vec<u8>) -> Result<Call, TapeError> {
    let mut reader = Reader::new(&bytes)?;
    let stage = match reader.byte()? {
        STARTED => Stage::Started,
        ASKED => Stage::Asked(
            reader
                .text()?
                .parse()
                .map_err(|_| TapeError::Damaged("an approval's id"))?,
        ),
        SETTLED => Stage::Settled,
        _ => return Err(TapeError::Damaged("the stage of a call")),
    };
    let flag = reader.byte()?;
    let what = reader.byte()?;
    let hints = if what == HINTED {
        Some(hints(reader.byte()?)?)
    } else {
        None
    };
    let (server, tool) = (reader.text()?.to_owned(), reader.text()?.to_owned());
    let what = match what {
        TOOL | HINTED => What::Tool { server, tool },
        SEARCH => What::Search,
        DESCRIBE => What::Describe,
        LIST => What::List,
        FETCH => What::Fetch,
        _ => return Err(TapeError::Damaged("what a call was for")),
    };
    let name = Some(reader.text()?.to_owned()).filter(|name| !name.is_empty());
    let header = bytes.len() - reader.rest.len();
    let arguments = match flag {
        TEXT | SPOILED => TapedArguments::Text(tail(bytes, header)?),
        DIGEST => {
            let digest = Hash::try_from(reader.rest).map_err(|_| TapeError::Damaged("the digest of arguments"))?;
            TapedArguments::Digest(digest)
        }
        _ => return Err(TapeError::Damaged("how arguments are kept")),
    };
    Ok(Call {
        stage,
        taped: Taped {
            what,
            name,
            hints,
            arguments,
            started: false,
            approval: None,
            asked: false,
            answered: None,
        },
        spoiled: flag == SPOILED,
    })
}

/// Encodes the entry of an answer; `keep` says whether to include its text.
pub(super) fn answer(answered: &AnswerParts<'_>, keep: bool) -> Vec<u8> {
    if !keep {
        return vec![VERSION, 2];
    }
    let text = answered.answer.unwrap_or_default();
    let mut bytes = Vec::with_capacity(64 + text.len());
    bytes.push(VERSION);
    bytes.push(u8::from(answered.answer.is_err()));
    bytes.push(outcome_number(answered.outcome));
    bytes.push(u8::from(answered.forbidden));
    put_number(
        &mut bytes,
        u64::try_from(answered.duration.as_micros()).unwrap_or(u64::MAX),
    );
    put_optional(&mut bytes, answered.rule);
    match answered.answer {
        Ok(text) => bytes.extend_from_slice(text.as_bytes()),
        Err(told) => {
            put_text(&mut bytes, &told.code);
            put_optional(&mut bytes, told.rule.as_deref());
            put_optional(&mut bytes, told.hint.as_deref());
            put_number(&mut bytes, told.retry_after_ms.map_or(0, |wait| u64::from(wait) + 1));
            bytes.extend_from_slice(told.message.as_bytes());
        }
    }
    bytes
}

/// The parts of an answer to encode.
#[derive(Debug)]
pub(crate) struct AnswerParts<'a> {
    pub(crate) outcome: CallOutcome,
    pub(crate) forbidden: bool,
    pub(crate) duration: Duration,
    pub(crate) rule: Option<&'a str>,
    pub(crate) answer: Result<&'a str, &'a Told>,
}

/// Decodes the entry of an answer.
pub(super) fn read_answer(bytes: Vec<u8>) -> Result<Answer, TapeError> {
    let mut reader = Reader::new(&bytes)?;
    let refused = match reader.byte()? {
        0 => false,
        1 => true,
        2 => return Ok(Answer::Spoiled),
        _ => return Err(TapeError::Damaged("the kind of an answer")),
    };
    let outcome = outcome(reader.byte()?)?;
    let forbidden = reader.flag()?;
    let duration = Duration::from_micros(reader.number()?);
    let rule = reader.optional()?;
    let told = if refused {
        Some(Told {
            code: reader.text()?.to_owned(),
            rule: reader.optional()?,
            hint: reader.optional()?,
            retry_after_ms: match reader.number()? {
                0 => None,
                more => Some(u32::try_from(more - 1).map_err(|_| TapeError::Damaged("a time to wait"))?),
            },
            message: String::new(),
        })
    } else {
        None
    };
    let header = bytes.len() - reader.rest.len();
    let text = tail(bytes, header)?;
    let answer = match told {
        None => Ok(text),
        Some(told) => Err(Told { message: text, ..told }),
    };
    Ok(Answer::Kept(Answered {
        outcome,
        forbidden,
        duration,
        rule,
        answer,
    }))
}

/// A piece of the trace with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The index of the run that met it, from 0.
    pub(super) run: u64,
    /// Where that run diverged: the pieces of earlier runs from here on are void.
    pub(super) start: u64,
    /// The position where the piece begins.
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// Encodes a piece of the trace.
pub(super) fn trace(piece: &Piece) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + piece.bytes.len());
    bytes.push(VERSION);
    for number in [piece.run, piece.start, piece.at] {
        put_number(&mut bytes, number);
    }
    bytes.extend_from_slice(&piece.bytes);
    bytes
}

/// Decodes a piece of the trace.
pub(super) fn read_trace(bytes: &[u8]) -> Result<Piece, TapeError> {
    let mut reader = Reader::new(bytes)?;
    let (run, start, at) = (reader.number()?, reader.number()?, reader.number()?);
    if at < start {
        return Err(TapeError::Damaged("a trace"));
    }
    Ok(Piece {
        run,
        start,
        at,
        bytes: reader.rest.to_vec(),
    })
}

fn outcome_number(outcome: CallOutcome) -> u8 {
    match outcome {
        CallOutcome::Ok => 0,
        CallOutcome::Failed => 1,
        CallOutcome::Broken => 2,
        CallOutcome::TimedOut => 3,
        CallOutcome::Unknown => 4,
        CallOutcome::Refused => 5,
    }
}

fn outcome(number: u8) -> Result<CallOutcome, TapeError> {
    Ok(match number {
        0 => CallOutcome::Ok,
        1 => CallOutcome::Failed,
        2 => CallOutcome::Broken,
        3 => CallOutcome::TimedOut,
        4 => CallOutcome::Unknown,
        5 => CallOutcome::Refused,
        _ => return Err(TapeError::Damaged("how a call went")),
    })
}

/// Each hint is one digit: not given, no, yes.
fn hints_number(hints: Hints) -> u8 {
    let digit = |hint: Option<bool>| hint.map_or(0, |said| 1 + u8::from(said));
    digit(hints.read_only) + 3 * digit(hints.destructive) + 9 * digit(hints.open_world)
}

fn hints(number: u8) -> Result<Hints, TapeError> {
    let digit = |place: u8| match number / place % 3 {
        0 => None,
        said => Some(said == 2),
    };
    if number >= 27 {
        return Err(TapeError::Damaged("what a server says of a tool"));
    }
    Ok(Hints {
        read_only: digit(1),
        destructive: digit(3),
        open_world: digit(9),
    })
}

/// Returns the bytes after a header as text.
fn tail(mut bytes: Vec<u8>, header: usize) -> Result<String, TapeError> {
    bytes.drain(..header);
    String::from_utf8(bytes).map_err(|_| TapeError::Damaged("a text"))
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_optional(bytes: &mut Vec<u8>, text: Option<&str>) {
    bytes.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(bytes, text);
    }
}

/// Decodes bytes that may be damaged.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Reader<'a>, TapeError> {
        let mut reader = Reader { rest: bytes };
        match reader.byte()? {
            VERSION => Ok(reader),
            other => Err(TapeError::Version(other)),
        }
    }

    fn byte(&mut self) -> Result<u8, TapeError> {
        let (first, rest) = self.rest.split_first().ok_or(TapeError::Damaged("a short entry"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn flag(&mut self) -> Result<bool, TapeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(TapeError::Damaged("a flag")),
        }
    }

    fn number(&mut self) -> Result<u64, TapeError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(TapeError::Damaged("a number"))
    }

    fn text(&mut self) -> Result<&'a str, TapeError> {
        let length = usize::try_from(self.number()?).map_err(|_| TapeError::Damaged("a length"))?;
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(TapeError::Damaged("a short text"))?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| TapeError::Damaged("a text"))
    }

    fn optional(&mut self) -> Result<Option<String>, TapeError> {
        Ok(if self.flag()? {
            Some(self.text()?.to_owned())
        } else {
            None
        })
    }
}
