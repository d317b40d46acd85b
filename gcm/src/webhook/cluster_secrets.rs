//! Denies a new cluster if Cluster API would use existing Secrets that it didn't create.
//!
//! Cluster API connects to the server in the kubeconfig, and signs with the keys in the other Secrets. Admission policies
//! protect the Secrets of existing clusters. This check finds Secrets that were created before the cluster or the policies.

use api::gcm::TanzuKubernetesCluster;
use api::names;
use api::names::label;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use crate::admission::denial::FieldDenial;

/// The kind that controls a cluster's kubeconfig Secret.
const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// Returns a denial for each Secret that Cluster API would use for the new cluster but didn't create.
///
/// # Errors
/// Returns an error if a Secret can't be read.
pub async fn denials(tkc: &TanzuKubernetesCluster, client: &Client) -> kube::Result<Vec<FieldDenial>> {
    let secrets = Api::<Secret>::namespaced(client.clone(), &tkc.namespace().unwrap_or_default());
    let cluster = tkc.name_any();
    let read = names::CLUSTER_API_SECRETS.map(|ending| {
        let (secrets, name) = (&secrets, format!("{cluster}-{ending}"));
        async move { secrets.get_opt(&name).await }
    });
    let found = try_join_all(read).await?;
    let foreign = found.iter().flatten().filter(|secret| !is_of_cluster_api(secret, &cluster));
    Ok(foreign.map(denial).collect())
}

/// Returns the denial for Secrets that couldn't be read in time.
pub fn unread() -> FieldDenial {
    FieldDenial::new(
        "metadata.name",
        "the Secrets that Cluster API would use for the cluster could not be read in time",
        "Apply the manifest again",
    )
}

/// Returns true if Cluster API created the Secret for an earlier cluster with this name, or if the Secret is a certificate
/// authority that an administrator provides for the cluster.
fn is_of_cluster_api(secret: &Secret, cluster: &str) -> bool {
    let has_type = secret.type_.as_deref() == Some(names::CLUSTER_API_SECRET_TYPE);
    if secret.name_any() == names::kubeconfig_secret(cluster) {
        // The garbage collector deletes a Secret whose only owner doesn't exist.
        let control_plane = names::control_plane(cluster);
        let owners = secret.owner_references();
        return has_type
            && !owners.is_empty()
            && owners.iter().all(|owner| owner.kind == CONTROL_PLANE && owner.name == control_plane);
    }
    has_type || secret.labels().get(label::CLUSTER_NAME).is_some_and(|labelled| labelled == cluster)
}

fn denial(secret: &Secret) -> FieldDenial {
    let name = secret.name_any();
    FieldDenial::new(
        "metadata.name",
        format!("Cluster API would use Secret {name}, which it did not create"),
        format!("Delete Secret {name}, or give the cluster another name"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use support::api_server::{Request, refusal, server};

    use super::*;
    use crate::testing::sound;

    async fn refused(secret: Value) -> Vec<String> {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let (client, _) = server(move |request: &Request| {
            if request.path.ends_with(&format!("/secrets/{name}")) {
                return (200, secret.clone());
            }
            refusal(404, "NotFound")
        });
        denials(&sound(), &client).await.unwrap().iter().map(ToString::to_string).collect()
    }

    fn secret(name: &str, type_: &str, metadata: Value) -> Value {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "type": type_});
        secret["metadata"] = metadata;
        secret["metadata"]["name"] = name.into();
        secret["metadata"]["namespace"] = "ns".into();
        secret
    }

    #[tokio::test]
    async fn refuses_secrets_that_cluster_api_did_not_create() {
        let owned = |name: &str| {
            json!({"ownerReferences": [{
                "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": name,
                "uid": "a", "controller": true,
            }]})
        };
        let labelled = json!({"labels": {"cluster.x-k8s.io/cluster-name": "c"}});
        let own = "cluster.x-k8s.io/secret";
        let foreign = [
            secret("c-kubeconfig", "Opaque", labelled.clone()),
            // Secrets that are older than the policies can have the type, but their owner differs or is missing.
            secret("c-kubeconfig", own, labelled.clone()),
            secret("c-kubeconfig", own, owned("another-control-plane")),
            secret("c-ca", "Opaque", json!({})),
            secret("c-etcd", "kubernetes.io/tls", json!({"labels": {"cluster.x-k8s.io/cluster-name": "d"}})),
            secret("c-apiserver-etcd-client", "Opaque", json!({})),
        ];
        for secret in foreign {
            let texts = refused(secret.clone()).await;
            assert_eq!(texts.len(), 1, "{secret}");
            let name = secret["metadata"]["name"].as_str().unwrap();
            assert!(texts[0].contains(&format!("Cluster API would use Secret {name}, which")), "{texts:?}");
        }
        let accepted = [
            secret("c-kubeconfig", own, owned("c-control-plane")),
            secret("c-ca", own, json!({})),
            secret("c-ca", "Opaque", labelled),
            secret("c-ssh", "Opaque", json!({})),
        ];
        for secret in accepted {
            assert_eq!(refused(secret.clone()).await, Vec::<String>::new(), "{secret}");
        }
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_read_is_an_error() {
        let (client, _) = server(|_: &Request| refusal(500, "InternalError"));
        assert!(denials(&sound(), &client).await.is_err());
        assert!(unread().to_string().ends_with("Apply the manifest again."));
    }
}
