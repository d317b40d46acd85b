//! Tests that an admission policy guards every API field that refers to a Secret or ConfigMap, except for listed
//! fields.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The guarded fields: resource, field, the resource that it refers to, the policy, and the expression for the field in
/// the policy.
const GUARDED: &[(&str, &str, &str, &str, &str)] = &[
    (VMS, "spec.vmMetadata.secretName", "secrets", BOOTSTRAP, "variables.secret"),
    (VMS, "spec.vmMetadata.configMapName", "configmaps", BOOTSTRAP, "variables.configMap"),
    // The v1alpha2 form of the fields above. The API server converts objects to v1alpha1 for the policy.
    (VMS, "spec.bootstrap.cloudInit.rawCloudConfig", "secrets", BOOTSTRAP, "vmMetadata.secretName"),
    (VMS, "spec.bootstrap.cloudInit.rawCloudConfig.name", "secrets", BOOTSTRAP, "vmMetadata.secretName"),
    (VMS, "spec.bootstrap.sysprep.rawSysprep", "secrets", BOOTSTRAP, "vmMetadata.secretName"),
    (VMS, "spec.bootstrap.sysprep.rawSysprep.name", "secrets", BOOTSTRAP, "vmMetadata.secretName"),
    (VMS, "spec.bootstrap.vAppConfig.rawProperties", "secrets", BOOTSTRAP, "vmMetadata.secretName"),
    // Fields in Kubernetes and Cluster API kinds.
    ("configmaps", "data.secret", "secrets", "vmware-system-tkg-bundles", "object.data['secret'].trim()"),
    ("machines", "spec.bootstrap.dataSecretName", "secrets", MACHINES, "bootstrap.dataSecretName"),
    (
        "machinesets",
        "spec.template.spec.bootstrap.dataSecretName",
        "secrets",
        MACHINES,
        "template.spec.bootstrap.dataSecretName",
    ),
    (
        "machinedeployments",
        "spec.template.spec.bootstrap.dataSecretName",
        "secrets",
        MACHINES,
        "template.spec.bootstrap.dataSecretName",
    ),
];
const VMS: &str = "virtualmachines";
const BOOTSTRAP: &str = "vmware-system-vmop-bootstrap-data";
const MACHINES: &str = "vmware-system-capw-bootstrap-data";
/// The suffixes of Secrets that a cluster finds by its own name.
const BY_NAME: [&str; 9] =
    ["ca", "etcd", "proxy", "sa", "kubeconfig", "ssh", "ssh-password", "ssh-password-hashed", "encryption"];

/// Fields that refer to a Secret and don't need a guard, each with the reason.
const EXCEPTED: &[(&str, &str, &str)] = &[(
    "providerserviceaccounts",
    "spec.targetSecretName",
    "a Secret of the guest, which is written and not read; only gcm and administrators write the kind",
)];

fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config")
}

fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn policies() -> Vec<Value> {
    let files =
        ["vmop/admission.yaml", "capw/admission.yaml", "capw/admission-secrets.yaml", "gcm/admission.yaml"];
    files.iter().flat_map(|file| documents(&config().join(file))).collect()
}

fn named<'p>(policies: &'p [Value], kind: &str, name: &str) -> &'p Value {
    let found = policies.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

/// Collects all paths below `schema` whose name or description mentions a Secret or ConfigMap.
fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if path == "metadata" || path == "status" {
            continue;
        }
        let described = field["description"].as_str().unwrap_or_default();
        let by_name = ["secret", "configmap"].iter().any(|word| name.to_lowercase().contains(word));
        if by_name || described.contains("Secret") || described.contains("ConfigMap") {
            found.insert(path.clone());
        }
        walk(field, &path, found);
        walk(&field["items"], &path, found);
        walk(&field["additionalProperties"], &path, found);
    }
}

#[test]
fn every_field_that_names_a_secret_is_guarded_or_excepted() {
    let mut seen = BTreeSet::new();
    for entry in std::fs::read_dir(config().join("crd")).expect("config/crd") {
        let path = entry.expect("a file").path();
        for definition in documents(&path).iter().filter(|it| it["kind"] == "CustomResourceDefinition") {
            let plural = definition["spec"]["names"]["plural"].as_str().expect("a plural").to_owned();
            for version in definition["spec"]["versions"].as_array().expect("versions") {
                let mut found = BTreeSet::new();
                walk(&version["schema"]["openAPIV3Schema"], "", &mut found);
                seen.extend(found.into_iter().map(|field| (plural.clone(), field)));
            }
        }
    }
    let known = |plural: &str, field: &str| {
        GUARDED.iter().any(|row| (row.0, row.1) == (plural, field))
            || EXCEPTED.iter().any(|row| (row.0, row.1) == (plural, field))
    };
    let unknown: Vec<_> = seen.iter().filter(|(plural, field)| !known(plural, field)).collect();
    assert!(unknown.is_empty(), "neither guarded nor excepted: {unknown:?}");
    assert!(seen.len() >= 7, "the definitions were not read: {seen:?}");
}

