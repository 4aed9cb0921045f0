use std::time::Duration;

use super::*;

const EXAMPLE: &str = include_str!("../../stream.example.toml");

fn resolve(text: &str) -> Result<StreamSpec, ConfigError> {
    SpecText::from_toml(text)?.resolve()
}

fn guarantee(text: &str) -> Result<Guarantee, ConfigError> {
    let spec = resolve(&format!("[guarantee]\n{text}"))?;
    Ok(*spec.guarantee.unwrap())
}

/// Every key that is commented out in the example is accepted with the value given there, and that value is the default.
#[test]
fn the_example_shows_every_key_with_its_default() {
    let commented = resolve(EXAMPLE).unwrap();
    let bare: String = EXAMPLE
        .lines()
        // No profile is the default; a test of its own is about profiles.
        .filter(|line| !line.starts_with("#profile"))
        .map(|line| line.strip_prefix('#').unwrap_or(line))
        .filter(|line| !line.starts_with(' ') && (line.contains(" = ") || line.starts_with('[')))
        .flat_map(|line| [line, "\n"])
        .collect();
    let shown = resolve(&bare).unwrap();
    // These have no default that could be written in the file.
    assert_eq!(shown.pinned, Some(ChannelId(0)));
    assert_eq!(shown.lifetime, Some(Duration::from_millis(500)));
    assert_eq!(shown.cap, Some(Rate::from_mbps(30)));
    let shown = StreamSpec {
        lifetime: None,
        cap: None,
        pinned: None,
        ..shown
    };
    assert_eq!(shown, commented);
    let wanted = Guarantee::rate(Rate::from_mbps(22), 0.95);
    assert_eq!(shown, StreamSpec::default().with_guarantee(wanted));
    let known = serde_json::to_value(SpecText {
        guarantee: Some(GuaranteeText::default()),
        ..SpecText::default()
    })
    .unwrap();
    let (keys, inner) = (
        known.as_object().unwrap(),
        known["guarantee"].as_object().unwrap(),
    );
    for key in keys.keys().chain(inner.keys()) {
        assert!(EXAMPLE.contains(key), "{key}");
    }
}

#[test]
fn caps_and_drop_orders_can_be_written() {
    let spec =
        resolve("reliable = false\ncap = \"300 kbit/s\"\ndrop = \"least_important\"").unwrap();
    assert_eq!(spec.cap, Some(Rate::from_kbps(300)));
    assert_eq!(spec.drop, Some(DropOrder::LeastImportant));
    for (wrong, starts) in [
        ("cap = \"4\"", "cap = \"4\": "),
        ("cap = \"12 bit/s\"", "cap = \"12 bit/s\": "),
        ("drop = \"oldest\"", "drop = \"oldest\": "),
        ("drop = \"old\"", "drop = \"old\": give "),
    ] {
        let error = resolve(wrong).unwrap_err().to_string();
        assert!(error.starts_with(starts), "{error}");
    }
}

#[test]
fn a_profile_gives_the_values_of_absent_keys() {
    let spec =
        resolve("profile = \"telemetry\"\nlabel = \"position\"\nlifetime = \"200 ms\"").unwrap();
    let expected = StreamSpec {
        label: "position".to_owned(),
        lifetime: Some(Duration::from_millis(200)),
        ..Profile::Telemetry.spec()
    };
    assert_eq!(spec, expected);
    let error = resolve("profile = \"video\"").unwrap_err().to_string();
    assert!(error.starts_with("profile = \"video\": "), "{error}");
    // A value that contradicts the profile is refused, with its own key.
    let error = resolve("profile = \"telemetry\"\nreliable = true")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("drop"), "{error}");
}

#[test]
fn path_preferences_can_be_written() {
    let spec = resolve("paths = [\"prefer interface=eth*\", \"never metered\"]\nredundant = true")
        .unwrap();
    let rules: Vec<String> = spec.paths.rules().iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["prefer interface=eth*", "never metered"]);
    assert!(spec.redundant);
    for (wrong, starts) in [
        ("paths = [\"prefer eth0\"]", "paths = \"prefer eth0\": "),
        (
            &format!("paths = [{}]", "\"never any\",".repeat(17)),
            "paths = \"17\": ",
        ),
        (
            "redundant = true\n[guarantee]\nrate = \"1 Mbit/s\"\nprobability = \"90 %\"",
            "redundant = \"true\": ",
        ),
    ] {
        let error = resolve(wrong).unwrap_err().to_string();
        assert!(error.starts_with(starts), "{error}");
    }
}

