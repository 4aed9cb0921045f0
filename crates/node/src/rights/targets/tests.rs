//! Tests of patterns: text, ordinary and special addresses.

use proptest::prelude::*;

use super::*;

fn targets(texts: &[&str]) -> Targets {
    Targets::parse(texts.iter().copied()).unwrap()
}

fn tcp(targets: &Targets, address: &str) -> bool {
    targets.allows_address(Transport::Tcp, address.parse().unwrap())
}

#[test]
fn nothing_is_allowed_by_default() {
    let none = Targets::default();
    assert!(none.is_empty());
    assert!(!tcp(&none, "192.0.2.1:80"));
    assert!(!none.allows_named(Transport::Tcp, "a.example", "192.0.2.1:80".parse().unwrap()));
    assert!(!none.may_allow_named(Transport::Tcp, "a.example", 80));
    assert!(!none.allows_path(Path::new("/run/x.sock")));
}

#[test]
fn networks_ports_and_transports_are_separate() {
    let some = targets(&[
        "10.0.0.0/8:*",
        "192.0.2.1:8000-8010",
        "[2001:db8::]/32:443",
        "udp:10.0.0.0/8:53",
    ]);
    for allowed in [
        "10.1.2.3:1",
        "192.0.2.1:8000",
        "192.0.2.1:8010",
        "[2001:db8:5::1]:443",
        "[::ffff:10.1.2.3]:99",
    ] {
        assert!(tcp(&some, allowed), "{allowed}");
    }
    for refused in [
        "11.0.0.1:1",
        "192.0.2.1:7999",
        "192.0.2.1:8011",
        "192.0.2.2:8000",
        "[2001:db9::1]:443",
        "[2001:db8::1]:80",
    ] {
        assert!(!tcp(&some, refused), "{refused}");
    }
    let udp = |address: &str| some.allows_address(Transport::Udp, address.parse().unwrap());
    assert!(udp("10.9.9.9:53"));
    assert!(!udp("10.9.9.9:54"));
}

/// Special addresses, with a narrow pattern that names each.
const SPECIAL: &[(&str, &str)] = &[
    ("127.0.0.1", "127.0.0.0/8:*"),
    ("127.8.9.1", "127.8.9.1:*"),
    ("0.0.0.0", "0.0.0.0:*"),
    ("0.1.2.3", "0.0.0.0/8:*"),
    ("169.254.7.7", "169.254.0.0/16:*"),
    ("169.254.169.254", "169.254.169.254:*"),
    ("100.100.100.200", "100.100.100.200:*"),
    ("192.0.0.192", "192.0.0.192:*"),
    ("168.63.129.16", "168.63.129.16:*"),
    ("224.0.0.1", "224.0.0.0/24:*"),
    ("255.255.255.255", "255.255.255.255:*"),
    ("[::]", "[::]:*"),
    ("[::1]", "[::1]:*"),
    ("[fe80::1]", "[fe80::]/64:*"),
    ("[ff02::1]", "[ff02::]/16:*"),
    ("[fd00:ec2::254]", "[fd00:ec2::254]:*"),
    ("[fd20:ce::254]", "[fd20:ce::254]:*"),
    ("[::ffff:127.0.0.1]", "127.0.0.1:*"),
    ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]:*"),
    ("[::ffff:169.254.169.254]", "169.254.169.254:*"),
    ("[::ffff:100.100.100.200]", "100.100.100.200:*"),
    ("[::127.0.0.1]", "[::127.0.0.1]:*"),
    ("[64:ff9b::169.254.169.254]", "[64:ff9b::a9fe:a9fe]:*"),
    ("[2002:7f00:1::1]", "[2002:7f00:1::1]:*"),
];

#[test]
fn special_addresses_are_allowed_only_where_they_are_named() {
    let wide = targets(&[
        "0.0.0.0/0:*",
        "[::]/0:*",
        "[::ffff:0:0]/96:*",
        "[::]/96:*",
        "[64:ff9b::]/96:*",
        "[2002::]/16:*",
        "100.0.0.0/8:*",
        "[fd00::]/8:*",
        "a.example:*",
        "*.example:*",
        "168.63.0.0/16:*",
        "192.0.0.0/24:*",
    ]);
    assert!(tcp(&wide, "192.0.2.1:80"));
    assert!(tcp(&wide, "[2001:db8::1]:80"));
    assert!(tcp(&wide, "[64:ff9b::192.0.2.1]:80"));
    for (address, named) in SPECIAL {
        let address: SocketAddr = format!("{address}:80").parse().unwrap();
        assert!(!wide.allows_address(Transport::Tcp, address), "{address}");
        assert!(
            !wide.allows_named(Transport::Tcp, "a.example", address),
            "{address}"
        );
        let narrow = targets(&[named]);
        assert!(
            narrow.allows_address(Transport::Tcp, address),
            "{address} by {named}"
        );
        assert!(
            narrow.allows_named(Transport::Tcp, "a.example", address),
            "{address}"
        );
    }
    // A cloud's metadata are no part of the link-local range around them.
    let around = targets(&["169.254.0.0/16:*"]);
    assert!(!tcp(&around, "169.254.169.254:80"));
    // A network that only reaches into a special range does not name it.
    assert!(!tcp(&targets(&["126.0.0.0/7:*"]), "127.0.0.1:80"));
}

