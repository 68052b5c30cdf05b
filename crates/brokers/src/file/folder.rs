//! A folder as a source of keys: `folder:acks/batch-7/`.

use std::fs::{File, ReadDir};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sendoff_core::barrier::{Ack, KeyPages, KeySource, MemberName, OUTCOME_BYTES_MAX, Outcome};
use sendoff_core::{Error, ErrorKind, Result};

const LISTING: &str = "listing the files under a prefix";
/// How many keys are in a page.
const PAGE: usize = 1_000;
/// How many folders deep it is looked.
const DEPTH_MAX: usize = 16;

/// Files that stand for acknowledgements.
///
/// The prefix is `folder:` and a path, relative to the program's working directory unless it begins
/// with a slash. Every regular file whose path begins with it is a key, and what follows is the
/// member's name: under `folder:acks/b-7/` the file `acks/b-7/a.xml` acknowledges `a.xml`. Folders are
/// gone into, 16 deep at most; links are not followed. Names that begin with a dot or end in `.tmp`
/// are none: write a file under such a name and rename it once it is whole.
///
/// A file whose content is a JSON object of `ok`, `error` and `result`, at most 8,192 bytes, says what
/// the outcome is. An empty one, or one with anything else in it, says that it went well.
///
/// ```
/// use sendoff_brokers::file::FolderKeys;
/// use sendoff_core::barrier::KeySource;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("a.xml"), "")?;
/// let prefix = format!("folder:{}/", folder.path().display());
/// let mut keys = FolderKeys.keys(&prefix).await?;
/// assert_eq!(keys.next().await?[0].member.as_bytes(), b"a.xml");
/// assert!(keys.next().await?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FolderKeys;

impl FolderKeys {
    /// Whether a prefix is one of a folder's.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the reason and an example.
    pub fn check(prefix: &str) -> Result<()> {
        path(prefix).map(drop)
    }
}

fn path(prefix: &str) -> Result<&str> {
    let refused = |reason: &str| {
        Err(Error::invalid(LISTING, format!("{prefix:?} {reason}"))
            .advice("example: folder:acks/batch-7/"))
    };
    match prefix.strip_prefix("folder:") {
        None => refused("does not begin with folder:"),
        Some("") => refused("names no path"),
        Some(path) if path.contains('\0') => refused("has a NUL"),
        Some(path) => Ok(path),
    }
}

#[async_trait]
impl KeySource for FolderKeys {
    async fn keys(&self, prefix: &str) -> Result<Box<dyn KeyPages>> {
        let path = path(prefix)?.to_owned();
        let walk = apart(move || Walk::begin(&path)).await?;
        Ok(Box::new(Pages(Some(walk))))
    }
}

struct Pages(Option<Walk>);

#[async_trait]
impl KeyPages for Pages {
    async fn next(&mut self) -> Result<Vec<Ack>> {
        // After an error, and where a call was given up, nothing is left to go on with.
        let Some(mut walk) = self.0.take() else { return Ok(Vec::new()) };
        let (walk, page) = apart(move || walk.page().map(|page| (walk, page))).await?;
        self.0 = Some(walk);
        Ok(page)
    }
}

/// On a thread that may block.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::new(ErrorKind::Unexpected, LISTING).caused_by(error))?
}

/// The way through the folders: one open folder for each level.
struct Walk {
    /// With what the keys' paths begin, in bytes, so that the rest is the name.
    prefix: Vec<u8>,
    open: Vec<ReadDir>,
}

impl Walk {
    fn begin(prefix: &str) -> Result<Self> {
        // `acks/b-` names no folder: the files are in `acks/`, and begin with `b-`.
        let folder = &prefix[..prefix.rfind('/').map_or(0, |at| at + 1)];
        let folder = Path::new(if folder.is_empty() { "." } else { folder });
        let read = std::fs::read_dir(folder).map_err(|error| fault(folder, error))?;
        // Without a folder in the prefix the paths that are read begin with `./`.
        let prefix = if prefix.contains('/') { prefix.to_owned() } else { format!("./{prefix}") };
        Ok(Self { prefix: prefix.into_bytes(), open: vec![read] })
    }

    fn page(&mut self) -> Result<Vec<Ack>> {
        let mut page = Vec::new();
        while page.len() < PAGE
            && let Some(folder) = self.open.last_mut()
        {
            let Some(entry) = folder.next() else {
                self.open.pop();
                continue;
            };
            let entry = entry.map_err(|error| fault(Path::new("a folder"), error))?;
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let file_name = entry.file_name();
            if file_name.as_bytes().starts_with(b".") || !self.meets(&path) {
                continue;
            }
            if kind.is_dir() && self.open.len() < DEPTH_MAX {
                match std::fs::read_dir(&path) {
                    Ok(read) => self.open.push(read),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(fault(&path, error)),
                }
            } else if kind.is_file() && !file_name.as_bytes().ends_with(b".tmp") {
                page.extend(self.ack(&path)?);
            }
        }
        Ok(page)
    }

