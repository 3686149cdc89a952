//! Generated programs that are interrupted at any waiting call and resumed by another server do the same as without an
//! interruption.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use ringfence_engine::approvals::{ApprovalState, ApprovalView};
use serde_json::Value;

use super::world::{Begun, Server, World};

/// A small pseudorandom generator with a given seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const HEAD: &str = "
const out: unknown[] = [];
const note = (...v: unknown[]) => { const line = JSON.stringify(v); console.log(line); out.push(line) };
const sleep = (ms: number) => new Promise<string>((done) => setTimeout(done, ms, 'slept'));
const say = (text: string) => tools.log.note({ text });
const ask = (text: string) => tools.log.send({ text });
";

/// Generates a program whose output depends on time, randomness and the order of answers, while its calls do not.
fn program(chance: &mut Chance) -> String {
    let mut source = HEAD.to_owned();
    let parts = 4 + chance.below(4);
    let crowd = chance.below(parts);
    for part in 0..parts {
        let many = if part == crowd { 200 } else { 1 + chance.below(12) };
        let (wait, asked) = (chance.below(4), chance.below(many));
        let text = match chance.below(10) {
            _ if part == crowd => format!(
                "{{ const order: number[] = []; note('all', await Promise.all(Array.from({{ length: {many} }}, async (_, i) => {{ \
                 if (i % 3 === 1) await sleep(i % 5); \
                 const v = await (i === {asked} ? ask : say)(`{part} ${{i}}`); order.push(i); \
                 if (i % 7 === 2) return [v, await say(`{part} ${{i}} more`)]; return v }})), order) }}"
            ),
            0 => "note('now', Date.now(), new Date().getTime(), performance.now())".to_owned(),
            1 => "note('chance', Math.random(), new Date().toISOString())".to_owned(),
            2 => format!("note('ask', await ask('{part}'), Date.now())"),
            3 => format!("note('race', await Promise.race([say('{part} a'), sleep({wait}), ask('{part} b')]), Math.random())"),
            4 => "{ let c = 0; await new Promise<void>((done) => { const id = setInterval(() => { note('tick', ++c, Date.now()); if (c === 3) { clearInterval(id); done() } }, 1) }) }".to_owned(),
            5 => format!("files.write('f{part}', `${{Math.random()}} ${{Date.now()}}`); note('file', files.read('f{part}'), files.list())"),
            6 => format!("late.push(ask('{part} late').then((v) => note('late', v, Date.now())))"),
            7 => format!("for (let i = 0; i < {many}; i++) note('row', i, await (i === {asked} ? ask : say)(`{part} ${{i}}`), Math.random())"),
            8 => "{ const t = Date.now(); let n = 0; while (Date.now() - t < 2) n++; note('spun', n > 0) }".to_owned(),
            _ => format!("note('any', await Promise.any([say('{part} x'), say('{part} y')]), (await Promise.allSettled([sleep({wait}), say('{part} z')])).map((x) => x.status))"),
        };
        let _ = writeln!(source, "{text};");
    }
    source.insert_str(HEAD.len(), "const late: Promise<unknown>[] = [];\n");
    source.push_str("await Promise.all(late); note('end', Date.now(), await ask('last')); out");
    source
}

/// The parts that must be equal: the calls with their arguments and the output, without times and order.
#[derive(Debug, PartialEq, Eq)]
struct Deeds {
    calls: BTreeMap<(String, String), usize>,
    said: BTreeMap<String, usize>,
}

/// Approves everything that an execution asks; with `breaks`, another server resumes it each time.
struct Drive<'a> {
    world: &'a World,
    server: Option<Server>,
    breaks: bool,
}

impl Drive<'_> {
    fn pending(&self, run: &Begun) -> Vec<ApprovalView> {
        let pending = self.world.questions(Some(ApprovalState::Pending));
        pending
            .into_iter()
            .filter(|one| one.execution_id.to_string() == run.execution)
            .collect()
    }

    /// Runs a program to its end; checks that output before a break is part of the final output.
    fn run(&mut self, source: &str) -> Deeds {
        let before = self.world.ledger().len();
        let run = self.server.as_ref().unwrap().begin("typescript", source);
        let (mut said, mut breaks) = (String::new(), Vec::new());
        let started = Instant::now();
        let ended = loop {
            let (status, now) = self.server.as_ref().unwrap().look(&run);
            if status == 200 {
                break now;
            }
            assert_eq!(status, 202, "{now}\n{source}");
            assert!(
                started.elapsed() < Duration::from_mins(2),
                "it never ends: {now}\n{source}"
            );
            now["stdout"].as_str().unwrap().clone_into(&mut said);
            if self.pending(&run).is_empty() {
                thread::sleep(Duration::from_millis(10));
                continue;
            }
            if self.breaks {
                self.world.suspended(&run);
                let (_, now) = self.server.as_ref().unwrap().look(&run);
                now["stdout"].as_str().unwrap().clone_into(&mut said);
                breaks.push(std::mem::take(&mut said));
                self.server.take().unwrap().kill();
                self.server = Some(self.world.serve());
            }
            for question in self.pending(&run) {
                self.world.answer(question.id, true).unwrap();
            }
        };
        assert_eq!(ended["status"], "completed", "{ended}\n{source}");
        let stdout = ended["stdout"].as_str().unwrap();
        for said in breaks {
            assert!(
                stdout.starts_with(&said),
                "{source}\n{said}\nis not how this begins:\n{stdout}"
            );
        }
        let value: Vec<&str> = ended["value"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        assert_eq!(stdout.lines().collect::<Vec<_>>(), value, "{source}");
        self.deeds(before, &value)
    }

    fn deeds(&self, before: usize, said: &[&str]) -> Deeds {
        let mut deeds = Deeds {
            calls: BTreeMap::new(),
            said: BTreeMap::new(),
        };
        for line in self.world.ledger().split_off(before) {
            *deeds.calls.entry((line.tool, line.arguments)).or_default() += 1;
        }
        for line in said {
            let line: Value = serde_json::from_str(line).unwrap();
            *deeds.said.entry(line[0].as_str().unwrap().to_owned()).or_default() += 1;
        }
        deeds
    }
}

fn check(seed: u64) {
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let source = program(&mut chance);
    let world = World::new();
    let mut drive = Drive {
        world: &world,
        server: Some(world.serve()),
        breaks: false,
    };
    let whole = drive.run(&source);
    drive.breaks = true;
    let broken = drive.run(&source);
    assert_eq!(broken, whole, "{source}");
    let twice: Vec<_> = broken.calls.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}\n{source}");
    assert_eq!(drive.server.take().unwrap().end(), Some(0));
    world.verified();
}

#[test]
fn generated_programs_go_on_with_another_server_as_if_nothing_had_happened() {
    (1..=3).for_each(check);
}

#[test]
fn more_generated_programs_go_on_with_another_server() {
    (4..=6).for_each(check);
}