#[test]
fn all_three_demands_can_be_written() {
    let rate = guarantee(
        "rate = \"3 Mbit/s\"\nprobability = \"99.5 %\"\nwindow = \"2 s\"\nterm = \"4 s\"\n\
         grade = \"durable\"\nwaits = true",
    )
    .unwrap();
    let expected = Guarantee {
        window: Duration::from_secs(2),
        term: Duration::from_secs(4),
        grade: Grade::Durable,
        waits: true,
        ..Guarantee::rate(Rate::from_mbps(3), 0.995)
    };
    assert_eq!(rate, expected);
    assert_eq!(words(&rate), "3.00 Mbit/s in 99.5 % of all windows of 2 s");
    let layered = "rate = \"3 Mbit/s\"\nprobability = \"90 %\"\nlevels = ";
    let levels = guarantee(&format!("{layered}[\"1 Mbit/s\", \"6 Mbit/s\"]")).unwrap();
    assert_eq!(
        words(&levels),
        "3.00 Mbit/s in 90 % of all windows of 1 s, of levels 6.00 Mbit/s, 3.00 Mbit/s, 1.00 Mbit/s"
    );
    assert!(
        levels.by_level().all(|level| {
            GuaranteeText::of(&level).resolve(str::to_owned).as_ref() == Ok(&level)
        })
    );
    for (wrong, says) in [
        (
            "[\"0 bit/s\"]",
            "guarantee.levels = \"0 bit/s\": a level of 0",
        ),
        ("[\"fast\"]", "guarantee.levels = \"fast\": "),
    ] {
        let error = guarantee(&format!("{layered}{wrong}"))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(says), "{error}");
    }
    let reacts = |name: &str| {
        guarantee(&format!(
            "rate = \"3 Mbit/s\"\nprobability = \"90 %\"\non_warning = \"{name}\""
        ))
    };
    for (name, reaction, says) in [
        ("stay", OnWarning::Stay, ""),
        (
            "take offer",
            OnWarning::TakeOffer,
            ", takes an offer when warned",
        ),
        ("close", OnWarning::Close, ", closes when warned"),
    ] {
        let read = reacts(name).unwrap();
        assert_eq!(read.on_warning, reaction);
        assert!(words(&read).ends_with(&format!("windows of 1 s{says}")));
        let text = GuaranteeText::of(&read);
        assert_eq!(text.resolve(str::to_owned).as_ref(), Ok(&read));
        // A reader of an earlier release refuses keys that it does not know.
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(json.contains("on_warning"), reaction != OnWarning::Stay);
        assert!(!json.contains("levels"), "{json}");
    }
    let error = reacts("wait").unwrap_err().to_string();
    assert!(
        error.starts_with("guarantee.on_warning = \"wait\": give \"stay\", "),
        "{error}"
    );
    let packets =
        guarantee("packets = \"80/100\"\npacket_bytes = 1200\nprobability = \"95%\"").unwrap();
    assert_eq!(
        packets.demand,
        Demand::Packets {
            serve: 80,
            of: 100,
            packet_bytes: 1200,
            probability: 0.95
        }
    );
    let late = guarantee("rate = \"3 Mbit/s\"\npacket_bytes = 1200\nlate_packets = 2").unwrap();
    assert_eq!(
        late.demand,
        Demand::Late {
            rate: Rate::from_mbps(3),
            packet_bytes: 1200,
            late_packets: 2.0
        }
    );
}

/// A value that was not given is not shown as an empty one.
#[test]
fn a_missing_value_is_not_shown_as_empty() {
    let error = |text: &str| guarantee(text).unwrap_err().to_string();
    assert_eq!(
        error("rate = \"3 Mbit/s\""),
        "guarantee.rate: requires guarantee.probability, which is missing"
    );
    assert!(error("").starts_with("guarantee.rate: no guarantee is requested; give "));
    assert!(error("rate = \"\"\nprobability = \"95 %\"").starts_with("guarantee.rate = \"\": "));
}

