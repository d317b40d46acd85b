use super::*;

fn assigned(names: &[&str]) -> Assigned {
    names.iter().map(|name| ((*name).to_owned(), None)).collect()
}

fn settings(classes: &[&str], default: &str) -> StorageSettings {
    StorageSettings {
        classes: Some(classes.iter().map(|name| (*name).to_owned()).collect()),
        default_class: Some(default.to_owned()),
    }
}

/// Formats the class names and the first letters of their binding modes, with a star for the default class.
fn shown(wanted: &WantedObjects) -> String {
    let one = |value: &Value| {
        let star = if value["metadata"]["annotations"][IS_DEFAULT] == "true" { "*" } else { "" };
        let mode = value["volumeBindingMode"].as_str().unwrap().chars().next().unwrap();
        format!("{}:{mode}{star}", value["metadata"]["name"].as_str().unwrap())
    };
    let manifests = wanted.objects.manifests().iter();
    manifests.map(|manifest| one(&manifest.value())).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_guest_has_what_is_assigned_and_asked_for_and_no_more() {
    let both = ["gold", "silver"];
    let of_gold = "gold:I gold-latebinding:W";
    let of_both = "gold:I gold-latebinding:W silver:I silver-latebinding:W";
    let missing =
        &["StorageClass lead: it is not assigned to namespace ns", "hard limit lead.storageclass"][..];
    for (given, asked, expected, problem) in [
        (&both[..], None, of_both, &[][..]),
        (&both, Some(settings(&[], "")), of_both, &[]),
        (&both, Some(settings(&["gold"], "")), of_gold, &[]),
        (&both, Some(settings(&["gold", "gold", ""], "gold")), "gold:I* gold-latebinding:W", &[]),
        (&both, Some(settings(&["gold"], "gold-latebinding")), "gold:I gold-latebinding:W*", &[]),
        (
            &both,
            Some(settings(&[], "silver")),
            "gold:I gold-latebinding:W silver:I* silver-latebinding:W",
            &[],
        ),
        (&both, Some(settings(&["gold", "lead"], "")), of_gold, missing),
        (&both, Some(settings(&["lead"], "")), "", missing),
        (
            &both,
            Some(settings(&["gold"], "lead")),
            of_gold,
            &["StorageClass lead: it is not assigned", "defaultClass"],
        ),
        (&both, Some(settings(&["gold"], "silver")), of_gold, &["StorageClass silver: ", "Add it there"]),
        (&[], None, "", &[]),
        (&[], Some(settings(&["lead"], "")), "", &["The namespace has none"]),
        // A class in the namespace whose name is that of a second edition isn't treated as an edition.
        (&["gold", "gold-latebinding"], None, "gold:I gold-latebinding:I", &[]),
        (&["gold", "gold-latebinding"], Some(settings(&["gold"], "")), "gold:I", &[]),
    ] {
        let wanted = wanted(asked.as_ref(), "ns", &assigned(given));
        assert_eq!(shown(&wanted), expected, "{given:?} {asked:?}");
        let problems: Vec<_> = wanted
            .problems
            .iter()
            .map(|problem| format!("{}: {}", problem.object, problem.message))
            .collect();
        assert_eq!(problems.len(), usize::from(!problem.is_empty()), "{given:?} {asked:?}: {problems:?}");
        assert!(problem.iter().all(|part| problems[0].contains(part)), "{problems:?}");
    }
}

#[test]
fn a_class_is_as_the_management_cluster_has_it() {
    let class = |fields: Value| -> Option<Arc<StorageClass>> {
        let mut class =
            json!({"metadata": {"name": "x"}, "provisioner": "p", "parameters": {"storagePolicyID": "a"}});
        class.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Some(Arc::new(serde_json::from_value(class).unwrap()))
    };
    let as_they_are = json!({"reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": false});
    let assigned =
        Assigned::from([("bare".to_owned(), class(json!({}))), ("own".to_owned(), class(as_they_are))]);
    let wanted = wanted(None, "ns", &assigned);
    let fields = |name: &str| {
        let manifests = wanted.objects.manifests();
        let value = manifests.iter().find(|manifest| manifest.key.name == name).unwrap().value();
        let text = |field: &str| value[field].to_string().replace('"', "");
        [
            text("reclaimPolicy"),
            text("volumeBindingMode"),
            text("allowVolumeExpansion"),
            value["parameters"].to_string(),
        ]
    };
    assert_eq!(fields("bare"), ["Delete", "Immediate", "true", r#"{"svStorageClass":"bare"}"#]);
    assert_eq!(fields("own"), ["Retain", "WaitForFirstConsumer", "false", r#"{"svStorageClass":"own"}"#]);
    let late = ["Retain", "WaitForFirstConsumer", "false", r#"{"svStorageClass":"own"}"#];
    assert_eq!(fields("own-latebinding"), late);
    assert!(wanted.objects.manifests().iter().all(|manifest| manifest.value()["provisioner"] == PROVISIONER));
}

#[test]
fn the_number_of_classes_has_an_end() {
    let names: Vec<String> = (0..=MAX_CLASSES).map(|n| format!("c{n:03}")).collect();
    let many = assigned(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let wanted = wanted(None, "ns", &many);
    assert_eq!(wanted.objects.manifests().len(), 2 * MAX_CLASSES);
    assert!(wanted.problems[0].message.contains("201") && wanted.problems[0].message.contains("at most 200"));
    let missing = super::wanted(Some(&settings(&["lead"], "")), "ns", &many);
    assert!(missing.problems[0].message.ends_with("c009, …"), "{:?}", missing.problems);
}