#[test]
fn names_are_allowed_by_name_or_by_what_they_resolve_to() {
    let some = targets(&["db.internal:5432", "*.lan:80", "10.0.0.0/8:22"]);
    let allows = |name: &str, address: &str| {
        some.allows_named(Transport::Tcp, name, address.parse().unwrap())
    };
    assert!(allows("db.internal", "192.0.2.1:5432"));
    assert!(allows("DB.Internal.", "192.0.2.1:5432"));
    assert!(allows("a.b.lan", "192.0.2.1:80"));
    assert!(!allows("lan", "192.0.2.1:80"));
    assert!(!allows("evillan", "192.0.2.1:80"));
    assert!(!allows("db.internal.evil", "192.0.2.1:5432"));
    assert!(!allows("db.internal", "192.0.2.1:80"));
    assert!(!allows("db.internal", "127.0.0.1:5432"));
    assert!(allows("any.example", "10.1.1.1:22"));
    assert!(!allows("any.example", "11.1.1.1:22"));
    assert!(some.may_allow_named(Transport::Tcp, "any.example", 22));
    assert!(!some.may_allow_named(Transport::Tcp, "any.example", 80));
    assert!(!some.may_allow_named(Transport::Udp, "db.internal", 5432));
}

#[test]
fn unix_sockets_are_named_one_by_one() {
    let some = targets(&["unix:/run/x.sock"]);
    assert!(some.allows_path(Path::new("/run/x.sock")));
    for refused in [
        "/run/y.sock",
        "/run/x.sock/",
        "/run//x.sock",
        "/run/./x.sock",
        "/run/../run/x.sock",
    ] {
        assert!(!some.allows_path(Path::new(refused)), "{refused}");
    }
}

#[test]
fn wrong_patterns_are_refused() {
    use ParseTargetsError as E;
    let cases = [
        ("10.0.0.0/8", E::Ports),
        ("10.0.0.0/8:", E::Ports),
        ("10.0.0.0/8:0", E::Ports),
        ("10.0.0.0/8:+1", E::Ports),
        ("10.0.0.0/8:9-1", E::Ports),
        ("10.0.0.0/8:70000", E::Ports),
        ("10.0.0.0/33:1", E::Host),
        ("10.0.0.0/+8:1", E::Host),
        ("10.0.0.1/8:1", E::HostBits("10.0.0.0/8".into())),
        ("[2001:db8::1]/32:1", E::HostBits("[2001:db8::]/32".into())),
        ("2001:db8::1:80", E::Host),
        ("[2001:db8::1:80", E::Host),
        ("*:80", E::Host),
        (":80", E::Host),
        ("127.1:80", E::Host),
        ("2130706433:80", E::Host),
        ("0x7f000001:80", E::Host),
        ("a..b:80", E::Host),
        ("a b:80", E::Host),
        ("localhost:80", E::Localhost),
        ("*.localhost:80", E::Localhost),
        ("unix:run/x", E::Path),
        ("unix:/", E::Path),
        ("unix:/run/../x", E::Path),
    ];
    for (text, error) in cases {
        let refused = Targets::parse([text]).unwrap_err();
        assert_eq!(refused, (text.to_owned(), error), "{text}");
    }
    let many = vec!["10.0.0.0/8:1"; PATTERNS_MAX + 1];
    assert_eq!(Targets::parse(many).unwrap_err().1, E::TooMany);
}

proptest! {
    #[test]
    fn an_accepted_pattern_prints_to_a_text_of_the_same_meaning(
        text in r"(udp:)?([a-z*.0-9-]{1,12}|[0-9]{1,3}(\.[0-9]{1,3}){3}(/[0-9]{1,2})?|\[[0-9a-f:]{2,12}\](/[0-9]{1,3})?):([0-9]{1,5}(-[0-9]{1,5})?|\*)"
    ) {
        if let Ok(parsed) = Targets::parse([text.as_str()]) {
            let printed: Vec<String> = parsed.texts().collect();
            let again = Targets::parse(printed.iter().map(String::as_str));
            prop_assert_eq!(again, Ok(parsed), "{:?}", printed);
        }
    }

    #[test]
    fn a_wide_pattern_contains_an_address_or_it_is_special(bits: u128, is_short: bool, port in 1u16..) {
        let ip = if is_short {
            IpAddr::from((bits as u32).to_be_bytes())
        } else {
            IpAddr::from(bits.to_be_bytes())
        };
        let wide = targets(&["0.0.0.0/0:*", "[::]/0:*"]);
        let address = SocketAddr::new(ip, port);
        let is_special = special_range(canonical(ip)).is_some();
        prop_assert_eq!(wide.allows_address(Transport::Tcp, address), !is_special);
        // By its own address, every one can be allowed.
        let named = match ip {
            IpAddr::V4(ip) => format!("{ip}:{port}"),
            IpAddr::V6(ip) => format!("[{ip}]:{port}"),
        };
        let own = targets(&[&named]);
        prop_assert!(own.allows_address(Transport::Tcp, address));
    }
}

#[test]
fn host_patterns_select_addresses_and_names() {
    let has = |pattern: &str, host: &str| {
        let pattern: HostPattern = pattern.parse().unwrap();
        match host.parse() {
            Ok(address) => pattern.has_address(address),
            Err(_) => pattern.has_name(host),
        }
    };
    for (pattern, host, expected) in [
        ("10.0.0.0/8", "10.1.2.3", true),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("10.0.0.0/8", "11.0.0.1", false),
        ("10.0.0.0/8", "db.internal", false),
        ("0.0.0.0/0", "127.0.0.1", true),
        ("2001:db8::/32", "2001:db8::7", true),
        ("[2001:db8::]/32", "2001:db8::7", true),
        ("::1", "::1", true),
        ("db.internal", "DB.internal.", true),
        ("*.internal", "db.internal", true),
        ("*.internal", "internal", false),
        ("localhost", "localhost", true),
    ] {
        assert_eq!(has(pattern, host), expected, "{pattern} {host}");
    }
    for wrong in [
        "",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "a b",
        "2001:db8::/129",
        "*",
    ] {
        assert!(wrong.parse::<HostPattern>().is_err(), "{wrong}");
    }
}
