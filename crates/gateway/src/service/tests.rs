//! Services of the kinds of flows, from texts.

use anabranch::Priority;

use super::*;

fn of(profile: &str, kind: Kind) -> StreamSpec {
    let text = ServiceText::of_profile(profile).0;
    Service::read(kind, &text).unwrap().spec
}

#[test]
fn every_profile_fits_connections_and_datagrams() {
    for profile in Profile::ALL {
        let bytes = of(profile.name(), Kind::Bytes);
        assert!(bytes.reliable && bytes.order == Order::Ordered, "{profile}");
        assert_eq!((bytes.lifetime, bytes.drop), (None, None), "{profile}");
        assert_eq!(bytes.priority, profile.spec().priority, "{profile}");
        let datagrams = of(profile.name(), Kind::Datagrams);
        assert_eq!(datagrams.order, Order::Unordered, "{profile}");
        assert!(datagrams.lifetime.is_some(), "{profile}");
        assert_eq!(datagrams.redundant, profile.spec().redundant, "{profile}");
        let packets = of(profile.name(), Kind::Packets);
        assert_eq!(packets.order, Order::Unordered, "{profile}");
        assert!(packets.lifetime.is_some() && packets.duplex, "{profile}");
        assert_eq!(packets.priority, profile.spec().priority, "{profile}");
    }
}

#[test]
fn packets_are_repaired_unless_their_service_says_otherwise() {
    let bulk = of("bulk", Kind::Packets);
    assert_eq!(
        (bulk.lifetime, bulk.reliable),
        (Some(PACKET_LIFETIME), true)
    );
    let live = of("live", Kind::Packets);
    assert_eq!(live.lifetime, Some(Duration::from_millis(300)));
    let text = SpecText {
        drop: Some("oldest".to_owned()),
        ..SpecText::default()
    };
    let dropping = Service::read(Kind::Packets, &text).unwrap().spec;
    assert_eq!(
        (dropping.reliable, dropping.drop),
        (false, Some(DropOrder::Oldest))
    );
}

#[test]
fn datagrams_have_the_lifetime_of_a_profile_that_has_one() {
    let live = of("live", Kind::Datagrams);
    assert_eq!(live.lifetime, Some(Duration::from_millis(300)));
    assert!(live.reliable, "repaired until then");
    assert_eq!(live.priority, Priority::URGENT);
    let bulk = of("bulk", Kind::Datagrams);
    assert_eq!((bulk.lifetime, bulk.reliable), (Some(LIFETIME), false));
    assert_eq!(bulk.drop, Some(DropOrder::Oldest));
}

#[test]
fn explicit_values_that_do_not_fit_are_refused() {
    let lifetime = SpecText {
        lifetime: Some("300 ms".to_owned()),
        ..SpecText::default()
    };
    assert!(Services::read(&lifetime, None).is_err());
    assert!(Services::read(&lifetime, Some(false)).is_err());
    let services = Services::read(&lifetime, Some(true)).unwrap();
    let target = "udp:10.0.0.1:5004".parse().unwrap();
    let spec = services.of(&target).spec.clone();
    assert_eq!(spec.lifetime, Some(Duration::from_millis(300)));
    assert_eq!(services.name(), "lifetime 300 ms");
}

#[test]
fn a_promise_waits_unless_it_says_otherwise() {
    let read = |waits: Option<bool>| {
        let guarantee = anabranch::spec::GuaranteeText {
            rate: Some("6 Mbit/s".to_owned()),
            probability: Some("99 %".to_owned()),
            waits,
            ..Default::default()
        };
        let text = SpecText {
            guarantee: Some(guarantee),
            ..SpecText::default()
        };
        Service::read(Kind::Datagrams, &text).unwrap()
    };
    assert!(read(None).waits && read(Some(true)).waits);
    assert!(!read(Some(false)).waits);
    // The stream is opened with the promise first.
    assert!(!read(None).spec.guarantee.unwrap().waits);
}
