//! Runs a test in a private internet: the whole test runs once more, in namespaces that are made for it, where every address belongs to the
//! test. It works for root and for an ordinary user.
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts itself once more and tells itself so"
)]

#[cfg(feature = "sandboxes")]
pub mod proxy;

use std::ffi::OsStr;
use std::net::IpAddr;
use std::process::{Command, Output, Stdio};

pub use ringfence_probe::internet::{
    ALLOWED, ALLOWED_6, Arrival, DnsQuery, DnsReply, EVIL, FakeWorld, Internet, LOOSE, STRANGER, SiteAnswer,
    SiteHandler, SiteRequest, TrafficLog,
};

/// Set inside the namespaces, with the kind of user that started the test.
const INSIDE_VARIABLE: &str = "RINGFENCE_TEST_INTERNET";
const ROOT: &str = "root";
const USER: &str = "user";

/// Whether this process runs inside. Outside it runs the test `name` (`concat!(module_path!(), "::name_of_the_test")`) inside, and panics
/// unless exactly that test passed there.
///
/// # Panics
///
/// Panics where namespaces cannot be made: such a machine cannot run a sandbox either.
pub fn enter_internet(name: &str) -> bool {
    if std::env::var_os(INSIDE_VARIABLE).is_some() {
        return true;
    }
    let test = name.split_once("::").map_or(name, |(_, test)| test);
    let root = rustix::process::geteuid().is_root();
    let mut unshare = Command::new("unshare");
    if !root {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(["--net", "--mount", "--"]);
    let Ok(own) = std::env::current_exe() else {
        panic!("this program does not know its own file")
    };
    unshare
        .arg(own)
        .args([test, "--exact", "--nocapture", "--test-threads=1"]);
    unshare
        .env(INSIDE_VARIABLE, if root { ROOT } else { USER })
        .stdin(Stdio::null());
    let ran = unshare.output();
    let Output { status, stdout, stderr } = match ran {
        Ok(output) => output,
        Err(error) => panic!("cannot start `unshare`: {error}"),
    };
    let (said, told) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    print_output(&said, &told);
    assert!(
        status.success(),
        "`{test}` failed in its own internet ({status}): {told}"
    );
    assert!(
        said.contains("1 passed"),
        "`{test}` is no test of this program: {said}{told}"
    );
    false
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what the test said inside is what it says"
)]
fn print_output(said: &str, told: &str) {
    print!("{said}");
    eprint!("{told}");
}

/// A program inside, run as the user that started the test: root, or a user without any right on the machine.
pub fn program_as_caller(path: impl AsRef<OsStr>) -> Command {
    if std::env::var_os(INSIDE_VARIABLE).is_some_and(|who| who == USER) {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-user=1000", "--map-group=1000", "--"])
            .arg(path);
        return command;
    }
    Command::new(path)
}

/// Connections to addresses that no public server has.
pub fn private_arrivals(arrivals: &[Arrival]) -> Vec<Arrival> {
    arrivals.iter().filter(|one| !is_public(one.to.ip())).copied().collect()
}

/// A rough test, on purpose not the policy's own: addresses that the tests hand out as public are, the rest of the usual private ranges is
/// not.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => {
            let [first, second, ..] = four.octets();
            !(four.is_private()
                || four.is_loopback()
                || four.is_link_local()
                || four.is_multicast()
                || four.is_broadcast()
                || four.is_documentation()
                || first == 0
                || first >= 240
                || (first == 100 && (64..128).contains(&second))
                || four.octets() == [168, 63, 129, 16]
                || four.octets() == [192, 88, 99, 1])
        }
        IpAddr::V6(six) => matches!(six.segments(), [0x2000..=0x3fff, ..]) && six.segments()[0] != 0x2002,
    }
}
