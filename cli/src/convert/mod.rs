//! `layercake convert`: converts a Tanzu Kubernetes Grid cluster configuration file to a TanzuKubernetesCluster.
//!
//! [`variables`] lists the variables with their destinations, and [`cluster`] writes the manifest and reports the
//! outcome for each variable. The conversion doesn't connect to a cluster. The report never contains values, because
//! files contain passwords.

mod cluster;
mod settings;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use bounds::{Budget, YamlError, from_yaml, printable};
use serde_json::Value;

use crate::args::{Convert, DryRun};
use crate::clusters::apply_manifest;
use crate::files::read_text_or_input;
use crate::kube::manifest::{ManifestFile, yaml};
use crate::terminal::exit::{ExitStatus, failed};
use crate::terminal::output::{write_err, write_out};
use cluster::{InvalidConfiguration, OutcomeKind, VariableOutcome};
use variables::Variables;

/// The memory limit for reading a file, in bytes.
const READ_BYTES: usize = 64 << 20;
/// The maximum length of a name in the report, in characters.
const SHOWN: usize = 64;

/// Prints the manifest to standard output, and the outcome for each variable to standard error. Then applies the
/// manifest if the flags ask for it.
pub async fn run(args: &Convert) -> ExitStatus {
    let (manifest, report) = match read(&args.config).and_then(|text| compose(&text, args)) {
        Ok(converted) => converted,
        Err(error) => return failed(&error),
    };
    write_err(&report);
    // With `-o json`, standard output has only the JSON document.
    if args.flags.change.output.is_none() {
        write_out(&manifest);
    }
    // The conversion includes the checks of a dry run on the client.
    if !args.apply || args.flags.dry_run == Some(DryRun::Client) {
        return ExitStatus::Done;
    }
    let name = format!("the manifest from {}", args.config.display());
    apply_manifest(ManifestFile { name, text: manifest }, &args.flags).await
}

fn read(path: &Path) -> Result<String> {
    let text = read_text_or_input(path);
    text.map_err(|error| ExitStatus::Usage.error(format!("cannot read {}: {error}", path.display())))
}

/// Returns the manifest as YAML, and the report.
fn compose(text: &str, args: &Convert) -> Result<(String, String)> {
    let file = args.config.display();
    let variables = read_variables(text)
        .map_err(|reason| ExitStatus::Usage.error(format!("configuration file {file}: {reason}")))?;
    let (manifest, outcomes) =
        cluster::convert(&variables, args).map_err(|InvalidConfiguration(faults)| {
            ExitStatus::Refused
                .error(format!("configuration file {file} cannot be converted:\n{}", faults.join("\n")))
        })?;
    Ok((yaml(&[manifest])?, report(&outcomes, args.apply)))
}

/// Returns the variables in a file with secrets redacted, or the reason why the file can't be read. The reason doesn't
/// quote values.
fn read_variables(text: &str) -> Result<Variables, String> {
    // Parse values as strings, so that numbers such as 1.30 keep their digits.
    let texts = from_yaml::<BTreeMap<String, Option<String>>>(text, &Budget::new(READ_BYTES));
    if let Ok(texts) = texts
        && !texts.is_empty()
    {
        let redact = |(name, value): (String, Option<String>)| {
            let value = variables::redact(&name, value.unwrap_or_default());
            (name, value)
        };
        return Ok(texts.into_iter().map(redact).collect());
    }
    match from_yaml::<Value>(text, &Budget::new(READ_BYTES)) {
        Err(error @ YamlError::Invalid { .. }) => Err(format!("it {error}")),
        Err(error @ YamlError::Exceeded(_)) => Err(error.to_string()),
        Ok(Value::Object(values)) => {
            let nested = values.iter().filter(|(_, value)| value.is_object() || value.is_array());
            let names: Vec<_> = nested.map(|(name, _)| printable(name, SHOWN)).collect();
            Err(match names.as_slice() {
                [] => "it has no variables, or values that are not texts".to_owned(),
                names => format!(
                    "the value of {} is a mapping or a list. Write it as one text, in quotes",
                    names.join(", ")
                ),
            })
        }
        Ok(Value::Null) => Err("it has no variables".to_owned()),
        Ok(_) => Err("it is not a mapping of variables, such as CLUSTER_NAME: dev".to_owned()),
    }
}

/// Formats a line for each variable. Adds the next command, unless the manifest is applied now.
fn report(outcomes: &[VariableOutcome], applies: bool) -> String {
    let names = outcomes.iter().map(|outcome| printable(&outcome.name, SHOWN));
    let width = names.map(|name| name.chars().count()).max().unwrap_or_default();
    let mut report = String::new();
    for VariableOutcome { name, kind, detail } in outcomes {
        let name = printable(name, SHOWN);
        let _ = match kind {
            OutcomeKind::Used => writeln!(report, "used       {name:<width$}  {detail}"),
            OutcomeKind::Elsewhere => writeln!(report, "elsewhere  {name:<width$}  {detail}"),
            OutcomeKind::LeftOut => writeln!(report, "left out   {name:<width$}  {detail}"),
            OutcomeKind::Unknown => writeln!(report, "warning: {name} is unknown and has no effect"),
        };
    }
    if !applies {
        report.push_str("Nothing was created. Next: layercake apply -f\n");
    }
    report
}
