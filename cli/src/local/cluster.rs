//! A management cluster on this machine: a control plane, Cluster API and the controllers of Layercake.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use components::render::arguments_of_site;
use plane::tools::Tools;
use plane::{Plane, Program, Running, StackIdentity};
use serde_json::Value;

use crate::state::folder::SiteSettings;

/// The controllers of Layercake, in display order.
pub const PROGRAMS: [&str; 3] = ["gcm", "capw", "vmop"];

/// The VM operator flag that redirects probes from the addresses that simulated guests report to loopback addresses,
/// where the guests listen.
pub const SIMULATED_ADDRESSES: &str = "--probe-address-map=10.0.0.0/8=127.0.0.0/8";

/// The running controllers, by name.
pub type Programs = BTreeMap<&'static str, Running>;

/// A management cluster that this process runs.
pub struct Cluster {
    plane: Plane,
    exe: PathBuf,
}

impl Cluster {
    /// Starts the API server and applies the CRDs, including `definitions`. The caller then calls
    /// [`run_managers`](Self::run_managers) and [`run_programs`](Self::run_programs).
    ///
    /// # Errors
    /// Returns an error if a process doesn't start.
    pub async fn start(
        exe: PathBuf,
        stack: Arc<StackIdentity>,
        tools: Tools,
        definitions: Vec<Value>,
    ) -> Result<Self> {
        let options = plane::Options { stack, tools, definitions, guest_proxy: Some(exe.clone()) };
        Ok(Self { plane: Plane::without_managers(options).await?, exe })
    }

    pub fn plane(&self) -> &Plane {
        &self.plane
    }

    /// Starts Cluster API for a site, and waits until it is ready. `started` is called with each component that is ready.
    ///
    /// # Errors
    /// Returns an error if a process doesn't start.
    pub async fn run_managers(&self, settings: &SiteSettings, started: impl Fn(&str)) -> Result<()> {
        Ok(self.plane.run_managers(|component| settings.args_of(component), started).await?)
    }

    /// Starts the controllers for a site that is configured, and waits until they are ready. `further` returns
    /// additional arguments for a controller, and `started` is called with each controller that is ready. The controllers
    /// stop with the cluster.
    ///
    /// # Errors
    /// Returns an error if a controller doesn't start.
    pub async fn run_programs(
        &self,
        settings: &SiteSettings,
        further: impl Fn(&str) -> Vec<String>,
        started: impl Fn(&str),
    ) -> Result<Programs> {
        let start = async |name: &'static str| {
            let program =
                arguments(name, settings).into_iter().fold(Program::new(name, &self.exe), Program::arg);
            let program = further(name).into_iter().fold(program, Program::arg);
            let running = self.plane.run(program).await.with_context(|| format!("cannot start {name}"))?;
            started(name);
            Ok::<_, anyhow::Error>((name, running))
        };
        Ok(futures::future::try_join_all(PROGRAMS.map(start)).await?.into_iter().collect())
    }

    /// Stops all processes.
    pub async fn stop(self) {
        self.plane.stop().await;
    }
}

/// Returns the arguments of `program` that depend on the management cluster's settings. If a flag is repeated, the last
/// one takes effect.
pub fn arguments(program: &str, settings: &SiteSettings) -> Vec<String> {
    let of_site = arguments_of_site(program, settings.networks(), settings.nodes_pull_images);
    let mut arguments: Vec<_> = of_site.into_iter().map(str::to_owned).collect();
    arguments.extend(settings.args_of(program));
    if program == "vmop" && settings.simulated && !sim::addresses::are_served_as_reported() {
        arguments.push(SIMULATED_ADDRESSES.to_owned());
    }
    // A standalone cluster's add-ons aren't reconciled between commands, so a command must not revert changes to the
    // add-ons.
    if program == "gcm" && settings.for_command {
        arguments.push("--image-addons=once".to_owned());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::folder::AppliedPart;

    #[test]
    fn arguments_follow_from_the_site() {
        let settings = |network_provider: &str, simulated| SiteSettings {
            network_provider: network_provider.to_owned(),
            nodes_pull_images: simulated,
            simulated,
            applied: AppliedPart::All,
            for_command: false,
            args: BTreeMap::new(),
        };
        let nsx = settings("NSXT", false);
        let of = |settings: &SiteSettings| PROGRAMS.map(|program| arguments(program, settings).join(" "));
        assert_eq!(of(&nsx), ["--virtual-ip=none", "--network-provider=NSXT", ""]);
        assert_eq!(of(&settings("NAMED", false)), ["", "", ""]);
        assert_eq!(of(&settings("NAMED", true)), ["--nodes-pull-images", "", SIMULATED_ADDRESSES]);
        let standalone = SiteSettings { for_command: true, ..settings("NAMED", false) };
        assert_eq!(of(&standalone), ["--image-addons=once", "", ""]);
        let args = [("gcm".to_owned(), vec!["--virtual-ip=keepalived".to_owned()])].into();
        let changed = SiteSettings { args, ..nsx };
        assert_eq!(of(&changed)[0], "--virtual-ip=none --virtual-ip=keepalived");
    }
}
