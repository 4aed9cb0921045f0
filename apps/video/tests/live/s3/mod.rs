//! A library in an object store.

mod server;
mod signature;

use std::{
    io::{Read, Write},
    path::PathBuf,
    time::Duration,
};

use anabranch::keys;
use anabranch_video::{
    media::Part,
    origin::{
        Library, LibraryError,
        library::s3::{Access, Location, StoreError},
    },
    video::Division,
};
use tempfile::TempDir;

use self::server::{BUCKET, Fault, ID, REGION, SECRET, Store};
use super::{
    film::film,
    setting::{RunningOrigin, RunningProxy, Setting, WHOLE, get, ready},
};

fn access(store: &Store) -> Access {
    let variables = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(ID.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
        "AWS_REGION" => Some(REGION.to_owned()),
        "AWS_ENDPOINT_URL" => Some(store.endpoint()),
        _ => None,
    };
    Access::from_variables(variables).unwrap()
}

fn location(folder: &str) -> Location {
    format!("s3://{BUCKET}/{folder}").parse().unwrap()
}

fn open(store: &Store, folder: &str, indexes: &TempDir) -> Result<Library, LibraryError> {
    divided(store, folder, indexes, Division::default())
}

fn divided(
    store: &Store,
    folder: &str,
    indexes: &TempDir,
    division: Division,
) -> Result<Library, LibraryError> {
    let indexes: PathBuf = indexes.path().to_owned();
    Library::in_store(&location(folder), &access(store), indexes, division)
}

fn bikes() -> Vec<u8> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../crates/media/tests/data/bikes.mp4"
    );
    std::fs::read(path).unwrap()
}

/// The bucket gives the same as a directory with the same film, with any name that keys can have, and in any number of pages.
#[test]
fn a_bucket_is_a_library() {
    let store = Store::start(3);
    let names = ["a b+c%20d", "deep/er/film", "plain", "x&y=z?#", "é"];
    for name in names {
        store.put(&format!("in/{name}.mp4"), bikes());
    }
    for key in [
        "in/note.txt",
        "in/.hidden.mp4",
        "in/../up.mp4",
        "out/film.mp4",
        "in/",
    ] {
        store.put(key, bikes());
    }
    let indexes = tempfile::tempdir().unwrap();
    let library = open(&store, "in", &indexes).unwrap();
    let list: Vec<_> = library.list().into_iter().map(|entry| entry.name).collect();
    assert_eq!(list, names);
    let (asked, _) = store.asked();
    assert!(asked.len() >= 4, "pages: {asked:?}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("film.mp4"), bikes()).unwrap();
    let other = Library::open(folder.path(), None, Division::default()).unwrap();
    let expected = other.video("film").unwrap();
    for name in names {
        let opened = library.video(name).unwrap();
        assert_eq!(opened.index, expected.index, "{name}");
        for chunk in 0..opened.video.count() {
            for part in [Part::Essential, Part::Enhanced] {
                let data = opened.read(chunk, part).unwrap();
                assert!(data == expected.read(chunk, part).unwrap(), "{name}");
            }
        }
    }
    assert!(matches!(
        library.video("out/film"),
        Err(LibraryError::NotFound(_))
    ));
}

/// Indexes are read from the store once: neither this library requests them again, nor one that is opened later.
#[test]
fn an_index_is_made_once() {
    let store = Store::start(1_000);
    store.put("film.mp4", bikes());
    let indexes = tempfile::tempdir().unwrap();
    let library = open(&store, "", &indexes).unwrap();
    library.list();
    store.asked();
    let several = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| library.video("film").unwrap().index.clone()))
            .collect();
        all.into_iter()
            .map(|one| one.join().unwrap())
            .collect::<Vec<_>>()
    });
    assert!(several.windows(2).all(|two| two[0] == two[1]));
    let (asked, _) = store.asked();
    let bytes: u64 = asked.iter().map(|line| range_bytes(line)).sum();
    let total = bikes().len() as u64;
    assert!(
        bytes <= 2 * total && asked.len() < 20,
        "{bytes} of {total}: {asked:?}"
    );
    let later = open(&store, "", &indexes).unwrap();
    later.list();
    store.asked();
    assert_eq!(later.video("film").unwrap().index, several[0]);
    assert_eq!(store.asked().0, [""; 0]);
}

