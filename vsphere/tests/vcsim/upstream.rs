//! The client over SOAP against the simulator's upstream PropertyCollector, without our door.
//!
//! That collector deadlocks with more than one mutating call in flight, so there is one at a time.

use std::time::Duration;

use uuid::Uuid;
use vsphere::inventory::{Location, PowerState};
use vsphere::{ConfigSpec, WireKind};

use crate::machines::golden;
use crate::sim::{Sim, within};

#[tokio::test]
async fn a_machine_lives_and_dies() {
    let Some(sim) = Sim::over(WireKind::Soap, "upstream", &["--collector", "upstream"]) else { return };
    let inventory = sim.inventory().await;
    let client = inventory.client();
    let golden = golden(&sim, &inventory).await;
    let uuid = Uuid::from_u128(5);
    let task = golden.clone(&sim, client, "cp-0", uuid).await.unwrap();
    let vm = within("the clone", inventory.task(&task)).await.unwrap().moref().unwrap().clone();
    let entered = inventory.entered(&vm, Duration::from_secs(20)).await.unwrap();
    assert_eq!((entered.name.as_str(), entered.instance_uuid), ("cp-0", Some(uuid)));

    // Its guest reports an address as the simulator's own clients have it report one.
    let mut changes = inventory.subscribe();
    let report = ConfigSpec {
        extra_config: vec![("SET.guest.ipAddress".into(), "10.0.0.5".into())].into(),
        ..ConfigSpec::default()
    };
    let task = client.reconfigure_vm(&vm, report).await.unwrap();
    within("the report", inventory.task(&task)).await.unwrap();
    while inventory.vm(&vm).present().and_then(|vm| vm.guest.ip.clone()).is_none() {
        within("the address", changes.next()).await.unwrap();
    }

    let task = client.power_off(&vm).await.unwrap();
    within("the end of its power", inventory.task(&task)).await.unwrap();
    while inventory.vm(&vm).present().unwrap().power_state != Some(PowerState::Off) {
        within("it is off", changes.next()).await.unwrap();
    }
    let task = client.destroy(&vm).await.unwrap();
    within("its end", inventory.task(&task)).await.unwrap();
    assert!(client.find_by_uuid(uuid, true).await.unwrap().is_none());
    // That collector may keep a leave to itself, so only what was asked of vCenter is certain.
    assert!(matches!(inventory.locate(uuid).await, Ok(Location::Gone | Location::Here(_))));
    client.logout().await;
}
