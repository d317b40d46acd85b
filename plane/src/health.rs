//! Checks the health of a process on this machine.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Checks that `GET path` on 127.0.0.1:`port` returns 200. Otherwise, the error is the last line of the response, or
/// the reason why the connection failed.
pub async fn answers(port: u16, path: &str) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(text)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = Vec::new();
    stream.take(4096).read_to_end(&mut answer).await.map_err(text)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.split_whitespace().nth(1) {
        Some("200") => Ok(()),
        _ => Err(answer.trim().lines().last().unwrap_or("no answer").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn only_200_is_healthy() {
        for (answer, outcome) in [
            ("HTTP/1.1 200 OK\r\n\r\nok", Ok(())),
            ("HTTP/1.1 500 Oops\r\n\r\nno lease", Err("no lease".to_owned())),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await;
                stream.write_all(answer.as_bytes()).await.unwrap();
            };
            assert_eq!(tokio::join!(answers(port, "/readyz"), server).0, outcome);
        }
    }
}
