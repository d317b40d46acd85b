//! A client for the QEMU Machine Protocol (QMP), which controls a running machine.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The maximum time to wait for a QMP message. Guests can be slow to release a disk.
const ANSWER: Duration = Duration::from_mins(1);

/// A QMP connection.
#[derive(Debug)]
pub struct Qmp {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Qmp {
    /// Connects to a QMP socket and negotiates capabilities.
    pub async fn connect(socket: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
        let (read, write) = stream.into_split();
        let mut control = Self { lines: BufReader::new(read).lines(), write };
        control.message().await?;
        control.execute("qmp_capabilities", json!({})).await?;
        Ok(control)
    }

    /// Executes a command and waits for its result.
    pub async fn execute(&mut self, command: &str, arguments: Value) -> Result<(), String> {
        self.send(command, &arguments).await?;
        while !is_answer(command, &self.message().await?)? {}
        Ok(())
    }

    /// Unplugs a device and waits until the guest has released it. QEMU may send the event for the release before the
    /// command's result.
    pub async fn remove_device(&mut self, id: &str) -> Result<(), String> {
        const COMMAND: &str = "device_del";
        self.send(COMMAND, &json!({"id": id})).await?;
        let (mut answered, mut gone) = (false, false);
        while !(answered && gone) {
            let message = self.message().await?;
            answered |= is_answer(COMMAND, &message)?;
            gone |= message["event"] == "DEVICE_DELETED" && message["data"]["device"] == id;
        }
        Ok(())
    }

    async fn send(&mut self, command: &str, arguments: &Value) -> Result<(), String> {
        let line = json!({"execute": command, "arguments": arguments}).to_string() + "\n";
        self.write.write_all(line.as_bytes()).await.map_err(|error| error.to_string())
    }

    async fn message(&mut self) -> Result<Value, String> {
        let line = tokio::time::timeout(ANSWER, self.lines.next_line()).await;
        let line =
            line.map_err(|_| "the machine does not answer".to_owned())?.map_err(|error| error.to_string())?;
        let line = line.ok_or("the machine has ended")?;
        serde_json::from_str(&line).map_err(|error| error.to_string())
    }
}

/// Returns true if a message is the command's result, and false for an event. Returns QEMU's error if the command failed.
fn is_answer(command: &str, message: &Value) -> Result<bool, String> {
    match message["error"]["desc"].as_str() {
        Some(error) => Err(format!("{command}: {error}")),
        None => Ok(message.get("return").is_some()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// Runs `remove_device` against a fake QEMU that sends these messages.
    async fn removed(messages: &[Value]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("qmp");
        let listener = UnixListener::bind(&socket).unwrap();
        let machine = async {
            let (stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.into_split();
            let mut commands = BufReader::new(read).lines();
            write.write_all(b"{\"QMP\": {}}\n").await.unwrap();
            commands.next_line().await.unwrap();
            write.write_all(b"{\"return\": {}}\n").await.unwrap();
            commands.next_line().await.unwrap();
            for message in messages {
                write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            }
        };
        let remove = async { Qmp::connect(&socket).await?.remove_device("disk1").await };
        tokio::join!(machine, remove).1
    }

    #[tokio::test]
    async fn a_device_goes_before_or_after_the_answer() {
        let event = |device: &str| json!({"event": "DEVICE_DELETED", "data": {"device": device}});
        let answer = json!({"return": {}});
        removed(&[event("disk1"), answer.clone()]).await.unwrap();
        removed(&[event("disk0"), answer.clone(), event("disk1")]).await.unwrap();
        assert_eq!(removed(&[answer, event("disk0")]).await.unwrap_err(), "the machine has ended");
        let error = json!({"error": {"class": "DeviceNotFound", "desc": "Device 'disk1' not found"}});
        assert_eq!(removed(&[error]).await.unwrap_err(), "device_del: Device 'disk1' not found");
    }
}
