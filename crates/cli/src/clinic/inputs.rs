//! Inputs and outputs of an ambulance, from its options.

use std::path::Path;

use anabranch_clinic::{
    ambulance::{Film, Output, Sound, Source as Camera},
    wire::{Contents, Origin},
};

use super::{ambulance::Arguments, failure};
use crate::exit::Failure;

/// Value of an option for speech that is not wanted.
pub(super) const NONE: &str = "none";

/// Format of ffmpeg and name of a device for sound; `None`: it is a file.
fn device(text: &str) -> Option<(&'static str, &str)> {
    let formats = ["alsa", "pulse"].into_iter();
    let mut found = formats.filter_map(|format| {
        let name = text.strip_prefix(format)?.strip_prefix(':')?;
        Some((format, name))
    });
    found.next()
}

impl Arguments {
    /// A file is of another time, a camera is not, and lavfi makes its pictures.
    pub(super) fn contents(&self) -> Contents {
        let video = match self.video.as_deref() {
            None => Origin::Unstated,
            Some(video) if video.starts_with("lavfi:") => Origin::Generated,
            Some(video) if video.starts_with("/dev/") => Origin::Real,
            Some(_) => Origin::Replayed,
        };
        let ekg = match self.ekg {
            None => Origin::Unstated,
            Some(_) => Origin::Replayed,
        };
        let speech = match self.audio.as_str() {
            NONE => Origin::Unstated,
            audio if audio.starts_with("lavfi:") => Origin::Generated,
            audio if device(audio).is_some() => Origin::Real,
            _ => Origin::Replayed,
        };
        Contents { ekg, video, speech }
    }

    pub(super) fn sound(&self) -> Result<Option<Sound>, Failure> {
        if self.audio == NONE {
            return Ok(None);
        }
        let words =
            |list: &[&str]| -> Vec<String> { list.iter().map(|word| (*word).to_owned()).collect() };
        if let Some(source) = self.audio.strip_prefix("lavfi:") {
            let input = words(&["-re", "-f", "lavfi", "-i", source]);
            return Ok(Some(Sound::ffmpeg(&input)));
        }
        match device(&self.audio) {
            Some((format, name)) => Ok(Some(Sound::ffmpeg(&words(&["-f", format, "-i", name])))),
            None => Sound::of_file(Path::new(&self.audio))
                .map(Some)
                .map_err(failure),
        }
    }

    pub(super) fn output(&self) -> Option<Output> {
        match device(&self.audio_out) {
            _ if self.audio_out == NONE => None,
            Some((format, name)) => {
                let words = ["-f", format, name].map(str::to_owned);
                Some(Output::ffmpeg(&words))
            }
            None => Some(Output::File(self.audio_out.clone().into())),
        }
    }

    pub(super) fn film(&self) -> Option<Film> {
        let video = self.video.as_deref()?;
        let input = |words: &[&str]| -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        };
        let encoded = |words: &[&str]| {
            Film::Encoded(Camera {
                program: "ffmpeg".to_owned(),
                input: input(words),
                rates_bps: self.rate_min.as_bps().min(self.rate.as_bps())..=self.rate.as_bps(),
            })
        };
        Some(if let Some(source) = video.strip_prefix("lavfi:") {
            encoded(&["-f", "lavfi", "-i", source])
        } else if video.starts_with("/dev/") {
            encoded(&["-f", "v4l2", "-i", video])
        } else if video.ends_with(".h264") || video.ends_with(".264") {
            Film::File {
                path: video.into(),
                rate: self.fps,
            }
        } else {
            Film::ffmpeg(&input(&["-i", video]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_a_format_and_others_are_files() {
        assert_eq!(device("alsa:hw:0,0"), Some(("alsa", "hw:0,0")));
        assert_eq!(device("pulse:default"), Some(("pulse", "default")));
        for file in ["alsa", "a.opus", "/tmp/pulse:x", "alsatian:a"] {
            assert_eq!(device(file), None, "{file}");
        }
    }
}
