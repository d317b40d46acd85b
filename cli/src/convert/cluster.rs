//! Converts configuration variables to a cluster manifest, and reports the outcome for each variable. This module
//! doesn't perform I/O.

use std::collections::{BTreeMap, BTreeSet};

use api::gcm::TanzuKubernetesCluster;
use api::names::{annotation, release_name};
use bounds::printable;
use gcm::admission::{self, InstallationFacts};
use serde_json::{Map, Value, json};

use super::variables::{SECRET, TRUST, VariableDestination, Variables, destination};
use crate::args::Convert;

/// The maximum length of a value in a message, in characters.
const SHOWN: usize = 64;
/// The outcome for a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableOutcome {
    pub name: String,
    pub kind: OutcomeKind,
    /// The manifest field, the owner of the setting, or the reason, depending on `kind`. Empty for an unknown variable.
    pub detail: String,
}

/// The kinds of outcomes, in report order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutcomeKind {
    /// The variable became a field in the manifest.
    Used,
    /// Another object or program contains this setting.
    Elsewhere,
    /// The variable isn't converted.
    LeftOut,
    /// The variable doesn't exist in Tanzu Kubernetes Grid.
    Unknown,
}

/// The missing or invalid values, each with its variable or flag and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfiguration(pub Vec<String>);

/// Returns the manifest and the outcomes for all variables, sorted by kind and name.
///
/// # Errors
/// Returns an error if a required value is missing or invalid. Errors don't contain proxy addresses.
pub fn convert(
    variables: &Variables,
    args: &Convert,
) -> Result<(Value, Vec<VariableOutcome>), InvalidConfiguration> {
    let mut source = ConversionState {
        variables,
        unused: BTreeMap::new(),
        authorities: Vec::new(),
        cni: None,
        faults: secret_fields(variables),
    };
    if !source.faults.is_empty() {
        return Err(InvalidConfiguration(source.faults));
    }
    let manifest = source.manifest(args);
    if source.faults.is_empty() {
        source.faults = source.denials(&manifest);
    }
    if !source.faults.is_empty() {
        return Err(InvalidConfiguration(source.faults));
    }
    let mut outcomes: Vec<_> = variables.keys().map(|name| source.outcome(name)).collect();
    outcomes.sort_by_key(|outcome| outcome.kind);
    Ok((manifest, outcomes))
}

/// Returns a fault for each variable that would become a field but has an encoded value.
fn secret_fields(variables: &Variables) -> Vec<String> {
    let is_field = |name: &str| matches!(destination(name), Some(VariableDestination::Field(_)));
    let redacted = variables.iter().filter(|(name, value)| value.as_str() == SECRET && is_field(name));
    redacted.map(|(name, _)| format!("{name}: its value is encoded. Write the value itself")).collect()
}

/// The variables, and the state of their conversion.
pub(super) struct ConversionState<'a> {
    variables: &'a Variables,
    /// The reasons why variables with a field aren't used.
    pub(super) unused: BTreeMap<&'static str, String>,
    /// The variables for trusted CAs, in the order of the manifest's list.
    pub(super) authorities: Vec<&'static str>,
    pub(super) cni: Option<&'a str>,
    faults: Vec<String>,
}

