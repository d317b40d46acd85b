//! Checks that Cluster API's managers are protected against workload clusters, by memory limits and by proxies that
//! limit responses. clusterctl doesn't install either.

use components::catalogue::{COMPONENTS, Component};
use components::guest_proxy;
use components::render::PROVIDER_LABEL;
use k8s_openapi::api::apps::v1::Deployment;
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// Returns a warning if a manager lacks a memory limit or its proxy, or the reason why the Deployments can't be read.
/// Returns `None` if all managers are protected.
pub async fn check(client: &Client, check: Check) -> Option<Diagnosis> {
    let upstream = COMPONENTS.iter().filter(|component| component.is_upstream());
    let labels: Vec<_> = upstream.filter_map(|component| component.provider_label).collect();
    let selected = ListParams::default().labels(&format!("{PROVIDER_LABEL} in ({})", labels.join(",")));
    match Api::<Deployment>::all(client.clone()).list(&selected).await {
        Ok(deployments) => judge(check, &deployments.items),
        Err(error) => Some(check.unread("Deployments", &error)),
    }
}

fn judge(check: Check, deployments: &[Deployment]) -> Option<Diagnosis> {
    let without: Vec<_> = deployments.iter().filter(|deployment| !has_limit(deployment)).collect();
    let Some(first) = without.first() else { return judge_proxies(check, deployments) };
    let names: Vec<_> = without.iter().map(|deployment| deployment.name_any()).collect();
    Some(check.warning(
        format!("without a memory limit: {}", names.join(", ")),
        format!(
            "Set one for each, so that a hostile workload cluster cannot fill the memory of a node: kubectl set resources deployment {} -n {} --limits memory=2Gi",
            first.name_any(),
            first.namespace().unwrap_or_default()
        ),
    ))
}

fn judge_proxies(check: Check, deployments: &[Deployment]) -> Option<Diagnosis> {
    let without = deployments.iter().filter(|deployment| uses_proxy(deployment) && !has_proxy(deployment));
    let names: Vec<_> = without.map(ResourceExt::name_any).collect();
    if names.is_empty() {
        return None;
    }
    Some(check.warning(
        format!("without the container {}: {}", guest_proxy::CONTAINER, names.join(", ")),
        "Install Cluster API with `layercake init` or `layercake manifests`: the container limits what a hostile workload cluster can make \
         the managers read"
            .to_owned(),
    ))
}

fn uses_proxy(deployment: &Deployment) -> bool {
    let provider = deployment.labels().get(PROVIDER_LABEL);
    let component =
        COMPONENTS.iter().find(|component| component.provider_label == provider.map(String::as_str));
    provider.is_some() && component.is_some_and(Component::uses_guest_proxy)
}

fn has_proxy(deployment: &Deployment) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.is_some_and(|pod| pod.containers.iter().any(|container| container.name == guest_proxy::CONTAINER))
}

fn has_limit(deployment: &Deployment) -> bool {
    let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    pod.is_some_and(|pod| {
        pod.containers.iter().all(|container| {
            let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            limits.is_some_and(|limits| limits.contains_key("memory"))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(name: &str, resources: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "capi-system" },
            "spec": {
                "selector": {},
                "template": { "spec": { "containers": [{ "name": "manager", "resources": resources }] } },
            },
        }))
        .unwrap()
    }

    #[test]
    fn managers_without_a_proxy_are_named() {
        let check = Check::new("LC0103", "");
        let limits = json!({ "limits": { "memory": "1Gi" } });
        let labeled = |name: &str, provider: &str| {
            let mut deployment = deployment(name, &limits);
            deployment.metadata.labels = Some([(PROVIDER_LABEL.to_owned(), provider.to_owned())].into());
            deployment
        };
        let mut proxied = labeled("a", "cluster-api");
        let pod = proxied.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()).unwrap();
        let mut container = pod.containers[0].clone();
        container.name = guest_proxy::CONTAINER.to_owned();
        pod.containers.push(container);
        let ipam = labeled("b", "ipam-in-cluster");
        assert!(judge(check, &[proxied.clone(), ipam]).is_none());
        let warning = judge(check, &[proxied, labeled("c", "bootstrap-kubeadm")]).unwrap();
        assert_eq!(warning.found, "without the container guest-proxy: c");
    }

    #[test]
    fn managers_without_a_limit_are_named() {
        let check = Check::new("LC0103", "");
        let limited = deployment("a", &json!({ "limits": { "memory": "1Gi" } }));
        let others =
            [deployment("b", &json!({ "requests": { "memory": "1Gi" } })), deployment("c", &json!({}))];
        assert!(judge(check, &[]).is_none() && judge(check, std::slice::from_ref(&limited)).is_none());
        let warning = judge(check, &[&[limited], &others[..]].concat()).unwrap();
        assert_eq!(warning.found, "without a memory limit: b, c");
        assert!(warning.remedy.contains("set resources deployment b -n capi-system"), "{}", warning.remedy);
    }
}
