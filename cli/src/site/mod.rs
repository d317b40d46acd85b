//! `layercake site discover`: writes the site file for a vCenter, as plain Kubernetes manifests without secrets.
//!
//! `discover` only reads from vCenter. [`choice`] selects the objects that the site uses, [`manifests`] generates the
//! manifests, and [`roles`] prints the commands that grant a user access.

pub mod addresses;
pub mod choice;
pub mod manifests;
pub mod roles;

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vsphere::{
    Client, Compute, Config, Datastore, InventoryPath, Kind, MoRef, Network, PrivilegeScope, ServerTrust,
    ShownCertificate,
};

use crate::args::{SiteDiscover, SiteNetworkProvider};
use crate::files::read_password;
use crate::kube::manifest::yaml;
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::output::{write_err, write_out};
use addresses::Endpoints;
use choice::{Candidate, Choice, Question};
use manifests::{SiteFileContents, SiteNamespace};
use roles::Grant;

const DATACENTER: Question = Question::about("datacenter", "--datacenter");
const POOL: Question = Question::about("resource pool", "--pool");
const FOLDER: Question = Question::about("VM folder", "--folder");
const DATASTORE: Question = Question {
    condition: " that all hosts of the cluster have",
    ..Question::about("datastore", "--datastore")
};
const NETWORK: Question =
    Question { condition: DATASTORE.condition, ..Question::about("network", "--network") };
const LIBRARY: Question = Question::about("content library", "--library");
const POLICY: Question = Question {
    condition: " that the datastore satisfies",
    ..Question::about("storage policy", "--storage-policy")
};
/// The name of the preferred folder.
const OWN_FOLDER: &str = "layercake";
/// The preferred policy, if the datastore satisfies it.
const USUAL_POLICY: &str = "vSAN Default Storage Policy";

/// Writes the site file to stdout, and the chosen objects with the reasons to stderr.
pub async fn discover(args: SiteDiscover) -> ExitStatus {
    let found = async {
        let (objects, explanation) = find(&args).await?;
        Ok::<_, anyhow::Error>((yaml(&objects)?, explanation))
    };
    match found.await {
        Ok((text, explanation)) => {
            write_err(&explanation);
            write_out(&text);
            ExitStatus::Done
        }
        Err(error) => failed(&error),
    }
}

/// Returns the objects of the site file, and a text for people with the chosen objects and the reasons.
///
/// # Errors
/// Returns an error if vCenter doesn't respond or isn't trusted, or if an object can't be chosen.
pub async fn find(args: &SiteDiscover) -> Result<(Vec<Value>, String)> {
    let endpoints = read_endpoints(args)?;
    ensure!(
        args.network_provider != SiteNetworkProvider::PortGroups || !args.node_addresses.is_empty(),
        ExitStatus::Refused.error(
            "--node-addresses is missing: the ranges in which DHCP assigns addresses to nodes, such as 10.20.128.0/17. Layercake uses an address that a guest reports only if it is in one of them"
                .to_owned()
        )
    );
    let (vcenter, shown, pinned) = connect(args).await?;
    let found = choose(&vcenter, args).await;
    vcenter.logout().await;
    let places = found?;
    let objects = places.site(args, endpoints, pinned.then(|| shown.thumbprint.to_string())).objects();
    let mut text = format!(
        "{:<24} {} {}, certificate SHA-256 {}, valid until {}\n",
        "vCenter",
        args.vcenter,
        vcenter.about().version,
        shown.thumbprint,
        shown.not_after.strftime("%F")
    );
    for Choice { what, chosen, reason } in places.choices() {
        let _ = writeln!(text, "{what:<24} {chosen}: {reason}");
    }
    if let Some(user) = &args.roles_for {
        text += &explain_roles(user, &places.grants());
    }
    let _ = writeln!(
        text,
        "{} objects, without secrets. Nothing was changed in vCenter. Next: layercake init -f",
        objects.len()
    );
    Ok((objects, text))
}

fn read_endpoints(args: &SiteDiscover) -> Result<Option<Endpoints>> {
    let (Some(range), Some(prefix), Some(gateway)) = (&args.endpoints, args.prefix, args.gateway) else {
        return Ok(None);
    };
    let endpoints = Endpoints::read(range, prefix, gateway)
        .and_then(|endpoints| endpoints.check_apart(&args.node_addresses).map(|()| endpoints));
    endpoints.map(Some).map_err(|error| ExitStatus::Refused.error(error.to_string()))
}

