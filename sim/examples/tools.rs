//! Finds or builds the programs for a stack and its site, plus `kubectl` and `clusterctl` if named as arguments, and
//! prints their paths.

use plane::tools::{self, CLUSTERCTL, KUBECTL};

fn main() -> Result<(), plane::Error> {
    let asked: Vec<_> = std::env::args().skip(1).collect();
    let also = [&KUBECTL, &CLUSTERCTL].into_iter().filter(|tool| asked.iter().any(|name| name == tool.name));
    let further = sim::tools::programs().into_iter().chain(also).collect();
    let options = tools::Options { further, ..tools::Options::default() };
    println!("{:#?}", tools::ensure(&options, &*tools::progress())?);
    Ok(())
}
