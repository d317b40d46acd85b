//! Ends the wait for a cluster that is deleted, or whose API server doesn't respond.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::describe::Root;
use crate::describe::tree::Objects;
use crate::kube::reach::SILENCE;
use crate::terminal::exit::{ExitStatus, with_causes};
use crate::terminal::output::say;

/// The maximum time without a response. A restarted API server, or a laptop that wakes up, responds within this time.
const AWAY: Duration = Duration::from_mins(3);

/// Checks that the cluster exists and isn't being deleted.
///
/// # Errors
/// Returns an error if the cluster is deleted or being deleted, because waiting for it is pointless.
pub fn check_exists(root: Root, objects: &Objects, namespace: &str, name: &str) -> Result<()> {
    let kind = root.kind();
    let cluster = objects.get(kind).and_then(|all| all.first());
    let what = match cluster.map(|cluster| &cluster.metadata.deletion_timestamp) {
        Some(None) => return Ok(()),
        Some(Some(_)) => "is being deleted",
        None => "was deleted",
    };
    Err(ExitStatus::Failed.error(format!(
        "{kind} {namespace}/{name} {what} while this command waited for it. To create it again, apply its manifest when `layercake delete {name} -n {namespace}` is done"
    )))
}

/// The time since the first in a series of failed reads.
#[derive(Debug, Default)]
pub struct Silence {
    since: Option<Instant>,
    mentioned: bool,
}

impl Silence {
    /// Records the result of a read at time `now`. Returns `None` if the read failed, and prints the reason once if
    /// reads fail for some seconds.
    ///
    /// # Errors
    /// Returns an error if reads fail for three minutes.
    pub fn note<T>(&mut self, read: Result<T>, now: Instant) -> Result<Option<T>> {
        let error = match read {
            Ok(found) => {
                *self = Self::default();
                return Ok(Some(found));
            }
            Err(error) => error,
        };
        let silent = now.saturating_duration_since(*self.since.get_or_insert(now));
        if silent > AWAY {
            return Err(error.context(format!(
                "no answer for {} s. The work continues when the API server is back. Then run the same command again",
                silent.as_secs()
            )));
        }
        if silent > SILENCE && !self.mentioned {
            self.mentioned = true;
            say!("waiting: {}", with_causes(&error));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_that_is_deleted_ends_the_wait() {
        let with = |metadata: serde_json::Value| {
            let object =
                json!({"apiVersion": "x/v1", "kind": "TanzuKubernetesCluster", "metadata": metadata});
            Objects::from([("TanzuKubernetesCluster", vec![serde_json::from_value(object).unwrap()])])
        };
        let check = |objects: &Objects| check_exists(Root::TanzuKubernetesCluster, objects, "dev", "a");
        check(&with(json!({"name": "a"}))).unwrap();
        let deleting = with(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let error = check(&deleting).unwrap_err().to_string();
        assert!(error.starts_with("TanzuKubernetesCluster dev/a is being deleted while "), "{error}");
        let error = check(&Objects::new()).unwrap_err().to_string();
        assert!(error.starts_with("TanzuKubernetesCluster dev/a was deleted while "), "{error}");
    }

    #[test]
    fn an_api_server_that_stays_away_ends_the_wait_and_one_that_comes_back_does_not() {
        let began = Instant::now();
        let mut silence = Silence::default();
        let mut note = |read: Result<()>, seconds| silence.note(read, began + Duration::from_secs(seconds));
        let away = || Err(anyhow::anyhow!("the API server https://x does not answer"));
        assert!(note(away(), 0).unwrap().is_none());
        assert!(note(away(), AWAY.as_secs()).unwrap().is_none());
        assert!(note(Ok(()), AWAY.as_secs() + 1).unwrap().is_some());
        assert!(note(away(), AWAY.as_secs() + 2).unwrap().is_none());
        let error = note(away(), 2 * AWAY.as_secs() + 3).unwrap_err();
        let text = with_causes(&error);
        assert!(
            text.starts_with("no answer for 181 s. ") && text.ends_with("https://x does not answer"),
            "{text}"
        );
    }
}
