//! A TCP load balancer: forwards connections from a Service address to the Service's endpoints.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use parking_lot::RwLock;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

const DIAL_DEADLINE: Duration = Duration::from_secs(2);

/// A listening address and port with its backends.
///
/// Dropping it closes the port. Open connections last until one of their peers closes them.
#[derive(Debug)]
pub struct VirtualServer {
    backends: Arc<RwLock<Vec<SocketAddr>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl VirtualServer {
    /// Listens on `address:port`, at first without backends.
    pub async fn listening(address: Ipv4Addr, port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, port)).await?;
        let backends = Arc::new(RwLock::new(Vec::new()));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&backends)));
        Ok(Self { backends, _accepting: AbortOnDropHandle::new(accepting) })
    }

    /// Replaces the backends for new connections. Open connections keep their backends.
    pub fn set_backends(&self, backends: Vec<SocketAddr>) {
        *self.backends.write() = backends;
    }
}

async fn accept(mut listener: TcpListener, backends: Arc<RwLock<Vec<SocketAddr>>>) {
    let mut turn = 0_usize;
    loop {
        // The trait's `accept` waits and tries again if the process runs out of file descriptors.
        let (client, _) = Listener::accept(&mut listener).await;
        let mut candidates = backends.read().clone();
        if !candidates.is_empty() {
            let first = turn % candidates.len();
            candidates.rotate_left(first);
        }
        turn = turn.wrapping_add(1);
        tokio::spawn(carry(client, candidates));
    }
}

/// Connects a client to the first backend that accepts the connection, and forwards data until the connection ends.
async fn carry(mut client: TcpStream, backends: Vec<SocketAddr>) {
    for backend in backends {
        if join(&mut client, backend).await {
            return;
        }
    }
}

/// Forwards data between client and server until the connection ends. Returns false if the server can't be reached.
pub(super) async fn join(client: &mut TcpStream, server: SocketAddr) -> bool {
    let Ok(Ok(mut server)) = tokio::time::timeout(DIAL_DEADLINE, TcpStream::connect(server)).await else {
        return false;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    // An error only means that one side closed the connection.
    let _ = tokio::io::copy_bidirectional(client, &mut server).await;
    true
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_dead_backend_is_passed_over() {
        let alive = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dead = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let probe = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = probe.local_addr().unwrap().port();
        drop(probe);
        let server = VirtualServer::listening(Ipv4Addr::LOCALHOST, port).await.unwrap();
        server.set_backends(vec![dead, alive.local_addr().unwrap()]);
        let answer = tokio::spawn(async move {
            let (mut socket, _) = alive.accept().await.unwrap();
            socket.write_all(b"hello").await.unwrap();
        });
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        answer.await.unwrap();
        assert_eq!(text, "hello");
    }
}
