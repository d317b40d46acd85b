//! Replays a recorded update stream in two parts to the client's inventory.

use std::collections::BTreeMap;
use std::time::Duration;

use replay::Exchange;
use support::wait::within;
use vsphere::untrusted::Decoded;
use vsphere::{Client, Config, Inventory, MoRef, ServerTrust, Value, Vm, WireChoice, inventory};

use super::recordings;
use super::server::{Reply, Server};

const FILE: &str = "manageiq/refresher.yml";

fn parts(exchanges: &[(usize, Exchange)]) -> Vec<Exchange> {
    let polls = exchanges.iter().map(|(_, exchange)| exchange);
    polls.filter(|exchange| exchange.call() == "WaitForUpdatesEx").cloned().collect()
}

/// Returns the object properties after all parts, read directly from the decoded parts.
fn expected(parts: &[Exchange]) -> BTreeMap<MoRef, BTreeMap<String, Value>> {
    let mut vms: BTreeMap<MoRef, BTreeMap<String, Value>> = BTreeMap::new();
    for part in parts {
        let Some(Decoded::Answer(set)) = part.decode() else { panic!("a part cannot be decoded") };
        let objects = set.get("filterSet").items().iter().flat_map(|filter| filter.get("objectSet").items());
        for update in objects {
            let object = update.get("obj").as_moref().unwrap().clone();
            assert_eq!(update.get("kind").as_str(), Some("enter"), "{object}");
            let properties = vms.entry(object).or_default();
            for change in update.get("changeSet").items() {
                let name = change.get("name").as_str().unwrap().to_owned();
                match change.get("op").as_str() {
                    Some("assign") => properties.insert(name, change.get("val").clone()),
                    Some("indirectRemove") => properties.remove(&name),
                    other => panic!("{other:?}"),
                };
            }
        }
    }
    vms
}

fn assert_same(vm: &Vm, shown: &BTreeMap<String, Value>) {
    let value = |name: &str| shown.get(name).unwrap_or(&Value::Null);
    assert_eq!(Some(vm.name.as_str()), value("name").as_str(), "{}", vm.moref);
    assert_eq!(vm.folder.as_ref(), value("parent").as_moref(), "{}", vm.moref);
    assert_eq!(vm.pool.as_ref(), value("resourcePool").as_moref(), "{}", vm.moref);
    assert_eq!(vm.hardware_version, value("config.version").as_str().unwrap_or_default(), "{}", vm.moref);
    let devices = value("config.hardware.device").items();
    let of_type = |part: &str| devices.iter().filter(|device| device.type_name() == part).count();
    let read = vm.devices.as_ref().unwrap();
    assert_eq!(read.disks.len(), of_type("VirtualDisk"), "{}", vm.moref);
    let nics = ["VirtualE1000", "VirtualE1000e", "VirtualVmxnet3", "VirtualVmxnet2", "VirtualPCNet32"];
    assert_eq!(read.nics.len(), nics.map(of_type).iter().sum::<usize>(), "{}", vm.moref);
}

/// Returns a closure that responds like the recorded server. After the last part, `WaitForUpdatesEx` never completes.
fn answer(parts: Vec<Exchange>, content: String) -> impl FnMut(&str, &str) -> Reply + Send + 'static {
    move |path, body| {
        let call = Exchange { path: path.to_owned(), request: body.to_owned(), ..Exchange::default() };
        let reference = |kind: &str, id: &str| {
            let call = call.call();
            Reply::Body(envelope(&format!(
                "<{call}Response xmlns=\"urn:vim25\"><returnval type=\"{kind}\">{id}</returnval></{call}Response>"
            )))
        };
        match (path, call.call()) {
            ("/sdk/vimServiceVersions.xml", _) => Reply::Body(VERSIONS.to_owned()),
            (_, "RetrieveServiceContent") => Reply::Body(content.clone()),
            (_, "Login") => Reply::Session(envelope(
                "<LoginResponse xmlns=\"urn:vim25\"><returnval><key>s</key></returnval></LoginResponse>",
            )),
            (_, "CreateContainerView") => reference("ContainerView", "session[1]1"),
            (_, "CreateListView") => reference("ListView", "session[1]2"),
            (_, "CreateFilter") => reference("PropertyFilter", "session[1]3"),
            (_, "WaitForUpdatesEx") => {
                let asked = body
                    .split_once("<version>")
                    .map_or("", |(_, rest)| rest.split('<').next().unwrap_or_default());
                let before = |part: &&Exchange| version_of(part).as_deref() == Some(asked);
                let next = if asked.is_empty() {
                    Some(0)
                } else {
                    parts.iter().position(|part| before(&part)).map(|at| at + 1)
                };
                match next.and_then(|at| parts.get(at)) {
                    Some(part) => Reply::Body(part.answer.clone()),
                    None => Reply::Never,
                }
            }
            _ => Reply::Body(envelope("<x xmlns=\"urn:vim25\"/>")),
        }
    }
}

fn version_of(part: &Exchange) -> Option<String> {
    let Some(Decoded::Answer(set)) = part.decode() else { return None };
    set.get("version").as_str().map(str::to_owned)
}

