//! Viewers that read, that do not, and that come later.

use anabranch::SecretKey;

use super::*;
use crate::annexb::PictureType;

const NOW: Dated = Dated {
    at_us: 5,
    error_us: Some(1),
};

fn node() -> NodeId {
    SecretKey::from_seed([1; 32]).node_id()
}

fn live() -> (Arc<Live>, u32) {
    let live = Arc::new(Live::new(Instant::now()));
    let case = live.begin((node(), 7), Contents::default(), Duration::from_secs(60));
    let header = Header::read(b"r 1 500\nr.dat 16\n").unwrap();
    live.leads(case, &header, 0, 0);
    (live, case)
}

fn samples(live: &Live, case: u32, first: u64) {
    let samples = Samples {
        captured_us: 0,
        first,
        samples: vec![first as i16; 2],
    };
    live.samples(case, &samples, 1, NOW);
}

fn picture(live: &Live, case: u32, number: u64, is_key: bool, bytes: usize) {
    let picture = Picture {
        captured_us: 0,
        number,
        kind: PictureType::Intra,
        is_key,
        group: 1,
        bytes: vec![0; bytes].into(),
    };
    live.picture(case, &picture, NOW, Pictures::default());
}

async fn first(viewer: &mut Viewer) -> u64 {
    match viewer.next().await {
        Item::Samples { first, .. } => first,
        Item::Picture { number, .. } | Item::Speech { number, .. } => number,
    }
}

#[tokio::test]
async fn a_viewer_that_does_not_read_loses_the_oldest_and_holds_up_nobody() {
    let (live, case) = live();
    let [mut slow, mut quick] = [live.view().unwrap(), live.view().unwrap()];
    let given = SAMPLES_MAX as u64 + 44;
    for at in 0..given {
        samples(&live, case, at * 2);
        assert_eq!(first(&mut quick).await, at * 2);
    }
    assert_eq!(first(&mut slow).await, 88);
    assert_eq!((slow.dropped(), quick.dropped()), ([44, 0, 0], [0; 3]));
    let others: Vec<_> = (2..VIEWERS_MAX).map(|_| live.view()).collect();
    assert!(others.iter().all(Option::is_some) && live.view().is_none());
    assert_eq!(live.state().viewers, VIEWERS_MAX);
    drop(slow);
    assert!(live.view().is_some());
    assert_eq!(live.state().ekg.unwrap().next, given * 2);
}

#[tokio::test]
async fn a_later_viewer_begins_with_the_picture_at_which_a_decoder_can() {
    let (live, case) = live();
    for number in 0..5 {
        picture(&live, case, number, number == 3, 10);
    }
    let mut viewer = live.view().unwrap();
    picture(&live, case, 5, false, 10);
    for number in 3..6 {
        assert_eq!(first(&mut viewer).await, number);
    }
    // After a loss, what is there is of no use to a decoder that begins.
    picture(&live, case, 7, false, 10);
    let mut late = live.view().unwrap();
    picture(&live, case, 8, false, 10);
    assert_eq!(first(&mut late).await, 8);
    // Nor is a group that has become too long for the memory.
    picture(&live, case, 9, true, PICTURE_BYTES_MAX);
    for number in 10..20 {
        picture(&live, case, number, false, PICTURE_BYTES_MAX);
    }
    assert!(live.lock().group.is_empty());
    picture(&live, case, 20, true, PICTURE_BYTES_MAX + 1);
    assert_eq!(live.state().video.not_shown, 1);
}

#[test]
fn an_earlier_case_changes_nothing_and_a_later_session_goes_on() {
    let (live, case) = live();
    live.missing(case, 3);
    live.end(case, "lost");
    let state = live.state();
    assert_eq!((state.is_open, state.why.as_deref()), (false, Some("lost")));
    assert_eq!(
        live.begin((node(), 7), Contents::default(), Duration::from_secs(60)),
        case
    );
    assert_eq!(live.state().ekg.unwrap().missing, 3);
    let next = live.begin((node(), 8), Contents::default(), Duration::from_secs(60));
    assert_eq!(next, case + 1);
    samples(&live, case, 0);
    live.end(case, "late");
    let state = live.state();
    assert!(state.is_open && state.ekg.is_none() && state.why.is_none());
}

#[test]
fn files_are_listed_up_to_a_number() {
    let (live, case) = live();
    for number in 0..40 {
        let still = Still {
            number,
            name: "a.jpg".to_owned(),
            bytes: 1,
            at_us: 0,
        };
        live.kept(case, still, PathBuf::from(number.to_string()));
    }
    assert_eq!(live.still(7), None);
    assert_eq!(live.still(8), Some(PathBuf::from("8")));
    assert_eq!(live.state().stills_kept, 40);
}
