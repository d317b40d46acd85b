//! Makes cargo rebuild the crate when an embedded file is added, changed or removed.

fn main() {
    println!("cargo::rerun-if-changed=vcsim");
    println!("cargo::rerun-if-changed=kubelet");
}
