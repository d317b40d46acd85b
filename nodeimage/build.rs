//! Makes cargo rebuild the crate when an embedded file is added, changed or removed.

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
