//! Findings about the kernel, read from `/proc` and `/sys`.

use std::fs;

use ringfence_sandbox::{BackendSupport, BudgetLimits, BudgetOverrides, GroupLimit, MemorySource};

use super::DoctorFinding;
use crate::print::byte_text;

fn read_kernel_file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The memory that all executions may use together, and how much of it is free now.
pub(super) fn budget_finding(overrides: BudgetOverrides) -> DoctorFinding {
    const WHAT: &str = "budget";
    let limits = BudgetLimits::detect(overrides);
    let (memory, runs) = (byte_text(limits.memory), limits.runs);
    let detail = format!("{memory} of memory for up to {runs} executions at once in each process");
    let Some(machine) = MemorySource::find().read() else {
        let hint = "write `sessions: { memory: 4GiB }` in `ringfence.yaml`: this machine does not say what it has";
        return DoctorFinding::limited(WHAT, detail, hint);
    };
    let detail = format!("{detail}, {} are free", byte_text(machine.available));
    if limits.memory > machine.total {
        let hint = "lower `sessions.memory` in `ringfence.yaml`: the machine has less";
        return DoctorFinding::limited(WHAT, detail, hint);
    }
    DoctorFinding::good(WHAT, detail)
}

pub(super) fn system_finding() -> DoctorFinding {
    let kernel = read_kernel_file("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    DoctorFinding::good("system", format!("Linux {kernel}, {}", std::env::consts::ARCH))
}

pub(super) fn user_finding() -> DoctorFinding {
    let user = rustix::process::getuid();
    if user.is_root() {
        return DoctorFinding::good(
            "user",
            "root; programs in a sandbox are an unprivileged user of their own",
        );
    }
    DoctorFinding::good(
        "user",
        format!("{}, an ordinary user; root is not needed", user.as_raw()),
    )
}

/// The usual reasons why an unprivileged user cannot create namespaces.
pub(super) fn no_sandbox_reasons() -> String {
    let is = |path: &str, value: &str| read_kernel_file(path).is_some_and(|text| text == value);
    let hint = if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if is("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off: `sudo sysctl user.max_user_namespaces=15000`"
    } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor keeps user namespaces from programs without a profile: `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
    } else {
        "in a container, allow user namespaces and mounts: with Docker `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`"
    };
    hint.to_owned()
}

pub(super) fn landlock_finding() -> DoctorFinding {
    const WHAT: &str = "landlock";
    match read_kernel_file("/sys/kernel/security/lsm") {
        Some(list) if list.split(',').any(|name| name == "landlock") => {
            DoctorFinding::good(WHAT, "on, a second fence around files")
        }
        Some(_) => DoctorFinding::limited(
            WHAT,
            "off, and no sandbox starts without it",
            "start the kernel with `lsm=landlock,…`, or a kernel with CONFIG_LANDLOCK (5.13 and later)",
        ),
        None => DoctorFinding::limited(
            WHAT,
            "no sandbox starts without it; its list is not visible from here",
            "mount securityfs to see it: `sudo mount -t securityfs none /sys/kernel/security`",
        ),
    }
}

/// Whether forbidden system calls can be recorded, not only refused.
pub(super) fn notify_finding() -> DoctorFinding {
    const WHAT: &str = "refusals seen";
    match read_kernel_file("/proc/sys/kernel/seccomp/actions_avail") {
        Some(actions) if actions.split(' ').any(|action| action == "user_notif") => {
            DoctorFinding::good(WHAT, "forbidden system calls are refused and written down")
        }
        _ => DoctorFinding::limited(
            WHAT,
            "the kernel does not tell of them, and no sandbox starts without",
            "use Linux 5.9 or later",
        ),
    }
}

pub(super) fn control_group_findings(support: &BackendSupport) -> Vec<DoctorFinding> {
    const WHAT: &str = "control groups";
    let mut findings = Vec::new();
    if !support.held.is_empty() {
        let held: Vec<&str> = support.held.iter().copied().map(limit_name).collect();
        findings.push(DoctorFinding::good(WHAT, format!("hold {}", held.join(", "))));
    }
    let hint =
        "run in a group that you may write to: `systemd-run --user --scope -p Delegate=yes ringfence …`, or as root";
    for (limit, why) in &support.missing {
        let held = match limit {
            GroupLimit::Memory => "the host looks every 50 ms and kills",
            GroupLimit::Processes | GroupLimit::CpuTime => "held for each process by rlimits",
            GroupLimit::Processors => "held by the number of processors",
        };
        let what = limit_name(*limit);
        findings.push(DoctorFinding::limited(
            WHAT,
            format!("cannot hold {what}: {why}; {held}"),
            hint,
        ));
    }
    findings
}

fn limit_name(limit: GroupLimit) -> &'static str {
    match limit {
        GroupLimit::Memory => "memory",
        GroupLimit::Processes => "processes",
        GroupLimit::Processors => "processors",
        GroupLimit::CpuTime => "processor time",
    }
}