    /// Whether the path begins with the prefix.
    fn meets(&self, path: &Path) -> bool {
        path.as_os_str().as_bytes().starts_with(&self.prefix)
    }

    fn ack(&self, path: &Path) -> Result<Option<Ack>> {
        let name = &path.as_os_str().as_bytes()[self.prefix.len()..];
        let Ok(member) = MemberName::new(name) else { return Ok(None) };
        match outcome(path) {
            Ok(outcome) => Ok(Some(Ack { member, outcome })),
            // Renamed or taken away since it was listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(path, error)),
        }
    }
}

/// What a file says; never more of it than an outcome may have is read.
fn outcome(path: &Path) -> std::io::Result<Outcome> {
    let mut content = Vec::new();
    let most = u64::try_from(OUTCOME_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut content)?;
    if content.len() > OUTCOME_BYTES_MAX || !content.trim_ascii_start().starts_with(b"{") {
        return Ok(Outcome::ok());
    }
    let told = serde_json::from_slice::<Outcome>(&content).ok();
    Ok(told.filter(|told| told.encode().is_ok()).unwrap_or_else(Outcome::ok))
}

fn fault(path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, LISTING)
        .subject(PathBuf::from(path).display().to_string())
        .caused_by(error)
        .advice(
            "a path that does not begin with a slash is relative to where the program was started",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(prefix: &str) -> Vec<(String, Outcome)> {
        let mut keys = FolderKeys.keys(prefix).await.unwrap();
        let mut all = Vec::new();
        loop {
            let page = keys.next().await.unwrap();
            assert!(page.len() <= PAGE);
            if page.is_empty() {
                break;
            }
            all.extend(page.into_iter().map(|ack| (ack.member.to_string(), ack.outcome)));
        }
        all.sort_by(|one, another| one.0.cmp(&another.0));
        all
    }

    #[tokio::test]
    async fn what_follows_the_prefix_is_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("b-7/deep/.git")).unwrap();
        for file in
            ["b-7/a.xml", "b-7/deep/c", "b-7/.hidden", "b-7/x.tmp", "b-7/deep/.git/d", "b-8"]
        {
            std::fs::write(at(file), "").unwrap();
        }
        std::os::unix::fs::symlink(at("b-8"), at("b-7/link")).unwrap();
        let root = folder.path().display();
        let names = |found: Vec<(String, Outcome)>| -> Vec<String> {
            found.into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(all(&format!("folder:{root}/b-7/")).await), ["a.xml", "deep/c"]);
        let begun = names(all(&format!("folder:{root}/b-")).await);
        assert_eq!(begun, ["7/a.xml", "7/deep/c", "8"]);
    }

    #[tokio::test]
    async fn the_content_is_the_outcome_where_it_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let long = format!(r#"{{"ok":false,"error":"{}"}}"#, "x".repeat(OUTCOME_BYTES_MAX));
        for (name, content) in [
            ("1", ""),
            ("2", r#"{"ok": false, "error": "no"}"#),
            ("3", r#"{"result": [1]}"#),
            ("4", "<receipt/>"),
            ("5", r#"{"ok": "maybe"}"#),
            ("6", long.as_str()),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let found = all(&format!("folder:{}/", folder.path().display())).await;
        let said: Vec<(bool, Option<&str>, bool)> = found
            .iter()
            .map(|(_, told)| (told.is_ok(), told.error(), told.result().is_some()))
            .collect();
        let well = (true, None, false);
        assert_eq!(said, [well, (false, Some("no"), false), (true, None, true), well, well, well]);
    }

    #[tokio::test]
    async fn many_files_come_in_pages() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..2_001 {
            std::fs::write(folder.path().join(n.to_string()), "").unwrap();
        }
        assert_eq!(all(&format!("folder:{}/", folder.path().display())).await.len(), 2_001);
    }

    #[tokio::test]
    async fn what_cannot_be_listed_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let nowhere = format!("folder:{}/none/", folder.path().display());
        for (prefix, kind) in [
            ("acks/", ErrorKind::Invalid),
            ("folder:", ErrorKind::Invalid),
            (nowhere.as_str(), ErrorKind::NotFound),
        ] {
            assert_eq!(FolderKeys.keys(prefix).await.err().map(|error| error.kind()), Some(kind));
        }
    }
}
