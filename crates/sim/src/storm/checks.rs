//! The checkers: one promise a function.

use std::time::Duration;

use anabranch_session::Order;

use super::{Actor, Plan};
use crate::{
    apps::{Book, Load},
    world::World,
};

/// Longest time on the way of a packet that was sent in time: the longest delay and queue of any
/// storm.
const WAY_MAX: Duration = Duration::from_secs(8);

pub(super) fn check(world: &mut World, plan: &Plan, broken: &mut Vec<String>) {
    for (side, loads) in plan.loads.iter().enumerate() {
        let (from, to) = (side, 1 - side);
        for load in loads {
            let label = load.spec.label.as_str();
            let book = world.app::<Actor>(to).receiver.book(label);
            let fates = world.app::<Actor>(from).sender.fates(label);
            let mut say = |words: String| broken.push(format!("stream {label}: {words}"));
            check_once_and_intact(&book, &mut say);
            check_order(load, &book, &mut say);
            check_complete(load, &book, &mut say);
            check_fates(load, &book, fates, &mut say);
            check_lifetime(load, &book, &mut say);
        }
    }
    check_session(world, broken);
    check_budgets(world, plan, broken);
}

fn check_once_and_intact(book: &Book, say: &mut impl FnMut(String)) {
    if book.corrupt > 0 {
        say(format!("{} ADUs are damaged", book.corrupt));
    }
    let mut numbers = book.numbers.clone();
    numbers.sort_unstable();
    if let Some(twice) = numbers.windows(2).find(|w| w[0] == w[1]) {
        say(format!("ADU {} was delivered twice", twice[0]));
    }
}

fn check_order(load: &Load, book: &Book, say: &mut impl FnMut(String)) {
    if load.spec.order == Order::Ordered
        && let Some(swap) = book.numbers.windows(2).find(|w| w[0] > w[1])
    {
        say(format!("ADU {} was delivered before {}", swap[0], swap[1]));
    }
}

fn check_complete(load: &Load, book: &Book, say: &mut impl FnMut(String)) {
    if load.spec.reliable && load.spec.lifetime.is_none() {
        let got = book.numbers.len() as u64;
        if got != load.adus {
            say(format!("{got} of {} ADUs arrived", load.adus));
        }
        if !book.finished {
            say("its end never came".into());
        }
    }
}

fn check_fates(
    load: &Load,
    book: &Book,
    fates: Option<(u64, u64, u64, u64)>,
    say: &mut impl FnMut(String),
) {
    let Some((sent, acked, lost, expired)) = fates else {
        return;
    };
    if sent != load.adus {
        say(format!("only {sent} of {} ADUs were accepted", load.adus));
    }
    if acked + lost + expired != sent {
        say(format!(
            "{sent} ADUs have {acked} acked + {lost} lost + {expired} expired"
        ));
    }
    let delivered = book.numbers.len() as u64;
    // Unreliable streams drop what comes too late for their order or lifetime, after it was acknowledged.
    let drops_late =
        !load.spec.reliable && (load.spec.order == Order::Ordered || load.spec.lifetime.is_some());
    if !drops_late && delivered < acked {
        say(format!("{acked} ADUs acknowledged, {delivered} delivered"));
    }
    if load.spec.reliable && lost > 0 {
        say(format!("{lost} ADUs of a reliable stream are lost"));
    }
}

fn check_lifetime(load: &Load, book: &Book, say: &mut impl FnMut(String)) {
    if let Some(lifetime) = load.spec.lifetime
        && let Some(late) = book.delays.iter().max()
        && *late > lifetime + WAY_MAX
    {
        say(format!("an ADU came after {late:?}, lifetime {lifetime:?}"));
    }
}

fn check_session(world: &mut World, broken: &mut Vec<String>) {
    for node in [0, 1] {
        let actor = world.app::<Actor>(node);
        if let Some(reason) = &actor.sender.closed {
            broken.push(format!("node {node}: the session ended: {reason}"));
        }
        if actor.receiver.sessions > 1 {
            broken.push(format!(
                "node {node}: {} sessions instead of one",
                actor.receiver.sessions
            ));
        }
    }
}

fn check_budgets(world: &mut World, plan: &Plan, broken: &mut Vec<String>) {
    for node in [0, 1] {
        let actor = world.app::<Actor>(node);
        let (to_send, to_read) = actor.held_max;
        let session = actor.session;
        let streams = plan.loads[node].len() as u64;
        let adu_max = plan.loads[node].iter().map(|l| l.adu_bytes as u64).max();
        // The rates of a storm are too low for its windows to raise the buffers.
        let send_max = streams * (plan.config.send_buffer_bytes as u64 + adu_max.unwrap_or(0));
        if to_send > send_max {
            broken.push(format!("node {node}: {to_send} bytes held for sending"));
        }
        if to_read > plan.config.session_window_bytes {
            broken.push(format!("node {node}: {to_read} bytes held for reading"));
        }
        let stats = session.map(|session| world.engine(node).stream_stats(session));
        let (sent, copied) = stats.unwrap_or_default().iter().fold((0, 0), |sum, s| {
            (
                sum.0 + s.sent_bytes + s.repaired_bytes,
                sum.1 + s.copied_bytes,
            )
        });
        // The redundant policy copies by design.
        let allowed = plan.config.copies_max * (sent + copied) as f64 + 65_536.0 + 1500.0;
        if plan.config.policy != anabranch_session::Policy::Redundant && copied as f64 > allowed {
            broken.push(format!("node {node}: {copied} bytes copied, {sent} sent"));
        }
    }
}
