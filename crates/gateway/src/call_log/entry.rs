//! The format of call log entries: one byte of version, a small header, and the text as it is. Calls are many and
//! texts are long, so the text is not encoded as JSON again. Damaged entries are an error, never a panic.

use std::time::Duration;

use ringfence_journal::{ApprovalId, CallOutcome, ContentHash};
use ringfence_policy::ToolHints;

use super::{ActiveCall, CallKind, CallLogError, LoggedAnswer, LoggedArguments, LoggedCall};
use crate::refusal::CallErrorBody;

const VERSION: u8 = 1;

/// The stage of a call when its entry was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStage {
    /// The call was about to be sent.
    Started,
    /// An approval was requested for it.
    Asked(ApprovalId),
    /// It was answered without being sent.
    Settled,
}

/// The decoded entry of a call.
#[derive(Debug)]
pub(super) struct CallEntry {
    pub(super) stage: CallStage,
    pub(super) taped: LoggedCall,
    /// The arguments are omitted because the execution kept too much.
    pub(super) spoiled: bool,
}

/// The arguments to encode into an entry.
#[derive(Debug)]
pub(super) enum EntryArguments<'a> {
    Text(&'a str),
    Digest(ContentHash),
    /// The arguments are omitted because the execution kept too much.
    Omitted,
}

