use std::{sync::Arc, time::Duration};

use anabranch_base::{ChannelId, Instant, Seed, StreamId};
use anabranch_sched::{Changes, ChannelView, Decision, Policy, StreamView};
use anabranch_spec::{Assignment, ChannelChoice, ChannelMask, Plan, Priority, StreamSpec};

use super::{recorder::BYTES_MIN, *};

fn records(file: &[u8]) -> Vec<Record> {
    Transcript::new(file)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(Instant::from_secs(3), BYTES_MIN, true);
    recorder.policy(Some(Policy::MinRtt), Seed(9));
    recorder
}

#[test]
fn records_are_read_as_they_were_written() {
    let mut recorder = recorder();
    let spec = Arc::new(StreamSpec::live("camera", Duration::from_millis(80)));
    let at = Instant::from_millis(3_005);
    recorder.opened(at, StreamId(4), &spec);
    recorder.adu(at, StreamId(4), 0, 70_000);
    recorder.channel(Some(at), ChannelId(7), ChannelChange::Connected);
    let plan = Plan {
        assignments: vec![Assignment {
            stream: StreamId(4),
            window: Duration::from_secs(1),
            window_bytes: 1e6 / 3.0,
            constraint: 1.0,
            may_split: true,
            shares: vec![(ChannelId(7), 0.1)],
        }],
    };
    recorder.plan(at, &plan);
    recorder.outcome(at, (ChannelId(7), 12), None);
    recorder.outcome(at, (ChannelId(7), 13), Some(Duration::from_micros(40_001)));
    let file = recorder.file();
    let read = records(&file);
    assert_eq!(read.len(), 8);
    assert!(
        matches!(&read[2], Record::Opened { label, lifetime: Some(time), .. }
            if label == "camera" && *time == Duration::from_millis(80))
    );
    assert_eq!(
        read[3],
        Record::Adu {
            at,
            stream: StreamId(4),
            sequence: 0,
            bytes: 70_000
        }
    );
    assert_eq!(read[5], Record::Plan { at, plan });
    assert!(
        matches!(read[7], Record::Outcome { outcome: Outcome::Acked(rtt), .. }
        if rtt == Duration::from_micros(40_001))
    );
}

#[test]
fn other_files_and_versions_are_refused() {
    let file = recorder().file();
    assert_eq!(Transcript::new(b"anything").err(), Some(Malformed::Magic));
    let mut other = file;
    other[8] = 3;
    let error = Transcript::new(&other).err();
    assert_eq!(error, Some(Malformed::Version(3)));
    assert!(Malformed::Version(3).to_string().contains("version 3"));
}

#[test]
fn a_truncated_file_is_good_up_to_where_it_ends() {
    let mut recorder = recorder();
    for sequence in 0..10 {
        recorder.adu(Instant::from_secs(4), StreamId(1), sequence, 100);
    }
    let file = recorder.file();
    let whole = records(&file);
    for end in 9..file.len() {
        let mut transcript = Transcript::new(&file[..end]).unwrap();
        let read: Vec<Record> = transcript.by_ref().map_while(Result::ok).collect();
        assert_eq!(read, whole[..read.len()]);
        let mut transcript = Transcript::new(&file[..end]).unwrap();
        assert_eq!(transcript.find_map(Result::err), Some(Malformed::Truncated));
        assert_eq!(
            replay(&file[..end]).unwrap().broken.unwrap().1,
            Malformed::Truncated
        );
    }
}

#[test]
fn memory_is_bounded_and_the_latest_part_stays() {
    let mut recorder = recorder();
    let spec = Arc::new(StreamSpec::bulk("backup"));
    recorder.opened(Instant::from_secs(3), StreamId(2), &spec);
    for sequence in 0..100_000 {
        recorder.adu(Instant::from_millis(sequence), StreamId(2), sequence, 1_000);
    }
    let file = recorder.file();
    assert!(file.len() <= BYTES_MIN + 64, "{} bytes", file.len());
    let read = records(&file);
    assert!(matches!(
        read[0],
        Record::Begin {
            is_start: false,
            restated: 2,
            ..
        }
    ));
    assert!(matches!(&read[1], Record::Policy { policy, .. } if policy == "min_rtt"));
    assert!(matches!(&read[2], Record::Opened { label, .. } if label == "backup"));
    assert!(
        matches!(read.last(), Some(Record::Adu { sequence: 99_999, at, .. })
            if *at == Instant::from_millis(99_999))
    );
}

/// The policy changes between its decision and what came of it, which no session does: the new one indexed channels that it had not seen.
#[test]
fn a_scheduler_that_was_not_asked_is_told_nothing() {
    let mut recorder = Recorder::new(Instant::from_secs(3), BYTES_MIN, true);
    recorder.policy(Some(Policy::Wfq), Seed(9));
    let channel = ChannelView {
        id: ChannelId(0),
        slots: 4,
        packet_bytes: 1_400,
        rtt_smoothed: Duration::from_millis(20),
        rtt_min: Duration::from_millis(20),
        rtt_usual: Duration::ZERO,
        rtt_variation: Duration::from_millis(1),
        rate_bytes_per_s: 1e6,
        window_bytes: 20_000,
        in_flight_bytes: 0,
        loss: 0.0,
    };
    let stream = StreamView {
        id: StreamId(2),
        priority: Priority::NORMAL,
        weight: 100,
        backlog_bytes: 9_000,
        deadline: None,
        pinned: None,
        choice: ChannelChoice::default(),
        redundant: false,
        claim: None,
    };
    let views = (&[channel][..], &[stream][..]);
    let decide = |recorder: &mut Recorder| {
        recorder.run(Instant::from_secs(4), views, Changes::Any, (None, false));
        recorder.decision(Decision::Send {
            stream: 0,
            channels: ChannelMask::only(0),
        });
        recorder.took(0, 1_400);
    };
    decide(&mut recorder);
    let file = recorder.file();
    let replayed = replay(&file).unwrap();
    assert_eq!((replayed.same, replayed.broken), (1, None));
    // Files of version 1 are read: their views have no usual round trip, as this one.
    let mut earlier = file;
    earlier[8] = 1;
    let replayed = replay(&earlier).unwrap();
    assert_eq!((replayed.same, replayed.broken), (1, None));

    recorder.policy(Some(Policy::Wfq), Seed(9));
    recorder.took(0, 1_400);
    let error = replay(&recorder.file()).unwrap().broken.unwrap().1;
    assert!(matches!(error, Malformed::Value(text) if text.contains("contradicts")));

    // After a scheduler without a name nothing is compared.
    let mut recorder = Recorder::new(Instant::from_secs(3), BYTES_MIN, true);
    recorder.policy(None, Seed(9));
    recorder.policy(Some(Policy::Wfq), Seed(9));
    decide(&mut recorder);
    let replayed = replay(&recorder.file()).unwrap();
    assert!(replayed.unrepeatable.is_some() && replayed.broken.is_none());
}
