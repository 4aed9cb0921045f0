//! One bulk transfer from memory to memory, over noq or over Anabranch, for `tools/bulk-compare`,
//! `tools/soak` and `tools/tunnel-compare`.
//!
//! ```text
//! bulk noq  receive ADDRESS FILE [WINDOW [SECONDS]]    bulk noq  send ADDRESS FILE BYTES
//! bulk ours receive ADDRESS FILE                       bulk ours send ADDRESS FILE BYTES
//! ```
//! The receiver writes the address data that the sender needs (a certificate, or a ticket) to FILE, takes one transfer and
//! exits; of noq's, also after so many SECONDS. WINDOW is how many bytes of the stream may be on their way, in place of
//! noq's default of 1.25 MB. The sender prints one line of JSON: bytes, seconds from the opening of the stream until the
//! receiver has all of it, CPU seconds, and the largest resident set; the receiver of ours prints the last two, that of noq
//! all four.

mod noq_bulk;
mod ours;
mod usage;

use std::{error::Error, net::SocketAddr, path::PathBuf, time::Duration};

/// Bytes of one write, and of one of our ADUs.
const CHUNK: &[u8] = &[0xab; 256 << 10];

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments {
    address: SocketAddr,
    file: PathBuf,
    /// Of a sender, the size of the transfer; of a receiver, the window.
    bytes: Option<u64>,
    /// Longest transfer.
    limit: Option<Duration>,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (stack, verb, rest) = match words[..] {
        [stack, verb, ref rest @ ..] if rest.len() >= 2 => (stack, verb, rest),
        _ => return Err("bulk noq|ours receive|send ADDRESS FILE [BYTES]".into()),
    };
    let arguments = Arguments {
        address: rest[0].parse()?,
        file: rest[1].into(),
        bytes: rest.get(2).map(|text| text.parse()).transpose()?,
        limit: match rest.get(3) {
            Some(text) => Some(Duration::from_secs(text.parse()?)),
            None => None,
        },
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match (stack, verb) {
        ("noq", "receive") => {
            let (bytes, elapsed) = runtime.block_on(noq_bulk::receive(&arguments))?;
            report(bytes as u64, elapsed);
        }
        ("noq", "send") => {
            let elapsed = runtime.block_on(noq_bulk::send(&arguments))?;
            report(arguments.bytes.unwrap_or(0), elapsed);
        }
        ("ours", "receive") => {
            runtime.block_on(ours::receive(&arguments))?;
            println!("{{{}}}", usage::json());
        }
        ("ours", "send") => {
            let elapsed = runtime.block_on(ours::send(&arguments))?;
            report(arguments.bytes.unwrap_or(0), elapsed);
        }
        _ => return Err(format!("no such command: {stack} {verb}").into()),
    }
    Ok(())
}

fn report(bytes: u64, elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    println!(
        "{{\"bytes\":{bytes},\"elapsed_s\":{seconds:.4},\"goodput_gbps\":{:.4},{}}}",
        bytes as f64 * 8e-9 / seconds,
        usage::json()
    );
}
