//! Checks that control plane addresses aren't used by other machines, and that pools have free addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};

use api::capi::{IpAddress, IpAddressClaim};
use api::ipam::{GlobalInClusterIpPool, InClusterIpPool, InClusterIpPoolStatus};
use futures::future::join_all;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Secret;
use kit::api_error::is_not_served;
use kit::diagnosis::{Check, Diagnosis};
use kube::api::ListParams;
use kube::{Api, Client, Config, ResourceExt as _};
use rustls::CertificateError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpStream;

use crate::kube::connection::served;

const FREE: Check = Check::new("LC0803", "no other machine answers at addresses of pools");

const ROOM: Check = Check::new("LC0805", "pools have free addresses for control planes");

/// The checks in this file.
pub const ALL: &[Check] = &[FREE, ROOM];

/// The API server port.
const PORT: u16 = 6443;
/// The timeout for connecting to an address.
const WITHIN: Duration = Duration::from_millis(500);
/// The timeout for an API server's response.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// The maximum number of free addresses to probe in each pool, beginning with the address that is assigned next. The
/// limit also applies to the assigned addresses of all pools together.
const MOST: usize = 32;
const MOST_POOLS: usize = 8;

/// Runs the checks.
pub async fn check(client: &Client) -> Vec<Diagnosis> {
    let all = ListParams::default();
    let pools = Api::<GlobalInClusterIpPool>::all(client.clone()).list(&all).await;
    if pools.as_ref().is_err_and(is_not_served) {
        return ALL.iter().map(|check| check.ok("there are no address pools")).collect();
    }
    let of_namespaces = Api::<InClusterIpPool>::all(client.clone()).list(&all).await;
    let pools = match FREE.read("GlobalInClusterIPPools", pools) {
        Ok(pools) => pools.items,
        Err(unread) => return vec![unread, ROOM.skipped("an earlier check failed")],
    };
    let mut statuses: Vec<_> = pools
        .iter()
        .map(|pool| (format!("GlobalInClusterIPPool {}", pool.name_any()), pool.status.as_ref()))
        .collect();
    let room = match ROOM.read("InClusterIPPools", of_namespaces) {
        Ok(of_namespaces) => {
            statuses.extend(of_namespaces.items.iter().map(|pool| {
                let namespace = pool.namespace().unwrap_or_default();
                (format!("InClusterIPPool {namespace}/{}", pool.name_any()), pool.status.as_ref())
            }));
            judge_room(&statuses)
        }
        Err(unread) => unread,
    };
    vec![check_free(client, &pools).await, room]
}

/// Warns about pools without free addresses.
fn judge_room(pools: &[(String, Option<&InClusterIpPoolStatus>)]) -> Diagnosis {
    let counted = |status: Option<&InClusterIpPoolStatus>| status?.ip_addresses.clone();
    let full = pools.iter().filter_map(|(pool, status)| {
        let counts = counted(*status).filter(|counts| counts.free <= 0)?;
        Some(format!("{pool} has no free address, {} are in use", counts.used))
    });
    let full: Vec<_> = full.collect();
    if full.is_empty() {
        let free: i64 = pools.iter().filter_map(|(_, status)| Some(counted(*status)?.free)).sum();
        return ROOM.ok(format!("{free} addresses are free"));
    }
    ROOM.warning(
        full.join("; "),
        "Add addresses to the pool, or delete clusters that use it. A new cluster waits for an address",
    )
}

async fn check_free(client: &Client, pools: &[GlobalInClusterIpPool]) -> Diagnosis {
    let addresses = Api::<IpAddress>::all(client.clone()).list(&ListParams::default()).await;
    // If the API server doesn't serve the kind, addresses aren't assigned yet.
    let addresses = match FREE.read("IPAddresses", served(addresses)) {
        Ok(addresses) => addresses,
        Err(unread) => return unread,
    };
    let used: BTreeSet<IpAddr> =
        addresses.iter().filter_map(|address| address.spec.address.parse().ok()).collect();
    let next = pools.iter().take(MOST_POOLS).flat_map(|pool| {
        let gateway = pool.spec.gateway.as_deref().and_then(|gateway| gateway.parse().ok());
        let free = free(&pool.spec.addresses, &used, gateway);
        free.into_iter().map(|address| (pool.name_any(), address)).collect::<Vec<_>>()
    });
    let probes = next.map(|(pool, address)| async move { (answers(address).await, pool, address) });
    let (answering, foreign) = tokio::join!(join_all(probes), find_foreign(client, &addresses));
    judge(&answering, &foreign)
}

