//! Connections whose content is not read: only their bytes are limited.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, copy, split};
use tokio::time::timeout;

/// Forwards bytes in both directions until either side ends, the cluster has sent `most` bytes, or the time is over.
///
/// # Errors
/// The cluster sent more.
pub async fn pass<M, G>(manager: M, guest: G, most: u64, time: Option<Duration>) -> io::Result<()>
where
    M: AsyncRead + AsyncWrite + Unpin,
    G: AsyncRead + AsyncWrite + Unpin,
{
    let ((mut from_manager, mut to_manager), (from_guest, mut to_guest)) = (split(manager), split(guest));
    let mut from_guest = from_guest.take(most);
    let passing = async {
        tokio::select! {
            // What ends, ends both: halves that stay open would not be noticed.
            _ = copy(&mut from_manager, &mut to_guest) => {}
            _ = copy(&mut from_guest, &mut to_manager) => {}
        }
    };
    match time {
        Some(time) => timeout(time, passing).await.unwrap_or_default(),
        None => passing.await,
    }
    if from_guest.limit() > 0 {
        return Ok(());
    }
    Err(io::Error::other(format!("it sent more than {most} bytes through a tunnel")))
}