impl<'a> ConversionState<'a> {
    /// Returns the value of a variable, unless it is empty.
    pub(super) fn value(&self, name: &str) -> Option<&'a str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    pub(super) fn add_fault(&mut self, origin: &str, fault: &str) {
        self.faults.push(format!("{origin}: {fault}"));
    }

    pub(super) fn leave_out(&mut self, names: &[&'static str], reason: &str) {
        self.unused.extend(names.iter().map(|name| (*name, reason.to_owned())));
    }

    /// Returns the value of the flag, or of the first variable in `names` with a value if the flag isn't set. Reports
    /// the remaining variables as left out. Adds a fault if the value isn't a valid name.
    fn choose(&mut self, flag: &str, given: Option<&'a str>, names: &[&'static str]) -> Option<&'a str> {
        let mut chosen = given.map(|value| (flag.to_owned(), value));
        for &name in names {
            let Some(value) = self.value(name) else { continue };
            match &chosen {
                Some((origin, _)) => self.leave_out(&[name], &format!("{origin} is set")),
                None => chosen = Some((name.to_owned(), value)),
            }
        }
        let (origin, value) = chosen?;
        self.check_name(&origin, value);
        Some(value)
    }

    /// Adds a fault if a value can't be an object name.
    pub(super) fn check_name(&mut self, origin: &str, value: &str) {
        if !is_name(value) {
            let value = printable(value, SHOWN);
            self.add_fault(
                origin,
                &format!("{value:?} is not a name. Use letters, digits, '-', '.' and '+'"),
            );
        }
    }

    fn manifest(&mut self, args: &'a Convert) -> Value {
        let name = self.value("CLUSTER_NAME");
        if name.is_none() {
            self.add_fault("CLUSTER_NAME", "it is missing. Add it to the file");
        }
        let namespace = self.choose("--namespace", args.flags.target.namespace.as_deref(), &["NAMESPACE"]);
        if namespace.is_none() {
            self.add_fault("--namespace", "it is missing, and the file does not set NAMESPACE");
        }
        let mut metadata = json!({ "name": name, "namespace": namespace });
        if let Some(query) = self.os_image() {
            metadata["annotations"][annotation::RESOLVE_OS_IMAGE] = json!(query);
        }
        let mut spec = json!({ "topology": self.topology(args) });
        let settings = self.settings();
        if !settings.is_empty() {
            spec["settings"] = Value::Object(settings);
        }
        json!({
            "apiVersion": "run.tanzu.vmware.com/v1alpha3", "kind": "TanzuKubernetesCluster",
            "metadata": metadata, "spec": spec,
        })
    }

    /// Returns the query for a node image with the file's operating system, or `None` if the file doesn't set one.
    fn os_image(&mut self) -> Option<String> {
        let labels = [("OS_NAME", "os-name"), ("OS_VERSION", "os-version"), ("OS_ARCH", "os-arch")];
        let mut terms = Vec::new();
        for (name, label) in labels {
            if let Some(value) = self.value(name) {
                self.check_name(name, value);
                terms.push(format!("{label}={value}"));
            }
        }
        (!terms.is_empty()).then(|| terms.join(","))
    }

    fn topology(&mut self, args: &'a Convert) -> Value {
        let release = self.release(args);
        let [control_plane, workers] = self.vm_classes(args);
        let [control_plane_storage, worker_storage] = self.storage_classes(args);
        let [control_plane_count, worker_count] = self.counts();
        let name = self.value("NODE_POOL_0_NAME").unwrap_or("workers");
        let mut pool = json!({
            "name": name, "replicas": worker_count, "vmClass": workers, "storageClass": worker_storage,
        });
        if let Some(text) = self.value("NODE_POOL_0_LABELS") {
            pool["labels"] = Value::Object(self.labels(text));
        }
        if let Some(text) = self.value("NODE_POOL_0_TAINTS") {
            pool["taints"] = Value::Array(self.taints(text));
        }
        json!({
            "controlPlane": {
                "replicas": control_plane_count, "vmClass": control_plane, "storageClass": control_plane_storage,
                "tkr": { "reference": { "name": release } },
            },
            "nodePools": [pool],
        })
    }

    fn release(&mut self, args: &'a Convert) -> String {
        let names = ["KUBERNETES_RELEASE", "KUBERNETES_VERSION"];
        let Some(text) = self.choose("--release", args.release.as_deref(), &names) else {
            let fault = "it is missing, and the file sets neither KUBERNETES_RELEASE nor KUBERNETES_VERSION. List the releases with `kubectl get tkr`";
            self.add_fault("--release", fault);
            return String::new();
        };
        let release = release_name(text);
        if !release.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()) {
            let is_chosen = |name: &&str| self.value(name).is_some() && !self.unused.contains_key(*name);
            let origin = names.into_iter().find(is_chosen).unwrap_or("--release");
            let text = printable(text, SHOWN);
            self.add_fault(origin, &format!("{text:?} is not a release. Write one such as v1.36"));
        }
        release
    }

    /// Returns the VM classes for the control plane and for the workers. Adds a fault for a missing class.
    fn vm_classes(&mut self, args: &'a Convert) -> [Option<&'a str>; 2] {
        let names = ["CONTROL_PLANE_VM_CLASS", "WORKER_VM_CLASS"];
        let classes = names.map(|name| self.choose("--vm-class", args.vm_class.as_deref(), &[name]));
        if classes.contains(&None) {
            let missing = missing(&names, &classes);
            let sizes = [("CONTROL_PLANE", "the control plane"), ("WORKER", "workers")]
                .into_iter()
                .filter_map(|(role, nodes)| Some(format!("{} for {nodes}", self.size(role)?)))
                .collect::<Vec<_>>();
            let asks = if sizes.is_empty() {
                String::new()
            } else {
                format!(" The file asks for {}.", sizes.join("; "))
            };
            let fault = format!(
                "it is missing, and the file does not set {missing}.{asks} List the VM classes with `kubectl get virtualmachineclassbindings`"
            );
            self.add_fault("--vm-class", &fault);
        }
        classes
    }

    /// Describes the node size that the file sets for a role (`CONTROL_PLANE` or `WORKER`), or returns `None` if it
    /// doesn't set one.
    fn size(&self, role: &str) -> Option<String> {
        let number = |what: &str| {
            let names = [format!("VSPHERE_{role}_{what}"), format!("VSPHERE_{what}")];
            names.iter().find_map(|name| self.value(name)?.parse::<u32>().ok())
        };
        let units = [("NUM_CPUS", "CPUs"), ("MEM_MIB", "MiB of memory"), ("DISK_GIB", "GiB of disk")];
        let parts: Vec<_> =
            units.into_iter().filter_map(|(what, unit)| Some(format!("{} {unit}", number(what)?))).collect();
        if !parts.is_empty() {
            return Some(parts.join(", "));
        }
        let size = self.value(&format!("{}_SIZE", role.replace('_', ""))).or_else(|| self.value("SIZE"))?;
        Some(format!("size {:?}", printable(size, SHOWN)))
    }

    /// Returns the storage classes for the control plane and for the workers. Adds a fault for a missing class.
    fn storage_classes(&mut self, args: &'a Convert) -> [Option<&'a str>; 2] {
        let names = ["CONTROL_PLANE_STORAGE_CLASS", "WORKER_STORAGE_CLASS"];
        let classes =
            names.map(|name| self.choose("--storage-class", args.storage_class.as_deref(), &[name]));
        if classes.contains(&None) {
            let missing = missing(&names, &classes);
            let fault = format!(
                "it is missing, and the file does not set {missing}. List the storage classes with `kubectl describe resourcequotas`"
            );
            self.add_fault("--storage-class", &fault);
        }
        classes
    }

    /// Returns the numbers of control plane nodes and workers. CLUSTER_PLAN decides the numbers that the file doesn't
    /// set.
    fn counts(&mut self) -> [i32; 2] {
        let names = ["CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"];
        let by_plan = match self.value("CLUSTER_PLAN") {
            None | Some("dev") => Some(1),
            Some("prod") => Some(3),
            Some(_) => None,
        };
        if names.iter().all(|name| self.value(name).is_some()) {
            self.leave_out(&["CLUSTER_PLAN"], "both numbers of nodes are set");
        }
        names.map(|name| {
            let Some(text) = self.value(name) else {
                if by_plan.is_none() {
                    self.add_fault(
                        name,
                        "it is missing, and CLUSTER_PLAN is neither dev nor prod. Add it to the file",
                    );
                }
                return by_plan.unwrap_or_default();
            };
            let count = text.parse::<i32>().ok().filter(|count| *count >= 0);
            if count.is_none() {
                let text = printable(text, SHOWN);
                self.add_fault(name, &format!("{text:?} is not a number of nodes. Write a number such as 3"));
            }
            count.unwrap_or_default()
        })
    }

    /// Parses `key1=value1,key2=value2`.
    fn labels(&mut self, text: &str) -> Map<String, Value> {
        let mut labels = Map::new();
        for item in list(text) {
            match item.split_once('=') {
                Some((key, value)) => {
                    labels.insert(key.trim().to_owned(), json!(value.trim()));
                }
                None => self.add_fault(
                    "NODE_POOL_0_LABELS",
                    &format!("{:?} is not a label. Write key=value", printable(item, SHOWN)),
                ),
            }
        }
        labels
    }

    /// Parses `key1=value1:effect1,key2=value2:effect2`.
    fn taints(&mut self, text: &str) -> Vec<Value> {
        let mut taints = Vec::new();
        for item in list(text) {
            match item.rsplit_once(':') {
                Some((pair, effect)) => {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    let mut taint = json!({ "key": key.trim(), "effect": effect.trim() });
                    if !value.trim().is_empty() {
                        taint["value"] = json!(value.trim());
                    }
                    taints.push(taint);
                }
                None => self.add_fault(
                    "NODE_POOL_0_TAINTS",
                    &format!("{:?} is not a taint. Write key=value:NoSchedule", printable(item, SHOWN)),
                ),
            }
        }
        taints
    }

    /// Returns the reasons why admission would refuse the manifest, each with its variable. Ignores the release,
    /// because releases and node images aren't known here. Assumes that the container network is available as a bundle.
    fn denials(&self, manifest: &Value) -> Vec<String> {
        let Ok(cluster) = serde_json::from_value::<TanzuKubernetesCluster>(manifest.clone()) else {
            return vec!["the manifest is not a TanzuKubernetesCluster".to_owned()];
        };
        let bundles: BTreeSet<String> = self.cni.map(str::to_owned).into_iter().collect();
        let installation = InstallationFacts { available: &[], bundles: &bundles, virtual_ip: None };
        let denials = admission::validate_with(&cluster, None, &installation);
        let of_release = |field: &str| {
            field.starts_with("spec.distribution") || field.ends_with("controlPlane.tkr.reference.name")
        };
        denials
            .iter()
            .filter(|denial| !of_release(&denial.field))
            .map(|denial| match self.origin(&denial.field) {
                Some(name) => format!("{name}: {denial}"),
                None => denial.to_string(),
            })
            .collect()
    }

    /// Returns the name of the variable that set `field` or one of its parents, or `None` if no variable did.
    fn origin(&self, field: &str) -> Option<&str> {
        let at = field.strip_prefix(TRUST).and_then(|rest| rest.strip_prefix('['));
        if let Some((at, _)) = at.and_then(|rest| rest.split_once(']')) {
            return self.authorities.get(at.parse::<usize>().ok()?).copied();
        }
        let outcomes = self.variables.keys().map(|name| self.outcome(name));
        let used: Vec<_> = outcomes.filter(|outcome| outcome.kind == OutcomeKind::Used).collect();
        let found = used.iter().find(|outcome| field.starts_with(&outcome.detail))?;
        self.variables.get_key_value(&found.name).map(|(name, _)| name.as_str())
    }

    fn outcome(&self, name: &str) -> VariableOutcome {
        let (kind, detail) = match destination(name) {
            None => (OutcomeKind::Unknown, ""),
            Some(_) if self.value(name).is_none() => (OutcomeKind::LeftOut, "it has no value"),
            Some(VariableDestination::Elsewhere(owner)) => (OutcomeKind::Elsewhere, owner),
            Some(VariableDestination::LeftOut(reason)) => (OutcomeKind::LeftOut, reason),
            Some(VariableDestination::Field(field)) => match self.unused.get(name) {
                Some(reason) => (OutcomeKind::LeftOut, reason.as_str()),
                None => (OutcomeKind::Used, field),
            },
        };
        VariableOutcome { name: name.to_owned(), kind, detail: detail.to_owned() }
    }
}

/// Returns the names without a value, joined with `or`.
fn missing(names: &[&str; 2], values: &[Option<&str>; 2]) -> String {
    let without = names.iter().zip(values).filter(|(_, value)| value.is_none());
    without.map(|(name, _)| *name).collect::<Vec<_>>().join(" or ")
}

/// Splits a comma-separated list and skips empty items.
pub(super) fn list(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

/// Returns true if the string can name an object, a release or an operating system: up to 253 letters, digits and
/// `-.+`.
fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-.+".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(fits)
}
