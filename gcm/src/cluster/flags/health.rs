//! Flags for node health: the time until a node counts as unhealthy, and the limits for replacements.

use clap::Args;

use crate::duration::parse_seconds;

/// The settings for node remediation. A change also applies to existing clusters, but doesn't replace nodes by itself.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct HealthFlags {
    /// Replace a machine whose node has not joined within this time.
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "2h", overrides_with = "node_startup_timeout")]
    pub node_startup_timeout: i32,
    /// Replace a node that has not reported its status for this time.
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "5m", overrides_with = "node_silent_timeout")]
    pub node_silent_timeout: i32,
    /// Replace a node that has reported that it is not ready for this time.
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "12m", overrides_with = "node_not_ready_timeout")]
    pub node_not_ready_timeout: i32,
    /// Replace nodes only while at most this share of a group is unhealthy. More unhealthy nodes point to a host or
    /// network problem, which new machines would have as well. In groups of one or two, one node can be unhealthy.
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "40%", overrides_with = "max_unhealthy")]
    pub max_unhealthy: String,
    /// Replace at most this number of nodes of a group within --remediation-window, even if the health checks of more nodes fail:
    /// new nodes would probably fail as well. 0: no limit.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(i32).range(0..), overrides_with = "max_remediations")]
    pub max_remediations: i32,
    /// The time for which a replacement counts for --max-remediations.
    #[arg(long, value_name = "DURATION", value_parser = seconds, default_value = "1h", overrides_with = "remediation_window")]
    pub remediation_window: i32,
}

impl Default for HealthFlags {
    fn default() -> Self {
        Self {
            node_startup_timeout: 2 * 60 * 60,
            node_silent_timeout: 5 * 60,
            node_not_ready_timeout: 12 * 60,
            max_unhealthy: "40%".to_owned(),
            max_remediations: 3,
            remediation_window: 60 * 60,
        }
    }
}

fn seconds(text: &str) -> Result<i32, String> {
    let seconds = parse_seconds(text).filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| "write a duration such as 5m or 1h30m".to_owned())
}

fn share(text: &str) -> Result<String, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<u8>().ok());
    let percent = percent.filter(|percent| *percent <= 100);
    percent.map(|percent| format!("{percent}%")).ok_or_else(|| "write a share such as 40%".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        health: HealthFlags,
    }

    #[test]
    fn times_and_limits_are_read_and_what_is_none_is_refused() {
        let read =
            |args: &[&str]| Program::try_parse_from([&["gcm"], args].concat()).map(|program| program.health);
        assert_eq!(read(&[]).unwrap(), HealthFlags::default());
        let given = read(&[
            "--node-silent-timeout=90s",
            "--node-startup-timeout=1h30m",
            "--max-unhealthy=100%",
            "--max-remediations=0",
        ]);
        let expected = HealthFlags {
            node_silent_timeout: 90,
            node_startup_timeout: 5400,
            max_unhealthy: "100%".to_owned(),
            max_remediations: 0,
            ..HealthFlags::default()
        };
        assert_eq!(given.unwrap(), expected);
        for wrong in [
            "--node-silent-timeout=0",
            "--node-not-ready-timeout=soon",
            "--max-unhealthy=140%",
            "--max-unhealthy=2",
            "--max-remediations=-1",
        ] {
            assert!(read(&[wrong]).is_err(), "{wrong}");
        }
    }
}
