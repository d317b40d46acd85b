//! Has the crate compiled again when a file that it embeds appears, changes or goes.

/// The folders that `src/release.rs` and `src/sources.rs` embed.
const EMBEDDED: [&str; 10] = [
    "cni",
    "containerd",
    "coredns",
    "flannel",
    "kubernetes-1.35",
    "kubernetes-1.36",
    "metrics-server",
    "packages",
    "root",
    "steps",
];

fn main() {
    for folder in EMBEDDED {
        println!("cargo::rerun-if-changed={folder}");
    }
}
