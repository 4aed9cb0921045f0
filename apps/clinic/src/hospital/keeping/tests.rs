use std::sync::Arc;

use tokio::{sync::mpsc, time::timeout};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);
const START_S: u64 = 1_700_000_000;

/// A store with a case whose patient consented to `consent`, after its session; the hospital keeps cases for 30 days.
fn after_a_session(consent: Duration, is_complete: bool) -> (tempfile::TempDir, PathBuf, Keeping) {
    let store = tempfile::tempdir().unwrap();
    let keeping = Keeping::open_at(store.path(), 30 * DAY, START_S).unwrap();
    let folder = store.path().join("node-1");
    let kept = keeping.begin(&folder, consent.as_secs());
    assert_eq!(kept, consent.min(30 * DAY));
    fs::create_dir_all(folder.join("stills")).unwrap();
    keeping.note(&folder).unwrap();
    fs::write(folder.join("stills/0000-a"), "a").unwrap();
    keeping.end(&folder, is_complete).unwrap();
    (store, folder, keeping)
}

/// Time until the folder is removed; `None`: it is there after a year.
async fn removed(keeping: Keeping, folder: &Path) -> Option<Duration> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let keeping = Arc::new(keeping);
    let running = tokio::spawn(async move {
        let told = move |folder, why: Option<io::Error>| {
            sender
                .send((folder, why.map(|why| why.to_string())))
                .unwrap();
        };
        keeping.run(told).await;
    });
    let begun = Instant::now();
    let gone = timeout(365 * DAY, receiver.recv()).await;
    running.abort();
    let (gone, why) = gone.ok()??;
    assert_eq!((gone.as_path(), why), (folder, None));
    assert!(!folder.exists());
    Some(begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_case_is_kept_for_the_time_of_its_consent_and_no_longer_than_others() {
    for (consent, is_complete, wanted) in [
        (Duration::ZERO, true, Duration::ZERO),
        (Duration::ZERO, false, RETURN_TIME),
        (Duration::from_secs(600), false, RETURN_TIME),
        (2 * DAY, true, 2 * DAY),
        (2 * DAY, false, 2 * DAY),
        (KEPT_MAX, true, 30 * DAY),
    ] {
        let (store, folder, keeping) = after_a_session(consent, is_complete);
        assert!(folder.join("stills/0000-a").exists());
        let passed = removed(keeping, &folder).await.unwrap();
        let words = format!("{consent:?}, complete: {is_complete}");
        assert!(
            passed >= wanted && passed <= wanted + PAUSE,
            "{words}: {passed:?}"
        );
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hospital_that_is_started_again_goes_on_counting() {
    let (store, folder, keeping) = after_a_session(2 * DAY, true);
    drop(keeping);
    let again = Keeping::open_at(store.path(), 30 * DAY, START_S + DAY.as_secs()).unwrap();
    let passed = removed(again, &folder).await.unwrap();
    assert!(passed >= DAY && passed <= DAY + PAUSE, "{passed:?}");
}

/// A hospital that was killed during a long case did not note its end: the ambulance, which calls again, finds the case.
#[tokio::test(start_paused = true)]
async fn a_killed_hospital_leaves_time_to_go_on() {
    let (store, folder, keeping) = after_a_session(Duration::ZERO, true);
    keeping.begin(&folder, 0);
    keeping.note(&folder).unwrap();
    drop(keeping);
    let again = Keeping::open_at(store.path(), 30 * DAY, START_S + DAY.as_secs()).unwrap();
    let passed = removed(again, &folder).await.unwrap();
    assert!(
        passed >= RETURN_TIME && passed <= RETURN_TIME + PAUSE,
        "{passed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_open_case_and_folders_without_a_note_stay() {
    let (store, folder, keeping) = after_a_session(Duration::ZERO, true);
    keeping.begin(&folder, 0);
    let others = [store.path().join("other"), store.path().join("node-2")];
    for other in &others {
        fs::create_dir(other).unwrap();
    }
    fs::write(others[1].join(FILE), "{}").unwrap();
    let other_hospital = Keeping::open_at(store.path(), DAY, START_S + 1).unwrap();
    let seen = other_hospital.cases().keys().cloned().collect::<Vec<_>>();
    assert_eq!(seen, [folder.as_path()]);
    assert_eq!(removed(keeping, &folder).await, None);
    assert!(folder.exists() && others.iter().all(|other| other.exists()));
}

/// The former note is in force until one can be written, which is tried once more at the end of the session.
#[tokio::test(start_paused = true)]
async fn a_note_that_cannot_be_written_is_an_error_and_changes_nothing() {
    let (store, folder, keeping) = after_a_session(2 * DAY, true);
    let draft = folder.join("keeping.new");
    fs::create_dir(&draft).unwrap();
    keeping.begin(&folder, 0);
    keeping.note(&folder).unwrap_err();
    assert_eq!(read(&folder).unwrap().kept_s, 2 * DAY.as_secs());
    fs::remove_dir(&draft).unwrap();
    keeping.end(&folder, true).unwrap();
    assert_eq!(read(&folder).unwrap().kept_s, 0);
    drop(store);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_was_interrupted_is_finished() {
    let (store, folder, keeping) = after_a_session(Duration::ZERO, true);
    let aside = store.path().join(".removed-node-1");
    fs::rename(&folder, &aside).unwrap();
    drop(keeping);
    let again = Keeping::open_at(store.path(), DAY, START_S).unwrap();
    assert_eq!(removed(again, &folder).await, Some(Duration::ZERO));
    assert!(!aside.exists());
}

/// A file in place of the folder that is put aside: the case stays, is reported, and is tried again.
#[tokio::test(start_paused = true)]
async fn a_case_that_cannot_be_removed_is_reported_and_tried_again() {
    let (store, folder, keeping) = after_a_session(Duration::ZERO, true);
    let aside = store.path().join(".removed-node-1");
    fs::write(&aside, "in its way").unwrap();
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let told = move |_, why: Option<io::Error>| sender.send(why.is_none()).unwrap();
    let checked = async {
        assert_eq!(receiver.recv().await, Some(false));
        assert!(folder.exists());
        let begun = Instant::now();
        assert_eq!(receiver.recv().await, Some(false));
        assert!(begun.elapsed() >= PAUSE);
        fs::remove_file(&aside).unwrap();
        assert_eq!(receiver.recv().await, Some(true));
        assert!(!folder.exists());
    };
    tokio::select! {
        never = keeping.run(told) => match never {},
        () = checked => {}
    }
}
