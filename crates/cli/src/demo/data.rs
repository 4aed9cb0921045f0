//! Recorded traces and the film of the demonstrations: those inside this program, or others from a folder.

use std::{borrow::Cow, path::PathBuf, sync::Arc};

use anabranch_link::Trace;

use crate::exit::Failure;

/// File name of the film.
pub(super) const FILM: &str = "bikes.mp4";

/// Files of the repository's folder `data`. Each is under the terms of its source: data/README.md.
const INSIDE: [(&str, &[u8]); 4] = [
    (FILM, include_bytes!("../../data/bikes.mp4")),
    ("hsdpa-bus.csv", include_bytes!("../../data/hsdpa-bus.csv")),
    (
        "starlink-up.csv",
        include_bytes!("../../data/starlink-up.csv"),
    ),
    ("fixed.csv", include_bytes!("../../data/fixed.csv")),
];

/// Source of the data.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Data {
    /// Directory with other recorded traces and another film, under the names that they have in the repository's folder `data`
    /// [default: those inside this program].
    #[arg(long = "data", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Data {
    /// Contents of a file.
    ///
    /// # Errors
    /// It cannot be read, or there is none of this name.
    pub(super) fn read(&self, name: &str) -> Result<Cow<'static, [u8]>, Failure> {
        match &self.folder {
            Some(folder) => {
                let path = folder.join(name);
                let bytes = std::fs::read(&path).map_err(|error| {
                    Failure::file(format!(
                        "cannot read {}: {error}; without --data, the data inside this program is used",
                        path.display()
                    ))
                })?;
                Ok(bytes.into())
            }
            None => inside(name),
        }
    }

    /// A recorded trace, for the description of a link.
    pub(super) fn trace(&self, name: &str) -> Result<Arc<Trace>, String> {
        let bytes = self.read(name);
        let bytes = bytes.map_err(|failure| failure.message().to_owned())?;
        let trace = Trace::parse(name, &bytes).map_err(|error| format!("{name}: {error}"))?;
        Ok(Arc::new(trace))
    }
}

/// Contents of a file inside this program.
pub(super) fn inside(name: &str) -> Result<Cow<'static, [u8]>, Failure> {
    let found = INSIDE.iter().find(|(own, _)| *own == name);
    let (_, bytes) =
        found.ok_or_else(|| Failure::other(format!("there is no {name} inside this program")))?;
    Ok(Cow::Borrowed(bytes))
}
