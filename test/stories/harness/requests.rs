//! A client that detects lost requests to a workload cluster's API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kube::{Client, Config};
use tokio::task::JoinSet;

/// Sends ten requests per second to the cluster's endpoint, each on a new connection, as separate commands do.
pub struct RequestProbe {
    sent: Arc<AtomicU32>,
    lost: Arc<std::sync::Mutex<Vec<String>>>,
    _task: JoinSet<()>,
}

impl RequestProbe {
    pub fn of(mut config: Config) -> Self {
        config.connect_timeout = Some(Duration::from_secs(10));
        config.read_timeout = Some(Duration::from_secs(10));
        let sent = Arc::<AtomicU32>::default();
        let lost = Arc::<std::sync::Mutex<Vec<String>>>::default();
        let (count, failures, began) = (Arc::clone(&sent), Arc::clone(&lost), Instant::now());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut beat = tokio::time::interval(Duration::from_millis(100));
            loop {
                beat.tick().await;
                count.fetch_add(1, Ordering::Relaxed);
                let client = Client::try_from(config.clone()).expect("a client");
                if let Err(error) = client.apiserver_version().await {
                    let at = began.elapsed().as_secs_f64();
                    failures.lock().unwrap().push(format!("after {at:.1} s: {error:?}"));
                }
            }
        });
        Self { sent, lost, _task: task }
    }

    pub fn assert_none_lost(&self) {
        let (sent, lost) = (self.sent.load(Ordering::Relaxed), self.lost.lock().unwrap().clone());
        eprintln!("{sent} requests, {} lost: {lost:#?}", lost.len());
        assert!(sent > 20 && lost.is_empty(), "{} of {sent} requests were lost: {lost:#?}", lost.len());
    }
}
