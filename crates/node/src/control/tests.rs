//! Questions, answers, and abuse of the control socket.

use std::path::PathBuf;

use anabranch_net::HostConfig;
use anabranch_session::{AllowList, SecretKey};

use super::*;

fn host() -> Host {
    let key = SecretKey::from_seed([4; 32]);
    let loopback: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    Host::start(HostConfig::new(key, AllowList::default()).bind([loopback])).unwrap()
}

fn context() -> Context {
    Context {
        host: host(),
        overlay: None,
        node: None,
        flows: None,
        user: None,
    }
}

#[tokio::test]
async fn requests_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let host = host();
    let control = Control::open(&path).await.unwrap();
    let asking = async {
        let status = ask(&path, &Request::Status {}).await.unwrap();
        assert_eq!(status["rows"][0]["node"], host.node_id().to_string());
        assert_eq!(
            ask(&path, &Request::Paths {}).await.unwrap()["rows"],
            json!([])
        );
        assert!(matches!(
            Control::open(&path).await,
            Err(ControlError::Running { .. })
        ));
    };
    tokio::select! {
        () = asking => {}
        () = control.serve(&host, None) => {}
    }
    drop(control);
    assert!(!path.exists());
    let error = ask(&path, &Request::Status {})
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("anabranch up"), "{error}");
}

#[tokio::test]
async fn a_socket_left_behind_is_replaced_but_a_file_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    Control::open(&path).await.unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(matches!(
        Control::open(&path).await,
        Err(ControlError::Taken { .. })
    ));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[tokio::test]
async fn a_faulty_request_is_answered_with_its_error() {
    assert!(answer(&context(), "hello\n").await["error"].is_string());
    assert!(answer(&context(), r#"{"show":"paths","more":1}"#).await["error"].is_string());
    for (question, word) in [
        (r#"{"show":"weather"}"#, "expected one of `status`"),
        (r#"{"show":"paths","stream":"4"}"#, "unknown field `stream`"),
        (r#"{"show":"admit"}"#, "missing field `spec`"),
        (r#"{"show":"explain"}"#, "missing field `stream`"),
        (r#"{"show":"overlay"}"#, "overlay.member"),
        (r#"{"show":"reload"}"#, "anabranch node"),
        (r#"{"show":"flows"}"#, "anabranch node"),
        (
            r#"{"show":"rights","session":"0"}"#,
            "unknown field `session`",
        ),
        (
            r#"{"show":"paths","paths":{"to":"a","user":1,"bytes":1}}"#,
            "unknown field `paths`",
        ),
    ] {
        let answer = answer(&context(), question).await;
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    }
}

fn mode(path: &Path) -> u32 {
    let metadata = std::fs::metadata(path).unwrap();
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777
}

#[tokio::test]
async fn the_socket_is_never_open_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run/control.sock");
    let control = Control::open(&path).await.unwrap();
    assert_eq!(
        mode(path.parent().unwrap()),
        0o700,
        "the folder is made for this user"
    );
    assert_eq!(mode(&path), 0o600);
    let left: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "the private folder is gone: {left:?}");
    drop(control);
    for open in [0o777, 0o770, 0o702] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(open);
        std::fs::set_permissions(path.parent().unwrap(), mode).unwrap();
        let error = Control::open(&path).await.unwrap_err();
        assert!(
            matches!(error, ControlError::Exposed { .. }),
            "{open:o}: {error}"
        );
        assert!(error.to_string().contains("--control"), "{error}");
    }
}

/// Asks until the node answers.
async fn status(path: &Path) -> Result<Value, ControlError> {
    ask(path, &Request::Status {}).await
}

#[tokio::test]
async fn idle_askers_give_way_to_those_who_ask() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let (host, control) = (host(), Control::open(&path).await.unwrap());
    let asking = async {
        let mut idle = Vec::new();
        for round in 0..500 {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            if round % 2 == 0 {
                // Half of them begin a question and never end it.
                stream.write_all(b"{\"show\":").await.unwrap();
            }
            idle.push(stream);
        }
        let answer = status(&path).await.unwrap();
        assert_eq!(answer["rows"][0]["node"], host.node_id().to_string());
        // Those that had to go read the end.
        let mut ended = 0;
        for mut stream in idle {
            let mut byte = [0; 1];
            let read = tokio::time::timeout(Duration::ZERO, stream.read(&mut byte)).await;
            ended += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
        }
        assert!(ended >= 500 - 32, "{ended}");
    };
    tokio::select! {
        () = asking => {}
        () = control.serve(&host, None) => {}
    }
}

#[tokio::test]
async fn a_line_without_end_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let (host, control) = (host(), Control::open(&path).await.unwrap());
    let asking = async {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let chunk = vec![b' '; 1 << 16];
        let mut taken = 0_usize;
        while taken < 64 << 20 && stream.write_all(&chunk).await.is_ok() {
            taken += chunk.len();
        }
        assert!(taken < 8 << 20, "{taken} bytes were taken");
        status(&path).await.unwrap();
    };
    tokio::select! {
        () = asking => {}
        () = control.serve(&host, None) => {}
    }
}

#[tokio::test]
async fn who_does_not_take_its_answers_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let (host, mut control) = (host(), Control::open(&path).await.unwrap());
    control.timeout = Duration::from_millis(50);
    let asking = async {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let question = "{\"show\":\"status\"}\n".repeat(1_000);
        let mut taken = 0;
        // Answers fill the buffers, then questions do, and then the node closes the connection.
        while taken < 1_000 {
            let Ok(()) = stream.write_all(question.as_bytes()).await else {
                break;
            };
            taken += 1;
        }
        assert!(taken < 1_000, "a million questions were taken");
    };
    let asking = tokio::time::timeout(Duration::from_secs(60), asking);
    tokio::select! {
        result = asking => result.expect("the test hangs"),
        () = control.serve(&host, None) => {}
    }
}

#[test]
fn the_usual_place_is_a_folder_of_the_user() {
    use crate::config::default_control;
    let of = |variables: &[(&str, &str)]| {
        default_control(|name| {
            let found = variables.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    };
    let path = |text: &str| Some(PathBuf::from(text));
    let home = ("HOME", "/home/ada");
    assert_eq!(
        of(&[("XDG_RUNTIME_DIR", "/run/user/7"), home]),
        path("/run/user/7/anabranch.sock")
    );
    assert_eq!(
        of(&[("XDG_RUNTIME_DIR", ""), home]),
        path("/home/ada/.local/state/anabranch/run/anabranch.sock")
    );
    assert_eq!(
        of(&[("XDG_STATE_HOME", "/s"), home]),
        path("/s/anabranch/run/anabranch.sock")
    );
    assert_eq!(of(&[]), None, "not in the folder for temporary files");
}

#[test]
fn only_texts_that_give_reasons_of_now_name_channels() {
    let key =
        |kind: &str| reason_key(&json!({"kind": kind, "text": "channel-0", "why": "channel-0"}));
    assert_eq!(["decision", "promise"].map(key), ["text", "why"]);
    // Neither an objective, which may compare names, nor what was recorded of earlier channels.
    assert_eq!(["objective", "promise_event"].map(key), ["why", "why"]);
}
