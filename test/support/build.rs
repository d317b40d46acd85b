//! Makes cargo recompile the crate when an embedded file changes.

fn main() {
    println!("cargo::rerun-if-changed=certmanager");
    println!("cargo::rerun-if-changed=helm");
    println!("cargo::rerun-if-changed=issuer");
}
