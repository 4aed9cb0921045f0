//! The transport daemons [Daemons §6]: gain of a second path through another site.
//!
//! | file | holds |
//! |---|---|
//! | `table1`, `table1.md` | one path, parallel connections, two quickest paths [Table 1] |
//! | `fig6`, `fig6.md` | parallel streams against two paths, congestion bypassed and not [Figure 6] |
//! | `measure` | links measured by messages of several sizes, as a daemon does |
//! | `transfer` | one message, from one site to another, by one of several methods |

mod fig6;
mod measure;
mod table1;
mod transfer;

pub use fig6::EXPERIMENT as FIG6;
pub use table1::EXPERIMENT as TABLE1;
