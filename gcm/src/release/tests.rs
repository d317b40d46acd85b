//! Tests that images in all formats become releases, and tests the release status.

use std::collections::BTreeMap;

use api::gcm::release::LocalReference;
use api::gcm::{OSImage, TanzuKubernetesRelease};
use api::names::{image_builder, label};
use api::vmop::{VirtualMachineImage, VirtualMachineImageSpec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::image::{
    CarriedRelease, DISTRIBUTION, OS_IMAGES, RELEASE, carried, explain_exclusion, is_node_image,
};
use super::networks::CarriedNetworks;
use super::node_image::choose;
use super::{KubernetesRelease, ReleaseImage, conflict, plan, status};
use crate::testing::{SITE_VERSIONS, available, node_image, packed};

fn image(name: &str, annotations: &[(&str, String)]) -> VirtualMachineImage {
    let mut image = VirtualMachineImage::new(name, VirtualMachineImageSpec::default());
    image.metadata.uid = Some("u".to_owned());
    image.metadata.annotations =
        Some(annotations.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect());
    image
}

fn distribution() -> String {
    json!({
        "distribution": {"version": "v1.23.8+vmware.3-tkg.1"},
        "kubernetes": {"version": "1.23.8+vmware.3", "imageRepository": "localhost:5000/vmware.io"},
        "etcd": {"version": "v3.5.4+vmware.7"},
        "coredns": {"imageRepository": "elsewhere", "imageTag": "v1.8.6_vmware.7"},
        "compatibility-7.0.0.10100": {"isCompatible": "true"},
    })
    .to_string()
}

const TKR: &str = "---
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: TanzuKubernetesRelease
metadata: {name: v1.33.1---vmware.1-fips-vkr.2}
spec:
  version: v1.33.1+vmware.1-fips-vkr.2
  kubernetes:
    version: v1.33.1+vmware.1-fips
    imageRepository: localhost:5000/vmware.io
    etcd: {imageTag: v3.5.21_vmware.4}
  osImages: [{name: ubuntu-2204-amd64}]
  bootstrapPackages: [{name: antrea.tanzu.vmware.com.1.0.0}]
";
const OSI: &str = "---
apiVersion: run.tanzu.vmware.com/v1alpha3
kind: OSImage
metadata: {name: ubuntu-2204-amd64}
spec:
  kubernetesVersion: v1.33.1+vmware.1-fips
  os: {type: linux, name: ubuntu, version: '22.04', arch: amd64}
";

fn wrapped() -> Vec<(&'static str, String)> {
    let release = json!({"name": "x", "type": "inline", "version": "v1.33.1+vmware.1-fips-vkr.2", "value": packed(TKR.as_bytes())});
    let os_images = json!([{"name": "ubuntu-2204-amd64", "value": packed(OSI.as_bytes())}]);
    vec![(RELEASE, release.to_string()), (OS_IMAGES, os_images.to_string())]
}

/// Returns the properties that image-builder writes into the OVF descriptor of a node image.
fn built(version: &str) -> Vec<(&'static str, String)> {
    let values = [version, "pkg", "ubuntu", "24.04", "amd64", "1.6.0", "2.0.4"].map(str::to_owned);
    image_builder::PROPERTIES.into_iter().zip(values).collect()
}

fn os_image(image: &VirtualMachineImage, carried: &CarriedRelease) -> OSImage {
    plan::os_image(image, carried, &CarriedNetworks::default())
}

#[test]
fn every_shape_of_image_becomes_a_release_and_an_os_image() {
    let plain =
        |yaml: &str| serde_saphyr::from_str::<Value>(yaml.trim_start_matches("---")).unwrap().to_string();
    let images = [
        image("ob-1-photon-3-k8s-v1.23.8---vmware.3-tkg.1", &[(DISTRIBUTION, distribution())]),
        image("vmi-packed", &wrapped()),
        image("vmi-plain", &[(RELEASE, plain(TKR)), (OS_IMAGES, plain(OSI))]),
        image("ubuntu-2404-kube-v1.33.1", &built("v1.33.1")),
    ];
    let made: Vec<(OSImage, TanzuKubernetesRelease)> = images
        .iter()
        .map(|image| {
            let carried = carried(image).unwrap().unwrap();
            let name = image.metadata.name.clone().unwrap();
            (os_image(image, &carried), plan::release(&[(name, carried)], None).unwrap())
        })
        .collect();
    insta::assert_yaml_snapshot!(made);
}

#[test]
fn other_images_are_none_of_ours_and_broken_ones_say_why() {
    assert!(carried(&image("windows", &[])).is_none());
    assert!(carried(&image("empty", &[(RELEASE, " ".to_owned())])).is_none());
    let texts: Vec<String> = [
        (DISTRIBUTION, "no json".to_owned()),
        (DISTRIBUTION, "{}".to_owned()),
        (DISTRIBUTION, json!({"distribution": {"version": "new"}}).to_string()),
        (RELEASE, json!({"value": "!"}).to_string()),
        (RELEASE, json!({"value": STANDARD.encode("not gzip")}).to_string()),
        (RELEASE, json!({"value": packed(b"spec: 1")}).to_string()),
    ]
    .into_iter()
    .map(|property| carried(&image("i", &[property])).unwrap().unwrap_err().to_string())
    .collect();
    for text in &texts {
        assert!(text.starts_with("VirtualMachineImage i: property vmware-system."), "{text}");
    }
    let mut other_kubeadm = vec![(DISTRIBUTION, distribution())];
    other_kubeadm.extend(built("v1.22.9"));
    let mixed = json!({"distribution": {"version": "v1.23.8+vmware.3-tkg.1"}, "kubernetes": {"version": "v1.22.9+vmware.1"}});
    let images = [built("latest"), other_kubeadm, vec![(DISTRIBUTION, mixed.to_string())]];
    let texts = images.map(|properties| carried(&image("i", &properties)).unwrap().unwrap_err().to_string());
    insta::assert_snapshot!(texts.join("\n"), @r#"
    VirtualMachineImage i: property KUBERNETES_SEMVER: "latest" is not a version such as v1.33.1+vmware.1-fips-vkr.2
    VirtualMachineImage i: property vmware-system.guest.kubernetes.distribution.image.version: the image names two versions of Kubernetes: v1.23.8 (release v1.23.8+vmware.3-tkg.1) and v1.22.9 (KUBERNETES_SEMVER)
    VirtualMachineImage i: property vmware-system.guest.kubernetes.distribution.image.version: the image names two versions of Kubernetes: v1.23.8 (release v1.23.8+vmware.3-tkg.1) and v1.22.9+vmware.1 (kubernetes.version)
    "#);
}

/// A release that is cut off could lack components, and would still be used.
#[test]
fn a_property_that_unpacks_to_more_than_the_limit_is_refused() {
    let with_padding = |bytes: usize| {
        let padding = "# ".to_owned() + &"x".repeat(bytes - TKR.len() - 2);
        let value = packed((TKR.to_owned() + &padding).as_bytes());
        carried(&image("i", &[(RELEASE, json!({ "value": value }).to_string())])).unwrap()
    };
    assert!(with_padding(1 << 20).is_ok());
    let text = with_padding((1 << 20) + 1).unwrap_err().to_string();
    assert!(text.starts_with("VirtualMachineImage i: property vmware-system.tkr: its value of "), "{text}");
    assert!(text.ends_with(" bytes unpacks to more than 1048576 bytes, which is the limit"), "{text}");
}

#[test]
fn images_of_one_release_share_it() {
    let of = |name: &str| (name.to_owned(), carried(&image(name, &wrapped())).unwrap().unwrap());
    let release = plan::release(&[of("ubuntu"), of("photon")], None).unwrap();
    let names: Vec<_> = release.spec.os_images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(names, ["photon", "ubuntu"]);
    assert!(plan::release(&[], None).is_none());
    let labels = release.metadata.labels.unwrap();
    assert!(!labels.contains_key(label::LEGACY_TKR) && !labels.contains_key(label::CONFLICTING_OS_IMAGES));
}

/// Returns the properties of an image with the same release, whose nodes would use another container registry.
fn other_facts() -> Vec<(&'static str, String)> {
    let tkr = TKR.replace("localhost:5000/vmware.io", "registry.mallory.example");
    let release = json!({"name": "x", "type": "inline", "value": packed(tkr.as_bytes())});
    vec![(RELEASE, release.to_string()), (OS_IMAGES, wrapped()[1].1.clone())]
}

#[test]
fn images_that_disagree_change_nothing_of_a_release_and_are_named() {
    let of = |name: &str, annotations: &[(&str, String)]| {
        (name.to_owned(), carried(&image(name, annotations)).unwrap().unwrap())
    };
    let (ours, forged) = (of("ob-photon", &wrapped()), of("a-photon", &other_facts()));
    let names = |tkr: &TanzuKubernetesRelease| {
        tkr.spec.os_images.iter().map(|image| image.name.clone()).collect::<Vec<_>>()
    };
    let is_marked = |tkr: &TanzuKubernetesRelease| tkr.labels().contains_key(label::CONFLICTING_OS_IMAGES);
    let first = plan::release(std::slice::from_ref(&ours), None).unwrap();

    // A later image doesn't change the facts and isn't added, whatever its name is.
    let both = [forged.clone(), ours.clone()];
    let later = plan::release(&both, Some(&first)).unwrap();
    assert_eq!(later.spec, first.spec);
    assert!(is_marked(&later) && KubernetesRelease::of(&later).unwrap().candidate.incompatible.is_some());
    let why = conflict::explain(&both, Some(&later)).unwrap();
    insta::assert_snapshot!(why, @r#"images disagree about the release: kubernetes.imageRepository is "localhost:5000/vmware.io" in VirtualMachineImage ob-photon and "registry.mallory.example" in VirtualMachineImage a-photon. Clusters that run the release do not change, and no new cluster can use it. Remove the wrong image from its library, or delete TanzuKubernetesRelease v1.33.1---vmware.1-fips-vkr.2 to have it recreated from the remaining images"#);
    let status = status::release(&later, |_| true, Some(&why), &[]);
    let valid = api::conditions::find(&status.conditions, "Valid").unwrap();
    assert_eq!((valid.status.as_ref(), valid.reason.as_deref()), ("False", Some("ConflictingOSImages")));
    assert_eq!(status.conditions[0].message.as_deref(), Some(why.as_str()), "Ready repeats it");

    // Without the agreeing image, the release keeps its facts and the conflict.
    let alone = plan::release(std::slice::from_ref(&forged), Some(&later)).unwrap();
    assert_eq!(alone.spec, first.spec);
    assert!(is_marked(&alone));

    // Without the disagreeing image, the conflict is resolved.
    let mended = plan::release(std::slice::from_ref(&ours), Some(&later)).unwrap();
    assert!(!is_marked(&mended) && conflict::explain(std::slice::from_ref(&ours), Some(&later)).is_none());

    // Without established facts, gcm doesn't choose a side, not even the first by name.
    let none = plan::release(&both, None).unwrap();
    assert!(is_marked(&none) && names(&none).is_empty());
    assert_eq!(none.spec.kubernetes, api::gcm::release::KubernetesSpec::default());
    assert!(conflict::explain(&both, Some(&none)).is_some());
    let resolved = plan::release(std::slice::from_ref(&ours), Some(&none)).unwrap();
    assert_eq!(resolved.spec, first.spec);
}

#[test]
fn only_images_of_release_libraries_that_nobody_published_carry_a_release() {
    let of_source = |image: &mut VirtualMachineImage| {
        let mut owner = kit::apply::build_controller_reference(image);
        owner.kind = "ContentLibraryProvider".to_owned();
        image.metadata.owner_references = Some(vec![owner]);
    };
    for (labels, source, expected) in [
        (&[][..], false, true),
        (&[], true, false),
        (&[(label::RELEASE_LIBRARY, "true")], true, true),
        (&[(label::RELEASE_LIBRARY, "false")], false, false),
        (&[(label::RELEASE_LIBRARY, "true"), (label::PUBLISH_REQUEST, "u-1")], false, false),
        (&[(label::PUBLISH_REQUEST, "unknown")], false, false),
    ] {
        let mut image = image("photon", &wrapped());
        if source {
            of_source(&mut image);
        }
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        image.metadata.labels = Some(labels.collect());
        assert_eq!(carried(&image).is_some(), expected, "{:?}", image.metadata);
        assert_eq!(explain_exclusion(&image).is_none(), expected);
        assert!(is_node_image(&image));
    }
}

fn tkr(version: &str) -> TanzuKubernetesRelease {
    let mut object = crate::cluster::fixtures::tkr(version);
    object.spec.os_images = vec![LocalReference { name: "photon".to_owned() }];
    object
}

#[test]
fn a_release_says_how_it_is() {
    let available = available(&SITE_VERSIONS);
    let mut broken = tkr("v1.33.1+vmware.1-fips-vkr.2");
    broken.spec.version = "new".to_owned();
    let mut retired = tkr("v1.33.1+vmware.1-fips-vkr.2");
    retired.metadata.labels = Some(BTreeMap::from([(label::DEACTIVATED.to_owned(), String::new())]));
    let table: Vec<Value> = [
        ("sound", tkr("v1.33.1+vmware.1-fips-vkr.2"), true),
        ("newest", tkr("v1.36.3+vmware.1-vkr.1"), true),
        ("without image", tkr("v1.33.1+vmware.1-fips-vkr.2"), false),
        ("old", tkr("v1.17.4+vmware.1-tkg.1.0dba899"), true),
        ("unreadable", broken, true),
        ("deactivated", retired, true),
    ]
    .iter()
    .map(|(name, tkr, there)| json!({ *name: status::release(tkr, |_| *there, None, &available) }))
    .collect();
    insta::assert_yaml_snapshot!(table);
}

#[test]
fn labels_take_a_release_out_of_use() {
    for mark in [
        label::INCOMPATIBLE,
        label::DEACTIVATED,
        label::DELETED,
        label::INVALID,
        label::CONFLICTING_OS_IMAGES,
    ] {
        let mut tkr = tkr("v1.33.1+vmware.1-fips-vkr.2");
        assert!(KubernetesRelease::of(&tkr).unwrap().candidate.incompatible.is_none());
        tkr.metadata.labels = Some(BTreeMap::from([(mark.to_owned(), String::new())]));
        assert!(
            KubernetesRelease::of(&tkr).unwrap().candidate.incompatible.is_some_and(|why| why.contains(mark))
        );
    }
}

#[test]
fn an_image_that_calls_itself_incompatible_takes_its_release_out_of_use() {
    let says = |offers: Value| {
        let mut document: Value = serde_json::from_str(&distribution()).unwrap();
        document.as_object_mut().unwrap().remove("compatibility-7.0.0.10100");
        document.as_object_mut().unwrap().extend(offers.as_object().unwrap().clone());
        let carried = carried(&image("photon", &[(DISTRIBUTION, document.to_string())])).unwrap().unwrap();
        plan::release(&[("photon".to_owned(), carried)], None).unwrap()
    };
    let why = |tkr: &TanzuKubernetesRelease| KubernetesRelease::of(tkr).unwrap().candidate.incompatible;
    for fits in [
        json!({}),
        json!({"compatibility-8.0": {"isCompatible": true}}),
        json!({"compatibility-7.0": {"isCompatible": "false"}, "compatibility-8.0": {"isCompatible": "True"}}),
        json!({"compatibility-7.0": {"isCompatible": null}, "other": {"isCompatible": false}}),
    ] {
        assert_eq!(why(&says(fits.clone())), None, "{fits}");
    }
    let unfit = says(
        json!({"compatibility-7.0": {"isCompatible": "false"}, "compatibility-8.0": {"isCompatible": false}}),
    );
    insta::assert_snapshot!(why(&unfit).unwrap(), @"the release is labelled run.tanzu.vmware.com/incompatible: VirtualMachineImage photon declares isCompatible false (compatibility-7.0, compatibility-8.0 in vmware-system.guest.kubernetes.distribution.image.version). Use another release, or a compatible image");
    let status = status::release(&unfit, |_| true, None, &[]);
    let compatible = api::conditions::find(&status.conditions, "Compatible").unwrap();
    assert_eq!((compatible.status.as_ref(), compatible.message.clone()), ("False", why(&unfit)));
}

/// The release's other image can still create nodes. Clusters that use the incompatible image keep it.
#[test]
fn one_incompatible_image_of_several_leaves_its_release_in_use() {
    let carried_by = |name: &str, fits: bool| {
        let mut document: Value = serde_json::from_str(&distribution()).unwrap();
        document["compatibility-7.0.0.10100"] = json!({ "isCompatible": fits });
        let image = image(name, &[(DISTRIBUTION, document.to_string())]);
        let carried = carried(&image).unwrap().unwrap();
        let os_image = os_image(&image, &carried);
        ((name.to_owned(), carried), os_image)
    };
    let ((unfit, marked), (fit, plain)) = (carried_by("photon-a", false), carried_by("photon-b", true));
    let why = |images: &[(String, CarriedRelease)]| {
        KubernetesRelease::of(&plan::release(images, None).unwrap()).unwrap().candidate.incompatible
    };
    assert_eq!(why(&[unfit.clone(), fit.clone()]), None);
    assert_eq!(why(&[fit, unfit.clone()]), None);
    let both = why(&[unfit.clone(), carried_by("photon-c", false).0]).unwrap();
    assert!(both.contains("VirtualMachineImage photon-a declares"), "{both}");

    let images = [ReleaseImage::of(&marked).unwrap(), ReleaseImage::of(&plain).unwrap()];
    let name = |query, present| choose(&images, query, present).map(|image| image.name.as_str());
    assert_eq!(name(None, None), Some("photon-b"));
    assert_eq!(name(None, Some("photon-a")), Some("photon-a"), "its nodes are not replaced for it");
    assert_eq!(choose(&images[..1], None, None), None);
    let condition = |image| status::os_image(image).conditions.remove(0);
    assert_eq!(condition(&plain).status, "True");
    let message = condition(&marked).message.unwrap();
    assert!(message.contains("VirtualMachineImage photon-a declares isCompatible false"), "{message}");
}

#[test]
fn an_image_is_chosen_by_query_and_photon_without_one() {
    let of = |name: &str, os: &str| {
        let kind = if os == "windows" { "windows" } else { "linux" };
        node_image(name, &[("os-name", os), ("os-arch", "amd64"), ("os-type", kind)])
    };
    let images = [of("a", "windows"), of("u", "ubuntu"), of("p", "photon")];
    for (query, expected) in [
        (None, Some("p")),
        (Some(" "), Some("p")),
        (Some("os-name=ubuntu"), Some("u")),
        (Some("os-name==ubuntu, os-arch=amd64"), Some("u")),
        (Some("os-name!=ubuntu"), Some("p")),
        (Some("os-name,!gpu"), Some("u")),
        (Some("os-name=windows"), None),
        (Some("os-type=windows"), None),
        (Some("os-arch=amd64"), Some("u")),
        (Some("gpu"), None),
    ] {
        assert_eq!(choose(&images, query, None).map(|image| image.name.as_str()), expected, "{query:?}");
    }
    let present = |query, present| choose(&images, query, Some(present)).map(|image| image.name.as_str());
    assert_eq!(present(None, "u"), Some("u"), "what nodes run is not replaced by what state later");
    assert_eq!(
        present(Some("os-name=photon"), "u"),
        choose(&images, Some("os-name=photon"), None).map(|i| i.name.as_str())
    );
    assert_eq!(present(None, "gone"), choose(&images, None, None).map(|i| i.name.as_str()));
    assert_eq!(choose(&images[..1], None, None), None, "a node of Windows cannot be made");
    assert_eq!(choose(&images[..2], None, None).map(|image| image.name.as_str()), Some("u"));
}

#[test]
fn an_image_of_another_infrastructure_is_none_for_us() {
    let carried = carried(&image("vmi-packed", &wrapped())).unwrap().unwrap();
    let mut object = os_image(&image("vmi-packed", &wrapped()), &carried);
    assert_eq!(ReleaseImage::of(&object).unwrap().name, "vmi-packed");
    assert_eq!(status::os_image(&object).conditions[0].status, "True");
    object.spec.image.type_ = "ami".to_owned();
    assert!(ReleaseImage::of(&object).is_none());
    assert_eq!(status::os_image(&object).conditions[0].status, "False");
}
