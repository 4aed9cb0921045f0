//! Flags for the location of an origin's videos. (The type is named after its group of flags: no command may have two groups of
//! one name.)

use std::path::PathBuf;

use anabranch_video::{origin::Library, video::Division};

use crate::exit::Failure;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    /// Directory with the videos, .mp4, .m4v and .mov, also in subdirectories; or a folder of an object store, s3://BUCKET/FOLDER.
    #[arg(long, value_name = "DIR | s3://BUCKET/FOLDER")]
    library: PathBuf,
    /// URL of an object store other than AWS, such as `https://minio.example:9000` [env: AWS_ENDPOINT_URL_S3].
    #[arg(long, value_name = "URL")]
    s3_endpoint: Option<String>,
    /// Directory for the indexes of the videos [default: a hidden folder in DIR; for an object store, ~/.cache/anabranch/index].
    #[arg(long, value_name = "DIR")]
    index_cache: Option<PathBuf>,
}

impl Place {
    /// Opens the library.
    pub(crate) async fn open(&self, division: Division) -> Result<Library, Failure> {
        let this = self.clone();
        let opening = tokio::task::spawn_blocking(move || this.open_blocking(division));
        opening.await.map_err(Failure::other)?
    }

    #[cfg(feature = "s3")]
    fn open_blocking(&self, division: Division) -> Result<Library, Failure> {
        use anabranch_video::origin::library::s3::{Access, Location};

        let Some(text) = self.library.to_str().filter(|text| Location::is_one(text)) else {
            return self.open_folder(division);
        };
        let location: Location = text.parse()?;
        let mut access = Access::from_variables(|name| std::env::var(name).ok())?;
        if let Some(endpoint) = &self.s3_endpoint {
            access.endpoint = Some(endpoint.clone());
        }
        let indexes = self.index_cache.clone();
        let indexes = indexes.unwrap_or_else(|| default_cache(|name| std::env::var_os(name)));
        Ok(Library::in_store(&location, &access, indexes, division)?)
    }

    #[cfg(not(feature = "s3"))]
    fn open_blocking(&self, division: Division) -> Result<Library, Failure> {
        if self
            .library
            .to_str()
            .is_some_and(|name| name.starts_with("s3://"))
        {
            let words = "this program was built without support for object stores (feature `s3`)";
            return Err(Failure::usage(words));
        }
        self.open_folder(division)
    }

    fn open_folder(&self, division: Division) -> Result<Library, Failure> {
        if self.s3_endpoint.is_some() {
            let words = "--s3-endpoint needs a --library in an object store, s3://BUCKET/FOLDER";
            return Err(Failure::usage(words));
        }
        let indexes = self.index_cache.clone();
        Ok(Library::open(&self.library, indexes, division)?)
    }
}

/// Directory in the user's cache (XDG Base Directory Specification), or else in that of temporary files.
#[cfg(feature = "s3")]
fn default_cache(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> PathBuf {
    let folder = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let cache = cache.unwrap_or_else(std::env::temp_dir);
    cache.join("anabranch").join("index")
}

#[cfg(all(test, feature = "s3"))]
mod tests {
    use super::*;

    #[test]
    fn indexes_go_to_the_users_cache() {
        let cache = |variables: &[(&str, &str)]| {
            default_cache(|name| {
                let found = variables.iter().find(|(known, _)| *known == name)?;
                Some(found.1.into())
            })
        };
        let home = ("HOME", "/home/user");
        let own = cache(&[home]);
        assert_eq!(own, PathBuf::from("/home/user/.cache/anabranch/index"));
        let chosen = cache(&[home, ("XDG_CACHE_HOME", "/var/cache")]);
        assert_eq!(chosen, PathBuf::from("/var/cache/anabranch/index"));
        // The specification requires that relative paths are ignored.
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "cache")]), own);
        assert!(cache(&[]).is_absolute());
    }
}
