//! Final name of a transfer that is complete: given in one step, to what has arrived as a whole.

use std::io;

use super::{
    error::TransferError, folder::Folder, message::Kind, names::NAME_BYTES_MAX, rules::Clash,
};

/// Place in the transfer's folder of what was replaced, until the folder is removed.
const REPLACED: &str = "replaced";
/// Limit on the names that are tried.
const TRIES_MAX: u32 = 10_000;

/// A transfer that gets its name.
pub(super) struct Naming<'a> {
    /// Folder in which it is, under the name that the sender chose.
    pub(super) data: &'a Folder,
    /// Folder in which it gets its name.
    pub(super) directory: &'a Folder,
    /// The transfer's own folder.
    pub(super) root: &'a Folder,
    pub(super) name: &'a str,
    pub(super) kind: Kind,
}

impl Naming<'_> {
    /// Gives the name, or another one, and returns it. `note` is called before each attempt with the name that it tries.
    pub(super) fn name_it(
        &self,
        clash: Clash,
        mut note: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<String, TransferError> {
        let mut noted = |name: &str| note(name).map_err(TransferError::write(self.root.path()));
        if clash == Clash::Overwrite {
            noted(self.name)?;
            self.replace()
                .map_err(TransferError::write(self.directory.path_of(self.name)))?;
            return Ok(self.name.to_owned());
        }
        for attempt in 1..TRIES_MAX {
            let name = self.candidate(attempt);
            // An attempt that cannot succeed leaves the note as it is.
            let exists = self.directory.holds(&name).unwrap_or(false);
            let moved = match exists {
                true => Err(io::ErrorKind::AlreadyExists.into()),
                false => {
                    noted(&name)?;
                    self.data.move_new(self.name, self.directory, &name)
                }
            };
            match moved {
                Ok(()) => return Ok(name),
                Err(error) if !is_taken(&error) => {
                    return Err(TransferError::write(self.directory.path_of(&name))(error));
                }
                Err(_) if clash == Clash::Rename => {}
                Err(_) => break,
            }
        }
        Err(TransferError::Exists {
            path: self.directory.path_of(self.name),
        })
    }

    /// The name itself, then `film (2).mp4` and so on.
    fn candidate(&self, attempt: u32) -> String {
        if attempt == 1 {
            return self.name.to_owned();
        }
        let split = match self.kind {
            Kind::Directory => None,
            _ => self
                .name
                .rsplit_once('.')
                .filter(|(stem, _)| !stem.is_empty()),
        };
        let (stem, ending) = split.map_or((self.name, String::new()), |(stem, ending)| {
            (stem, format!(".{ending}"))
        });
        let ending = format!(" ({attempt}){ending}");
        let most = NAME_BYTES_MAX.saturating_sub(ending.len());
        let fits = |&end: &usize| end <= most && stem.is_char_boundary(end);
        let end = (0..=stem.len()).rev().find(fits).unwrap_or(0);
        let stem = &stem[..end];
        format!("{stem}{ending}")
    }

    /// Takes the place of what exists, which is kept in the transfer's folder until that is removed.
    fn replace(&self) -> io::Result<()> {
        loop {
            if !self.directory.holds(self.name)? {
                match self.data.move_new(self.name, self.directory, self.name) {
                    Err(error) if is_taken(&error) => continue,
                    moved => return moved,
                }
            }
            // From an attempt that was killed in between.
            self.root.remove_all(REPLACED)?;
            if self.data.exchange(self.name, self.directory)? {
                return self.data.move_new(self.name, self.root, REPLACED);
            }
            self.directory.move_new(self.name, self.root, REPLACED)?;
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Scene {
        disk: tempfile::TempDir,
        directory: Folder,
        root: Folder,
        data: Folder,
    }

    impl Scene {
        /// A transfer with this name and content, which waits for its name.
        fn new(name: &str) -> Self {
            let disk = tempfile::tempdir().unwrap();
            let directory = Folder::open(disk.path()).unwrap();
            let root = directory.make_private("root").unwrap();
            let data = root.make_private("data").unwrap();
            fs::write(data.path_of(name), "new").unwrap();
            Self {
                disk,
                directory,
                root,
                data,
            }
        }

        fn name_it(&self, name: &str, clash: Clash) -> Result<String, TransferError> {
            let mut noted = String::new();
            let naming = Naming {
                data: &self.data,
                directory: &self.directory,
                root: &self.root,
                name,
                kind: Kind::File,
            };
            let given = naming.name_it(clash, |name| {
                name.clone_into(&mut noted);
                Ok(())
            })?;
            assert_eq!(given, noted);
            assert!(!self.data.holds(name).unwrap());
            Ok(given)
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.disk.path().join(name)).unwrap()
        }
    }

    #[test]
    fn a_name_that_exists_is_kept_replaced_or_avoided() {
        let long = format!("{}.mp4", "ö".repeat(125));
        for name in ["film.mp4", ".rc", "film", &long] {
            let scene = Scene::new(name);
            fs::write(scene.disk.path().join(name), "old").unwrap();
            let refused = scene.name_it(name, Clash::Refuse);
            assert!(matches!(refused, Err(TransferError::Exists { .. })));
            let second = scene.name_it(name, Clash::Rename).unwrap();
            assert!(second.contains(" (2)") && second.len() <= NAME_BYTES_MAX);
            assert_eq!((&*scene.read(name), &*scene.read(&second)), ("old", "new"));

            fs::write(scene.data.path_of(name), "third").unwrap();
            let third = scene.name_it(name, Clash::Rename).unwrap();
            assert!(third.contains(" (3)"), "{third}");

            fs::write(scene.data.path_of(name), "fourth").unwrap();
            assert_eq!(scene.name_it(name, Clash::Overwrite).unwrap(), name);
            assert_eq!(scene.read(name), "fourth");
            assert_eq!(scene.read("root/replaced"), "old");
        }
        let scene = Scene::new("film.mp4");
        fs::create_dir_all(scene.disk.path().join("film.mp4/in")).unwrap();
        assert_eq!(
            scene.name_it("film.mp4", Clash::Overwrite).unwrap(),
            "film.mp4"
        );
        assert_eq!(scene.read("film.mp4"), "new");
        let scene = Scene::new("a.b");
        assert_eq!(scene.name_it("a.b", Clash::Rename).unwrap(), "a.b");
        let scene = Scene::new("a.b");
        assert_eq!(scene.name_it("a.b", Clash::Overwrite).unwrap(), "a.b");
    }
}
