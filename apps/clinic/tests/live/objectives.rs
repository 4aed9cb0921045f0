//! Tallies of the ambulance's objectives, as viewers of the hospital see them.

use std::time::Duration;

use anabranch::{AllowList, Host, HostConfig, SecretKey, base::ids::encode_base32};
use anabranch_clinic::{
    ambulance,
    hospital::live::{Objectives, State},
    wire::{Notice, OBJECTIVES_MAX, Objective, Purpose, Request, decode, encode},
};
use tokio::time::{sleep, timeout};

use crate::setting::{Car, FREQUENCY, Running, begin, greet, loopback, nothing, record};

/// Longest time of a test, for a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// Waits until viewers see objectives like these.
async fn seen(hospital: &Running, are_expected: impl Fn(&State, &Objectives) -> bool) -> State {
    loop {
        let state = hospital.live.state();
        if let Some(objectives) = &state.objectives
            && are_expected(&state, objectives)
        {
            return state;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_see_what_the_objectives_of_an_ambulance_do() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(&folder.path().join("store"), loopback());
    let (ekg, _) = record(folder.path(), 60 * FREQUENCY);
    let (ambulance, _reports) = begin(ambulance::Settings {
        ekg: Some(ekg),
        is_looping: true,
        ..nothing(&hospital.ticket)
    });
    let text = "hose 2
        objective beats { context { adu:a { label == \"clinic/1/ekg\" } } goal { a::channel::id >= 0 } utility { a { 3 } } }
        objective blue { context { adu:a { label == \"clinic/1/ekg\" } } goal { a::channel::colour == 3 } utility { a { 1 } } }";
    let session = Car::by(2, text).call(&hospital.ticket).await;
    let looking = async {
        let is_counted = |state: &State, objectives: &Objectives| {
            let counted = objectives.tallies.iter().all(|one| one.contexts > 20);
            counted && objectives.dated.error_us.is_some() && state.is_open
        };
        let state = seen(&hospital, is_counted).await;
        let objectives = state.objectives.unwrap();
        let [beats, blue] = &objectives.tallies[..] else {
            panic!("{objectives:?}");
        };
        let name = |one: &Objective| one.name.clone().unwrap();
        assert_eq!((name(beats), name(blue)), ("beats".into(), "blue".into()));
        assert_eq!(
            (beats.contexts_met, beats.utility, beats.contexts_faulty),
            (beats.contexts, 3.0 * beats.contexts as f64, 0)
        );
        assert_eq!(
            (blue.contexts_met, blue.utility, blue.contexts_faulty),
            (0, 0.0, blue.contexts)
        );
        // One that is removed is shown no longer, and that there is none is stated, too.
        let ids: Vec<_> = session.objectives().iter().map(|entry| entry.id).collect();
        session.remove_objective(ids[0]).unwrap();
        let is_blue = |_: &State, objectives: &Objectives| objectives.tallies.len() == 1;
        let state = seen(&hospital, is_blue).await;
        assert_eq!(name(&state.objectives.unwrap().tallies[0]), "blue");
        session.remove_objective(ids[1]).unwrap();
        let are_none = |_: &State, objectives: &Objectives| objectives.tallies.is_empty();
        seen(&hospital, are_none).await;
    };
    tokio::select! {
        ended = ambulance.run(&session) => panic!("{ended:?}"),
        looked = timeout(LONG, looking) => looked.unwrap(),
    }
    hospital.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_ambulance_states_has_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let hospital = Running::start(folder.path(), loopback());
    let session = Car::new(2).call(&hospital.ticket).await;
    let case = greet(&session, &hospital.ticket, false).await;
    assert!(hospital.live.state().objectives.is_none(), "none is stated");
    let objective = |objective| Objective {
        objective,
        name: Some(format!("\u{1b}[2J{}", "x".repeat(10_000))),
        contexts: u64::MAX,
        contexts_met: 0,
        utility: f64::MAX,
        contexts_faulty: 0,
    };
    let message = Request::Objectives {
        at_us: u64::MAX,
        objectives: (0..40).map(objective).collect(),
    };
    case.send(encode(&message)).await.unwrap();
    let state = timeout(LONG, seen(&hospital, |_, _| true)).await.unwrap();
    let tallies = state.objectives.unwrap().tallies;
    assert_eq!(tallies.len(), OBJECTIVES_MAX);
    let name = tallies[31].name.as_deref().unwrap();
    assert!(name.starts_with("\\u001b[2Jxxx"), "{name}");
    assert!(name.chars().count() <= 70, "{name}");
    assert!(state.is_open);
    hospital.stop().await;
}

/// A hospital of an earlier version takes no message that it does not know: one with tallies would end the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_hospital_of_an_earlier_version_is_sent_none() {
    let key = SecretKey::from_seed([1; 32]);
    let config = HostConfig::new(key, AllowList::everyone()).bind([loopback()]);
    let hospital = Host::start(config).unwrap();
    let ticket = anabranch::Ticket {
        node: hospital.node_id(),
        secret: Some(anabranch::ticket::Secret([7; 16])),
        addresses: hospital.addresses(),
        hosts: Vec::new(),
        via: None,
    };
    let folder = tempfile::tempdir().unwrap();
    let (ambulance, _reports) = begin(ambulance::Settings {
        stills: Some(folder.path().to_owned()),
        ..nothing(&ticket)
    });
    let objective = "hose 2 objective all { context { adu:a { stream_id >= 0 } } goal { a::channel::id >= 0 } utility { a { 1 } } }";
    let car = Car::by(2, objective);
    let asked = |takes_objectives: bool| {
        let (hospital, ambulance, ticket, car) = (&hospital, &ambulance, &ticket, &car);
        async move {
            let (session, taken) = tokio::join!(car.call(ticket), hospital.accept());
            let taken = taken.unwrap();
            let asking = async {
                let is_case = |spec: &anabranch::StreamSpec| spec.label == Purpose::Case.label();
                let case = taken.accept_stream_where(is_case).await.unwrap();
                let hello = case.recv().await.unwrap().unwrap();
                let Request::Hello { secret, .. } = decode(&hello.data).unwrap() else {
                    panic!("no greeting");
                };
                assert_eq!(secret, encode_base32(&[7; 16]));
                let welcome = Notice::Welcome {
                    kept_s: None,
                    fills: true,
                    takes_objectives,
                };
                case.send(encode(&welcome)).await.unwrap();
                let (mut clocks, mut tallies) = (0, 0);
                while tallies == 0 && (takes_objectives || clocks < 3) {
                    let question = Notice::Clock { at_us: 1 };
                    case.send(encode(&question)).await.unwrap();
                    match decode(&case.recv().await.unwrap().unwrap().data).unwrap() {
                        Request::Clock { .. } => clocks += 1,
                        Request::Objectives { .. } => tallies += 1,
                        other => panic!("{other:?}"),
                    }
                    // Longer than the period of the tallies, in all.
                    sleep(Duration::from_millis(600)).await;
                }
                tallies
            };
            tokio::select! {
                ended = ambulance.run(&session) => panic!("{ended:?}"),
                tallies = timeout(LONG, asking) => tallies.unwrap(),
            }
        }
    };
    assert_eq!(asked(true).await, 1);
    assert_eq!(asked(false).await, 0);
    hospital.shutdown().await;
}