/// Returns the first free addresses in a pool's ranges, without the gateway.
fn free(ranges: &[String], used: &BTreeSet<IpAddr>, gateway: Option<IpAddr>) -> Vec<IpAddr> {
    let all = ranges.iter().filter_map(|range| bounds(range)).flat_map(|(first, last)| first..=last);
    let all = all.map(|number| IpAddr::from(Ipv4Addr::from_bits(number)));
    all.filter(|address| !used.contains(address) && Some(*address) != gateway).take(MOST).collect()
}

/// Parses an address, a range `first-last`, or a CIDR, and returns its first and last assignable address. Returns
/// `None` for IPv6, whose pools are too large to probe.
fn bounds(range: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.trim().parse::<Ipv4Addr>().ok().map(Ipv4Addr::to_bits);
    if let Some((first, last)) = range.split_once('-') {
        return Some((number(first)?, number(last)?));
    }
    if let Ok(IpNet::V4(net)) = range.trim().parse() {
        // The IPAM provider doesn't assign network and broadcast addresses.
        let is_whole = net.prefix_len() < 31;
        let margin = u32::from(is_whole);
        return Some((net.network().to_bits() + margin, net.broadcast().to_bits() - margin));
    }
    number(range).map(|one| (one, one))
}

async fn answers(address: IpAddr) -> bool {
    let connected = TcpStream::connect(SocketAddr::new(address, PORT));
    tokio::time::timeout(WITHIN, connected).await.is_ok_and(|connected| connected.is_ok())
}

/// An assigned address and its cluster.
#[derive(Clone, Debug)]
struct Assigned {
    address: IpAddr,
    namespace: String,
    cluster: String,
}

impl fmt::Display for Assigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, namespace, cluster } = self;
        write!(f, "{address} of Cluster {namespace}/{cluster}")
    }
}

/// Returns the assigned addresses at which an API server presents a certificate from a CA other than the cluster's.
async fn find_foreign(client: &Client, addresses: &[IpAddress]) -> Vec<Assigned> {
    let claims = Api::<IpAddressClaim>::all(client.clone()).list(&ListParams::default()).await;
    let claims: BTreeMap<_, _> = claims
        .into_iter()
        .flatten()
        .filter_map(|claim| Some(((claim.namespace()?, claim.name_any()), claim.spec.cluster_name?)))
        .collect();
    let assigned = addresses.iter().filter_map(|address| {
        let namespace = address.namespace()?;
        let cluster = claims.get(&(namespace.clone(), address.spec.claim_ref.name.clone()))?.clone();
        Some(Assigned { address: address.spec.address.parse().ok()?, namespace, cluster })
    });
    let looks = assigned.take(MOST).map(|assigned| async move {
        let is_foreign = is_foreign(client, &assigned).await.unwrap_or_default();
        is_foreign.then_some(assigned)
    });
    join_all(looks).await.into_iter().flatten().collect()
}

/// Returns true if a CA other than the cluster's has signed the server's certificate. Returns `None` if the cluster's
/// CA can't be read, or if the server doesn't respond in time.
async fn is_foreign(client: &Client, assigned: &Assigned) -> Option<bool> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &assigned.namespace);
    let authority =
        secrets.get_opt(&format!("{}-ca", assigned.cluster)).await.ok()??.data?.remove("tls.crt")?;
    let certificates = CertificateDer::pem_slice_iter(&authority.0);
    let certificates: Vec<_> = certificates.flatten().map(|certificate| certificate.to_vec()).collect();
    let server = format!("https://{}", SocketAddr::new(assigned.address, PORT));
    let mut config = Config::new(server.parse().ok()?);
    (config.root_cert, config.connect_timeout) = (Some(certificates), Some(WITHIN));
    let guest = kit::client::client(config).ok()?;
    let answer = tokio::time::timeout(ANSWERED_WITHIN, guest.apiserver_version()).await.ok()?;
    Some(answer.is_err_and(|error| is_of_another_authority(&error)))
}

/// Returns true if a connection failed because another CA has signed the server's certificate. All cluster CAs have the
/// same name, so an invalid signature also means another CA.
fn is_of_another_authority(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
            return matches!(why, CertificateError::UnknownIssuer | CertificateError::BadSignature);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source());
    }
    false
}