/// Connects if the certificate is trusted. Returns the client, vCenter's certificate, and true if the user passed the
/// certificate's thumbprint.
async fn connect(args: &SiteDiscover) -> Result<(Client, ShownCertificate, bool)> {
    let (host, port) = address(&args.vcenter)?;
    let mut config = Config::new(host, args.user.clone(), read_password(&args.password_file)?);
    config.port = port;
    let shown = ShownCertificate::of(&config).await?;
    let thumbprint = args.thumbprint.as_deref().map(str::parse).transpose();
    let thumbprint = thumbprint.context("--thumbprint: write the SHA-256 of the certificate as AB:CD:…")?;
    config.trust = thumbprint.map_or(ServerTrust::System, ServerTrust::Thumbprint);
    match Client::connect(config).await {
        Ok(client) => Ok((client, shown, args.thumbprint.is_some())),
        Err(error) if matches!(error.kind(), Kind::Tls { .. }) => Err(ExitStatus::Refused.error(format!(
            "the certificate of {} is not trusted, so the password was not sent. It has subject {} and SHA-256 {}. Compare this value with vCenter's own certificate (docs/install.md), and pass --thumbprint {}",
            args.vcenter, shown.subject, shown.thumbprint, shown.thumbprint
        ))),
        Err(error) => {
            let advice = match error.kind() {
                Kind::InvalidLogin => "Correct --user or the password in --password-file".into(),
                _ => error.advice(),
            };
            anyhow::bail!("vCenter {}: {error}. {}", args.vcenter, advice.trim_end_matches('.'))
        }
    }
}

/// Parses `HOST`, `HOST:PORT`, or a URL as in govc's `GOVC_URL`. Returns the host and the port, which defaults to 443.
///
/// # Errors
/// Returns an error if the text contains other parts of a URL, or if the port isn't a number.
pub fn address(text: &str) -> Result<(String, u16)> {
    let text = text.strip_prefix("https://").unwrap_or(text);
    let text = text.strip_suffix('/').unwrap_or(text);
    let text = text.strip_suffix("/sdk").unwrap_or(text);
    if text.contains(['/', '@', ' ']) || text.is_empty() {
        anyhow::bail!(
            "--vcenter {text}: pass the host name or address of the vCenter, with :PORT if it isn't 443"
        );
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let port = port.parse().with_context(|| format!("--vcenter {text}: {port:?} is not a port"))?;
            Ok((host.to_owned(), port))
        }
        _ => Ok((text.to_owned(), 443)),
    }
}

/// The chosen objects with the reasons, and the root folder of the inventory.
struct Places {
    datacenter: Choice,
    pool: Choice,
    folder: Choice,
    datastore: Choice,
    network: Option<(Choice, MoRef)>,
    library: Choice,
    policy: Option<Choice>,
    root: MoRef,
}

