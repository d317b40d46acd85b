//! Checks the provider configuration and its credentials Secret.

use std::collections::BTreeMap;

use api::vmop::PROVIDER_CONFIGURATION;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kit::diagnosis::Diagnosis;
use kube::{Api, Client};

use super::checks::{CONFIGURED, CREDENTIALS};
use crate::vcenter::GuestNetwork;
use crate::vcenter::guest_network::NETWORK_CONFIG_MAP;
use crate::vcenter::settings::{ConfigData, ConfigProblem, ProviderSettings};

/// Returns true if the provider configuration exists, whatever its content.
pub async fn exists(client: &Client, namespace: &str) -> kube::Result<bool> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    Ok(maps.get_metadata_opt(PROVIDER_CONFIGURATION).await?.is_some())
}

/// Reads the configuration the way the VM operator does, and checks it. The settings are `None` if the configuration can't be
/// used.
pub async fn check(client: &Client, namespace: &str) -> (Option<ProviderSettings>, Vec<Diagnosis>) {
    let map =
        match Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(PROVIDER_CONFIGURATION).await {
            Ok(map) => map,
            Err(error) => return (None, vec![unreadable(namespace, &error)]),
        };
    let data = map.as_ref().and_then(|map| map.data.as_ref());
    let named =
        ConfigData::new(namespace, data).and_then(|data| Ok((data.credentials_secret()?.to_owned(), data)));
    let (name, data) = match named {
        Ok(named) => named,
        Err(problem) => return (None, vec![judge(&problem)]),
    };
    let secret = match Api::<Secret>::namespaced(client.clone(), namespace).get_opt(&name).await {
        Ok(secret) => secret,
        Err(error) => return (None, vec![unreadable(namespace, &error)]),
    };
    let secret = secret.map(|secret| secret.data.unwrap_or_default());
    let secret = secret.map(|data| data.into_iter().map(|(key, value)| (key, value.0)).collect());
    match data.settings(secret.as_ref()) {
        Ok(settings) => {
            let mut found = vec![
                CONFIGURED.ok(format!(
                    "ConfigMap {namespace}/{PROVIDER_CONFIGURATION}, vCenter {}",
                    settings.address()
                )),
                CREDENTIALS.ok(format!("Secret {namespace}/{name}, user {}", settings.username)),
            ];
            found.extend(network_config(client, namespace).await);
            (Some(settings), found)
        }
        Err(problem) => (None, vec![judge(&problem)]),
    }
}

/// Checks the guests' network settings for invalid values, which the VM operator doesn't pass to guests.
async fn network_config(client: &Client, namespace: &str) -> Option<Diagnosis> {
    let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(NETWORK_CONFIG_MAP).await;
    match map {
        Ok(map) => judge_network(namespace, map?.data.as_ref()),
        Err(error) => Some(CONFIGURED.unread(&format!("ConfigMap {namespace}/{NETWORK_CONFIG_MAP}"), &error)),
    }
}

fn judge_network(namespace: &str, data: Option<&BTreeMap<String, String>>) -> Option<Diagnosis> {
    let (_, problems) = GuestNetwork::from_data(data);
    (!problems.is_empty()).then(|| {
        let found = format!("ConfigMap {namespace}/{NETWORK_CONFIG_MAP}: {}", problems.join("; "));
        CONFIGURED.warning(found, "Correct the values: guests do not get them")
    })
}

fn unreadable(namespace: &str, error: &kube::Error) -> Diagnosis {
    CONFIGURED.unread(&format!("the configuration in namespace {namespace}"), error)
}

/// Converts a configuration problem to a diagnosis. Its message is split into the finding and the remedy.
pub(super) fn judge(problem: &ConfigProblem) -> Diagnosis {
    let check = match problem {
        ConfigProblem::NoSecret(..) | ConfigProblem::NoCredential(..) => CREDENTIALS,
        _ => CONFIGURED,
    };
    let text = problem.to_string();
    let (found, remedy) = text.rsplit_once(". ").unwrap_or((&text, ""));
    check.error(found, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_settings_that_guests_do_not_get_are_a_warning() {
        let data = |mtu: &str| BTreeMap::from([("mtu".to_owned(), mtu.to_owned())]);
        assert_eq!(judge_network("ns", Some(&data("9000"))), None);
        let found = judge_network("ns", Some(&data("jumbo"))).unwrap();
        assert_eq!(found.check, CONFIGURED);
        assert!(found.found.contains("ns/vmoperator-network-config: mtu is \"jumbo\""), "{}", found.found);
    }

    #[test]
    fn each_problem_has_its_check_and_its_remedy() {
        let cases = [
            (ConfigProblem::NoConfigMap("ns".into()), CONFIGURED),
            (ConfigProblem::NoKey("ns".into(), "VcPNID"), CONFIGURED),
            (ConfigProblem::NoSecret("ns".into(), "creds".into()), CREDENTIALS),
            (ConfigProblem::NoCredential("ns".into(), "creds".into(), "password"), CREDENTIALS),
        ];
        for (problem, check) in cases {
            let diagnosis = judge(&problem);
            assert_eq!(diagnosis.check, check, "{problem}");
            assert!(!diagnosis.remedy.is_empty(), "{problem}");
        }
    }
}
