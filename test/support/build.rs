//! Has the crate compiled again when a file that it embeds appears, changes or goes.

fn main() {
    println!("cargo::rerun-if-changed=certmanager");
    println!("cargo::rerun-if-changed=issuer");
}
