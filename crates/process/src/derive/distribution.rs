//! Distribution of derived ADUs to queues, and the memory for them and for the state of operators.

use std::collections::BTreeMap;

use super::{derivation::Derivation, queue::Added, table::Subscriber, terms::SubscriberId};
use crate::{
    Running,
    adu::Adu,
    memory::{Account, Charge},
};

/// Charges an account for the state of operators. If that may not be, they forget what they keep between ADUs; the state of WebAssembly
/// modules, which is bounded otherwise, is charged anyway.
pub(crate) fn charge_state(running: &mut Running, charge: &mut Option<Charge>, account: &Account) {
    let is_right =
        |charge: &Charge, bytes| charge.bytes() == bytes && charge.account().is_same(account);
    let bytes = running.held_bytes();
    if bytes == 0
        || charge
            .as_ref()
            .is_some_and(|charge| is_right(charge, bytes))
    {
        *charge = charge.take().filter(|_| bytes > 0);
        return;
    }
    *charge = None;
    *charge = account.charge(bytes);
    if charge.is_none() {
        running.resync();
        let left = running.held_bytes();
        *charge = (left > 0).then(|| account.charge_anyway(left));
    }
}

/// Queues ADUs for each subscriber of a derivation.
pub(super) fn distribute(
    derivation: &mut Derivation,
    subscribers: &mut BTreeMap<SubscriberId, Subscriber>,
    adus: &[Adu],
    ended: &mut Vec<SubscriberId>,
) {
    for id in &derivation.subscribers {
        for (index, adu) in adus.iter().enumerate() {
            if ended.contains(id) {
                break;
            }
            free(subscribers, *id, adu.held_bytes(), ended);
            let subscriber = subscribers
                .get_mut(id)
                .expect("subscribers of a derivation exist");
            let is_last = index + 1 == adus.len();
            match subscriber.queue.push(adu, subscriber.changes, is_last) {
                Added::Queued => {}
                Added::Broken => derivation.is_resync_wanted = true,
                Added::Full => {
                    ended.push(*id);
                    break;
                }
            }
        }
    }
}

/// Makes memory free for a subscriber where others with its account hold more than it would: of the largest queue, the oldest ADUs are lost, or
/// if it is reliable, it ends.
fn free(
    subscribers: &mut BTreeMap<SubscriberId, Subscriber>,
    id: SubscriberId,
    bytes: usize,
    ended: &mut Vec<SubscriberId>,
) {
    let own = &subscribers[&id].queue;
    let (account, own) = (own.account().clone(), own.held().saturating_add(bytes));
    while !account.has_room(bytes) {
        let of_account = subscribers
            .iter_mut()
            .filter(|(_, one)| one.queue.account().is_same(&account));
        let largest = of_account.max_by_key(|(_, one)| one.queue.held());
        let Some((&largest, one)) = largest.filter(|(_, one)| one.queue.held() > own) else {
            return;
        };
        if one.queue.is_reliable() {
            one.queue.clear();
            ended.push(largest);
        } else {
            one.queue.lose_oldest();
        }
    }
}
