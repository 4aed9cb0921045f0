use std::collections::BTreeMap;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

const LIMIT: u64 = 4_000;

fn key(n: u8) -> VideoKey {
    VideoKey([n; 16])
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_is_put_is_there_after_a_restart() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    let part = Part::Essential(3);
    assert!(store.put(key(1), part, Class::Prefix, b"data").unwrap());
    assert_eq!(store.get(key(1), part).unwrap().unwrap(), "data");
    assert_eq!(store.get(key(2), part).unwrap(), None);
    store.touch(key(1));
    store.save().unwrap();
    drop(store);
    std::fs::write(folder.path().join("tmp-7"), b"half").unwrap();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    assert_eq!(store.get(key(1), part).unwrap().unwrap(), "data");
    assert!(!folder.path().join("tmp-7").exists());
    assert_eq!(store.stats().prefix_bytes, 4 + file::HEADER_BYTES);
    assert!(store.lock().popularity().contains(":1.0"));
    store.forget(key(1));
    assert_eq!(store.stats().bytes, 0);
    assert_eq!(store.get(key(1), part).unwrap(), None);
}

#[test]
fn what_is_damaged_is_dropped() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    for (n, damage) in [0, 30, 40, 70].into_iter().enumerate() {
        let part = Part::Enhanced(u32::try_from(n).unwrap());
        store.put(key(1), part, Class::Body, b"0123456789").unwrap();
        let path = store.path(key(1), part, Class::Body);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[damage] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(store.get(key(1), part).unwrap(), None);
        assert!(!path.exists());
    }
    let part = Part::Index;
    store.put(key(1), part, Class::Body, b"0123456789").unwrap();
    let path = store.path(key(1), part, Class::Body);
    let cut = std::fs::read(&path).unwrap();
    std::fs::write(&path, &cut[..20]).unwrap();
    assert_eq!(store.get(key(1), part).unwrap(), None);
    assert_eq!(store.stats().damaged, 5);
    assert_eq!(store.stats().bytes, 0);
}

/// A file of another video under this one's name is not accepted.
#[test]
fn files_cannot_be_exchanged() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    for n in [1, 2] {
        let data = [n; 10];
        store.put(key(n), Part::Index, Class::Body, &data).unwrap();
    }
    let [one, two] = [1, 2].map(|n| store.path(key(n), Part::Index, Class::Body));
    std::fs::copy(&one, &two).unwrap();
    assert_eq!(store.get(key(2), Part::Index).unwrap(), None);
    assert!(store.get(key(1), Part::Index).unwrap().is_some());
}

#[test]
fn unpopular_bodies_go_first_and_prefixes_last() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    let kilo = vec![7; 1_000 - file::HEADER_BYTES as usize];
    let put = |n, part, class| store.put(key(n), part, class, &kilo).unwrap();
    store.touch(key(1));
    store.touch(key(1));
    store.touch(key(2));
    assert!(put(2, Part::Essential(0), Class::Prefix));
    assert!(put(1, Part::Essential(1), Class::Body));
    assert!(put(1, Part::Enhanced(1), Class::Body));
    assert!(put(2, Part::Essential(1), Class::Body));
    // It was never played: it is worth less than everything in the store.
    assert!(!put(3, Part::Essential(1), Class::Body));
    // Its prefix is worth more than any body.
    assert!(put(3, Part::Essential(0), Class::Prefix));
    assert!(
        !store.holds(key(2), Part::Essential(1)),
        "the less popular body went"
    );
    assert!(put(4, Part::Essential(0), Class::Prefix));
    assert!(
        !store.holds(key(1), Part::Enhanced(1)),
        "enhanced before essential"
    );
    assert!(store.holds(key(1), Part::Essential(1)));
    // A part can change its class in place.
    assert!(put(1, Part::Essential(1), Class::Prefix));
    assert_eq!(store.stats().prefix_bytes, 4_000);
    drop(store);
    let store = Store::open(folder.path(), LIMIT).unwrap();
    assert_eq!(store.stats().bytes, 4_000);
    assert_eq!(store.stats().prefix_bytes, 4_000);
    drop(store);
    let store = Store::open(folder.path(), 2_500).unwrap();
    assert_eq!(store.stats().bytes, 2_000, "a smaller limit is kept to");
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error = Store::open(&file.join("cache"), LIMIT)
        .unwrap_err()
        .to_string();
    assert!(error.contains("file/cache"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_folder_has_one_store_at_a_time() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    store
        .put(key(1), Part::Index, Class::Body, b"data")
        .unwrap();
    let error = Store::open(folder.path(), LIMIT).unwrap_err();
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("--cache"));
    drop(store);
    let store = Store::open(folder.path(), LIMIT).unwrap();
    assert!(store.holds(key(1), Part::Index));
}

