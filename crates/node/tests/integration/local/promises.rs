//! Promises and decisions through the interface: refused with an offer, granted, explained, released.

use anabranch::{
    AduSession, ClientError, Controller, Failure, Guarantee, PromiseEvent, Reason, StreamSpec,
    Term, base::Rate,
};

use super::Pair;

fn asking(rate: Rate, probability: f64) -> StreamSpec {
    StreamSpec::messages("asking").with_guarantee(Guarantee::rate(rate, probability))
}

#[tokio::test]
async fn a_promise_is_refused_with_an_offer_granted_explained_and_released() {
    let pair = Pair::with_near(|config| {
        // A rate that fills the path without keeping the machine busy.
        config.engine.channel.controller = "fixed 4 Mbit/s".parse::<Controller>().unwrap();
    })
    .await;
    pair.run(async {
        let far = pair.far.attach().await;
        let service = far.register("*").await.unwrap();
        let reading = tokio::spawn(async move {
            while let Ok((_, stream)) = service.accept().await {
                tokio::spawn(async move { while let Ok(Some(_)) = stream.recv().await {} });
            }
        });
        let near = pair.near.attach().await;
        let session = pair.session(&near).await;
        let wanted = Guarantee::rate(Rate::from_kbps(200), 0.5);
        // Too early: the reason says how much is known of the path, and how much has to be.
        let early = session.open_stream(asking(Rate::from_kbps(200), 0.5)).await;
        let ClientError::Refused(refusal) = early.unwrap_err() else {
            panic!("it is no refusal");
        };
        let Reason::TooLittleKnown {
            windows, needed, ..
        } = refusal.reason
        else {
            panic!("{refusal}");
        };
        assert!(windows < needed);
        let spec = StreamSpec::messages("asking").with_guarantee(wanted.waiting());
        let stream = session.open_stream(spec).await.unwrap();
        let filler = session
            .open_stream(StreamSpec::bulk("filler"))
            .await
            .unwrap();
        let filling =
            tokio::spawn(async move { while filler.send(vec![7; 50_000]).await.is_ok() {} });
        let event = stream.next_promise().await.unwrap();
        let PromiseEvent::Promised(grant) = event else {
            panic!("{event}");
        };
        assert_eq!(
            (grant.guarantee, grant.term),
            (wanted.waiting(), Term::Renewable)
        );
        assert_eq!(grant.shares.len(), 1);
        let explained = stream.explain().await.unwrap().unwrap();
        assert_eq!(
            (explained.stream, explained.term),
            (stream.id(), Some(Term::Renewable))
        );
        // Probes were enough for a promise. Traffic shows more, so that the node can tell what will be in time.
        while stream.explain().await.unwrap().unwrap().windows_known < 20 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let on_time = async |bytes, ms| {
            let within = std::time::Duration::from_millis(ms);
            let chances = stream.chances(bytes, within).await.unwrap()?;
            assert!(chances.on_time <= chances.unless_lost, "{chances:?}");
            Some(chances.on_time)
        };
        // Windows in which a busy machine did not fill the path, or carried nothing, count, too.
        while on_time(100, 3_000).await.is_none_or(|share| share <= 0.5) {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert!(on_time(16 << 20, 100).await.unwrap() < 0.1);
        // What is left may be had, more than the path ever carried may not; the offer is accepted as it stands.
        // (A machine that is busy carries nothing for seconds, and that is measured, too.)
        while session
            .admit(&asking(Rate::from_kbps(50), 0.5))
            .await
            .is_err()
        {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let refused = session.admit(&asking(Rate::from_mbps(1_000), 0.5)).await;
        let refused = refused.unwrap_err();
        let refusal = refused.refusal().unwrap();
        assert!(
            matches!(refusal.reason, Reason::TooLittle { .. }),
            "{refusal}"
        );
        let offer = refusal.offer.rate.unwrap();
        assert!(
            offer > Rate::ZERO && offer < Rate::from_mbps(1_000),
            "{offer}"
        );
        let accepted = through(&session, asking(offer * 0.5, 0.5)).await;
        accepted.change_guarantee(None).await.unwrap();
        assert_eq!(accepted.explain().await.unwrap(), None);
        stream.change_guarantee(None).await.unwrap();
        assert_eq!(stream.explain().await.unwrap(), None);
        filling.abort();
        reading.abort();
    })
    .await;
}

/// Opens a stream through the trait, as a program does that runs in either place.
async fn through<S: AduSession>(session: &S, spec: StreamSpec) -> S::Stream {
    session.open_stream(spec).await.unwrap()
}
