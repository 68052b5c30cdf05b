//! The examination of a file target: whether the file, or its folder, may be written to.

use rustix::fs::{Access, access};
use sendoff_core::store::Finding;

use crate::file::FileAddress;

/// Looks without opening: a relay may hold the file's lock.
pub(crate) fn examine(address: &FileAddress) -> Finding {
    let path = address.path();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let place = if path.exists() { path } else { parent.unwrap_or(std::path::Path::new(".")) };
    match access(place, Access::WRITE_OK) {
        Ok(()) => Finding::ok("target", format!("{address} can be written")),
        Err(error) => Finding::failure(
            "target",
            format!("{address} cannot be written: {}: {error}", place.display()),
            "make the folder, or give this user the right to write there",
        ),
    }
}