async fn choose(vcenter: &Client, args: &SiteDiscover) -> Result<Places> {
    let datacenters = vcenter.list_datacenters().await?;
    let all: Vec<_> = datacenters.iter().map(|place| candidate(place, "")).collect();
    let datacenter = DATACENTER.choose(&all, args.datacenter.as_deref())?;
    let moref = MoRef::datacenter(datacenter.chosen.id.as_str());

    let computes = vcenter.list_computes(&moref).await?;
    let mut pools = Vec::new();
    for compute in &computes {
        for place in vcenter.list_resource_pools(compute).await? {
            pools.push((candidate_of_pool(compute, &place), compute));
        }
    }
    let all: Vec<_> = pools.iter().map(|(pool, _)| pool.clone()).collect();
    let of_only_cluster = || {
        let [_] = computes.as_slice() else { return None };
        Some((all.first()?.clone(), "the root pool of the only cluster".to_owned()))
    };
    let pool = POOL.choose_or(&all, args.pool.as_deref(), of_only_cluster)?;
    let compute = pools.iter().find(|(candidate, _)| candidate.id == pool.chosen.id);
    let (_, compute) = compute.context("the pool has no cluster")?;

    let folders = vcenter.list_vm_folders(&moref).await?;
    let all: Vec<_> = folders.iter().map(|place| candidate(place, "the root of VMs")).collect();
    let folder = FOLDER.choose_or(&all, args.folder.as_deref(), || preferred_folder(&all));

    let datastores = vcenter.list_datastores(&moref).await?;
    let datastores: Vec<_> = datastores.into_iter().filter(|one| is_usable(one, compute)).collect();
    let all: Vec<_> = datastores.iter().map(|one| named(&one.name, &one.moref)).collect();
    let datastore = DATASTORE.choose_or(&all, args.datastore.as_deref(), || largest(&datastores));

    let network = if args.network_provider == SiteNetworkProvider::PortGroups {
        let networks = vcenter.networks(&moref).await?;
        let networks: Vec<_> = networks.into_iter().filter(|one| takes_nodes(one, compute)).collect();
        let all: Vec<_> = networks.iter().map(|one| named(&one.name, &one.moref)).collect();
        NETWORK.choose(&all, args.network.as_deref()).map(|choice| {
            let found = networks.into_iter().find(|one| one.moref.id() == choice.chosen.id);
            found.map(|network| (choice, network.moref))
        })
    } else {
        Ok(None)
    };

    let libraries = vcenter.libraries().await?;
    let all: Vec<_> = libraries.into_iter().map(|one| Candidate { name: one.name, id: one.id }).collect();
    let library = LIBRARY.choose(&all, args.library.as_deref());
    let open =
        [folder.as_ref().err(), datastore.as_ref().err(), network.as_ref().err(), library.as_ref().err()];
    let open: Vec<_> = open.into_iter().flatten().map(ToString::to_string).collect();
    // Report all open choices in one run.
    ensure!(open.is_empty(), ExitStatus::Refused.error(open.join("\n")));
    let (folder, datastore, network, library) = (folder?, datastore?, network?, library?);
    let policy = match &args.namespace {
        Some(_) => Some(choose_policy(vcenter, args, &datastore.chosen).await?),
        None => None,
    };
    let root = vcenter.root_folder()?;
    Ok(Places { datacenter, pool, folder, datastore, network, library, policy, root })
}

/// Chooses the namespace's storage policy among the policies that the datastore satisfies.
async fn choose_policy(vcenter: &Client, args: &SiteDiscover, datastore: &Candidate) -> Result<Choice> {
    let mut fitting = Vec::new();
    for policy in vcenter.list_storage_policies().await? {
        let datastores = match vcenter.list_compatible_datastores(&policy.id).await {
            // Another client deleted the policy.
            Err(error) if error.is_not_found() => continue,
            datastores => datastores?,
        };
        if datastores.iter().any(|one| one.id() == datastore.id) {
            fitting.push(Candidate { name: policy.name, id: policy.id });
        }
    }
    let usual = || {
        let policy = fitting.iter().find(|policy| policy.name == USUAL_POLICY)?;
        Some((policy.clone(), format!("the default policy, which datastore {} satisfies", datastore.name)))
    };
    POLICY.choose_or(&fitting, args.storage_policy.as_deref(), usual)
}

impl Places {
    fn choices(&self) -> impl Iterator<Item = &Choice> {
        let places = [&self.datacenter, &self.pool, &self.folder, &self.datastore].into_iter();
        let network = self.network.iter().map(|(choice, _)| choice);
        places.chain(network).chain([&self.library]).chain(&self.policy)
    }

    fn site(
        &self,
        args: &SiteDiscover,
        endpoints: Option<Endpoints>,
        thumbprint: Option<String>,
    ) -> SiteFileContents {
        let (host, port) = address(&args.vcenter).unwrap_or_else(|_| (args.vcenter.clone(), 443));
        let namespace = args.namespace.clone().zip(self.policy.clone());
        let namespace = namespace.map(|(name, policy)| SiteNamespace {
            name,
            pool: self.pool.chosen.clone(),
            folder: self.folder.chosen.clone(),
            policy: policy.chosen,
            classes: args.vm_classes.clone(),
        });
        let node_addresses = match args.network_provider {
            SiteNetworkProvider::PortGroups => args.node_addresses.clone(),
            SiteNetworkProvider::NetOperator | SiteNetworkProvider::Nsx => Vec::new(),
        };
        SiteFileContents {
            host,
            port,
            thumbprint,
            datacenter: self.datacenter.chosen.clone(),
            datastore: self.datastore.chosen.clone(),
            library: self.library.chosen.clone(),
            provider: args.network_provider,
            network: self.network.as_ref().map(|(network, _)| network.chosen.clone()),
            node_addresses,
            endpoints,
            namespace,
        }
    }

