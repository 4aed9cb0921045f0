//! Sections that are read and refused.

use anabranch::{SecretKey, config::Layer};

use super::*;

fn read_all(sections: &str) -> Result<Settings, String> {
    let id = SecretKey::from_seed([1; 32]).node_id();
    let peer = format!("[[peer]]\nname = \"studio\"\nnode = \"{id}\"\nmay = []\n");
    let layer = Layer::from_toml(&(peer + sections)).map_err(|error| error.to_string())?;
    let config = layer.resolve(|_| Some("/tmp".to_owned()));
    let config = config.map_err(|error| error.to_string())?;
    Settings::read(&config).map_err(|error| error.to_string())
}

fn read(section: &str) -> Result<Vec<ForwardSetting>, String> {
    read_all(&format!("[[forward]]\n{section}")).map(|all| all.forwards)
}

#[test]
fn forwards_are_read() {
    let all = read("local = \"127.0.0.1:5433\"\npeer = \"studio\"\nto = \"db:5432\"").unwrap();
    assert_eq!(all[0].mapping, "5433:db:5432".parse().unwrap());
    assert_eq!(all[0].service, None, "by the rules");
    let all = read(
        "local = \"[::1]:53\"\npeer = \"studio\"\nto = \"10.0.0.1:53\"\nprotocol = \"udp\"\n\
         service = { priority = \"urgent\", lifetime = \"200 ms\" }",
    )
    .unwrap();
    let spec = all[0].service.as_ref().unwrap().spec();
    assert!(all[0].mapping.accept.is_udp() && !spec.reliable && spec.duplex);
    assert_eq!(spec.priority, anabranch::Priority::URGENT);
    assert_eq!(spec.lifetime, Some(std::time::Duration::from_millis(200)));
    let all = read("local = \"unix:/run/a\"\npeer = \"studio\"\nto = \"unix:/run/b\"").unwrap();
    assert_eq!(all[0].mapping.to, "unix:/run/b".parse().unwrap());
}

#[test]
fn a_forward_is_accepted_here_or_at_the_peer() {
    let to = "peer = \"studio\"\nto = \"db:5432\"";
    let all = read(&format!("remote = \"127.0.0.1:8080\"\n{to}")).unwrap();
    assert!(all[0].is_reverse);
    assert_eq!(all[0].mapping, "8080:db:5432".parse().unwrap());
    // The address here and the one there are two.
    let both =
        format!("remote = \"127.0.0.1:1\"\n{to}\n[[forward]]\nlocal = \"127.0.0.1:1\"\n{to}");
    assert_eq!(read(&both).unwrap().len(), 2);
    for (section, word) in [
        (to.to_owned(), "give local"),
        (
            format!("local = \"127.0.0.1:1\"\nremote = \"127.0.0.1:1\"\n{to}"),
            "give local",
        ),
        (format!("remote = \"db:1\"\n{to}"), "forward "),
        (
            format!("remote = \"127.0.0.1:1\"\n{to}\n[[forward]]\nremote = \"127.0.0.1:1\"\n{to}"),
            "forward.remote",
        ),
    ] {
        let error = read(&section).unwrap_err();
        assert!(error.contains(word), "{section}: {error}");
    }
}

#[test]
fn wrong_forwards_are_refused_by_key() {
    let to = "peer = \"studio\"\nto = \"db:5432\"";
    let cases = [
        ("forward.local", format!("local = \"5433\"\n{to}")),
        ("forward ", format!("local = \"db:5433\"\n{to}")),
        (
            "forward.protocol",
            format!("local = \"127.0.0.1:1\"\nprotocol = \"sctp\"\n{to}"),
        ),
        (
            "forward.peer",
            "local = \"127.0.0.1:1\"\npeer = \"other\"\nto = \"db:1\"".to_owned(),
        ),
        (
            "forward.to",
            "local = \"127.0.0.1:1\"\npeer = \"studio\"\nto = \"db\"".to_owned(),
        ),
        (
            "forward.service",
            format!("local = \"127.0.0.1:1\"\n{to}\nservice = {{ lifetime = \"1 s\" }}"),
        ),
        (
            "forward.service",
            format!("local = \"127.0.0.1:1\"\n{to}\nservice = {{ label = \"x\" }}"),
        ),
        (
            "forward.local",
            format!("local = \"127.0.0.1:1\"\n{to}\n[[forward]]\nlocal = \"127.0.0.1:1\"\n{to}"),
        ),
    ];
    for (key, section) in cases {
        let error = read(&section).unwrap_err();
        assert!(error.starts_with(key), "{section}: {error}");
    }
}

#[test]
fn a_service_is_a_profile_or_a_table() {
    let to = "local = \"127.0.0.1:5433\"\npeer = \"studio\"\nto = \"db:5432\"\n";
    for service in ["\"interactive\"", "{ profile = \"interactive\" }"] {
        let all = read(&format!("{to}service = {service}")).unwrap();
        let spec = all[0].service.as_ref().unwrap().spec().clone();
        assert_eq!(spec.priority, anabranch::Priority::URGENT);
    }
    let error = read(&format!("{to}service = \"fast\"")).unwrap_err();
    assert!(error.contains("interactive, live"), "{error}");
}

#[test]
fn socks_servers_are_read_and_refused_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").unwrap();
    let login = format!("user = \"ada\"\npassword_file = {file:?}");
    let read = |section: &str| read_all(&format!("[[gateway.socks]]\n{section}"));
    let all = read("local = \"127.0.0.1:1080\"\npeer = \"studio\"").unwrap();
    assert!(all.socks[0].peer.is_some() && all.socks[0].login.is_none());
    let all = read(&format!("local = \"0.0.0.0:1080\"\n{login}")).unwrap();
    assert!(all.socks[0].peer.is_none() && all.socks[0].login.is_some());
    for (section, word) in [
        ("local = \"0.0.0.0:1080\"", "password_file"),
        ("local = \"1080\"", "gateway.socks.local"),
        ("local = \"db:1080\"", "gateway.socks.local"),
        (
            "local = \"127.0.0.1:1080\"\npeer = \"who\"",
            "gateway.socks.peer",
        ),
        ("local = \"127.0.0.1:1080\"\nuser = \"ada\"", "together"),
        (
            "local = \"127.0.0.1:1080\"\nuser = \"ada\"\npassword_file = \"/no/such/file\"",
            "cannot be read",
        ),
        (
            "local = \"127.0.0.1:1\"\n[[forward]]\nlocal = \"127.0.0.1:1\"\npeer = \"studio\"\nto = \"db:1\"",
            "is given twice",
        ),
    ] {
        let error = read(section).unwrap_err();
        assert!(error.contains(word), "{section}: {error}");
    }
}