/// The decoded entry of an answer.
#[derive(Debug)]
pub(super) enum AnswerEntry {
    Kept(LoggedAnswer),
    /// The answer is omitted because the execution kept too much.
    Omitted,
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
pub(super) fn encode_call(stage: CallStage, asking: &ActiveCall<'_>, body: &EntryArguments<'_>) -> Vec<u8> {
    let name = asking.name.unwrap_or_default();
    let (what, server, tool) = match asking.kind {
        CallKind::Tool { server, tool } if asking.hints.is_some() => (HINTED, server, tool),
        CallKind::Tool { server, tool } => (TOOL, server, tool),
        CallKind::Search => (SEARCH, "", ""),
        CallKind::Describe => (DESCRIBE, "", ""),
        CallKind::List => (LIST, "", ""),
        CallKind::Fetch => (FETCH, "", ""),
    };
    let (flag, text) = match body {
        EntryArguments::Text(text) => (TEXT, text.as_bytes()),
        EntryArguments::Omitted => (SPOILED, &[][..]),
        EntryArguments::Digest(digest) => (DIGEST, &digest.as_bytes()[..]),
    };
    let mut bytes = Vec::with_capacity(64 + server.len() + tool.len() + name.len() + text.len());
    bytes.push(VERSION);
    match stage {
        CallStage::Started => bytes.push(STARTED),
        CallStage::Asked(id) => {
            bytes.push(ASKED);
            put_text(&mut bytes, &id.to_string());
        }
        CallStage::Settled => bytes.push(SETTLED),
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
pub(super) fn decode_call(bytes: Vec<u8>) -> Result<CallEntry, CallLogError> {
    let mut reader = EntryReader::new(&bytes)?;
    let stage = match reader.read_byte()? {
        STARTED => CallStage::Started,
        ASKED => CallStage::Asked(
            reader
                .read_text()?
                .parse()
                .map_err(|_| CallLogError::Damaged("an approval's id"))?,
        ),
        SETTLED => CallStage::Settled,
        _ => return Err(CallLogError::Damaged("the stage of a call")),
    };
    let flag = reader.read_byte()?;
    let what = reader.read_byte()?;
    let hints = if what == HINTED {
        Some(hints_from_number(reader.read_byte()?)?)
    } else {
        None
    };
    let (server, tool) = (reader.read_text()?.to_owned(), reader.read_text()?.to_owned());
    let what = match what {
        TOOL | HINTED => CallKind::Tool { server, tool },
        SEARCH => CallKind::Search,
        DESCRIBE => CallKind::Describe,
        LIST => CallKind::List,
        FETCH => CallKind::Fetch,
        _ => return Err(CallLogError::Damaged("what a call was for")),
    };
    let name = Some(reader.read_text()?.to_owned()).filter(|name| !name.is_empty());
    let header = bytes.len() - reader.rest.len();
    let arguments = match flag {
        TEXT | SPOILED => LoggedArguments::Text(text_after_header(bytes, header)?),
        DIGEST => {
            let digest =
                ContentHash::try_from(reader.rest).map_err(|_| CallLogError::Damaged("the digest of arguments"))?;
            LoggedArguments::Digest(digest)
        }
        _ => return Err(CallLogError::Damaged("how arguments are kept")),
    };
    Ok(CallEntry {
        stage,
        taped: LoggedCall {
            kind: what,
            name,
            hints,
            arguments,
            started: false,
            approval: None,
            asked: false,
            answer: None,
        },
        spoiled: flag == SPOILED,
    })
}

/// Encodes the entry of an answer; `keep` says whether to include its text.
pub(super) fn encode_answer(answered: &AnswerParts<'_>, keep: bool) -> Vec<u8> {
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
    pub(crate) answer: Result<&'a str, &'a CallErrorBody>,
}

/// Decodes the entry of an answer.
pub(super) fn decode_answer(bytes: Vec<u8>) -> Result<AnswerEntry, CallLogError> {
    let mut reader = EntryReader::new(&bytes)?;
    let refused = match reader.read_byte()? {
        0 => false,
        1 => true,
        2 => return Ok(AnswerEntry::Omitted),
        _ => return Err(CallLogError::Damaged("the kind of an answer")),
    };
    let outcome = outcome_from_number(reader.read_byte()?)?;
    let forbidden = reader.read_flag()?;
    let duration = Duration::from_micros(reader.read_number()?);
    let rule = reader.read_optional()?;
    let told = if refused {
        Some(CallErrorBody {
            code: reader.read_text()?.to_owned(),
            rule: reader.read_optional()?,
            hint: reader.read_optional()?,
            retry_after_ms: match reader.read_number()? {
                0 => None,
                more => Some(u32::try_from(more - 1).map_err(|_| CallLogError::Damaged("a time to wait"))?),
            },
            message: String::new(),
        })
    } else {
        None
    };
    let header = bytes.len() - reader.rest.len();
    let text = text_after_header(bytes, header)?;
    let answer = match told {
        None => Ok(text),
        Some(told) => Err(CallErrorBody { message: text, ..told }),
    };
    Ok(AnswerEntry::Kept(LoggedAnswer {
        outcome,
        forbidden,
        duration,
        rule,
        answer,
    }))
}

/// A piece of the trace with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TracePiece {
    /// The index of the run that met it, from 0.
    pub(super) run: u64,
    /// Where that run diverged: the pieces of earlier runs from here on are void.
    pub(super) start: u64,
    /// The position where the piece begins.
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// Encodes a piece of the trace.
pub(super) fn encode_trace(piece: &TracePiece) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + piece.bytes.len());
    bytes.push(VERSION);
    for number in [piece.run, piece.start, piece.at] {
        put_number(&mut bytes, number);
    }
    bytes.extend_from_slice(&piece.bytes);
    bytes
}

/// Decodes a piece of the trace.
pub(super) fn decode_trace(bytes: &[u8]) -> Result<TracePiece, CallLogError> {
    let mut reader = EntryReader::new(bytes)?;
    let (run, start, at) = (reader.read_number()?, reader.read_number()?, reader.read_number()?);
    if at < start {
        return Err(CallLogError::Damaged("a trace"));
    }
    Ok(TracePiece {
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

fn outcome_from_number(number: u8) -> Result<CallOutcome, CallLogError> {
    Ok(match number {
        0 => CallOutcome::Ok,
        1 => CallOutcome::Failed,
        2 => CallOutcome::Broken,
        3 => CallOutcome::TimedOut,
        4 => CallOutcome::Unknown,
        5 => CallOutcome::Refused,
        _ => return Err(CallLogError::Damaged("how a call went")),
    })
}

/// Each hint is one digit: not given, no, yes.
fn hints_number(hints: ToolHints) -> u8 {
    let digit = |hint: Option<bool>| hint.map_or(0, |said| 1 + u8::from(said));
    digit(hints.read_only) + 3 * digit(hints.destructive) + 9 * digit(hints.open_world)
}

fn hints_from_number(number: u8) -> Result<ToolHints, CallLogError> {
    let digit = |place: u8| match number / place % 3 {
        0 => None,
        said => Some(said == 2),
    };
    if number >= 27 {
        return Err(CallLogError::Damaged("what a server says of a tool"));
    }
    Ok(ToolHints {
        read_only: digit(1),
        destructive: digit(3),
        open_world: digit(9),
    })
}

/// Returns the bytes after a header as text.
fn text_after_header(mut bytes: Vec<u8>, header: usize) -> Result<String, CallLogError> {
    bytes.drain(..header);
    String::from_utf8(bytes).map_err(|_| CallLogError::Damaged("a text"))
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
struct EntryReader<'a> {
    rest: &'a [u8],
}

impl<'a> EntryReader<'a> {
    fn new(bytes: &'a [u8]) -> Result<EntryReader<'a>, CallLogError> {
        let mut reader = EntryReader { rest: bytes };
        match reader.read_byte()? {
            VERSION => Ok(reader),
            other => Err(CallLogError::Version(other)),
        }
    }

    fn read_byte(&mut self) -> Result<u8, CallLogError> {
        let (first, rest) = self.rest.split_first().ok_or(CallLogError::Damaged("a short entry"))?;
        self.rest = rest;
        Ok(*first)
    }

    fn read_flag(&mut self) -> Result<bool, CallLogError> {
        match self.read_byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(CallLogError::Damaged("a flag")),
        }
    }

    fn read_number(&mut self) -> Result<u64, CallLogError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(CallLogError::Damaged("a number"))
    }

    fn read_text(&mut self) -> Result<&'a str, CallLogError> {
        let length = usize::try_from(self.read_number()?).map_err(|_| CallLogError::Damaged("a length"))?;
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(CallLogError::Damaged("a short text"))?;
        self.rest = rest;
        std::str::from_utf8(text).map_err(|_| CallLogError::Damaged("a text"))
    }

    fn read_optional(&mut self) -> Result<Option<String>, CallLogError> {
        Ok(if self.read_flag()? {
            Some(self.read_text()?.to_owned())
        } else {
            None
        })
    }
}