fn range_bytes(line: &str) -> u64 {
    let (from, to) = line.rsplit(' ').next().unwrap().split_once('-').unwrap();
    to.parse::<u64>().unwrap() + 1 - from.parse::<u64>().unwrap()
}

/// Transient failures are not noticed.
#[test]
fn failed_requests_are_retried() {
    let store = Store::start(1_000);
    store.put("film.mp4", bikes());
    let indexes = tempfile::tempdir().unwrap();
    store.fail([Fault::Status(500), Fault::Gone]);
    let library = open(&store, "", &indexes).unwrap();
    store.fail([Fault::Cut, Fault::Status(503)]);
    assert_eq!(library.list().len(), 1);
    store.fail([Fault::Cut, Fault::Gone, Fault::Status(503)]);
    let opened = library.video("film").unwrap();
    store.fail([
        Fault::Status(429),
        Fault::Cut,
        Fault::Status(502),
        Fault::Gone,
    ]);
    let film = opened.read(0, Part::Enhanced).unwrap();
    assert_eq!(film.len() as u64, opened.video.bytes(0, Part::Enhanced));
    assert_eq!(store.asked().1, 11);
    // Not for ever.
    store.fail([Fault::Status(500); 5]);
    let error = opened.read(0, Part::Enhanced).unwrap_err();
    assert!(error.to_string().contains("InternalError"), "{error}");
    opened.read(0, Part::Enhanced).unwrap();
}

/// Another object under the same key is another video, whatever its length.
#[test]
fn a_changed_object_is_reported() {
    let store = Store::start(1_000);
    store.put("film.mp4", bikes());
    let indexes = tempfile::tempdir().unwrap();
    let library = open(&store, "", &indexes).unwrap();
    let opened = library.video("film").unwrap();
    let before = opened.video.version.clone();
    opened.read(0, Part::Essential).unwrap();
    let mut other = bikes();
    *other.last_mut().unwrap() ^= 1;
    store.put("film.mp4", other);
    let error = opened.read(0, Part::Essential).unwrap_err();
    assert!(matches!(error, LibraryError::Changed(_)), "{error}");
    let later = open(&store, "", &indexes).unwrap();
    assert_ne!(later.video("film").unwrap().video.version, before);
    store.remove("film.mp4");
    let error = opened.read(0, Part::Essential).unwrap_err();
    assert!(matches!(error, LibraryError::Changed(_)), "{error}");
}

type Change = fn(&mut Access);

#[test]
fn wrong_settings_are_reported_clearly() {
    let store = Store::start(1_000);
    let indexes = tempfile::tempdir().unwrap();
    let open = |location: &str, change: Change| {
        let mut access = access(&store);
        change(&mut access);
        let location = location.parse().unwrap();
        let indexes = indexes.path().to_owned();
        let opened = Library::in_store(&location, &access, indexes, Division::default());
        opened.map(|library| library.list())
    };
    let cases: [(&str, Change, &str); 6] = [
        ("s3://other", |_| (), "there is no bucket 'other'"),
        (
            "s3://films",
            |access| access.key.as_mut().unwrap().id = "AKOTHER".into(),
            "AWS_ACCESS_KEY_ID",
        ),
        (
            "s3://films",
            |access| access.key.as_mut().unwrap().secret = "x".into(),
            "AWS_SECRET_ACCESS_KEY",
        ),
        ("s3://films", |access| access.key = None, "is not public"),
        (
            "s3://films",
            |access| access.endpoint = Some("ftp://x".into()),
            "not a valid endpoint",
        ),
        (
            "s3://films",
            |access| access.endpoint = Some("http://127.0.0.1:1".into()),
            "cannot be reached",
        ),
    ];
    for (location, change, expected) in cases {
        let error = open(location, change).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // A public bucket needs no key.
    store.publish();
    assert_eq!(open("s3://films", |access| access.key = None).unwrap(), []);
}

/// A retry does not help where no handshake succeeds.
#[test]
fn an_untrusted_store_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        // Until the peer has seen it.
        let _ = connection.read_to_end(&mut Vec::new());
    });
    let access = Access {
        endpoint: Some(endpoint),
        ..access(&Store::start(1))
    };
    let indexes = tempfile::tempdir().unwrap().path().to_owned();
    let error = Library::in_store(&location(""), &access, indexes, Division::default())
        .map(|library| library.list())
        .unwrap_err();
    assert!(error.to_string().contains("AWS_CA_BUNDLE"), "{error}");
    answering.join().unwrap();
}

