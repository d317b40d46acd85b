//! Example command lines, which `--help` and docs/cli.md show.

use clap::{Command, CommandFactory as _};

use super::Cli;

/// Example command lines, by command. The tests in `test/stories` run each of them with other names.
pub const ALL: &[(&str, &[&str])] = &[
    ("up", &["layercake up -f examples/test-cluster.yaml", "layercake up --detach"]),
    ("down", &["layercake down"]),
    ("describe tkc", &["layercake describe tkc team -n dev"]),
    ("describe cluster", &["layercake describe cluster team -n dev --exit-status"]),
    ("describe vm", &["layercake describe vm web -n dev -o json"]),
    ("console", &["layercake console team-control-plane-x7k2p -n dev --follow"]),
    (
        "doctor",
        &[
            "layercake doctor",
            "layercake doctor -f cluster.yaml --fail-on warning",
            "layercake doctor --explain LC0302",
        ],
    ),
    ("bundle", &["layercake bundle -n dev --since 1h"]),
    ("lint", &["layercake lint cluster.yaml"]),
    (
        "site discover",
        &[
            "layercake site discover --vcenter vcenter.example.com --user layercake@vsphere.local --password-file password.txt > site.yaml",
        ],
    ),
    ("site simulate", &["layercake site simulate > site.yaml"]),
    ("site stop", &["layercake site stop"]),
    (
        "bootstrap start",
        &[
            "layercake bootstrap start lab -f site.yaml --user layercake@vsphere.local --password-file password.txt",
            "layercake bootstrap start lab",
        ],
    ),
    ("bootstrap stop", &["layercake bootstrap stop lab"]),
    ("bootstrap remove", &["layercake bootstrap remove lab"]),
    ("bootstrap list", &["layercake bootstrap list"]),
    (
        "init",
        &[
            "layercake init -f site.yaml --user layercake@vsphere.local --password-file password.txt",
            "layercake init --dry-run",
        ],
    ),
    ("init list-images", &["layercake init list-images --image-registry registry.example.com/mirror"]),
    (
        "manifests",
        &[
            "layercake manifests > management.yaml",
            "layercake manifests --component vmop --webhook-certificates own > vmop.yaml",
        ],
    ),
    ("uninstall", &["layercake uninstall --plan"]),
    (
        "apply",
        &[
            "layercake apply -f cluster.yaml -n dev",
            "layercake apply -f clusters/ --dry-run",
            "layercake apply -f cluster.yaml --release v1.36",
            "layercake apply -f cluster.yaml --bootstrap edge --site site.yaml --user layercake@vsphere.local --password-file password.txt",
        ],
    ),
    (
        "scale",
        &[
            "layercake scale team --replicas 5 -n dev",
            "layercake scale team --control-plane --replicas 3",
            "layercake scale edge --replicas 2 -n dev --bootstrap edge",
        ],
    ),
    (
        "upgrade",
        &["layercake upgrade team --release v1.36 --dry-run", "layercake upgrade team --release v1.36"],
    ),
    ("delete", &["layercake delete team -n dev --dry-run", "layercake delete team -n dev"]),
    (
        "move",
        &[
            "layercake move --bootstrap lab --to-context prod --dry-run",
            "layercake move --bootstrap lab --to-context prod",
        ],
    ),
    ("list", &["layercake list -A", "layercake list -n dev -o json"]),
    (
        "kubeconfig",
        &[
            "layercake kubeconfig team -n dev --merge",
            "layercake kubeconfig team --output-file team.kubeconfig",
        ],
    ),
    ("new cluster", &["layercake new cluster team -n dev > cluster.yaml"]),
    ("render", &["layercake render -f cluster.yaml -n dev"]),
    (
        "convert",
        &[
            "layercake convert team.yaml --release v1.36 --vm-class best-effort-large --storage-class gold -n dev > cluster.yaml",
            "layercake convert team.yaml --apply > cluster.yaml",
        ],
    ),
    ("version", &["layercake version -o json"]),
    ("completion", &["layercake completion bash"]),
    ("image build", &["layercake image build --kubernetes v1.36 --output-folder images"]),
    (
        "image import",
        &[
            "layercake image import images/debian-13-amd64-v1.36.3---layercake.1.ova --library releases --wait",
        ],
    ),
];

/// Returns the command line definition with the examples.
pub fn command() -> Command {
    with_examples(Cli::command(), "")
}

/// Returns the examples for a command. `path` names its subcommands, such as `site discover`.
pub fn of(path: &str) -> &'static [&'static str] {
    ALL.iter().find(|(of, _)| *of == path).map_or(&[], |(_, examples)| examples)
}

fn with_examples(command: Command, path: &str) -> Command {
    let below: Vec<_> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = below.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim_start().to_owned();
        command.mut_subcommand(name, |below| with_examples(below, &path))
    });
    match of(path) {
        [] => command,
        examples => command.after_help(format!("Examples:\n  {}", examples.join("\n  "))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn leaves(command: &Command, path: &str, found: &mut BTreeSet<String>) {
        if !command.is_subcommand_required_set() {
            found.insert(path.to_owned());
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            leaves(below, format!("{path} {}", below.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_examples_that_are_valid() {
        let mut commands = BTreeSet::new();
        leaves(&Cli::command(), "", &mut commands);
        let with: BTreeSet<_> = ALL.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(commands, with);
        for (path, examples) in ALL {
            for example in *examples {
                assert!(example.starts_with(&["layercake", path].join(" ")), "{example}");
                let words = example.split(" > ").next().unwrap().split(' ');
                let parsed = command().try_get_matches_from(words);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}
