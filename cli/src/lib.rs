//! The `layercake` command, also a kubectl plugin.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the command line definition, from which `docs/cli.md` is generated |
//! | [`terminal`] | output, diagnostics, exit statuses for all commands, signals |
//! | [`kube`] | manifests, and a cluster's API server: connections, warnings, writes, requests with a timeout and an error that names the cause |
//! | [`state`] | durable state on this machine: background processes, the folders of bootstrap clusters |
//! | [`local`] | `up`, `bootstrap` and `site simulate`: management clusters and simulated sites on this machine; the cluster that a command acts on |
//! | `clusters` | `apply`, `scale`, `upgrade`, `delete`, `list`, `render` and `new cluster`: clusters on any management cluster |
//! | [`follow`] | cluster progress for `up` and the commands that change clusters |
//! | [`describe`] | `describe`: the object tree below a cluster or VM, with the first blocking cause |
//! | [`doctor`] | `doctor`: checks for problems that keep VMs and clusters from coming up, before you apply them |
//! | [`bundle`] | `bundle`: data for support in one file, selected by an allow-list and without secrets |
//! | [`site`] | `site discover`: writes a site file for a vCenter |
//! | [`init`] | `init`, `manifests`, `uninstall` and `version`: what is installed on a management cluster |
//! | [`image`] | `image build`: builds node images with [`nodeimage`]; `image import`: imports an OVA into a content library |
//! | `kubeconfig` | `kubeconfig`: prints a cluster's kubeconfig or adds it to the user's kubeconfig file |
//! | `convert` | `convert`: converts a Tanzu Kubernetes Grid configuration file to a TanzuKubernetesCluster |
//! | [`lint`] | `lint`: checks manifests against the CRD schemas and [`gcm::admission`], without a cluster |
//!
//! Commands read objects through the API server with the user's rights. `doctor` and `image import` connect to vCenter
//! through [`vmop::doctor`].
//!
//! The executable also contains the other programs, so that you install only one file: under the name `gcm`, `capw` or
//! `vmop` it runs that controller, and under the name `layercake-guard` it runs the process that cleans up after a
//! stack.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::needless_pass_by_value)
)]

pub mod args;
pub mod bundle;
mod clusters;
mod convert;
pub mod describe;
pub mod doctor;
mod files;
pub mod follow;
pub mod image;
pub mod init;
pub mod kube;
mod kubeconfig;
pub mod lint;
pub mod local;
mod moving;
pub mod site;
pub mod state;
pub mod terminal;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::args::{
    Cli, CliCommand, Describe, DescribeFlags, ImageCommand, NewCommand, Output, SiteCommand, completion,
    examples,
};
use crate::describe::Root;
use crate::terminal::diagnostics;
use crate::terminal::exit::{ExitStatus, failed, status_of};
use crate::terminal::output::{say, write_json, write_out};

/// Runs the program that `argv[0]` names.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let name = args.first().and_then(|name| Path::new(name).file_name()).and_then(|name| name.to_str());
    let name = name.map(str::to_owned);
    match name.as_deref() {
        Some("gcm") => gcm::main(args),
        Some("capw") => capw::main(args),
        Some("vmop") => vmop::main(args),
        Some("layercake-guard") => plane::guard::main(args),
        name => run_command(parse_command_line(name, args)),
    }
}

/// Parses the command line. If the program is called as a kubectl plugin, the usage text shows `kubectl`.
fn parse_command_line(name: Option<&str>, args: Vec<OsString>) -> Cli {
    let mut command = examples::command();
    if let Some(plugin) = name.and_then(|name| name.strip_prefix("kubectl-")) {
        command = command.bin_name(format!("kubectl {}", plugin.replace('_', "-")));
    }
    let found = Cli::from_arg_matches(&command.get_matches_from(args));
    found.unwrap_or_else(|error| error.exit())
}