    /// Returns the objects on which the VM operator's user needs a role.
    fn grants(&self) -> Vec<Grant> {
        let of = |scope, kind: &str, Choice { chosen, .. }: &Choice| {
            Grant::on(scope, &MoRef::new(kind, chosen.id.as_str()), &chosen.name)
        };
        let mut grants = vec![
            Grant::on(PrivilegeScope::VCenter, &self.root, ""),
            of(PrivilegeScope::Datacenter, "Datacenter", &self.datacenter),
            of(PrivilegeScope::Folder, "Folder", &self.folder),
            of(PrivilegeScope::ResourcePool, "ResourcePool", &self.pool),
            of(PrivilegeScope::Datastore, "Datastore", &self.datastore),
        ];
        let of_network = |(network, moref): &(Choice, MoRef)| {
            Grant::on(PrivilegeScope::Network, moref, &network.chosen.name)
        };
        grants.extend(self.network.as_ref().map(of_network));
        grants
    }
}

fn explain_roles(user: &str, grants: &[Grant]) -> String {
    format!(
        "\nThe role of {user}, with govc:\n\n{}\nThe same with PowerCLI:\n\n{}\nContent libraries take their permissions from the global root: also give the role {} as a global permission that propagates to children (vSphere Client, Administration, Global Permissions).\n\n",
        roles::govc(user, grants),
        roles::power_cli(user, grants),
        roles::LIBRARY_ROLE
    )
}

fn candidate(place: &InventoryPath, root: &str) -> Candidate {
    named(if place.path.is_empty() { root } else { &place.path }, &place.moref)
}

fn candidate_of_pool(compute: &Compute, place: &InventoryPath) -> Candidate {
    let cluster = &compute.place.path;
    let name = if place.path.is_empty() { cluster.clone() } else { format!("{cluster}/{}", place.path) };
    named(&name, &place.moref)
}

fn named(name: &str, moref: &MoRef) -> Candidate {
    Candidate { name: name.to_owned(), id: moref.id().to_owned() }
}

fn preferred_folder(folders: &[Candidate]) -> Option<(Candidate, String)> {
    if let Some(own) = folders.iter().find(|folder| folder.name == OWN_FOLDER) {
        return Some((own.clone(), "it has the name of Layercake".to_owned()));
    }
    let root = folders.first()?;
    Some((
        root.clone(),
        format!("no folder is named {OWN_FOLDER}. A folder of its own is better: {}", FOLDER.flag),
    ))
}

fn is_usable(datastore: &Datastore, compute: &Compute) -> bool {
    datastore.accessible
        && datastore.normal
        && compute.hosts.iter().all(|host| host.datastores.contains(&datastore.moref))
}

fn largest(datastores: &[Datastore]) -> Option<(Candidate, String)> {
    let most = datastores.iter().max_by_key(|datastore| datastore.free)?;
    let reason = format!("most free space of {}, {} GiB", datastores.len(), most.free >> 30);
    Some((named(&most.name, &most.moref), reason))
}

fn takes_nodes(network: &Network, compute: &Compute) -> bool {
    !network.is_uplink && compute.hosts.iter().all(|host| host.networks.contains(&network.moref))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port() {
        for (text, host, port) in [
            ("vc.example.com", "vc.example.com", 443),
            ("vc.example.com:8443", "vc.example.com", 8443),
            ("2001:db8::1", "2001:db8::1", 443),
            ("[2001:db8::1]:8443", "[2001:db8::1]", 8443),
            ("https://vc.example.com/sdk", "vc.example.com", 443),
            ("https://vc.example.com:8443/", "vc.example.com", 8443),
        ] {
            assert_eq!(address(text).unwrap(), (host.to_owned(), port));
        }
        for url in
            ["http://vc.example.com", "https://user:password@vc.example.com/sdk", "https://vc.example.com/ui"]
        {
            assert!(address(url).is_err(), "{url}");
        }
        assert!(address("vc.example.com:https").unwrap_err().to_string().contains("not a port"));
    }

    #[test]
    fn a_folder_of_its_own_is_preferred() {
        let folder = |name: &str| Candidate { name: name.to_owned(), id: name.to_owned() };
        let (root, own) = (folder("the root of VMs"), folder("layercake"));
        assert_eq!(preferred_folder(&[root.clone(), own.clone()]).unwrap().0, own);
        let (chosen, reason) = preferred_folder(&[root.clone(), folder("other")]).unwrap();
        assert_eq!(chosen, root);
        assert!(reason.contains("--folder"), "{reason}");
    }
}
