//! Finds or builds the programs of the control plane, and those named as arguments, and says where they are.

use plane::tools::{self, CLUSTERCTL, KUBEADM, KUBECTL};

fn main() -> Result<(), plane::Error> {
    let names: Vec<_> = std::env::args().skip(1).collect();
    let further = [&KUBECTL, &KUBEADM, &CLUSTERCTL].into_iter();
    let further = further.filter(|tool| names.iter().any(|name| name == tool.name)).collect();
    let options = tools::Options { further, ..tools::Options::default() };
    println!("{:#?}", tools::ensure(&options, &*tools::progress())?);
    Ok(())
}
