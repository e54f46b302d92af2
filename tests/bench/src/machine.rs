//! The machine that is measured on, and what a process uses of it.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// Ticks in a second of `/proc`: 100 on every architecture that Linux shows it for.
const USER_HZ: f64 = 100.0;

/// Where and when a measure was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Cores.
    pub cores: usize,
    /// Model of the processor.
    pub processor: String,
    /// Seconds since 1970.
    pub at: u64,
    /// Version of the source (`git describe`); empty if it is not known.
    pub source: String,
    /// Cores that others kept busy before the measure.
    pub busy: f64,
}

impl Machine {
    /// This machine, now. Takes a second, in which nothing should be measured yet.
    pub fn now() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpu.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(": "));
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.map_or_else(String::new, |(_, model)| model.to_owned()),
            at: at.map_or(0, |since| since.as_secs()),
            source: source().unwrap_or_default(),
            busy: busy().unwrap_or_default(),
        }
    }
}

fn source() -> Option<String> {
    let output = std::process::Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(chiton_tests::paths::workspace())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

/// Cores that are busy, a mean over a second. (The load average would have in it what was measured before.)
fn busy() -> Option<f64> {
    let before = ticks()?;
    std::thread::sleep(Duration::from_secs(1));
    let after = ticks()?;
    Some((after - before) / USER_HZ)
}

/// Processor time, in [`USER_HZ`], that anything has used since the machine started.
fn ticks() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let fields = text.lines().next()?.split_whitespace().skip(1);
    let fields: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
    // user, nice, system; then idle, iowait; then irq, softirq, steal. Guests are in user.
    let [user, nice, system, _, _, irq, softirq, steal, ..] = fields[..] else {
        return None;
    };
    Some(user + nice + system + irq + softirq + steal)
}

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now.
    pub resident: f64,
    /// Most that was resident at once.
    pub peak: f64,
}

/// Memory of a process.
pub fn memory(pid: u32) -> anyhow::Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        let kib: f64 = number.context("no such line in /proc")?.parse()?;
        Ok::<_, anyhow::Error>(kib * 1024.0)
    };
    Ok(Memory {
        resident: field("VmRSS:")?,
        peak: field("VmHWM:")?,
    })
}

/// Seconds of processor time that a process has used.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("no such line in /proc")?;
    let used: Vec<f64> = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    Ok(used.iter().sum::<f64>() / USER_HZ)
}
