//! Processing of streams on the way: operators that map an ADU to none, one or several, pipelines of operators, and the
//! streams that are derived by pipelines, each for its subscribers.
//!
//! A source sends what it has; each receiver wants a part of it: some ADUs, some positions, some bits. A node between them
//! that both authorise can derive that part, so that the rest does not use the paths to the receiver
//! [IQ-Paths §III]. This crate computes; it uses neither clocks nor files nor sockets, and it does not decide who may have
//! what processed where. The cost of an operator is reported in units of work, not in time.
//!
//! ```text
//! "precision 12 of f32 then delta" ──parse──► Pipeline ──start──► Running ◄── process(Adu) ──► ADUs, work
//!                                                                   ▲
//!                      source's ADUs ──► Table (derived streams) ───┘──► queues of the subscribers
//! ```
//!
//! ```
//! use anabranch_process::{Adu, Limits, Modules, Pipeline};
//!
//! let pipeline: Pipeline = "every 2 then precision 12 of f32 then delta".parse()?;
//! let modules = Modules::default();
//! let mut running = pipeline.start(&modules, Limits::default())?;
//! let processed = running.process(Adu::new(0, vec![0; 12]), &modules)?;
//! assert_eq!(processed.adus.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`adu`] | [`Adu`]: fields and body |
//! | [`array`](mod@array) | elements of numeric arrays: width and byte order |
//! | [`step`] | [`Step`]: an operator's name and parameters; its text form |
//! | [`text`] | parser of pipelines |
//! | [`pipeline`] | [`Pipeline`]: steps that may follow each other |
//! | [`running`] | [`Running`]: a pipeline at work, with the state of its operators and their costs |
//! | [`operator`] | interface of operators, and the bounds on what they return |
//! | [`operators`] | the operators |
//! | [`modules`] | [`Modules`]: WebAssembly modules by their hash (feature `wasm`) |
//! | [`derive`](mod@derive) | [`derive::Table`]: derived streams and their subscribers |
//! | [`memory`] | [`Memory`](memory::Memory): what is kept for all peers together is bounded |
//! | [`place`] | where on the paths an operator costs least |
//! | [`serve`] | state of a processing node and its peers: nothing of a reliable stream is lost or repeated |
//! | [`contained`] | panics of operators |

pub mod adu;
pub mod array;
pub mod contained;
pub mod derive;
mod fuel;
pub mod memory;
pub mod modules;
pub mod operator;
pub mod operators;
pub mod pipeline;
pub mod place;
pub mod running;
pub mod serve;
pub mod step;
pub mod text;

pub use adu::{Adu, Fields, Value};
pub use array::Element;
pub use modules::Modules;
pub use operator::Limits;
pub use pipeline::Pipeline;
pub use running::{Cost, Failure, Processed, Running, StartError};
pub use step::{ModuleHash, Step};
pub use text::ParseError;
