//! Tests which objects a cache contains and which subscribers it notifies.

use std::collections::BTreeMap;

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn config_map(name: &str, version: u64, owner: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.metadata.namespace = Some("n".into());
    object.metadata.resource_version = Some(version.to_string());
    object.metadata.labels = Some(BTreeMap::from([("owner".into(), owner.into())]));
    object
}

fn owner(object: &ConfigMap) -> Vec<String> {
    object.labels().get("owner").cloned().into_iter().collect()
}

struct Watched {
    cache: Cache<ConfigMap>,
    writer: Option<Writer<ConfigMap>>,
    expectations: Arc<Expectations>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Watched {
    fn new() -> Self {
        let expectations = Arc::<Expectations>::default();
        let (cache, feed) = Cache::new(Arc::clone(&expectations));
        let log = Arc::<Mutex<Vec<String>>>::default();
        let notified = Arc::clone(&log);
        cache.listen(move |change: &Change<ConfigMap>| {
            let of = |side: &Option<Arc<ConfigMap>>| {
                side.as_ref().map_or("-".into(), |o| o.resource_version().unwrap_or_default())
            };
            let name = change.sides().next().map(|o| o.name_any()).unwrap_or_default();
            notified.lock().push(format!("{name} {}>{}", of(&change.old), of(&change.new)));
        });
        Self { cache, writer: Some(feed), expectations, log }
    }

    fn events(&mut self, events: Vec<Event<ConfigMap>>) -> Vec<String> {
        let mut writer = self.writer.take().unwrap();
        for event in events {
            self.cache.take(&mut writer, &event);
        }
        self.writer = Some(writer);
        let mut notified = std::mem::take(&mut *self.log.lock());
        notified.sort();
        notified
    }
}

#[test]
fn a_relist_notifies_of_changes_only() {
    let mut watched = Watched::new();
    let first = vec![
        Event::Init,
        Event::InitApply(config_map("a", 1, "x")),
        Event::InitApply(config_map("b", 2, "x")),
        Event::InitApply(config_map("c", 3, "x")),
        Event::InitDone,
    ];
    assert_eq!(watched.events(first), ["a ->1", "b ->2", "c ->3"]);
    let second = vec![
        Event::Init,
        Event::InitApply(config_map("a", 1, "x")),
        Event::InitApply(config_map("c", 9, "x")),
        Event::InitApply(config_map("d", 8, "x")),
        Event::InitDone,
    ];
    assert_eq!(watched.events(second), ["b 2>-", "c 3>9", "d ->8"]);
}

#[test]
fn an_index_follows_the_keys() {
    let mut watched = Watched::new();
    let index = watched.cache.index(owner);
    let names = |key: &str| {
        let mut names: Vec<_> = index.objects(key).iter().map(|o| o.name_any()).collect();
        names.sort();
        names
    };
    watched.events(vec![
        Event::Apply(config_map("a", 1, "x")),
        Event::Apply(config_map("b", 2, "x")),
        Event::Apply(config_map("a", 3, "y")),
    ]);
    assert_eq!((names("x"), names("y")), (vec!["b".into()], vec!["a".to_owned()]));
    watched.events(vec![Event::Delete(config_map("b", 4, "x"))]);
    assert!(names("x").is_empty());
    let late = watched.cache.index(owner);
    assert_eq!(late.refs("y").len(), 1, "an index made late knows what is there");
}

#[test]
fn nobody_reads_a_cache_older_than_our_write() {
    let mut watched = Watched::new();
    watched.events(vec![Event::Apply(config_map("a", 5, "x"))]);
    watched.expectations.record_write(&config_map("a", 7, "x"));
    watched.expectations.record_write(&config_map("new", 8, "x"));
    assert!(watched.cache.current(Some("n"), "a").is_err());
    assert!(watched.cache.current(Some("n"), "new").is_err());
    watched.events(vec![Event::Apply(config_map("a", 7, "x")), Event::Delete(config_map("b", 9, "x"))]);
    assert!(watched.cache.current(Some("n"), "a").unwrap().is_some());
    let made_and_deleted_since = watched.cache.current(Some("n"), "new").unwrap();
    assert!(made_and_deleted_since.is_none());
}

#[test]
fn managed_fields_are_dropped() {
    let mut object = config_map("a", 1, "x");
    object.metadata.managed_fields = Some(Vec::new());
    prune(&mut object);
    assert!(object.metadata.managed_fields.is_none());
}

#[tokio::test]
async fn a_watch_that_breaks_down_ends_the_program() {
    let list = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMapList", "metadata": { "resourceVersion": "5" },
        "items": [{ "metadata": { "name": "a", "namespace": "n", "resourceVersion": "1" } }],
    });
    let runtime = Runtime::detached(support::api_server::server(move |_| (200, list.clone())).0);
    let cache = objects(&runtime, Api::<ConfigMap>::all(runtime.client.clone()));
    cache.listen(|_| panic!("a listener's mistake"));
    runtime.shutdown.cancelled().await;
}

#[tokio::test]
async fn a_cache_is_complete_after_the_first_list() {
    let mut watched = Watched::new();
    let events = [Event::Init, Event::InitApply(config_map("a", 1, "x")), Event::InitDone];
    let writer = watched.writer.take().unwrap();
    watched.cache.clone().follow(stream::iter(events.map(Ok)), writer).await;
    watched.cache.complete().await;
    assert_eq!(watched.cache.all().len(), 1);
}

#[tokio::test]
async fn everyone_who_waits_for_a_complete_cache_is_woken() {
    let mut watched = Watched::new();
    let waiting = [watched.cache.clone(), watched.cache.clone(), watched.cache.clone()]
        .map(|cache| tokio::spawn(async move { cache.complete().await }));
    tokio::task::yield_now().await;
    let events = [Event::Init, Event::InitDone];
    let writer = watched.writer.take().unwrap();
    watched.cache.clone().follow(stream::iter(events.map(Ok)), writer).await;
    for waiter in waiting {
        waiter.await.unwrap();
    }
}

#[tokio::test]
async fn objects_with_large_annotations_take_little_memory() {
    let (client, requests) = support::api_server::server(|request| {
        if request.path.contains("watch=") {
            return support::api_server::refusal(500, "InternalError");
        }
        let after: usize = request.path.split("continue=").nth(1).map_or(0, |text| {
            text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        });
        let limit: usize = request.path.split("limit=").nth(1).map_or(300, |text| {
            text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        });
        let end = (after + limit).min(300);
        let items = (after..end).map(|index| {
            let annotations = serde_json::json!({ "x": "x".repeat(6_000), "kept": "1" });
            let name = format!("a{index}");
            serde_json::json!({ "metadata": { "name": name, "namespace": "n", "resourceVersion": "1", "annotations": annotations } })
        });
        let items: Vec<_> = items.collect();
        let next = if end < 300 { end.to_string() } else { String::new() };
        let metadata = serde_json::json!({ "resourceVersion": "5", "continue": next });
        (
            200,
            serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": metadata, "items": items }),
        )
    });
    let runtime = Runtime::detached(client.clone());
    let cache = objects(&runtime, Api::<ConfigMap>::namespaced(client, "n"));
    cache.complete().await;
    let all = cache.all();
    let held: usize = all.iter().map(|object| serde_json::to_vec(&**object).unwrap().len()).sum();
    assert_eq!(all.len(), 300);
    assert!(held < 300 * 200, "{held} bytes");
    assert!(all.iter().all(|object| object.annotations().contains_key("kept")));
    assert_eq!(
        requests.lock().iter().filter(|request| !request.path.contains("watch=")).count(),
        3,
        "pages of a hundred"
    );
}
