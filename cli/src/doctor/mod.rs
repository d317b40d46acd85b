//! `layercake doctor`: finds problems that would keep clusters from coming up.
//!
//! Checks are read-only. Each check has a stable code, and reports a finding and a remedy. Checks for the VM operator
//! and vCenter are in [`vmop::doctor`]; this module checks Kubernetes, Cluster API, node images, addresses and
//! manifests.

mod endpoints;
pub mod explain;
mod given;
mod installation;
mod manifest;
mod node_images;
mod print;
mod record;
mod select;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Result, bail};
use kit::diagnosis::{Check, CheckOutcome, Diagnosis};
use kube::Client;

use crate::args::{Doctor, DoctorOutput, FailOn};
use crate::files::read_text;
use crate::terminal::exit::{ExitStatus, failed, status_of};
use crate::terminal::output::{say, write_out};
use record::Recording;
use select::CheckSelection;

/// Returns all checks sorted by code.
pub fn checks() -> Vec<Check> {
    let mut all: Vec<Check> =
        [installation::ALL, vmop::doctor::CHECKS, node_images::ALL, endpoints::ALL, manifest::ALL].concat();
    all.sort_by_key(|check| check.code);
    all
}

/// Runs the checks and prints the findings.
pub async fn run(args: Doctor) -> ExitStatus {
    if let Some(code) = &args.explain {
        return status_of(explain_code(code));
    }
    match diagnose(&args).await {
        Ok((found, recorded)) => {
            write_out(&match args.output {
                DoctorOutput::Table => print::table(&found),
                DoctorOutput::Short => print::short(&found),
                DoctorOutput::Json => print::json(&found),
                DoctorOutput::Junit => print::junit(&found),
            });
            match recorded {
                Some(Err(error)) => return failed(&error),
                Some(Ok(recording)) => say!("recording {recording}"),
                None => {}
            }
            status(&found, args.fail_on)
        }
        Err(error) => failed(&error),
    }
}

fn explain_code(code: &str) -> Result<()> {
    let checks = checks();
    let named = checks.iter().find(|check| check.code.eq_ignore_ascii_case(code));
    let Some(text) = named.and_then(|check| explain::explain(*check)) else {
        let codes: Vec<_> = checks.iter().map(|check| check.code).collect();
        let codes = codes.join(", ");
        let message = format!("--explain {code}: there is no such check. The checks are {codes}");
        return Err(ExitStatus::Usage.error(message));
    };
    write_out(&text);
    Ok(())
}

fn status(found: &[Diagnosis], fail_on: FailOn) -> ExitStatus {
    let least = match fail_on {
        FailOn::Error => CheckOutcome::Error,
        FailOn::Warning => CheckOutcome::Warning,
    };
    if found.iter().any(|diagnosis| diagnosis.outcome >= least) {
        ExitStatus::Failed
    } else {
        ExitStatus::Done
    }
}

/// Runs the selected checks. With `--record`, also writes the recording and returns a line about it.
async fn diagnose(args: &Doctor) -> Result<(Vec<Diagnosis>, Option<Result<String>>)> {
    let selection = CheckSelection::new(&checks(), &args.only, &args.skip)?;
    let client = args.operator.cluster.client().await?;
    let recording = args.record.as_deref().map(Recording::begin).transpose()?;
    let mut options = args.operator.doctor_options()?;
    options.recorder = recording.as_ref().map(Recording::recorder).unwrap_or_default();
    let read = |path: &PathBuf| Ok((path.clone(), read_text(path)?));
    let manifests = args.manifests.iter().map(read).collect::<Result<Vec<_>>>()?;
    let found = find(&client, &options, &manifests, |check| selection.has(check)).await;
    if found.is_empty() {
        bail!("--only and --skip exclude all checks");
    }
    Ok((found, recording.map(Recording::finish)))
}

/// Runs all checks, and returns the problems and a summary line as text.
pub async fn problems(client: &Client, options: &vmop::doctor::Options) -> String {
    print::short(&findings(client, options).await)
}

/// Runs all checks.
pub async fn findings(client: &Client, options: &vmop::doctor::Options) -> Vec<Diagnosis> {
    find(client, options, &[], |_| true).await
}

async fn find(
    client: &Client,
    options: &vmop::doctor::Options,
    manifests: &[(PathBuf, String)],
    wanted: impl Fn(Check) -> bool,
) -> Vec<Diagnosis> {
    let (mut found, vcenter, of_images, of_endpoints, of_manifests) = tokio::join!(
        Box::pin(installation::check(client)),
        async {
            let any = vmop::doctor::CHECKS.iter().any(|check| wanted(*check));
            if any { Box::pin(vmop::doctor::diagnose(client, options, &wanted)).await } else { Vec::new() }
        },
        node_images::check(client),
        async {
            let is_wanted = endpoints::ALL.iter().any(|check| wanted(*check));
            if is_wanted { Box::pin(endpoints::check(client)).await } else { Vec::new() }
        },
        manifest::check(client, manifests),
    );
    found.extend(vcenter);
    found.push(of_images);
    found.extend(of_endpoints);
    found.extend(of_manifests);
    found.retain(|diagnosis| wanted(diagnosis.check));
    found.sort_by_key(|diagnosis| diagnosis.check.code);
    found
}
