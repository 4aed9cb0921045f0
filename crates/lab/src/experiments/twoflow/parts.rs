//! Schedule of each flow of a video session.

use std::{sync::Arc, time::Duration};

use anabranch_base::Instant;
use anabranch_session::{Order, StreamSpec};
use anabranch_twoflow::rate::{self, RETRANSMITTED};

use super::{
    film::Film,
    flow::{Dose, Part},
    packets::{ENHANCED_BYTES, ESSENTIAL_BYTES, udp},
    plan::Plan,
    sink::Account,
};

/// Limit on the bytes of a part of an enhanced frame: one packet.
pub(super) const PART_BYTES: u32 = 1_380;

/// Plan of a flow.
pub(super) struct Flow {
    pub(super) spec: StreamSpec,
    pub(super) parts: Arc<[Part]>,
    pub(super) doses: Vec<Dose>,
    pub(super) account: Account,
    /// Application bytes of one of its full packets.
    pub(super) payload_bytes: f64,
}

/// Essential flow of a session. `None`: it plays nothing.
pub(super) fn essential(film: &Film, plan: &Plan) -> Option<Flow> {
    let steps = &film.schedule.steps()[plan.segments.clone()];
    let (mut parts, mut doses, mut marks, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let origin = steps.first()?.from;
    for step in steps {
        let ahead = usize::from(plan.is_staggered);
        let next = film.segments.all().get(step.segment + ahead);
        for index in next.map_or(0..0, |next| next.frames.clone()) {
            let frame = &film.frames[index];
            if frame.class.is_essential() {
                parts.push(Part {
                    bytes: frame.bytes,
                    frame: index as u32,
                });
                bytes += u64::from(frame.bytes);
            }
        }
        marks.push(bytes);
        let bytes = next.map_or(0, |next| next.essential_bytes);
        let target = rate::target(bytes, step.until - step.from, RETRANSMITTED);
        let rate = udp(target, ESSENTIAL_BYTES);
        doses.push(Dose {
            from: plan.start + (step.from - origin),
            feed: None,
            rate: plan.method.is_ctcp().then_some(rate),
            end: parts.len(),
        });
    }
    Some(Flow {
        spec: StreamSpec::bulk("essential"),
        parts: parts.into(),
        doses,
        account: Account::marking(marks),
        payload_bytes: ESSENTIAL_BYTES,
    })
}

/// Enhanced flow of a session. `None`: it plays nothing.
pub(super) fn enhanced(film: &Film, plan: &Plan, plays_from: Instant) -> Option<Flow> {
    let steps = &film.schedule.steps()[plan.segments.clone()];
    let (mut parts, mut doses) = (Vec::new(), Vec::new());
    let mut wanted: Vec<Duration> = Vec::new();
    let origin = steps.first()?.from;
    for step in steps {
        for index in film.segments.all()[step.segment].frames.clone() {
            let frame = &film.frames[index];
            if frame.class.is_essential() {
                continue;
            }
            let mut left = frame.bytes;
            while left > 0 {
                let bytes = left.min(PART_BYTES);
                left -= bytes;
                parts.push(Part {
                    bytes,
                    frame: index as u32,
                });
                wanted.push(frame.at - origin);
            }
        }
        doses.push(Dose {
            from: plays_from + (step.from - origin),
            feed: Some(step.enhanced_rate.as_bytes_per_s()),
            rate: Some(udp(step.enhanced_rate, ENHANCED_BYTES)),
            end: parts.len(),
        });
    }
    Some(Flow {
        spec: StreamSpec {
            reliable: false,
            order: Order::Unordered,
            notify: true,
            label: "enhanced".to_owned(),
            ..StreamSpec::default()
        },
        parts: parts.into(),
        doses,
        account: Account::timing(plays_from, wanted),
        payload_bytes: ENHANCED_BYTES,
    })
}
