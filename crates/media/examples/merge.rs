//! Writes a film with some of its enhanced frames missing, in the forms that players get: a progressive file and HLS.
//!
//! `cargo run -p anabranch-media --example merge -- FILE FOLDER [LOSS_PERCENT [SEED [near|out|on|keep]]]`
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program: the crate itself uses no files"
)]

use std::{env, error::Error, fs, fs::File, os::unix::fs::FileExt, path::Path, time::Duration};

use anabranch_base::Seed;
use anabranch_media::{
    FrameType, Index, Part, Partition, Policy,
    chunk::chunks,
    depend::Dependents,
    hls,
    write::{Counts, Layout, Options, Progressive, fragment, init_segment},
};
use bytes::Bytes;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [input, output, rest @ ..] = &arguments[..] else {
        return Err("usage: merge FILE FOLDER [LOSS_PERCENT [SEED [near|out|on|keep]]]".into());
    };
    let loss: f64 = rest.first().map_or(Ok(0.0), |text| text.parse())?;
    let seed: u64 = rest.get(1).map_or(Ok(1), |text| text.parse())?;
    let dependents = match rest.get(2).map_or("near", String::as_str) {
        "near" => Dependents::LeaveOutNear,
        "out" => Dependents::LeaveOut,
        "on" => Dependents::PassOn,
        "keep" => Dependents::Keep,
        other => return Err(format!("'{other}' is none of near, out, on, keep").into()),
    };
    let folder = Path::new(output);
    fs::create_dir_all(folder)?;

    let file = File::open(input)?;
    let len = file.metadata()?.len();
    let index = Index::read(
        &mut |offset: u64, into: &mut [u8]| file.read_exact_at(into, offset),
        len,
    )?;
    let partition = Partition::new(&index, Policy::IntraAudio);
    let mut random = Seed(seed).stream("losses");
    let lost: Vec<Vec<bool>> = index
        .tracks
        .iter()
        .enumerate()
        .map(|(track, content)| {
            let samples = 0..content.samples.len();
            samples
                .map(|at| {
                    partition.part(track, at) == Part::Enhanced && random.chance(loss / 100.0)
                })
                .collect()
        })
        .collect();
    let get = |track: usize, at: usize| {
        let sample = &index.tracks[track].samples[at];
        let mut bytes = vec![0; sample.size as usize];
        file.read_exact_at(&mut bytes, sample.offset).ok()?;
        (!lost[track][at]).then(|| Bytes::from(bytes))
    };

    let tracks: Vec<usize> = (0..index.tracks.len()).collect();
    let chunks = chunks(&index, Duration::from_secs(4));
    let mut missing = Counts::default();
    let mut left_out = Counts::default();
    let mut replaced = Counts::default();
    let options = Options {
        layout: Layout::Stable,
        dependents,
    };
    let mut film = Progressive::new(&index, &tracks, &chunks).head().to_vec();
    for chunk in &chunks {
        let written = fragment(&index, &tracks, chunk, &get, options);
        missing += written.missing;
        left_out += written.left_out;
        replaced += written.replaced;
        film.extend_from_slice(&written.bytes);
    }
    fs::write(folder.join("progressive.mp4"), film)?;

    let master = hls::master_playlist(&index, &chunks, &|track| format!("{track}.m3u8"));
    fs::write(folder.join("master.m3u8"), master)?;
    for &track in &tracks {
        let init = format!("{track}-init.mp4");
        let uri = |chunk| format!("{track}-{chunk}.m4s");
        let list = hls::media_playlist(&index, track, &chunks, &init, &uri);
        fs::write(folder.join(format!("{track}.m3u8")), list)?;
        fs::write(folder.join(init), init_segment(&index, &[track]))?;
        for chunk in &chunks {
            let layout = Layout::Compact;
            let written = fragment(
                &index,
                &[track],
                chunk,
                &get,
                Options { layout, dependents },
            );
            fs::write(folder.join(uri(chunk.number)), written.bytes)?;
        }
    }
    for frame in FrameType::ALL {
        println!(
            "{}: of {} {} missing, {} left out, {} of them replaced",
            frame.letter(),
            index
                .tracks
                .iter()
                .map(|track| track.count(frame))
                .sum::<usize>(),
            missing.of(frame),
            left_out.of(frame),
            replaced.of(frame),
        );
    }
    Ok(())
}
