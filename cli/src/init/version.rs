//! `layercake version`: the versions of this command and the components that it installs.

use anyhow::{Context as _, Result};
use components::catalogue::{CLUSTER_API, IPAM, LAYERCAKE};
use gcm::release::resolution::{OLDEST, SUPPORTED};
use serde_json::json;

use crate::args::Output;
use crate::terminal::output::{write_json, write_out};

/// The commit that a release was built from.
const COMMIT: Option<&str> = option_env!("LAYERCAKE_COMMIT");

/// Prints the versions as a table or as JSON.
///
/// # Errors
/// Returns an error if the document can't be serialized.
pub fn print(output: Option<Output>) -> Result<()> {
    let ((oldest_major, oldest), (newest_major, newest)) = (OLDEST, *SUPPORTED.end());
    let clusters = format!("v{oldest_major}.{oldest} to v{newest_major}.{newest}");
    if output == Some(Output::Json) {
        let document = json!({
            "schema": 1, "layercake": LAYERCAKE, "commit": COMMIT, "clusterApi": CLUSTER_API, "ipamInCluster": IPAM, "kubernetes": clusters,
        });
        return write_json(&document).context("cannot write JSON");
    }
    let own = COMMIT.map_or_else(|| LAYERCAKE.to_owned(), |commit| format!("{LAYERCAKE} (commit {commit})"));
    let rows = [
        ("layercake, gcm, capw, vmop", own.as_str()),
        ("Cluster API", CLUSTER_API),
        ("IPAM provider in-cluster", IPAM),
        ("Kubernetes of clusters", &clusters),
    ];
    let lines: Vec<_> = rows.iter().map(|(what, version)| format!("{what:<28}{version}\n")).collect();
    write_out(&lines.concat());
    Ok(())
}
