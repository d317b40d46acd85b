//! Forwards connections without reading their content. Only the bytes and the time are limited.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, copy, split};
use tokio::time::timeout;

/// Forwards bytes in both directions until either side ends, the cluster sends more than `most` bytes, or `time` has passed.
///
/// # Errors
/// Returns an error if the cluster sends more than `most` bytes. The first `most` bytes are forwarded.
pub async fn pass<M, G>(manager: M, guest: G, most: u64, time: Option<Duration>) -> io::Result<()>
where
    M: AsyncRead + AsyncWrite + Unpin,
    G: AsyncRead + AsyncWrite + Unpin,
{
    let ((mut from_manager, mut to_manager), (from_guest, mut to_guest)) = (split(manager), split(guest));
    let passing = async {
        tokio::select! {
            // If one direction ends, end both: a tunnel that stays half open wouldn't be noticed.
            _ = copy(&mut from_manager, &mut to_guest) => false,
            exceeded = copy_at_most(most, from_guest, &mut to_manager) => exceeded,
        }
    };
    let exceeded = match time {
        Some(time) => timeout(time, passing).await.unwrap_or_default(),
        None => passing.await,
    };
    if exceeded {
        return Err(io::Error::other(format!("it sent more than {most} bytes through a tunnel")));
    }
    Ok(())
}

/// Copies up to `most` bytes until `from` ends. Returns true if `from` has more bytes.
async fn copy_at_most<R, W>(most: u64, from: R, to: &mut W) -> bool
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut limited = from.take(most);
    let is_full = copy(&mut limited, to).await.is_ok() && limited.limit() == 0;
    is_full && limited.into_inner().read(&mut [0]).await.is_ok_and(|read| read > 0)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    /// Returns the number of bytes that reached the manager after the cluster sent `sent` bytes with a limit of `most` bytes, and
    /// the tunnel's result.
    async fn pass_through(sent: usize, most: u64) -> (usize, io::Result<()>) {
        let (mut manager, to_manager) = duplex(1 << 20);
        let (mut guest, to_guest) = duplex(1 << 20);
        guest.write_all(&vec![7; sent]).await.unwrap();
        guest.shutdown().await.unwrap();
        let passed = pass(to_manager, to_guest, most, None).await;
        let mut received = Vec::new();
        manager.read_to_end(&mut received).await.unwrap();
        (received.len(), passed)
    }

    #[tokio::test]
    async fn a_cluster_sends_as_much_as_it_may() {
        for sent in [99, 100] {
            let (received, passed) = pass_through(sent, 100).await;
            assert_eq!(received, sent);
            passed.unwrap();
        }
        let (received, passed) = pass_through(5000, 100).await;
        assert_eq!(received, 100);
        assert!(passed.unwrap_err().to_string().contains("more than 100 bytes"));
    }

    #[tokio::test]
    async fn a_tunnel_ends_with_its_time() {
        let ((_manager, to_manager), (_guest, to_guest)) = (duplex(64), duplex(64));
        pass(to_manager, to_guest, 100, Some(Duration::from_millis(10))).await.unwrap();
    }
}
