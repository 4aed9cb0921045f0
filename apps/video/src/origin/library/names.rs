//! Names of videos in the catalogue: those of their files, without extensions.

use super::place::{Catalogue, Found};
use crate::wire::NAME_BYTES_MAX;

/// Extensions of video files.
const EXTENSIONS: [&str; 5] = ["mp4", "m4v", "mov", "m4s", "cmfv"];
/// Maximum number of videos in a library.
pub(super) const VIDEOS_MAX: usize = 100_000;

/// True if a name can be part of a video's: no separators, no parent folder, nothing hidden, nothing that would have to be
/// escaped in a terminal.
pub(super) fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && !part.contains(['/', '\\'])
        && !part.chars().any(char::is_control)
}

/// True if a file of this name can be a video.
pub(super) fn is_video(name: &str) -> bool {
    extension(name).is_some()
}

/// Adds a film to the catalogue, if it is a video with a valid name. `found.at` is its path, with slashes between folders.
pub(super) fn put(catalogue: &mut Catalogue, found: Found) {
    let Some((name, extension)) = name(&found.at) else {
        return;
    };
    // Two files that differ only in their extension: the second is listed by its full name.
    let name = if catalogue.contains_key(name) {
        format!("{name}.{extension}")
    } else {
        name.to_owned()
    };
    catalogue.insert(name, found);
}

/// The name in the catalogue, and the extension; `None` when it is no video, or the name is not valid.
fn name(at: &str) -> Option<(&str, &str)> {
    let extension = extension(at)?;
    let name = &at[..at.len() - extension.len() - 1];
    let is_good = name.len() + 8 <= NAME_BYTES_MAX && at.split('/').all(is_plain);
    (is_good && !name.is_empty() && !name.ends_with('/')).then_some((name, extension))
}

fn extension(name: &str) -> Option<&str> {
    let (_, extension) = name.rsplit_once('.')?;
    EXTENSIONS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(extension))
        .then_some(extension)
}

#[cfg(test)]
mod tests {
    use super::{super::place::Stamp, *};

    fn catalogue(places: &[&str]) -> Vec<String> {
        let mut catalogue = Catalogue::new();
        for at in places {
            let stamp = Stamp {
                bytes: 1,
                mark: String::new(),
            };
            let at = (*at).to_owned();
            put(&mut catalogue, Found { at, stamp });
        }
        catalogue.into_keys().collect()
    }

    #[test]
    fn videos_go_by_their_place_without_the_extension() {
        let names = catalogue(&["film.mp4", "a/b/c d.MOV", "note.txt", "noextension"]);
        assert_eq!(names, ["a/b/c d", "film"]);
    }

    #[test]
    fn the_second_of_a_name_keeps_its_extension() {
        assert_eq!(catalogue(&["film.m4v", "film.mp4"]), ["film", "film.mp4"]);
    }

    /// Keys of an object store can be anything.
    #[test]
    fn hostile_names_are_no_videos() {
        let long = format!("{}.mp4", "x".repeat(NAME_BYTES_MAX));
        let hostile = [
            "",
            ".mp4",
            "/film.mp4",
            "a//b.mp4",
            "../film.mp4",
            "a/../b.mp4",
            ".hidden/film.mp4",
            "a/.film.mp4",
            "a\\b.mp4",
            "line\nbreak.mp4",
            "a/.mp4",
            "mp4",
            &long,
        ];
        assert_eq!(catalogue(&hostile), [""; 0]);
    }
}