#[test]
fn refusals_name_the_key_and_the_accepted_values() {
    let check = |text: &str, words: &[&str]| {
        let error = guarantee(text).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "'{word}' is missing in: {error}");
        }
    };
    let rate = "rate = \"3 Mbit/s\"\nprobability = \"95 %\"\n";
    check(
        "",
        &[
            "guarantee.rate",
            "guarantee.probability",
            "guarantee.packets",
        ],
    );
    check(
        "rate = \"3\"\nprobability = \"95 %\"",
        &["guarantee.rate", "unit"],
    );
    check(
        "rate = \"0 bit/s\"\nprobability = \"95 %\"",
        &["guarantee.rate", "above 0"],
    );
    check(
        "rate = \"3 Mbit/s\"",
        &["guarantee.rate", "guarantee.probability"],
    );
    check(
        "rate = \"3 Mbit/s\"\nprobability = \"0.95\"",
        &["guarantee.probability", "95", "%"],
    );
    check(
        "rate = \"3 Mbit/s\"\nprobability = \"100 %\"",
        &["guarantee.probability", "below 1"],
    );
    check(
        &format!("{rate}window = \"20 ms\""),
        &["guarantee.window", "whole seconds", "10"],
    );
    check(
        &format!("{rate}term = \"1 h\""),
        &["guarantee.term", "10 s"],
    );
    check(
        &format!("{rate}grade = \"good\""),
        &["guarantee.grade", "renewable"],
    );
    check(
        &format!("{rate}packet_bytes = 9"),
        &["guarantee.packet_bytes", "guarantee.late_packets"],
    );
    check(
        &format!("{rate}packet_bytes = 9\nlate_packets = 1.0"),
        &["guarantee.probability"],
    );
    check(
        &format!("{rate}packets = \"1/2\""),
        &["guarantee.packets", "guarantee.rate"],
    );
    check("packets = \"80\"", &["guarantee.packets", "80/100"]);
    check(
        "packets = \"3/2\"\npacket_bytes = 9\nprobability = \"95 %\"",
        &["guarantee.packets", "3 of 2"],
    );
    check(
        "packets = \"1/2\"\nprobability = \"95 %\"",
        &["guarantee.packet_bytes"],
    );
    check(
        "rate = \"3 Mbit/s\"\nlate_packets = 0\npacket_bytes = 9",
        &["guarantee.late_packets"],
    );
    check("colour = 1", &["colour", "rate"]);
    for (text, key) in [
        ("weight = 0", "weight"),
        ("lifetime = \"2 h\"", "lifetime"),
        ("priority = \"256\"", "priority"),
        ("order = \"any\"", "order"),
        ("colour = 1", "colour"),
    ] {
        let error = resolve(text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn texts_of_a_specification_resolve_to_the_same_one() {
    let demands = [
        Demand::Rate {
            rate: Rate::from_bps(22_000_001),
            probability: 0.995,
        },
        Demand::Packets {
            serve: 80,
            of: 100,
            packet_bytes: 1_200,
            probability: 0.95,
        },
        Demand::Late {
            rate: Rate::from_kbps(300),
            packet_bytes: 500,
            late_packets: 1.5,
        },
    ];
    let specs = demands.map(|demand| StreamSpec {
        reliable: false,
        order: Order::Unordered,
        lifetime: Some(Duration::from_micros(333_333)),
        priority: Priority(201),
        weight: 7,
        cap: Some(Rate::from_mbps(40)),
        drop: Some(DropOrder::Newest),
        paths: preferences(
            "paths",
            &[
                "prefer interface=eth*".to_owned(),
                "never metered".to_owned(),
            ],
        )
        .unwrap(),
        redundant: false,
        pinned: Some(ChannelId(3)),
        // The node sets it; applications do not.
        tenant: None,
        may_split: false,
        duplex: true,
        partial: true,
        notify: true,
        notify_fragments: true,
        label: "video/1".to_owned(),
        guarantee: Some(Box::new(Guarantee {
            window: Duration::from_secs(2),
            term: Duration::from_millis(4_500),
            grade: Grade::Renewable,
            ..Guarantee::new(demand).waiting()
        })),
    });
    for spec in specs.iter().chain([&StreamSpec::default()]) {
        assert_eq!(SpecText::of(spec).resolve().unwrap(), *spec);
    }
}
