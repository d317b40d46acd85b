//! The facts that admission needs for its decisions: caches that a program fills when it starts.

use std::time::Duration;

use axum::http::Extensions;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::serve::Requirement;

/// The time that a review waits for facts. The API server waits at least five seconds for a response.
const WAIT: Duration = Duration::from_secs(3);

/// Tells if a program has read everything that its admission decisions need. Clones share it.
#[derive(Clone)]
pub struct Facts {
    pub(super) known: watch::Receiver<bool>,
    pub(super) wait: Duration,
}

impl Facts {
    /// Creates facts that count as read once `complete` resolves. Until then, `required` keeps the program from being ready.
    pub fn read_by(complete: impl Future<Output = ()> + Send + 'static, required: Requirement) -> Self {
        let (found, known) = watch::channel(false);
        tokio::spawn(async move {
            complete.await;
            required.met();
            found.send_replace(true);
        });
        Self { known, wait: WAIT }
    }

    /// Returns true once the facts are read, or false after the timeout.
    async fn wait(&self) -> bool {
        let mut facts = self.known.clone();
        // An error means that the program shuts down.
        timeout(self.wait, facts.wait_for(|known| *known)).await.is_ok_and(|known| known.is_ok())
    }
}

/// Waits for the facts that belong to the request's server. Returns true at once if the server doesn't need facts.
pub(super) async fn wait_for_facts(extensions: &Extensions) -> bool {
    match extensions.get::<Facts>() {
        Some(facts) => facts.clone().wait().await,
        None => true,
    }
}
