//! A ticket with two users.

use anabranch::Ticket;

use crate::faults::setting::{MIDDLE_BYTES, Setting};

#[test]
fn another_node_with_the_ticket_is_refused_and_disturbs_nothing() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let first = setting.sender(&ticket, &[]);
    setting.arrived(MIDDLE_BYTES);
    let other = setting.sender_with("other.key", &ticket, &[]);
    other.ended().is(4, &["used already by another node"]);
    setting.go_on();
    first.ended().is(0, &[]);
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

#[test]
fn the_same_node_sends_twice_at_once_and_the_newer_goes_on() {
    let setting = Setting::held();
    let (receiver, ticket) = setting.receiver();
    let first = setting.sender(&ticket, &[]);
    setting.arrived(MIDDLE_BYTES);
    let second = setting.sender(&ticket, &[]);
    first.ended().is(4, &["newer attempt continues"]);
    setting.go_on();
    let sent = second.ended().is(0, &[]);
    assert!(sent.out.contains("were there already"), "{sent:?}");
    receiver.ended().is(0, &[]);
    setting.is_complete();
}

/// A second receiver of the same node, which did not issue the ticket.
#[test]
fn another_receiver_refuses_the_ticket() {
    let setting = Setting::new();
    std::fs::create_dir(setting.path("in2")).unwrap();
    let (first, ticket) = setting.receiver();
    let (_second, elsewhere) = setting.receiver_at(0, "in2");
    let mut astray: Ticket = ticket.parse().unwrap();
    astray.addresses = elsewhere.addresses;
    let sent = setting.sender(&astray.to_string(), &[]).ended();
    sent.is(4, &["does not know this ticket"]);
    // At the receiver that issued it, it is still valid.
    setting.sender(&ticket, &[]).ended().is(0, &[]);
    first.ended().is(0, &[]);
    setting.is_complete();
    assert_eq!(std::fs::read_dir(setting.path("in2")).unwrap().count(), 0);
}
