//! Finds or builds the programs for a stack and its site, plus `kubectl` and `clusterctl` if named as arguments, and
//! prints their paths.
//!
//! With `--pack FOLDER RELEASE GO`, it writes the programs into a folder instead, as a release contains them.

use std::path::Path;

use plane::tools::{self, CLUSTERCTL, KUBECTL};

fn main() -> Result<(), plane::Error> {
    let asked: Vec<_> = std::env::args().skip(1).collect();
    if let [option, folder, release, go] = asked.as_slice()
        && option == "--pack"
    {
        let all: Vec<_> = tools::control_plane().chain(sim::tools::programs()).collect();
        return tools::pack(&all, Path::new(folder), release, go, &*tools::progress());
    }
    let also = [&KUBECTL, &CLUSTERCTL].into_iter().filter(|tool| asked.iter().any(|name| name == tool.name));
    let further = sim::tools::programs().into_iter().chain(also).collect();
    let options = tools::Options { further, ..tools::Options::default() };
    println!("{:#?}", tools::ensure(&options, &*tools::progress())?);
    Ok(())
}
