//! `file:PATH`, taken apart.

use std::fmt;
use std::path::{Path, PathBuf};

use sendoff_core::{Error, Result};

/// The path of a file of JSON lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileAddress(PathBuf);

impl FileAddress {
    /// Takes `file:rel/path`, `file:/abs/path` or `file:///abs/path` apart.
    ///
    /// # Errors
    /// [`sendoff_core::ErrorKind::Invalid`] with the reason and examples.
    pub fn parse(url: &str) -> Result<Self> {
        let refused = |reason: &str| {
            Error::invalid("reading a file URL", format!("{url:?} {reason}"))
                .advice("examples: file:out.jsonl, file:/var/out.jsonl")
        };
        let rest = url.strip_prefix("file:").ok_or_else(|| refused("does not begin with file:"))?;
        let path = match rest.strip_prefix("//") {
            Some(absolute) if absolute.starts_with('/') => absolute,
            Some(_) => {
                return Err(refused("names a host: write one slash or three before a path"));
            }
            None => rest,
        };
        if path.is_empty() || path.contains('\0') {
            return Err(refused("names no file"));
        }
        if path.ends_with('/') {
            return Err(refused("names a folder"));
        }
        Ok(Self(PathBuf::from(path)))
    }

    /// The address of a path.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for FileAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", self.0.display())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sendoff_core::ErrorKind;

    use super::FileAddress;

    #[test]
    fn relative_and_absolute_paths_are_taken_as_they_are() {
        for (url, path) in [
            ("file:out.jsonl", "out.jsonl"),
            ("file:./a b/out%20.jsonl", "./a b/out%20.jsonl"),
            ("file:../out.jsonl", "../out.jsonl"),
            ("file:/var/out.jsonl", "/var/out.jsonl"),
            ("file:///var/out.jsonl", "/var/out.jsonl"),
        ] {
            assert_eq!(FileAddress::parse(url).unwrap().path(), Path::new(path));
        }
    }

    #[test]
    fn a_malformed_url_is_refused_with_the_reason_and_examples() {
        for (url, reason) in [
            ("out.jsonl", "does not begin with file:"),
            ("file:", "names no file"),
            ("file:///", "names a folder"),
            ("file:logs/", "names a folder"),
            ("file://out.jsonl", "names a host"),
            ("file://host/out.jsonl", "names a host"),
        ] {
            let error = FileAddress::parse(url).expect_err(url);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let text = error.to_string();
            assert!(text.contains(reason), "{url}: {text}");
            assert!(text.contains("examples: file:out.jsonl"), "{url}: {text}");
        }
    }
}