/// `/dev/full` takes nothing: the error of a full disk is reported as such.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported() {
    let folder = folder();
    let store = Store::open(folder.path(), LIMIT).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("tmp-0")).unwrap();
    let put = |part| store.put(key(1), part, Class::Body, b"data");
    let error = put(Part::Index).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("--cache-size"));
    assert_eq!(store.stats().bytes, 0);
    assert!(put(Part::Index).unwrap(), "with free space it continues");
}

#[derive(Clone, Debug)]
enum Operation {
    Put(u8, u8, bool, bool, u16),
    Get(u8, u8, bool),
    Touch(u8),
    Restart,
    Damage(u8, u8, bool),
    Forget(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let (video, chunk) = (0..3u8, 0..4u8);
    let place = (video.clone(), chunk, any::<bool>());
    prop_oneof![
        6 => (place.clone(), any::<bool>(), 0..1500u16).prop_map(|((v, c, e), p, size)| Operation::Put(v, c, e, p, size)),
        4 => place.clone().prop_map(|(v, c, e)| Operation::Get(v, c, e)),
        2 => video.clone().prop_map(Operation::Touch),
        1 => Just(Operation::Restart),
        1 => place.prop_map(|(v, c, e)| Operation::Damage(v, c, e)),
        1 => video.prop_map(Operation::Forget),
    ]
}

fn part(chunk: u8, is_essential: bool) -> Part {
    if is_essential {
        Part::Essential(chunk.into())
    } else {
        Part::Enhanced(chunk.into())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Against a model: the limit holds, data that is read is the data last written, and stored parts are evicted only for
    /// something that is worth more.
    #[test]
    fn it_does_what_a_map_does_within_its_limit(operations in prop::collection::vec(operation(), 1..60)) {
        let folder = folder();
        let mut store = Store::open(folder.path(), LIMIT).unwrap();
        let mut model: BTreeMap<(VideoKey, Part), (Class, Vec<u8>)> = BTreeMap::new();
        for (step, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Put(v, c, e, p, size) => {
                    let data = vec![u8::try_from(step % 251).unwrap(); size.into()];
                    let class = if p { Class::Prefix } else { Class::Body };
                    let place = (key(v), part(c, e));
                    let is_kept = store.put(place.0, place.1, class, &data).unwrap();
                    if is_kept {
                        model.insert(place, (class, data));
                    }
                    let gone: Vec<_> = model.keys().copied().filter(|k| !store.holds(k.0, k.1)).collect();
                    prop_assert!(is_kept || gone.is_empty());
                    let is_prefix_gone = gone.iter().any(|k| model[k].0 == Class::Prefix);
                    for k in gone {
                        model.remove(&k);
                    }
                    if is_prefix_gone {
                        let bodies = model.iter().filter(|(k, (class, _))| *class == Class::Body && **k != place);
                        prop_assert_eq!(bodies.count(), 0, "prefixes go last");
                    }
                }
                Operation::Get(v, c, e) => {
                    let place = (key(v), part(c, e));
                    let found = store.get(place.0, place.1).unwrap();
                    prop_assert_eq!(found.as_deref(), model.get(&place).map(|(_, data)| &data[..]));
                }
                Operation::Touch(v) => store.touch(key(v)),
                Operation::Restart => {
                    store.save().unwrap();
                    drop(store);
                    std::fs::write(folder.path().join("tmp-99"), b"torn").unwrap();
                    store = Store::open(folder.path(), LIMIT).unwrap();
                }
                Operation::Damage(v, c, e) => {
                    let place = (key(v), part(c, e));
                    if let Some((class, _)) = model.remove(&place) {
                        let path = store.path(place.0, place.1, class);
                        let mut bytes = std::fs::read(&path).unwrap();
                        let at = bytes.len() / 2;
                        bytes[at] ^= 0x40;
                        std::fs::write(&path, bytes).unwrap();
                        prop_assert_eq!(store.get(place.0, place.1).unwrap(), None);
                    }
                }
                Operation::Forget(v) => {
                    store.forget(key(v));
                    model.retain(|k, _| k.0 != key(v));
                }
            }
            let bytes: u64 = model.values().map(|(_, data)| data.len() as u64 + file::HEADER_BYTES).sum();
            prop_assert_eq!(store.stats().bytes, bytes);
            prop_assert!(bytes <= LIMIT);
        }
        for ((key, part), (_, data)) in &model {
            prop_assert_eq!(&store.get(*key, *part).unwrap().unwrap()[..], &data[..]);
        }
    }
}