#[test]
fn every_guard_asks_whether_the_user_may_get_what_he_names() {
    let policies = policies();
    for (resource, field, what, name, words) in GUARDED {
        let spec = &named(&policies, "ValidatingAdmissionPolicy", name)["spec"];
        let text = spec.to_string();
        let resources: Vec<_> = spec["matchConstraints"]["resourceRules"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|rule| rule["resources"].as_array().into_iter().flatten())
            .collect();
        assert!(resources.contains(&&Value::from(*resource)), "{name} does not look at {resource}");
        assert!(text.contains(words), "{name} says nothing of {field}");
        let asks = format!("authorizer.group('').resource('{what}').namespace(request.namespace)");
        assert!(
            text.contains(&asks) && text.contains(".check('get').allowed()"),
            "{name} does not ask for {what}"
        );
        assert_enforced(&policies, name);
    }
    let clusters = "vmware-system-tkg-cluster-secrets";
    let text = named(&policies, "ValidatingAdmissionPolicy", clusters)["spec"].to_string();
    for ending in BY_NAME {
        assert!(
            text.contains(&format!(
                "variables.secrets.name(variables.name + '-{ending}').check('get').allowed()"
            )),
            "{ending}"
        );
    }
    assert_enforced(&policies, clusters);
    let of_names = [
        api::names::kubeconfig_secret,
        api::names::ssh_secret,
        api::names::ssh_password_secret,
        api::names::ssh_password_hash_secret,
        api::names::encryption_secret,
    ];
    for name in of_names {
        let name = name("c");
        assert!(BY_NAME.iter().any(|ending| name == format!("c-{ending}")), "{name} is not guarded");
    }
}

/// test/upstream-secrets compares the policy with the Cluster API sources.
#[test]
fn every_secret_that_cluster_api_reads_by_name_is_guarded() {
    let policies = policies();
    let name = "vmware-system-capw-cluster-secrets";
    let spec = &named(&policies, "ValidatingAdmissionPolicy", name)["spec"];
    let endings: Vec<_> =
        api::names::CLUSTER_API_SECRETS.iter().map(|ending| format!("'{ending}'")).collect();
    let condition = spec["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(condition.contains(&format!("[{}].exists(ending,", endings.join(", "))), "{condition}");
    assert!(condition.contains(&format!("== '{}'", api::names::CLUSTER_API_SECRET_TYPE)), "{condition}");
    assert!(condition.contains(&format!("[?'{}']", api::names::label::CLUSTER_NAME)), "{condition}");
    assert_enforced(&policies, name);
}

#[test]
fn every_record_of_a_cluster_is_guarded() {
    let name = "vmware-system-tkg-records";
    let policies = policies();
    let spec = &named(&policies, "ValidatingAdmissionPolicy", name)["spec"];
    let records: Vec<_> = api::names::annotation::RECORDS.iter().map(|key| format!("'{key}'")).collect();
    let condition = spec["matchConditions"][0]["expression"].as_str().unwrap();
    assert!(condition.contains(&format!("[{}].exists(", records.join(", "))), "{condition}");
    assert_eq!(
        spec["matchConstraints"]["resourceRules"][0]["operations"],
        serde_json::json!(["CREATE", "UPDATE"])
    );
    assert_enforced(&policies, name);
}

/// Admission limits the objects that the programs create, but these resources would allow privilege escalation.
#[test]
fn no_program_can_create_pods_tokens_or_cluster_roles() {
    const REFUSED: [&str; 8] = [
        "pods",
        "serviceaccounts/token",
        "clusterroles",
        "clusterrolebindings",
        "users",
        "groups",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ];
    for program in ["vmop", "capw", "gcm"] {
        let documents = documents(&config().join(program).join("rbac.yaml"));
        for rule in documents.iter().flat_map(|document| document["rules"].as_array().into_iter().flatten()) {
            let all = |key: &str| -> Vec<_> {
                rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
            };
            let (resources, verbs) = (all("resources"), all("verbs"));
            for refused in REFUSED.iter().chain(&["*"]) {
                assert!(!resources.contains(refused), "{program}: {rule}");
            }
            for refused in ["*", "bind", "escalate", "impersonate"] {
                assert!(!verbs.contains(&refused), "{program}: {rule}");
            }
        }
    }
}

fn assert_enforced(policies: &[Value], name: &str) {
    assert_eq!(named(policies, "ValidatingAdmissionPolicy", name)["spec"]["failurePolicy"], "Fail", "{name}");
    let binding = named(policies, "ValidatingAdmissionPolicyBinding", name);
    assert_eq!(binding["spec"]["policyName"], *name);
    assert_eq!(binding["spec"]["validationActions"][0], "Deny", "{name}");
}

/// The security page for operators lists the same fields.
#[test]
fn the_security_page_lists_every_guarded_field() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let page = std::fs::read_to_string(page).expect("docs/security.md");
    let Some(section) = page.split("## Who can name which Secret").nth(1) else { return };
    let section = section.split("\n## ").next().unwrap_or_default();
    for (_, field, ..) in GUARDED {
        assert!(section.contains(&format!("`{field}`")), "docs/security.md does not list {field}");
    }
    for ending in BY_NAME {
        assert!(
            section.contains(&format!("`NAME-{ending}`")),
            "docs/security.md does not list NAME-{ending}"
        );
    }
}
