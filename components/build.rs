//! Rebuilds the crate when an embedded file is added, changed or removed.

fn main() {
    println!("cargo::rerun-if-changed=../config");
}