fn judge(probed: &[(bool, String, IpAddr)], foreign: &[Assigned]) -> Diagnosis {
    if !foreign.is_empty() {
        let named: Vec<_> = foreign.iter().map(ToString::to_string).collect();
        return FREE.warning(
            format!("port {PORT} answers with another cluster's certificate at {}", named.join(", ")),
            "Find the machine that has the address: two management clusters with the same pool give it to two clusters. Use a pool of addresses that no other management cluster has, and delete the newer cluster",
        );
    }
    let taken: Vec<_> = probed.iter().filter(|(answers, ..)| *answers).collect();
    if taken.is_empty() {
        return FREE.ok(format!("{} addresses were probed", probed.len()));
    }
    let named: Vec<_> =
        taken.iter().map(|(_, pool, address)| format!("{address} of GlobalInClusterIPPool {pool}")).collect();
    FREE.warning(
        format!("port {PORT} answers at {}, and no cluster here has the address", named.join(", ")),
        "Remove the address from the pool, or end the program that uses it. A new control plane would get it",
    )
}

#[cfg(test)]
mod tests {
    use api::ipam::InClusterIpPoolStatusAddresses;
    use kit::diagnosis::CheckOutcome;

    use super::*;

    #[test]
    fn a_pool_without_a_free_address_is_named() {
        let status = |free: i64, used: i64| InClusterIpPoolStatus {
            ip_addresses: Some(InClusterIpPoolStatusAddresses { total: free + used, used, free }),
        };
        let (room, full) = (status(2, 3), status(0, 3));
        let judged = |status: Option<&InClusterIpPoolStatus>| {
            let roomy = ("GlobalInClusterIPPool others".to_owned(), Some(&room));
            judge_room(&[roomy, ("GlobalInClusterIPPool control-planes".to_owned(), status)])
        };
        assert_eq!(judged(Some(&room)).outcome, CheckOutcome::Ok);
        assert_eq!(judged(None).outcome, CheckOutcome::Ok, "the provider has not read it yet");
        let found = judged(Some(&full));
        assert_eq!(found.outcome, CheckOutcome::Warning);
        assert_eq!(found.found, "GlobalInClusterIPPool control-planes has no free address, 3 are in use");
    }

    fn addresses(list: &[&str]) -> BTreeSet<IpAddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_assigned_next_is_probed() {
        let free = |ranges: &[&str], used: &[&str]| {
            let ranges: Vec<_> = ranges.iter().map(|range| (*range).to_owned()).collect();
            let free = free(&ranges, &addresses(used), Some("10.0.0.1".parse().unwrap()));
            free.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            free(&["10.0.0.1-10.0.0.4", "10.0.1.9"], &["10.0.0.3"]),
            ["10.0.0.2", "10.0.0.4", "10.0.1.9"]
        );
        assert_eq!(
            free(&["10.0.2.0/30", "10.0.3.4/32", "10.0.4.2/31"], &[]),
            ["10.0.2.1", "10.0.2.2", "10.0.3.4", "10.0.4.2", "10.0.4.3"]
        );
        assert_eq!(free(&["10.0.0.0/8"], &[]).len(), MOST);
        assert!(free(&["fd00::1-fd00::9", "fd00::/64", "text", "10.0.0.9-10.0.0.2"], &[]).is_empty());
    }

    #[test]
    fn an_address_that_answers_is_named_with_its_pool() {
        let probed = |answers| vec![(answers, "control-planes".to_owned(), "10.0.0.2".parse().unwrap())];
        assert_eq!(judge(&probed(false), &[]).outcome, CheckOutcome::Ok);
        let taken = judge(&probed(true), &[]);
        assert_eq!(taken.outcome, CheckOutcome::Warning);
        assert!(taken.found.contains("10.0.0.2 of GlobalInClusterIPPool control-planes"), "{}", taken.found);
    }
    #[test]
    fn an_assigned_address_at_which_another_cluster_answers_is_named() {
        let assigned = Assigned {
            address: "10.0.0.2".parse().unwrap(),
            namespace: "dev".to_owned(),
            cluster: "two".to_owned(),
        };
        let foreign = judge(&[], &[assigned]);
        assert_eq!(foreign.outcome, CheckOutcome::Warning);
        let words = "answers with another cluster's certificate at 10.0.0.2 of Cluster dev/two";
        assert!(foreign.found.contains(words), "{}", foreign.found);
    }

    #[test]
    fn only_a_certificate_of_another_authority_is_foreign() {
        let refused = |why: CertificateError| {
            let tls = io::Error::other(rustls::Error::InvalidCertificate(why));
            is_of_another_authority(&kube::Error::Service(Box::new(tls)))
        };
        assert!(refused(CertificateError::UnknownIssuer));
        assert!(refused(CertificateError::BadSignature), "authorities of clusters have the same name");
        assert!(!refused(CertificateError::Expired));
        let gone = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert!(!is_of_another_authority(&kube::Error::Service(Box::new(gone))));
    }
}
