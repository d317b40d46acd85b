//! Finds or builds the programs of a stack with its site, and further ones named as arguments, and says where they are.

use plane::tools::{self, CLUSTERCTL, KUBECTL};

fn main() -> Result<(), plane::Error> {
    let asked: Vec<_> = std::env::args().skip(1).collect();
    let also = [&KUBECTL, &CLUSTERCTL].into_iter().filter(|tool| asked.iter().any(|name| name == tool.name));
    let further = sim::tools::programs().into_iter().chain(also).collect();
    let options = tools::Options { further, ..tools::Options::default() };
    println!("{:#?}", tools::ensure(&options, &*tools::progress())?);
    Ok(())
}
