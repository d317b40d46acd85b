//! How much memory a stack takes.
//!
//! Proportional set sizes: the pages of a program that runs several times are counted once in all.

use std::collections::BTreeMap;
use std::fs;

use crate::members;

/// Memory in MiB of every process of the stack, by name.
pub fn of(stack: &str) -> BTreeMap<String, u64> {
    let mut kib_by_name: BTreeMap<String, u64> = BTreeMap::new();
    for member in members::of(stack) {
        *kib_by_name.entry(member.name).or_default() += kib(member.pid);
    }
    kib_by_name.into_iter().map(|(name, kib)| (name, kib.div_ceil(1024))).collect()
}

/// The proportional set size of a process, or its resident one where the kernel does not have it; 0 if it is gone.
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