const VERSIONS: &str = "<namespaces version=\"1.0\"><namespace><name>urn:vim25</name><version>7.0.0.0</version></namespace></namespaces>";

fn envelope(body: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>{body}</e:Body></e:Envelope>"
    )
}

/// Follows the stream, waits until the inventory is complete, and returns it with the server.
async fn follow(parts: Vec<Exchange>, content: String) -> (Server, Inventory) {
    let server = Server::start(answer(parts, content)).await;
    let config = Config {
        port: server.port(),
        trust: ServerTrust::CaBundle(server.certificate().to_owned()),
        wire: WireChoice::Soap,
        ..Config::new("127.0.0.1", "user", "password")
    };
    let client = Client::connect(config).await.unwrap();
    let options = inventory::Options { burst: 100, pace: Duration::ZERO, ..inventory::Options::default() };
    let inventory = Inventory::start(client, vec![MoRef::folder("group-d1")], options);
    within("the inventory is complete", inventory.wait_until_complete()).await;
    (server, inventory)
}

#[tokio::test]
async fn a_recorded_stream_in_two_parts_is_followed_to_its_end() {
    let Some(folder) = recordings("a_recorded_stream_in_two_parts_is_followed_to_its_end") else { return };
    let file =
        folder.files.iter().find(|file| file.name == FILE).unwrap_or_else(|| panic!("{FILE} is missing"));
    let parts = parts(&file.exchanges);
    let objects = expected(&parts);
    let content = file.exchanges.iter().find(|(_, exchange)| exchange.call() == "RetrieveServiceContent");
    let (server, inventory) = follow(parts.clone(), content.unwrap().1.answer.clone()).await;

    let asked = server.asked("WaitForUpdatesEx");
    let versions: Vec<_> = parts.iter().map(|part| version_of(part).unwrap()).collect();
    assert_eq!(versions.len(), 2, "the recording has two parts");
    assert!(asked[1].contains(&format!("<version>{}</version>", versions[0])), "{}", asked[1]);
    let shown: BTreeMap<_, _> =
        objects.iter().filter(|(object, _)| object.kind() == "VirtualMachine").collect();
    let all = inventory.all();
    println!("{} objects in {} parts, {} of them VMs", objects.len(), parts.len(), shown.len());
    assert_eq!(all.len(), shown.len());
    for vm in all {
        assert_same(&vm, shown[&vm.moref]);
    }
}

/// vCenter sends a stream whose second part adds, changes and removes VMs from the first part.
#[tokio::test]
async fn the_second_part_of_a_stream_changes_what_the_first_one_showed() {
    let change = |name: &str, op: &str, val: &str| {
        format!("<changeSet><name>{name}</name><op>{op}</op>{val}</changeSet>")
    };
    let text = |value: &str| {
        format!(
            "<val xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\" i:type=\"xsd:string\">{value}</val>"
        )
    };
    let update = |kind: &str, id: &str, changes: &[String]| {
        format!(
            "<objectSet><kind>{kind}</kind><obj type=\"VirtualMachine\">{id}</obj>{}</objectSet>",
            changes.concat()
        )
    };
    let part = |version: &str, updates: &str, truncated: &str| Exchange {
        path: "/sdk".into(),
        status: 200,
        answer: envelope(&format!(
            "<WaitForUpdatesExResponse xmlns=\"urn:vim25\"><returnval><version>{version}</version><filterSet>\
             <filter type=\"PropertyFilter\">f</filter>{updates}</filterSet>{truncated}</returnval></WaitForUpdatesExResponse>"
        )),
        ..Exchange::default()
    };
    let named = |id: &str| {
        update(
            "enter",
            id,
            &[change("name", "assign", &text(id)), change("config.version", "assign", &text("vmx-19"))],
        )
    };
    // The client doesn't ask for hosts. A host must not become a VM.
    let host = named("host-1").replace("VirtualMachine", "HostSystem");
    let first = part("0_1", &[named("vm-1"), host, named("vm-2")].concat(), "<truncated>true</truncated>");
    let changed = update(
        "modify",
        "vm-1",
        &[change("name", "assign", &text("renamed")), change("config.version", "indirectRemove", "")],
    );
    let second = part("1", &[changed, update("leave", "vm-2", &[]), named("vm-3")].concat(), "");
    let content = envelope(
        "<RetrieveServiceContentResponse xmlns=\"urn:vim25\"><returnval><about><apiVersion>7.0.0.0</apiVersion></about>\
         <propertyCollector type=\"PropertyCollector\">p</propertyCollector><viewManager type=\"ViewManager\">v</viewManager>\
         </returnval></RetrieveServiceContentResponse>",
    );
    let (_server, inventory) = follow(vec![first, second], content).await;
    let mut vms: Vec<_> =
        inventory.all().iter().map(|vm| (vm.name.clone(), vm.hardware_version.clone())).collect();
    vms.sort();
    let expected = [("renamed".to_owned(), String::new()), ("vm-3".to_owned(), "vmx-19".to_owned())];
    // vCenter may unset a configuration that it can't read, so the inventory keeps the last known one.
    assert!(vms[1] == expected[1] && vms[0].0 == expected[0].0 && vms.len() == 2, "{vms:?}");
}
