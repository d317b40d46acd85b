//! `console`: shows a node's serial console.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use api::vmop::VirtualMachine;
use kube::Api;
use sim::qemu::{console_log, has_consoles};

use crate::args::Console;
use crate::local::simulate;
use crate::local::target::Target;
use crate::local::up::detached;
use crate::terminal::exit::ExitStatus;
use crate::terminal::interrupts::Interrupts;

/// The interval between two reads of a followed console.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints a node's console. With `--follow`, prints new output until Ctrl-C.
pub async fn run(args: Console) -> Result<()> {
    let kubeconfig = args.target.cluster.kubeconfig.clone();
    args.target
        .with(async |target| print(target, &args, kubeconfig).await.map(|()| ExitStatus::Done))
        .await?;
    Ok(())
}

async fn print(target: &Target, args: &Console, kubeconfig: Option<PathBuf>) -> Result<()> {
    let Console { name, follow, .. } = args;
    let namespace = &target.namespace;
    let vm = Api::<VirtualMachine>::namespaced(target.client.clone(), namespace).get_opt(name).await?;
    let vm = vm.with_context(|| {
        format!("VirtualMachine {namespace}/{name} does not exist. To list the nodes: kubectl get virtualmachines -n {namespace}")
    })?;
    let moid = vm.status.and_then(|status| status.unique_id);
    let moid = moid.with_context(|| {
        format!("VirtualMachine {namespace}/{name} is not in vCenter yet; see its conditions for the cause")
    })?;
    let Some(path) = stack_folders(kubeconfig).iter().find_map(|folder| console_log(folder, &moid)) else {
        bail!(
            "VirtualMachine {namespace}/{name} ({moid}) has no serial console here: only nodes of `layercake up --nodes qemu` \
             have one. In a real vCenter, open the VM's console in the vSphere client, or create a WebConsoleRequest"
        );
    };
    let mut console = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    if !print_rest(&mut console, &path)? || !*follow {
        return Ok(());
    }
    let mut interrupts = Interrupts::listening()?;
    loop {
        tokio::select! {
            () = interrupts.next() => return Ok(()),
            () = tokio::time::sleep(POLL_INTERVAL) => {
                if !print_rest(&mut console, &path)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Prints the new output unfiltered, because a console writes control sequences for a terminal. Returns false if the
/// reader has closed the pipe.
fn print_rest(console: &mut File, path: &Path) -> Result<bool> {
    let mut added = Vec::new();
    console.read_to_end(&mut added).with_context(|| format!("cannot read {}", path.display()))?;
    write(&mut std::io::stdout().lock(), &added)
}

fn write(out: &mut impl Write, added: &[u8]) -> Result<bool> {
    match out.write_all(added).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        // A closed pipe, such as `head` leaves behind, isn't an error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("cannot write to standard output"),
    }
}

/// Returns true if a stack on this host has console logs, and the cluster of `kubeconfig` may belong to that stack.
pub fn are_had(kubeconfig: Option<PathBuf>) -> bool {
    stack_folders(kubeconfig).iter().any(|folder| has_consoles(folder))
}

/// Returns the folders of the stacks on this host to which the cluster of `kubeconfig` may belong. A stack's folder
/// contains its kubeconfig.
fn stack_folders(kubeconfig: Option<PathBuf>) -> Vec<PathBuf> {
    let files = match kubeconfig {
        Some(file) => vec![file],
        None => std::env::var_os("KUBECONFIG")
            .map(|files| std::env::split_paths(&files).collect())
            .unwrap_or_default(),
    };
    let beside = files.iter().filter_map(|file| Some(file.canonicalize().ok()?.parent()?.to_owned()));
    beside.chain(detached::folder()).chain(simulate::folder()).collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_ends_the_output_and_a_full_disk_is_an_error() {
        assert!(write(&mut Vec::new(), b"x").unwrap());
        assert!(!write(&mut Broken(ErrorKind::BrokenPipe), b"x").unwrap());
        let error = write(&mut Broken(ErrorKind::StorageFull), b"x").unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
    }
}
