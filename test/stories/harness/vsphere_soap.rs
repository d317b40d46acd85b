//! A minimal SOAP client for vCenter, independent of our own client.

use std::collections::BTreeMap;

use layercake::local::session::StackSession;
use quick_xml::events::Event;
use quick_xml::reader::Reader;

/// Reads a VM's ExtraConfig over SOAP.
pub async fn extra_config(session: &StackSession, moid: &str) -> BTreeMap<String, String> {
    let ca = std::fs::read(&session.vcenter.ca_file).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).unwrap()])
        .build()
        .unwrap();
    let password = session.vcenter.password().unwrap();
    let login = format!(
        "<Login xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager</_this>\
         <userName>{}</userName><password>{password}</password></Login>",
        session.vcenter.username
    );
    let (cookie, _) = call(&client, session, None, &login).await;
    let retrieve = format!(
        "<RetrievePropertiesEx xmlns=\"urn:vim25\"><_this type=\"PropertyCollector\">propertyCollector</_this>\
         <specSet><propSet><type>VirtualMachine</type><pathSet>config.extraConfig</pathSet></propSet>\
         <objectSet><obj type=\"VirtualMachine\">{moid}</obj></objectSet></specSet><options/></RetrievePropertiesEx>"
    );
    let (_, answer) = call(&client, session, cookie.as_deref(), &retrieve).await;
    let logout = "<Logout xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager</_this></Logout>";
    call(&client, session, cookie.as_deref(), logout).await;
    pairs(&answer)
}

async fn call(
    client: &reqwest::Client,
    session: &StackSession,
    cookie: Option<&str>,
    body: &str,
) -> (Option<String>, String) {
    let envelope = format!(
        "<?xml version=\"1.0\"?><Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body>{body}</Body></Envelope>"
    );
    let mut request =
        client.post(session.vcenter.url()).header("SOAPAction", "urn:vim25/8.0.3.0").body(envelope);
    if let Some(cookie) = cookie {
        request = request.header("Cookie", cookie);
    }
    let response = request.send().await.unwrap();
    let cookie = response.headers().get("set-cookie").and_then(|value| value.to_str().ok());
    let cookie = cookie.and_then(|value| value.split(';').next()).map(str::to_owned);
    let status = response.status();
    let text = response.text().await.unwrap();
    assert!(status.is_success(), "{status}: {text}");
    (cookie, text)
}

/// Returns the pairs of key and value elements.
fn pairs(answer: &str) -> BTreeMap<String, String> {
    let mut reader = Reader::from_str(answer);
    let (mut pairs, mut key, mut element) = (BTreeMap::new(), String::new(), String::new());
    let mut text = String::new();
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                element = String::from_utf8_lossy(start.local_name().as_ref().as_bytes()).into_owned();
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.xml10_content()),
            Event::End(_) => {
                match element.as_str() {
                    "key" => key = std::mem::take(&mut text),
                    "value" => drop(pairs.insert(std::mem::take(&mut key), std::mem::take(&mut text))),
                    _ => {}
                }
                element.clear();
            }
            Event::Eof => return pairs,
            _ => {}
        }
    }
}