/// Origin, pipe, proxy: a player sees no difference, until the object changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn films_play_from_an_object_store() {
    let store = Store::start(1_000);
    store.put("in/film.mp4", std::fs::read(film(20)).unwrap());
    let setting = Setting::whole(&film(20));
    let reference = setting.proxy().await;
    ready(&reference).await;
    let expected = get(reference.address, "/v/film.mp4", "").await;
    reference.stop().await;

    let indexes = tempfile::tempdir().unwrap();
    let library = divided(&store, "in", &indexes, WHOLE).unwrap();
    let key = keys::generate().unwrap();
    let origin = RunningOrigin::of(library, &key);
    let mut config = setting.config();
    config.cache = setting.folder.path().join("other");
    config.prefix = anabranch_video::proxy::Prefix::Fixed(Duration::ZERO);
    let proxy = RunningProxy::start(config, &origin.ticket).await;
    ready(&proxy).await;
    store.fail([Fault::Status(503), Fault::Cut]);
    let answer = get(proxy.address, "/v/film.mp4", "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body == expected.body, "the same film");

    store.put("in/film.mp4", std::fs::read(film(30)).unwrap());
    // The content of the cache plays; the proxy learns of the new version by itself.
    let waiting = async {
        loop {
            let list = get(proxy.address, "/v/film/0/index.m3u8", "").await;
            if String::from_utf8_lossy(&list.body).contains("\n6.m4s") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(super::setting::TIMEOUT, waiting)
        .await
        .expect("the new version");
    assert_eq!(get(proxy.address, "/v/film/0/6.m4s", "").await.status, 200);
    proxy.stop().await;
    origin.stop().await;
}

/// An object that changes while it is played ends in the same response as a changed file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_play_of_a_changed_object_ends_in_410() {
    let store = Store::start(1_000);
    store.put("film.mp4", std::fs::read(film(60)).unwrap());
    let indexes = tempfile::tempdir().unwrap();
    let library = open(&store, "", &indexes).unwrap();
    let key = keys::generate().unwrap();
    let origin = RunningOrigin::of(library, &key);
    let cache = tempfile::tempdir().unwrap();
    let mut config = anabranch_video::proxy::Config::new(cache.path().to_owned());
    config.prefix = anabranch_video::proxy::Prefix::Fixed(Duration::ZERO);
    let proxy = RunningProxy::start(config, &origin.ticket).await;
    ready(&proxy).await;
    let first = get(proxy.address, "/v/film/0/0.m4s", "").await;
    let words = String::from_utf8_lossy(&first.body).into_owned();
    assert_eq!(first.status, 200, "{words}");
    store.put("film.mp4", bikes());
    // A position that was not requested before: changed, or of a new version already, which has no such position.
    let last = get(proxy.address, "/v/film/0/14.m4s", "").await;
    assert!(matches!(last.status, 410 | 404), "{last:?}");
    let words = String::from_utf8_lossy(&last.body).into_owned();
    if last.status == 410 {
        assert!(words.contains("has changed"), "{words}");
    }
    proxy.stop().await;
    origin.stop().await;
}

#[test]
fn errors_have_a_source() {
    let store = Store::start(1_000);
    let indexes = tempfile::tempdir().unwrap();
    let access = access(&store);
    let location = "s3://other".parse().unwrap();
    let opened = Library::in_store(
        &location,
        &access,
        indexes.path().to_owned(),
        Division::default(),
    );
    let error = opened.unwrap_err();
    assert!(
        matches!(error, LibraryError::Store(StoreError::NoBucket { .. })),
        "{error}"
    );
}
