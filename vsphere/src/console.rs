//! Access to a VM's console.

use crate::error::unexpected;
use crate::{Client, MoRef, Object, Result, Secret, Value};

const METHOD: &str = "AcquireTicket";

impl Client {
    /// Returns the URL of a VM's console. The URL authorizes one connection without a login, so it is a [`Secret`].
    ///
    /// The VM must be powered on.
    pub async fn acquire_console_url(&self, vm: &MoRef) -> Result<Secret> {
        let args = Object::new("AcquireTicketRequestType").with("ticketType", "webmks");
        let ticket = self.call(vm, METHOD, Some(args)).await?;
        build_url(&ticket).ok_or_else(|| unexpected(METHOD, "neither a URL nor a ticket").on(vm))
    }
}

/// Returns a ticket's URL. Before 7.0 U3, tickets don't contain a URL, so the URL is built from the host, the port and
/// the ticket.
fn build_url(ticket: &Value) -> Option<Secret> {
    let text = |name: &str| ticket.get(name).as_str().filter(|text| !text.is_empty());
    if let Some(url) = text("url") {
        return Some(url.into());
    }
    let port = ticket.get("port").as_i64().unwrap_or(443);
    Some(format!("wss://{}:{port}/ticket/{}", text("host")?, text("ticket")?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_a_url() {
        let old =
            Object::new("VirtualMachineTicket").with("ticket", "abc").with("host", "esx-1").with("port", 902);
        assert_eq!(build_url(&old.clone().into()).unwrap().expose(), "wss://esx-1:902/ticket/abc");
        let new = old.with("url", "wss://esx-1:443/ticket/abc");
        assert_eq!(build_url(&new.into()).unwrap().expose(), "wss://esx-1:443/ticket/abc");
        assert!(build_url(&Object::new("VirtualMachineTicket").into()).is_none());
    }
}
