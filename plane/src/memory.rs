//! Measures a stack's memory.
//!
//! The sums use proportional set sizes, so that pages that several processes share are counted once.

use std::collections::BTreeMap;
use std::fs;

use crate::members;

/// Returns the memory in MiB of the processes in the stack with this ID, summed by process name.
pub fn of(stack: &str) -> BTreeMap<String, u64> {
    let mut kib_by_name: BTreeMap<String, u64> = BTreeMap::new();
    for member in members::of(stack) {
        *kib_by_name.entry(member.name).or_default() += kib(member.pid);
    }
    kib_by_name.into_iter().map(|(name, kib)| (name, kib.div_ceil(1024))).collect()
}

/// Returns a process's proportional set size in KiB, or its resident set size if the kernel doesn't report that.
/// Returns 0 if the process is gone.
fn kib(pid: u32) -> u64 {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
        value(&text, name)
    };
    field("smaps_rollup", "Pss:").or_else(|| field("status", "VmRSS:")).unwrap_or_default()
}

fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory() {
        assert!(kib(std::process::id()) > 100);
        assert_eq!(value("Rss: 12 kB\nPss:   34 kB\nPss_Anon: 5 kB\n", "Pss:"), Some(34));
    }
}
