//! The facts that admission decides with: caches that a program fills when it starts.

use std::time::Duration;

use axum::http::Extensions;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::serve::Requirement;

/// The time that a review waits for facts. The API server waits at least five seconds for the answer.
const WAIT: Duration = Duration::from_secs(3);

/// Tells whether a program has read everything that its admission reviews are decided with. Clones share it.
#[derive(Clone)]
pub struct Facts {
    pub(super) known: watch::Receiver<bool>,
    pub(super) wait: Duration,
}

impl Facts {
    /// Facts that are read as soon as `complete` resolves. The program is not ready before.
    pub fn read_by(complete: impl Future<Output = ()> + Send + 'static, required: Requirement) -> Self {
        let (found, known) = watch::channel(false);
        tokio::spawn(async move {
            complete.await;
            required.met();
            found.send_replace(true);
        });
        Self { known, wait: WAIT }
    }

    /// Returns true once the facts are read, or false if that takes too long.
    async fn wait(&self) -> bool {
        let mut facts = self.known.clone();
        // An error means that the program ends.
        timeout(self.wait, facts.wait_for(|known| *known)).await.is_ok_and(|known| known.is_ok())
    }
}

/// Waits for the facts of the server that a request came through. Servers without facts need none.
pub(super) async fn wait_for_facts(extensions: &Extensions) -> bool {
    match extensions.get::<Facts>() {
        Some(facts) => facts.clone().wait().await,
        None => true,
    }
}
