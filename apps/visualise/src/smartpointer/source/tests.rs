//! Tests of the source, without a node.

use tokio::sync::mpsc;

use super::{Report, Settings, Source};
use crate::{
    molecule::Trajectory,
    promise::Asking,
    smartpointer::{
        frame::{FramePart, Part, bond_numbers},
        view::View,
    },
};

fn source(atoms: u32, rate: u32, is_looping: bool) -> std::sync::Arc<Source> {
    let settings = Settings {
        name: "adk".to_owned(),
        rate,
        is_looping,
        asking: Asking::Nothing,
    };
    let trajectory = Trajectory::generated(atoms).unwrap();
    Source::new(settings, trajectory, mpsc::channel::<Report>(10).0)
}

fn peer() -> anabranch::base::NodeId {
    anabranch::SecretKey::from_seed([7; 32]).node_id()
}

async fn next(
    source: &Source,
    outlets: &[std::sync::Arc<super::looker::Outlet>; 3],
) -> [FramePart; 3] {
    let _ = source;
    let [atoms, seen, unseen] = outlets;
    [
        atoms.queue.take().await.unwrap(),
        seen.queue.take().await.unwrap(),
        unseen.queue.take().await.unwrap(),
    ]
}

#[tokio::test]
async fn the_view_holds_from_the_next_frame_on() {
    let source = source(400, 25, true);
    let looker = source.enter(peer()).unwrap();
    let outlets = Part::ALL.map(|part| looker.open(part).unwrap());
    assert!(looker.open(Part::Atoms).is_none(), "one stream each");
    source.make(0, 0).unwrap();
    let [atoms, seen, unseen] = next(&source, &outlets).await;
    assert_eq!((atoms.count(), seen.count(), unseen.count()), (400, 399, 0));
    let half = View::new(vec![[1.0, 0.0, 0.0, 0.0]]).unwrap();
    looker.look(9, half);
    source.make(1, 1).unwrap();
    let parts = next(&source, &outlets).await;
    assert!(parts.iter().all(|part| (part.frame, part.view) == (1, 9)));
    let [_, seen, unseen] = parts;
    assert!(seen.count() > 0 && unseen.count() > 0);
    let mut all: Vec<u32> = bond_numbers(&seen.body)
        .chain(bond_numbers(&unseen.body))
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..399).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_that_is_not_read_skips_whole_frames() {
    let source = source(10, 25, true);
    let [slow, quick] = [(); 2].map(|()| source.enter(peer()).unwrap());
    let slow_atoms = slow.open(Part::Atoms).unwrap();
    let quick_atoms = quick.open(Part::Atoms).unwrap();
    for number in 0..20 {
        source.make(number, number).unwrap();
        assert_eq!(quick_atoms.queue.take().await.unwrap().frame, number);
    }
    assert_eq!(slow_atoms.queue.take().await.unwrap().frame, 15);
    assert_eq!((slow.counts().1, quick.counts().1), ([15, 0, 0], [0; 3]));
    // What is asked for follows from the frames.
    assert_eq!(*quick_atoms.rate.borrow(), 8 * 25 * (14 + 120));
}

#[tokio::test]
async fn nobody_has_too_many_viewers() {
    let source = source(1, 25, true);
    let lookers: Vec<_> = (0..8).map(|_| source.enter(peer()).unwrap()).collect();
    assert!(source.enter(peer()).is_none());
    let other = anabranch::SecretKey::from_seed([8; 32]).node_id();
    assert!(source.enter(other).is_some());
    source.lookers().remove(&lookers[0].number);
    assert!(source.enter(peer()).is_some());
}

#[tokio::test(start_paused = true)]
async fn frames_are_numbered_by_their_time_and_end_with_the_trajectory() {
    let source = source(0, 50, false);
    let looker = source.enter(peer()).unwrap();
    let outlets = Part::ALL.map(|part| looker.open(part).unwrap());
    source.watching.send_modify(|count| *count += 3);
    let begin = tokio::time::Instant::now();
    let playing = tokio::spawn({
        let source = source.clone();
        async move { source.play().await }
    });
    for number in 0..250 {
        let parts = next(&source, &outlets).await;
        assert!(
            parts
                .iter()
                .all(|part| part.frame == number && part.body.is_empty())
        );
    }
    for outlet in &outlets {
        assert_eq!(outlet.queue.take().await, None);
    }
    let why = playing.await.unwrap().unwrap();
    assert!(why.contains("is over"), "{why}");
    assert_eq!(begin.elapsed().as_millis(), 5_000);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_until_it_is_reported_that_the_viewers_have_left() {
    let source = source(0, 50, false);
    source.present.send_modify(|count| *count += 1);
    let idle = source.idle();
    tokio::pin!(idle);
    let second = std::time::Duration::from_secs(1);
    tokio::time::timeout(second, &mut idle).await.unwrap_err();
    source.present.send_modify(|count| *count -= 1);
    let begin = tokio::time::Instant::now();
    idle.await;
    assert!(begin.elapsed().is_zero());
}
