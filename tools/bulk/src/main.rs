//! One bulk transfer from memory to memory, over noq or over Anabranch, for `tools/bulk-compare` and
//! `tools/soak`.
//!
//! ```text
//! bulk noq  receive ADDRESS FILE        bulk noq  send ADDRESS FILE BYTES
//! bulk ours receive ADDRESS FILE        bulk ours send ADDRESS FILE BYTES
//! ```
//! The receiver writes the address data that the sender needs (a certificate, or a ticket) to FILE, takes one transfer and
//! exits. The sender prints one line of JSON: bytes, seconds from the opening of the stream until the receiver has all of it,
//! CPU seconds, and the largest resident set; the receiver prints the last two.

mod noq_bulk;
mod ours;
mod usage;

use std::{error::Error, net::SocketAddr, path::PathBuf};

/// Bytes of one write, and of one of our ADUs.
const CHUNK: &[u8] = &[0xab; 256 << 10];

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Arguments {
    address: SocketAddr,
    file: PathBuf,
    bytes: u64,
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
        bytes: rest.get(2).map_or(Ok(0), |text| text.parse())?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    match (stack, verb) {
        ("noq", "receive") => runtime.block_on(noq_bulk::receive(&arguments))?,
        ("noq", "send") => report(&arguments, runtime.block_on(noq_bulk::send(&arguments))?),
        ("ours", "receive") => runtime.block_on(ours::receive(&arguments))?,
        ("ours", "send") => report(&arguments, runtime.block_on(ours::send(&arguments))?),
        _ => return Err(format!("no such command: {stack} {verb}").into()),
    }
    if verb == "receive" {
        println!("{{{}}}", usage::json());
    }
    Ok(())
}

fn report(arguments: &Arguments, elapsed: std::time::Duration) {
    let seconds = elapsed.as_secs_f64();
    println!(
        "{{\"bytes\":{},\"elapsed_s\":{seconds:.4},\"goodput_gbps\":{:.4},{}}}",
        arguments.bytes,
        arguments.bytes as f64 * 8e-9 / seconds,
        usage::json()
    );
}
