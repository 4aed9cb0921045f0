//! Resumption by the same command after either side was killed or stopped in the middle of a transfer.

use std::time::Duration;

use crate::faults::setting::{MIDDLE_BYTES, Setting, until};

#[test]
fn send_goes_on_by_itself_when_the_receiver_was_killed_and_comes_back() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &[]);
    setting.arrived(MIDDLE_BYTES);
    receiver.signal("KILL");
    assert_eq!(receiver.ended().status.code(), None);
    setting.is_not_complete();
    setting.go_on();
    let (receiver, _) = setting.receiver();
    let words = ["trying to reconnect", "continues where it stopped"];
    let sent = sender.ended().is(0, &words);
    assert!(sent.out.contains("were there already"), "{sent:?}");
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

#[test]
fn send_goes_on_by_itself_when_the_receiver_was_stopped_and_comes_back() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &[]);
    setting.arrived(MIDDLE_BYTES);
    receiver.signal("INT");
    receiver.ended().is(130, &["is kept"]);
    setting.is_not_complete();
    setting.go_on();
    let (receiver, _) = setting.receiver();
    let sent = sender.ended().is(0, &["trying to reconnect"]);
    assert!(sent.out.contains("were there already"), "{sent:?}");
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// Without retries the sender ends at once, and the same command resumes the transfer later.
#[test]
fn the_same_command_goes_on_after_the_receiver_was_killed() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &["--retry", "0 s"]);
    setting.arrived(MIDDLE_BYTES);
    receiver.signal("KILL");
    receiver.ended();
    let (receiver, _) = setting.receiver();
    sender.ended().is(5, &["interrupted", "resume"]);
    setting.is_not_complete();
    setting.go_on();
    let sent = setting.sender(&ticket, &["--retry", "0 s"]).ended();
    assert!(sent.is(0, &[]).out.contains("were there already"));
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// The receiver does not know that the sender was killed; the new one takes over.
#[test]
fn the_same_command_goes_on_after_the_sender_was_killed() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &[]);
    setting.arrived(MIDDLE_BYTES);
    sender.signal("KILL");
    sender.ended();
    setting.go_on();
    let sent = setting.sender(&ticket, &[]).ended();
    assert!(sent.is(0, &[]).out.contains("were there already"));
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// Ctrl-C at the sender at any time: while it connects, at the beginning, in the middle.
#[test]
fn the_same_command_goes_on_after_the_sender_was_stopped() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    for bytes in [None, Some(0), Some(1), Some(300_000)] {
        let sender = setting.sender(&ticket, &[]);
        match bytes {
            // Its signal handler is installed after a moment; before that, the signal ends the process directly.
            None => std::thread::sleep(Duration::from_millis(30)),
            Some(bytes) => setting.arrived(bytes),
        }
        // Where the tests run in the background of a shell, SIGINT is ignored until the handler is installed; SIGTERM is not.
        let is_early = bytes.is_none_or(|bytes| bytes == 0);
        sender.signal(if is_early { "TERM" } else { "INT" });
        let ended = sender.ended();
        let by_signal = is_early && ended.status.code().is_none();
        assert!(by_signal || ended.status.code() == Some(130), "{ended:?}");
        setting.is_not_complete();
    }
    setting.go_on();
    let sent = setting.sender(&ticket, &[]).ended();
    assert!(sent.is(0, &[]).out.contains("were there already"));
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// A process, or its machine, that is suspended: all its timers are late at once. With retries, for a busy machine can add to the pause what
/// makes a silence of two seconds, which is the end without them; the session is the same nevertheless.
#[test]
fn a_side_that_stands_still_goes_on_as_if_nothing_had_been() {
    const PAUSE: Duration = Duration::from_millis(1500);
    let setting = Setting::held();
    let (mut receiver, ticket) = setting.receiver();
    let mut sender = setting.sender(&ticket, &["--retry", "60 s"]);
    setting.arrived(MIDDLE_BYTES);
    for side in ["receiver", "sender"] {
        let stopped = match side {
            "receiver" => &receiver,
            _ => &sender,
        };
        stopped.signal("STOP");
        std::thread::sleep(PAUSE);
        stopped.signal("CONT");
        let before = setting.partial();
        until("more of the transfer", || {
            assert!(
                sender.is_running(),
                "the {side} stood still, and the sender ended"
            );
            assert!(
                receiver.is_running(),
                "the {side} stood still, and the receiver ended"
            );
            setting.partial() > before
        });
    }
    setting.go_on();
    let sent = sender.ended().is(0, &[]);
    assert!(!sent.out.contains("were there already"), "one attempt");
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// The receiver does not come back: the sender reports that when the retry time is over.
#[test]
fn retries_end() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let sender = setting.sender(&ticket, &["--retry", "1 s"]);
    setting.arrived(MIDDLE_BYTES);
    receiver.signal("INT");
    receiver.ended().is(130, &[]);
    sender.ended().is(5, &["trying to reconnect for", "resume"]);
    setting.is_not_complete();
}
