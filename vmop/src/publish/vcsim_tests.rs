//! Publishing on a simulated vCenter.

use serde_json::json;
use support::on_both_wires;
use support::vcsim::Sim;
use vsphere::Kind;

use crate::publish::plan::{Facts, PublishStep, step};
use crate::publish::{VirtualMachinePublishRequest, find_item};
use crate::testing::vcsim::{template, template_key, vcenter};

fn request(uid: &str) -> VirtualMachinePublishRequest {
    serde_json::from_value(json!({
        "metadata": {"name": "pub", "namespace": "ns", "uid": uid},
        "spec": {"source": {"name": "vm"}, "target": {"item": {"name": "nightly"}, "location": {"name": "layercake"}}},
    }))
    .unwrap()
}

async fn a_publication_whose_answer_was_lost_is_found_again(sim: Sim) {
    let vcenter = vcenter(&sim).await;
    let vsphere_vm = template(&vcenter, &template_key(&sim, &vcenter).await).await.moref.clone();
    let facts = async |request: &VirtualMachinePublishRequest| Facts {
        source: Ok(vsphere_vm.clone()),
        target: Ok(sim.library().to_owned()),
        item: find_item(request, sim.library(), &vcenter).await.unwrap(),
        image: None,
    };
    let first = request("u-1");
    // Make the client detect the API variant before the lost response.
    vcenter.client.library(sim.library()).await.unwrap();
    sim.post("/v1/faults", json!({ "method": "POST /api/vcenter/ovf/library-item", "kind": "lostAnswer" }))
        .await;
    let PublishStep::Upload(capture) = step(&first, &facts(&first).await) else {
        panic!("nothing to upload")
    };
    let turn = vcenter.client.captures().enter("ns").await;
    let lost = vcenter.client.capture_ovf(&turn, &capture, super::UPLOAD).await.unwrap_err();
    assert!(matches!(lost.kind(), Kind::AnswerLost { .. }), "{lost:?}");
    let then = step(&first, &facts(&first).await);
    assert_eq!(then, PublishStep::AwaitImage, "the item is found, and is not made twice");
    // Another request doesn't adopt the item.
    let second = request("u-2");
    assert_eq!(step(&second, &facts(&second).await), PublishStep::Blocked);
    assert_eq!(vcenter.client.list_library_items(sim.library()).await.unwrap().len(), 2);
}

on_both_wires!(a_publication_whose_answer_was_lost_is_found_again,);
