//! Judges the egress probes by the evidence of the servers and resolvers that were reached, and not by the attacker's report
//! alone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::program_runs::{AttackRun, PRIVATE_NAMES, RunEvidence, TIGHT_BUDGET_BYTES};
use crate::attempt::AttemptLine;
use crate::attempt::egress::{FORGED_LINE_START, PAYLOAD};
use crate::internet::{ALLOWED, Arrival, EVIL, Internet, LOOSE, SiteRequest};
use crate::runner::judge::judge_line;

/// The number of each probe, whether it is broken, and the reason.
pub(super) fn judge_evidence(
    seen: &RunEvidence,
    internet: &Internet,
    setting: &AttackRun<'_>,
) -> Vec<(u16, bool, String)> {
    let ledger = internet.traffic();
    let (arrivals, asked) = (ledger.arrivals(), ledger.requests());
    let looked_up = ledger.queries().iter().any(|query| query.name.contains(PAYLOAD));
    let witness = EvidenceJudge {
        seen,
        arrivals,
        asked,
        looked_up,
        key: setting.key.as_bytes(),
    };
    (98..=140).map(|id| witness.judge_probe(id)).collect()
}

struct EvidenceJudge<'a> {
    seen: &'a RunEvidence,
    arrivals: Vec<Arrival>,
    asked: Vec<SiteRequest>,
    looked_up: bool,
    key: &'a [u8],
}

impl EvidenceJudge<'_> {
    fn judge_probe(&self, id: u16) -> (u16, bool, String) {
        let own: Vec<&AttemptLine> = self.seen.lines.iter().filter(|line| line.id == id).collect();
        let mut wrong = Vec::new();
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for line in &own {
            match judge_line(line) {
                Err(why) => wrong.push(why),
                Ok(how) => *held.entry(how).or_default() += 1,
            }
        }
        if own.is_empty() && id != 140 {
            wrong.push("no attempt was heard of".to_owned());
        }
        wrong.extend(self.outside_evidence(id));
        if !wrong.is_empty() {
            return (id, true, wrong.join("; "));
        }
        if [129, 131].contains(&id) {
            held.clear();
        }
        let mut held: Vec<String> = held.iter().map(|(how, count)| format!("{how} ({count})")).collect();
        held.truncate(6);
        let detail = if held.is_empty() {
            "nowhere".to_owned()
        } else {
            held.join("; ")
        };
        (id, false, detail)
    }

    /// What the servers and the resolver saw of a probe.
    fn outside_evidence(&self, id: u16) -> Option<String> {
        match id {
            98..=102 | 108 | 109 | 120 | 121 => self.reached_evidence(|to| to == EVIL),
            103 | 104 | 110 => self.reached_evidence(|to| ![EVIL, ALLOWED, LOOSE].contains(&to) && !is_named(to)),
            105..=107 => self.reached_evidence(|to| {
                PRIVATE_NAMES
                    .iter()
                    .any(|(own, address)| *own == id && to == IpAddr::from(*address))
            }),
            111..=116 => self.fronting_evidence(id),
            123 => self.request_evidence(|one| {
                let over = ["x-http-method-override", "x-method-override", "x-http-method"];
                one.path == "/v1/123" && (one.method != "GET" || over.iter().any(|name| one.header(name).is_some()))
            }),
            125 => self.looked_up.then(|| "the name was looked up".to_owned()),
            126 => self.upload_evidence(),
            127 => self.request_evidence(|one| one.path.ends_with("127")),
            128 => self.forgery_evidence(),
            129 | 131 | 140 => self.kept_credential_evidence(),
            135 => self.request_evidence(|one| one.path.starts_with("/echo/135") && self.has_key(one)),
            133 | 136 => self.request_evidence(|one| one.path.starts_with(&format!("/echo/{id}"))),
            137 => self.request_evidence(|one| one.path == "/echo/137"),
            138 | 139 => self.request_evidence(|one| one.path == format!("/echo/{id}") && self.has_key(one)),
            _ => None,
        }
    }

    fn reached_evidence(&self, stray: impl Fn(IpAddr) -> bool) -> Option<String> {
        let found = self.arrivals.iter().find(|one| stray(one.to.ip()));
        found.map(|one| format!("somebody dialled {}", one.to))
    }

    fn request_evidence(&self, wrong: impl Fn(&SiteRequest) -> bool) -> Option<String> {
        let found = self.asked.iter().find(|one| wrong(one));
        found.map(|one| format!("{} {}://{}{} arrived", one.method, one.scheme, one.host, one.path))
    }

    fn fronting_evidence(&self, id: u16) -> Option<String> {
        let path = match id {
            111..=113 => "/page".to_owned(),
            114 => "/echo/114".to_owned(),
            115 => return self.request_evidence(|one| one.to.ip() == LOOSE && one.host.starts_with("evil.")),
            _ => "/echo".to_owned(),
        };
        self.request_evidence(|one| one.to.ip() == ALLOWED && one.host.starts_with("evil.") && one.path == path)
    }

    fn upload_evidence(&self) -> Option<String> {
        let own = self.asked.iter().filter(|one| one.path == "/echo/126");
        let bytes: u64 = own.map(|one| one.body.len() as u64).sum();
        (bytes > TIGHT_BUDGET_BYTES).then(|| format!("{bytes} bytes arrived where {TIGHT_BUDGET_BYTES} may leave"))
    }

    fn forgery_evidence(&self) -> Option<String> {
        let forged = self
            .seen
            .journal
            .lines()
            .any(|line| line.starts_with(FORGED_LINE_START));
        let raw = self.seen.journal.contains(['\u{1b}', '\u{9b}']);
        (forged || raw).then(|| "what is written down has a line of the attacker's".to_owned())
    }

    fn kept_credential_evidence(&self) -> Option<String> {
        let found = self.seen.kept.windows(self.key.len()).any(|window| window == self.key);
        found.then(|| "the credential is in what is kept".to_owned())
    }

    fn has_key(&self, asked: &SiteRequest) -> bool {
        let key = String::from_utf8_lossy(self.key);
        let has = |text: &str| text.contains(key.as_ref());
        has(&asked.path)
            || has(&String::from_utf8_lossy(&asked.body))
            || asked.headers.iter().any(|(_, value)| has(value))
    }
}

fn is_named(to: IpAddr) -> bool {
    PRIVATE_NAMES.iter().any(|(_, address)| to == IpAddr::from(*address))
}