fn run_command(cli: Cli) -> ExitCode {
    match &cli.command {
        CliCommand::Lint { manifests, filename } => {
            return lint::main(&[manifests.as_slice(), filename].concat()).into();
        }
        CliCommand::Version { output } => return status_of(init::version::print(*output)).into(),
        CliCommand::Completion { shell } => {
            write_out(&completion::script(*shell));
            return ExitStatus::Done.into();
        }
        _ => {}
    }
    // Fails if a test already installed a provider. Ignore that.
    let _ = rustls::crypto::ring::default_provider().install_default();
    diagnostics::start(cli.verbose);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            say!("error: cannot start: {error}");
            return ExitStatus::Failed.into();
        }
    };
    let status = runtime.block_on(async {
        match cli.command {
            CliCommand::Up(args) => local::up::run(args).await,
            CliCommand::Down => status_of(local::up::detached::stop().await),
            CliCommand::Describe { object } => {
                describe_object(object).await.unwrap_or_else(|error| failed(&error))
            }
            CliCommand::Console(args) => status_of(Box::pin(local::console::run(args)).await),
            CliCommand::Doctor(args) => Box::pin(doctor::run(args)).await,
            CliCommand::Bundle(args) => bundle::run(args).await,
            CliCommand::Site { command: SiteCommand::Discover(args) } => site::discover(*args).await,
            CliCommand::Site { command: SiteCommand::Simulate(args) } => {
                local::simulate::simulate(args).await
            }
            CliCommand::Site { command: SiteCommand::Stop } => status_of(local::simulate::stop().await),
            CliCommand::Site { command: SiteCommand::Serve(args) } => {
                status_of(local::simulate::serve(args).await)
            }
            CliCommand::Bootstrap { command } => Box::pin(local::bootstrap::run(command)).await,
            CliCommand::Init(args) => init::run(*args).await,
            CliCommand::Manifests(args) => init::manifests(&args),
            CliCommand::Uninstall(args) => init::run_uninstall(args).await,
            CliCommand::Render(args) => clusters::render(args).await,
            CliCommand::Apply(args) => clusters::apply(*args).await,
            CliCommand::Scale(args) => clusters::scale(*args).await,
            CliCommand::Upgrade(args) => clusters::upgrade(*args).await,
            CliCommand::Delete(args) => clusters::delete(args).await,
            CliCommand::List(args) => clusters::list(args).await,
            CliCommand::Move(args) => moving::run(*args).await,
            CliCommand::Convert(args) => Box::pin(convert::run(&args)).await,
            CliCommand::Kubeconfig(args) => kubeconfig::run(args).await,
            CliCommand::New { command: NewCommand::Cluster(args) } => clusters::new_cluster::run(args).await,
            CliCommand::Image { command: ImageCommand::Build(args) } => {
                status_of(image::build::build(args).await)
            }
            CliCommand::Image { command: ImageCommand::Import(args) } => image::import::run(args).await,
            CliCommand::Lint { .. } | CliCommand::Version { .. } | CliCommand::Completion { .. } => {
                ExitStatus::Done
            }
        }
    });
    // Don't wait for blocked reads of a child's output.
    runtime.shutdown_background();
    status.into()
}

async fn describe_object(object: Describe) -> anyhow::Result<ExitStatus> {
    let (root, flags) = match object {
        Describe::Tkc(flags) => (Root::TanzuKubernetesCluster, flags),
        Describe::Cluster(flags) => (Root::Cluster, flags),
        Describe::Vm(flags) => (Root::VirtualMachine, flags),
    };
    let DescribeFlags { name, target, output, exit_status } = flags;
    let kubeconfig = target.cluster.kubeconfig.clone();
    target
        .with(async |target| {
            let description =
                describe::describe_below(&target.client, root, &target.namespace, &name).await?;
            match output {
                Some(Output::Json) => write_json(&description)?,
                None => write_out(&description.text(local::console::are_had(kubeconfig))),
            }
            let blocks = exit_status && description.blocking.is_some();
            Ok(if blocks { ExitStatus::NotYet } else { ExitStatus::Done })
        })
        .await
}
