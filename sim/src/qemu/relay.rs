//! A TCP relay from the machines' network to a server on this host.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use axum::serve::Listener;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Forwards TCP connections to a server on this host. Stops accepting connections on drop.
#[derive(Debug)]
pub struct Relay {
    _working: AbortOnDropHandle<()>,
}

impl Relay {
    /// Listens on the address `at`, on the same port as the server.
    pub async fn start(at: Ipv4Addr, server: SocketAddr) -> io::Result<Self> {
        let mut listener = TcpListener::bind((at, server.port())).await?;
        let working = tokio::spawn(async move {
            loop {
                // The trait's `accept` waits and tries again if the process runs out of file descriptors.
                let (mut client, _) = Listener::accept(&mut listener).await;
                tokio::spawn(async move {
                    // Ignore errors: both peers see that the connection closes.
                    if let Ok(mut server) = TcpStream::connect(server).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Ok(Self { _working: AbortOnDropHandle::new(working) })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connections_are_forwarded() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = server.local_addr().unwrap();
        let relay = Relay::start(Ipv4Addr::new(127, 0, 0, 9), address).await.unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::new(127, 0, 0, 9), address.port())).await.unwrap();
        client.write_all(b"ask").await.unwrap();
        let (mut accepted, _) = server.accept().await.unwrap();
        let mut asked = [0; 3];
        accepted.read_exact(&mut asked).await.unwrap();
        accepted.write_all(b"answer").await.unwrap();
        drop(accepted);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!((&asked, answer.as_str()), (b"ask", "answer"));
        drop(relay);
    }
}
