//! Updates of what a running node has, by a peer with the right to it.

use std::fs;

use crate::{
    everyday::{Node, pair},
    harness::private_folder,
};

/// Replaces what the far node lets the near one do with files.
fn permit(far: &Node<'_>, before: &str, now: &str) {
    let file = far.home().join("node.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(before), "{text}");
    fs::write(&file, text.replace(before, now)).unwrap();
    far.done(&["reload"]);
}

#[test]
fn a_peer_updates_and_deletes_only_with_the_right_to_it() {
    let folder = private_folder();
    let (near, far) = pair(folder.path());
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), "old").unwrap();
    fs::write(tree.join("b"), "same").unwrap();
    near.done(&["send", "tree", "far:"]);
    fs::write(tree.join("a"), "newer").unwrap();
    fs::remove_file(tree.join("b")).unwrap();
    let there = |name: &str| fs::read_to_string(far.home().join("received/tree").join(name)).ok();

    let (code, errors) = near.failed(&["send", "--update", "tree", "far:"]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.contains("update = true"), "{errors}");
    assert_eq!(there("a").as_deref(), Some("old"));

    let [right, update, delete] = [
        "\"send-files\"",
        "{ right = \"send-files\", update = true }",
        "{ right = \"send-files\", update = true, delete = true }",
    ];
    permit(&far, right, update);
    let (code, errors) = near.failed(&["send", "--update", "--delete", "tree", "far:"]);
    assert_eq!(code, Some(4), "{errors}");
    assert!(errors.contains("delete = true"), "{errors}");
    let out = near.done(&["send", "--update", "tree", "far:"]);
    assert!(out.contains("0 added, 1 replaced, 0 deleted"), "{out}");
    assert_eq!(
        (there("a").as_deref(), there("b").as_deref()),
        (Some("newer"), Some("same"))
    );

    permit(&far, update, delete);
    let rights = far.done(&["rights"]);
    assert!(rights.contains("may update, delete"), "{rights}");
    let planned = near.done(&["send", "--update", "--delete", "-n", "tree", "far:"]);
    assert!(planned.contains("delete  tree/b"), "{planned}");
    assert_eq!(there("b").as_deref(), Some("same"));
    near.done(&["send", "--update", "--delete", "tree", "far:"]);
    assert_eq!(there("b"), None);
}
