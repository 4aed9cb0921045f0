//! Streams that a filter accepts, as far as its comparisons of `stream_id` with numbers determine them.

use std::collections::BTreeSet;

use anabranch_base::StreamId;

use crate::{
    fact::AduFact,
    program::{Binary, Node, NodeId},
};

/// Streams whose ADUs may pass the filter `root` of variable `own`; `None` if any may. Never omits a stream that may
/// pass.
pub(super) fn streams(nodes: &[Node], own: u8, root: NodeId) -> Option<BTreeSet<StreamId>> {
    let node = *nodes.get(root.0 as usize)?;
    match node {
        Node::Constant(0.0) => Some(BTreeSet::new()),
        Node::Binary(Binary::And, a, b) => match (streams(nodes, own, a), streams(nodes, own, b)) {
            (Some(a), Some(b)) => Some(&a & &b),
            (one, other) => one.or(other),
        },
        Node::Binary(Binary::Or, a, b) => {
            let mut all = streams(nodes, own, a)?;
            all.append(&mut streams(nodes, own, b)?);
            Some(all)
        }
        Node::Binary(Binary::Equal, a, b) => {
            let is_id = |id: NodeId| {
                nodes.get(id.0 as usize)
                    == Some(&Node::Adu {
                        variable: own,
                        fact: AduFact::StreamId,
                    })
            };
            let number = match (is_id(a), is_id(b)) {
                (true, false) => nodes.get(b.0 as usize),
                (false, true) => nodes.get(a.0 as usize),
                _ => None,
            };
            match number {
                // No stream has a negative or fractional id.
                Some(&Node::Constant(id)) if id < 0.0 || id.fract() != 0.0 => Some(BTreeSet::new()),
                Some(&Node::Constant(id)) => Some(BTreeSet::from([StreamId(id as u64)])),
                _ => None,
            }
        }
        _ => None,
    }
}
