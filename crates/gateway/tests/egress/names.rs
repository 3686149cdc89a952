//! A name server whose answers the test sets.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

#[derive(Debug, Clone)]
enum Record {
    Address(IpAddr),
    Alias(String),
}

type Answers = HashMap<String, Vec<Vec<Record>>>;

/// Answers by name: one after another, the last one for ever. No answer may be cached.
#[derive(Clone)]
pub(crate) struct Names {
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Names {
    pub(crate) async fn serve() -> Names {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names = Names {
            address: socket.local_addr().unwrap(),
            answers: Arc::default(),
            asked: Arc::default(),
        };
        let served = names.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                if let Some(answer) = served.answer(&buffer[..length]) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        });
        names
    }

    /// Adds an answer for a name, after those that it has.
    pub(crate) fn then(&self, name: &str, addresses: &[&str]) {
        let records = addresses
            .iter()
            .map(|address| Record::Address(address.parse().unwrap()));
        self.answers
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_default()
            .push(records.collect());
    }

    pub(crate) fn a(&self, name: &str, address: &str) {
        self.then(name, &[address]);
    }

    pub(crate) fn alias(&self, name: &str, of: &str, address: &str) {
        let records = vec![Record::Alias(of.to_owned()), Record::Address(address.parse().unwrap())];
        self.answers
            .lock()
            .unwrap()
            .entry(name.to_owned())
            .or_default()
            .push(records);
    }

    /// Returns every name that was queried.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn answer(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = read_name(query, 12)?;
        let kind = u16::from_be_bytes([query[end], query[end + 1]]);
        let silent = name.starts_with("silent.");
        self.asked.lock().unwrap().push(name.clone());
        if silent {
            return None;
        }
        let found = {
            let mut answers = self.answers.lock().unwrap();
            let list = answers.get_mut(&name);
            list.map(|list| {
                if list.len() > 1 && kind == 1 {
                    list.remove(0)
                } else {
                    list[0].clone()
                }
            })
        };
        let mut out = query[..2].to_vec();
        let code: u8 = if found.is_some() { 0 } else { 3 };
        out.extend([0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
        out.extend(&query[12..end + 4]);
        let mut owner = name;
        let mut count = 0u8;
        for record in found.into_iter().flatten() {
            let (rtype, data): (u16, Vec<u8>) = match &record {
                Record::Alias(of) => (5, write_name(of)),
                Record::Address(IpAddr::V4(address)) => (1, address.octets().to_vec()),
                Record::Address(IpAddr::V6(address)) => (28, address.octets().to_vec()),
            };
            if rtype != kind && rtype != 5 {
                continue;
            }
            out.extend(write_name(&owner));
            out.extend(rtype.to_be_bytes());
            out.extend([0, 1, 0, 0, 0, 0]);
            out.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            out.extend(data);
            count += 1;
            if let Record::Alias(of) = record {
                owner = of;
            }
        }
        out[7] = count;
        Some(out)
    }
}

fn read_name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*bytes.get(at)?);
        if length == 0 {
            return Some((labels.join(".").to_ascii_lowercase(), at + 1));
        }
        labels.push(String::from_utf8_lossy(bytes.get(at + 1..at + 1 + length)?).into_owned());
        at += 1 + length;
    }
}

fn write_name(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.') {
        out.push(u8::try_from(label.len()).unwrap());
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}
