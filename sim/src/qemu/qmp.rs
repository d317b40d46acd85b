//! QEMU's control of a machine that runs (the QEMU Machine Protocol).

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// How long a machine may take to answer; a guest that is asked to let a disk go takes its time.
const ANSWER: Duration = Duration::from_mins(1);

/// A connection to a machine's control.
#[derive(Debug)]
pub struct Qmp {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Qmp {
    /// Connects to the machine of that socket.
    pub async fn connect(socket: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
        let (read, write) = stream.into_split();
        let mut control = Self { lines: BufReader::new(read).lines(), write };
        control.message().await?;
        control.execute("qmp_capabilities", json!({})).await?;
        Ok(control)
    }

    /// Carries out a command.
    pub async fn execute(&mut self, command: &str, arguments: Value) -> Result<(), String> {
        let line = json!({"execute": command, "arguments": arguments}).to_string() + "\n";
        self.write.write_all(line.as_bytes()).await.map_err(|error| error.to_string())?;
        loop {
            let message = self.message().await?;
            if let Some(error) = message["error"]["desc"].as_str() {
                return Err(format!("{command}: {error}"));
            }
            if message.get("return").is_some() {
                return Ok(());
            }
        }
    }

    /// Takes a device out, and waits until the guest has let it go.
    pub async fn remove_device(&mut self, id: &str) -> Result<(), String> {
        self.execute("device_del", json!({"id": id})).await?;
        loop {
            let message = self.message().await?;
            if message["event"] == "DEVICE_DELETED" && message["data"]["device"] == id {
                return Ok(());
            }
        }
    }

    async fn message(&mut self) -> Result<Value, String> {
        let line = tokio::time::timeout(ANSWER, self.lines.next_line()).await;
        let line =
            line.map_err(|_| "the machine does not answer".to_owned())?.map_err(|error| error.to_string())?;
        let line = line.ok_or("the machine has ended")?;
        serde_json::from_str(&line).map_err(|error| error.to_string())
    }
}
