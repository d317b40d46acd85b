//! Child processes that end with a test, and kernel statistics for processes.

use std::fs;
use std::process::Child;
use std::time::Duration;

/// Clock ticks per second in `/proc/PID/stat`: 100 on every Linux.
const TICKS: u64 = 100;

/// A child process that is killed on drop.
pub struct KilledChild(pub Child);

impl KilledChild {
    /// Kills the process, and waits until it has ended.
    pub fn kill(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the processor time that a process has used, or zero if it is gone.
pub fn cpu(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name may contain any character, so fields are counted after its closing bracket.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS)
}

/// Returns the current resident memory in MiB.
pub fn resident(pid: u32) -> f64 {
    status_field(pid, "VmRSS:")
}

/// Returns the resident memory in MiB that isn't backed by a file, such as the executable.
pub fn anonymous(pid: u32) -> f64 {
    status_field(pid, "RssAnon:")
}

/// Returns the kernel's limit for the data size in MiB, or `None` if it is unlimited.
pub fn data_limit(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max data size"))?;
    let bytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(bytes >> 20)
}

/// Returns the peak resident memory in MiB.
pub fn peak(pid: u32) -> f64 {
    status_field(pid, "VmHWM:")
}

/// Resets the peak resident memory.
pub fn reset_peak(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

fn status_field(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix("kB"));
    let kib: u32 = kib.and_then(|kib| kib.trim().parse().ok()).unwrap_or_default();
    f64::from(kib) / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something() {
        let me = std::process::id();
        // Other tests in this process allocate memory meanwhile.
        let now = resident(me);
        assert!(now > 1.0 && peak(me) >= now);
        let began = std::time::Instant::now();
        while cpu(me).is_zero() {
            assert!(began.elapsed() < Duration::from_secs(30));
        }
        assert_eq!((cpu(u32::MAX), peak(u32::MAX)), (Duration::ZERO, 0.0));
    }
}
