//! SmartPointer [IQ-Paths §VI-B]: a molecule that moves, 25 frames a second, shown at another place.
//!
//! Each frame is sent in three parts, on streams of their own: all atoms, the bonds in the view of who looks, and those out of it.
//! The first two have a promise. The view is an operator at the source: who looks changes it while frames come, and from the next
//! frame on, each bond is in the part where it belongs.
//!
//! | module | holds |
//! |---|---|
//! | [`view`] | the view: half-spaces, and the predicate |
//! | [`frame`] | parts of frames, as they are sent |
//! | [`wire`] | labels and messages |
//! | [`source`] | the application that plays a trajectory |
//! | [`viewer`] | the application that receives the frames |
//! | `page` | the page in which a browser shows them (feature `page`) |

pub mod frame;
#[cfg(feature = "page")]
pub mod page;
pub mod source;
pub mod view;
pub mod viewer;
pub mod wire;
