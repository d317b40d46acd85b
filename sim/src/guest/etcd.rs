//! Changes the etcd membership as kubeadm does: adds a learner, waits until it has caught up, and promotes it.
//!
//! It uses etcd's JSON gateway, which every member serves in addition to gRPC.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};

use super::deadline::{Deadline, retry_until};
use super::disk::Disk;
use super::failure::{Failure, Reason, api_error};

const ADVERTISED: &str = "kubeadm.kubernetes.io/etcd.advertise-client-urls";
const CALL: Duration = Duration::from_secs(5);

/// A member of the etcd cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EtcdMember {
    /// The member ID as a decimal string, because it can be too large for a JSON number.
    #[serde(rename = "ID")]
    pub id: String,
    /// The member name, empty until the member has started once.
    pub name: String,
    /// The URLs for other members.
    #[serde(rename = "peerURLs")]
    pub peer_urls: Vec<String>,
    /// The URLs for clients.
    #[serde(rename = "clientURLs")]
    pub client_urls: Vec<String>,
    /// True while the member doesn't vote.
    pub is_learner: bool,
}

#[derive(Deserialize)]
struct Members {
    #[serde(default)]
    members: Vec<EtcdMember>,
}

/// A client for one or more members.
pub struct Etcd {
    http: reqwest::Client,
    endpoints: Vec<String>,
}

impl Etcd {
    /// Creates a client for the members that the cluster's etcd Pods advertise.
    pub async fn of_cluster(client: kube::Client, disk: &Disk, certificates: &str) -> Result<Self, Failure> {
        let pods: Api<Pod> = Api::namespaced(client, "kube-system");
        let selector = ListParams::default().labels("component=etcd,tier=control-plane");
        let pods =
            pods.list(&selector).await.map_err(|error| failed("list the etcd pods", &api_error(&error)))?;
        let advertised = |pod: &Pod| pod.metadata.annotations.as_ref()?.get(ADVERTISED).cloned();
        let endpoints: Vec<_> = pods.iter().filter_map(advertised).collect();
        if endpoints.is_empty() {
            return Err(Failure::new(Reason::Etcd, "no etcd pod advertises a client URL"));
        }
        Self::at(endpoints, disk, certificates)
    }

    /// Creates a client for these endpoints. It authenticates with the health check certificate below the directory
    /// `certificates`.
    pub fn at(endpoints: Vec<String>, disk: &Disk, certificates: &str) -> Result<Self, Failure> {
        let read = |file: &str| disk.read(&format!("{certificates}/etcd/{file}")).unwrap_or_default();
        let identity = read("healthcheck-client.crt") + &read("healthcheck-client.key");
        let build = || {
            reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([reqwest::Certificate::from_pem(read("ca.crt").as_bytes())?])
                .identity(reqwest::Identity::from_pem(identity.as_bytes())?)
                .timeout(CALL)
                .build()
        };
        Ok(Self { http: build().map_err(|error| failed("make a client", &error))?, endpoints })
    }

    pub async fn members(&self) -> Result<Vec<EtcdMember>, Failure> {
        Ok(self.call::<Members>("member/list", &json!({ "linearizable": true })).await?.members)
    }

    /// Adds a learner, unless a member with this peer URL exists. Returns `(name, peer URL)` of all members, with
    /// `name` for the new member.
    pub async fn add_learner(
        &self,
        name: &str,
        peer: &str,
        deadline: Deadline,
    ) -> Result<Vec<(String, String)>, Failure> {
        let add = || async {
            let members = self.members().await?;
            if members.iter().any(|member| member.peer_urls.iter().any(|url| url == peer)) {
                return Ok(members);
            }
            let request = json!({ "peerURLs": [peer], "isLearner": true });
            Ok(self.call::<Members>("member/add", &request).await?.members)
        };
        let members = retry_until(deadline, add).await?;
        Ok(members
            .into_iter()
            .flat_map(|member| {
                let its_name = member.name;
                member.peer_urls.into_iter().map(move |url| (its_name.clone(), url))
            })
            .map(|(its_name, url)| if url == peer { (name.to_owned(), url) } else { (its_name, url) })
            .collect())
    }

    /// Promotes the learner with this peer URL to a voting member once it has caught up.
    pub async fn promote(&self, peer: &str, deadline: Deadline) -> Result<(), Failure> {
        let promote = || async {
            let members = self.members().await?;
            let Some(member) = members.iter().find(|member| member.peer_urls.iter().any(|url| url == peer))
            else {
                return Err(Failure::new(Reason::Etcd, "the new member is no member any more"));
            };
            if member.is_learner {
                self.call::<Value>("member/promote", &json!({ "ID": member.id })).await?;
            }
            Ok(())
        };
        retry_until(deadline, promote).await
    }

    /// Returns the value of a key, or `None` if the key doesn't exist.
    pub async fn value(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let request = json!({ "key": BASE64_STANDARD.encode(key) });
        let found = self.call::<Value>("kv/range", &request).await?;
        let Some(value) = found["kvs"][0]["value"].as_str() else { return Ok(None) };
        BASE64_STANDARD.decode(value).map(Some).map_err(|error| failed("kv/range", &error))
    }

    /// Returns an error unless an endpoint responds to a linearizable read. Such a read requires a leader.
    pub async fn healthy(&self) -> Result<(), Failure> {
        self.call::<Value>("kv/range", &json!({ "key": "aGVhbHRo" })).await.map(drop)
    }

    async fn call<T: serde::de::DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T, Failure> {
        let mut last = Failure::new(Reason::Etcd, "no endpoint");
        for endpoint in &self.endpoints {
            match self.ask(endpoint, path, request).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => last = failure,
            }
        }
        Err(last)
    }

    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        endpoint: &str,
        path: &str,
        request: &Value,
    ) -> Result<T, Failure> {
        let url = format!("{endpoint}/v3/{}", path.replace("member/", "cluster/member/"));
        let answer = self
            .http
            .post(url)
            .json(request)
            .send()
            .await
            .map_err(|error| failed(path, &error.without_url()))?;
        let status = answer.status();
        let body = answer.text().await.map_err(|error| failed(path, &error.without_url()))?;
        if !status.is_success() {
            return Err(failed(path, &body.chars().take(200).collect::<String>()));
        }
        serde_json::from_str(&body).map_err(|error| failed(path, &error))
    }
}

fn failed(doing: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Reason::Etcd, format!("{doing}: {error}"))
}
