//! Properties of every decoder and of the session state machine, as functions of arbitrary bytes.
//!
//! Each function panics when its property does not hold. `fuzz_targets/` hands them to libFuzzer (`make fuzz`);
//! `tests/smoke.rs` feeds them pseudo-random bytes on the stable toolchain. A function is a pure function of its input: time is
//! virtual and entropy constant. (`control` is the exception: it queries one running node, whose answers depend on earlier
//! queries.)
//!
//! | function | target of the bytes |
//! |---|---|
//! | [`wire`] | the decoder of containers and frames |
//! | [`container`] | a session, from an authenticated peer that sends arbitrary containers |
//! | [`bare_peer`] | an engine, from a peer that answers or dials: any frames and packet numbers under the right keys |
//! | [`packet`] | an engine, from a network that mangles, repeats, drops and invents packets |
//! | [`link`] | the reader of link descriptions |
//! | [`trace`] | the reader of rate traces |
//! | [`ticket`] | the reader of tickets |
//! | [`transcript`] | the reader of transcripts of sessions |
//! | [`codes`] | codes, the messages behind them, and a rendezvous with eight guests |
//! | [`exports`] | requests about exported directories, and answers |
//! | [`transfer_messages`] | messages between sender and receiver of a transfer |
//! | [`transfer_manifest`] | the offer of a sender |
//! | [`transfer_note`] | the note that a receiver leaves for itself |
//! | [`relay`] | a relay: requests of its members, and packets |
//! | [`forward`] | messages of forwards and of SOCKS, text forms of their targets |
//! | [`tunnel`] | packets and messages of the tunnel, its queues, its order, its addresses |
//! | [`video`] | messages between origin and proxy of stored video |
//! | [`overlay`] | the overlay's agent, from members that send arbitrary messages |
//! | [`parts`] | the heads of parts of enhanced frames, and the count of missing parts |
//! | [`media`] | stored video: files, stored indexes, and their use |
//! | [`wfdb`] | records of sampled signals: headers, samples |
//! | [`annexb`] | byte streams of H.264 |
//! | [`y4m`] | raw pictures of a camera or a film |
//! | [`speech`] | speech in Ogg Opus: packets, gaps, what is written |
//! | [`clinic_messages`] | messages and data between ambulance and hospital |
//! | [`imd`] | IMDv3 of simulations and clients, messages between source and viewer |
//! | [`pipeline`] | the text of pipelines of operators |
//! | [`operators`] | operators on ADUs, from any source |
//! | [`module`] | WebAssembly modules: those that are refused, and what others do within their bounds |
//! | [`record_messages`] | messages about record sets, pieces of their parts, lines of notes |
//! | [`record_set`] | manifests of record sets, and layouts |
//! | [`processed`] | ADUs, marks and messages about processed streams |
//! | [`smartpointer`] | topologies, trajectories, views, parts of frames, messages about a molecule |
//! | [`stored_video`] | storage and display of stored video: object stores, HTTP, the cache, indexes |
//! | [`configuration`] | the reader of configurations, and engines with accepted configurations |
//! | [`tariffs`] | price lists and meters, billing periods, the ledger |
//! | [`local`] | frames and messages between an application and the node that it is attached to |
//! | [`control`] | queries over the control socket of a node with a session |
//! | [`objectives`] | the language of objectives: parser, checks, formatter, evaluation |

#[expect(dead_code, reason = "its ready-made attack is not used here")]
#[path = "../../crates/channel/tests/bare/mod.rs"]
mod bare;
mod bare_peer;
mod clinic;
mod codes;
mod container;
pub mod corpus;
mod counter;
mod exports;
mod forward;
mod imd;
mod local;
mod media;
mod objectives;
mod overlay;
mod packet;
mod parsers;
mod parts;
mod peer;
mod processed;
mod processing;
mod record_messages;
mod record_set;
mod relay;
mod settings;
mod smartpointer;
mod stored;
mod transfer;
mod tunnel;
mod video;

pub use bare_peer::bare_peer;
pub use clinic::{annexb, clinic_messages, speech, wfdb, y4m};
pub use codes::codes;
pub use container::container;
pub use exports::exports;
pub use forward::forward;
pub use imd::imd;
pub use local::local;
pub use media::media;
pub use objectives::objectives;
pub use overlay::overlay;
pub use packet::packet;
pub use parsers::{link, ticket, trace, transcript, wire};
pub use parts::parts;
pub use processed::processed;
pub use processing::{module, operators, pipeline};
pub use record_messages::record_messages;
pub use record_set::record_set;
pub use relay::relay;
pub use settings::{configuration, control, tariffs};
pub use smartpointer::smartpointer;
pub use stored::stored_video;
pub use transfer::{transfer_manifest, transfer_messages, transfer_note};
pub use tunnel::tunnel;
pub use video::video;

/// A property: panics where it does not hold.
pub type Property = fn(&[u8]);

/// The properties by name, each of which is a fuzz target.
pub const PROPERTIES: &[(&str, Property)] = &[
    ("annexb", annexb),
    ("bare_peer", bare_peer),
    ("clinic_messages", clinic_messages),
    ("codes", codes),
    ("configuration", configuration),
    ("container", container),
    ("control", control),
    ("exports", exports),
    ("forward", forward),
    ("imd", imd),
    ("link", link),
    ("local", local),
    ("media", media),
    ("module", module),
    ("objectives", objectives),
    ("operators", operators),
    ("overlay", overlay),
    ("packet", packet),
    ("parts", parts),
    ("pipeline", pipeline),
    ("record_messages", record_messages),
    ("record_set", record_set),
    ("relay", relay),
    ("processed", processed),
    ("smartpointer", smartpointer),
    ("speech", speech),
    ("stored_video", stored_video),
    ("tariffs", tariffs),
    ("ticket", ticket),
    ("trace", trace),
    ("transcript", transcript),
    ("transfer_manifest", transfer_manifest),
    ("transfer_messages", transfer_messages),
    ("transfer_note", transfer_note),
    ("tunnel", tunnel),
    ("video", video),
    ("wfdb", wfdb),
    ("y4m", y4m),
    ("wire", wire),
];

/// Reader of an input; returns zeros once it is used up.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
