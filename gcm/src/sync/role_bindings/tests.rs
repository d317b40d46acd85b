use std::collections::BTreeMap;

use super::*;

fn binding(kind: &str, role: &str, subjects: &[(&str, &str)]) -> Arc<RoleBinding> {
    let subjects: Vec<_> = subjects
        .iter()
        .map(|(kind, name)| match *kind {
            "ServiceAccount" => json!({"kind": kind, "name": name, "namespace": "ns"}),
            _ => json!({"kind": kind, "name": name, "apiGroup": RBAC}),
        })
        .collect();
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "b", "namespace": "ns"},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": subjects,
        }))
        .unwrap(),
    )
}

fn administrators(bindings: &[Arc<RoleBinding>]) -> Vec<(String, String)> {
    let wanted = wanted("ns", bindings);
    let of = |value: &Value| {
        assert_eq!(
            value["roleRef"],
            json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"})
        );
        let subject = &value["subjects"][0];
        let person = format!("{} {}", subject["kind"].as_str().unwrap(), subject["name"].as_str().unwrap());
        (value["metadata"]["name"].as_str().unwrap().to_owned(), person)
    };
    wanted.objects.manifests().iter().map(|manifest| of(&manifest.value())).collect()
}

#[test]
fn users_and_groups_with_a_binding_are_counted_once() {
    let [ann, devs, robot] = [("User", "ann"), ("Group", "devs"), ("ServiceAccount", "robot")];
    let bindings = [
        binding("ClusterRole", "edit", &[ann, devs, robot, ("Group", "system:authenticated")]),
        binding("ClusterRole", "admin", &[ann, ("User", "bob")]),
        binding("ClusterRole", "view", &[("User", "eve")]),
    ];
    let People { users, groups } = count(&bindings);
    assert_eq!((users, groups), (2, 1));
    assert_eq!(users + groups, wanted("ns", &bindings).objects.manifests().len());
    assert_eq!(count(&[]), People::default());
}

#[test]
fn who_may_edit_the_namespace_administers_the_guest_and_nobody_else() {
    let people = [("Group", "sso:devs@vsphere.local"), ("User", "alice")];
    let devs = "vmware-system-auth-sync-wcp:ns:group:vsphere.local:devs";
    let alice = "vmware-system-auth-sync-wcp:ns:user::alice";
    for (kind, role, subjects, expected) in [
        ("ClusterRole", "edit", &people[..], &[devs, alice][..]),
        ("ClusterRole", "admin", &people, &[devs, alice]),
        ("ClusterRole", "view", &people, &[]),
        ("ClusterRole", "cluster-admin", &people, &[]),
        ("ClusterRole", "tanzukubernetescluster-edit", &people, &[]),
        // Users of a namespace can choose any name for their own Roles.
        ("Role", "admin", &people, &[]),
        ("ClusterRole", "edit", &[("ServiceAccount", "robot"), ("User", "")], &[]),
        ("ClusterRole", "edit", &[], &[]),
        // In the workload cluster, these subjects would make Kubernetes' own users administrators.
        (
            "ClusterRole",
            "edit",
            &[
                ("Group", "system:authenticated"),
                ("Group", "system:unauthenticated"),
                ("Group", "system:nodes"),
                ("User", "system:serviceaccount:ns:default"),
            ],
            &[],
        ),
    ] {
        let made = administrators(&[binding(kind, role, subjects)]);
        let names: Vec<_> = made.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, expected, "{kind} {role} {subjects:?}");
    }
    let twice = [binding("ClusterRole", "edit", &people), binding("ClusterRole", "admin", &people)];
    assert_eq!(administrators(&twice).len(), 2);
    assert_eq!(administrators(&twice)[0].1, "Group sso:devs@vsphere.local");
}

#[test]
fn two_people_never_share_a_binding_and_every_name_can_be_one() {
    let long = "x".repeat(MAX_NAME);
    let names = [
        "sso:a@b",
        "a@b",
        "sso:a@",
        "sso:@b",
        "a",
        "A",
        "sso:a",
        "a:b",
        "sso:a:b@c",
        "a/b",
        "a b",
        "a%b",
        "a?b=#",
        "ä",
        "..",
        "a@b@c",
        "sso:a@b@c",
        "https://idp.example.com#alice",
        "\u{1b}[31m",
        &long,
    ];
    let subjects: Vec<_> = names.iter().flat_map(|name| [("User", *name), ("Group", *name)]).collect();
    let namespace = "n".repeat(63);
    let wanted = wanted(&namespace, &[binding("ClusterRole", "edit", &subjects)]);
    assert_eq!(wanted.problems, []);
    let made: BTreeMap<_, _> = wanted
        .objects
        .manifests()
        .iter()
        .map(|manifest| {
            (manifest.key.name.as_str(), manifest.value()["subjects"][0]["name"].as_str().unwrap().to_owned())
        })
        .collect();
    assert_eq!(made.len(), subjects.len(), "{made:#?}");
    for name in made.keys() {
        assert!(name.bytes().all(|b| is_plain(b) || b == b':') && name.len() <= 253, "{name}");
    }
    assert!(names.iter().all(|name| made.values().any(|shown| shown == name)), "{made:#?}");
}

#[test]
fn the_number_of_administrators_has_an_end() {
    let names: Vec<String> = (0..=MAX_PEOPLE).map(|n| format!("u{n:03}")).collect();
    let subjects: Vec<_> = names.iter().map(|name| ("User", name.as_str())).collect();
    let all = wanted("ns", &[binding("ClusterRole", "edit", &subjects)]);
    assert_eq!(all.objects.manifests().len(), MAX_PEOPLE);
    assert!(all.problems[0].message.starts_with("201 users and groups"), "{:?}", all.problems);
    let long = "x".repeat(MAX_NAME + 1);
    let one = wanted("ns", &[binding("ClusterRole", "edit", &[("Group", &long), ("User", "a")])]);
    assert_eq!((one.objects.manifests().len(), one.problems.len()), (1, 1));
    assert!(one.problems[0].message.contains("257 bytes") && !one.problems[0].message.contains("xxx"));
}
