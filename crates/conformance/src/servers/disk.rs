//! A small disk that a test can fill.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROLE: &str = "SENDOFF_TEST_DISK";
const FOLDER: &str = "SENDOFF_TEST_DISK_FOLDER";

/// The disk that a case runs on.
#[derive(Debug)]
pub struct Disk {
    /// Where a small file system is mounted; none where no other than the machine's can be had.
    small: Option<PathBuf>,
}

impl Disk {
    /// Runs the test `test` of this test program once more, in a process with a small file system of
    /// `size` (as `mount` takes it) that goes away with it; in that process, answers with the disk.
    /// With `servers_too` the folder for temporary files, and so the data of private servers, is on
    /// it.
    ///
    /// Where no file system can be mounted (a user without name spaces) the case runs all the same,
    /// on a disk that is not small: it has to bring something that looks like a full one.
    ///
    /// # Errors
    /// Where the process cannot be started, and where the case fails in it, with what it said.
    pub fn small(test: &str, size: &str, servers_too: bool) -> io::Result<Option<Self>> {
        let folder = std::env::var_os(FOLDER).map(PathBuf::from);
        match std::env::var(ROLE).as_deref() {
            Ok("small") => return Ok(Some(Self { small: folder })),
            Ok(_) => return Ok(Some(Self { small: None })),
            Err(_) => {}
        }
        let temporary = tempfile::tempdir()?;
        // A name space of its own: what is mounted in it goes with its last process.
        let space: &[&str] = if rustix::process::geteuid().is_root() {
            &["--mount"]
        } else {
            &["--user", "--map-current-user", "--keep-caps", "--mount"]
        };
        let mount = format!("mount -t tmpfs -o size={size},mode=1777 tmpfs \"${FOLDER}\"");
        let in_space = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(space).args(["sh", "-c", script, "sh"]).env(FOLDER, temporary.path());
            command
        };
        let mountable = in_space(&mount).status().is_ok_and(|status| status.success());
        let program = std::env::current_exe()?;
        let mut command = if mountable {
            let before =
                if servers_too { "export TMPDIR=\"$SENDOFF_TEST_DISK_FOLDER\";" } else { "" };
            let mut command = in_space(&format!("{mount} && {before} exec \"$@\""));
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        let output = command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, if mountable { "small" } else { "stand-in" })
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        if output.status.success() && said.contains("1 passed") {
            return Ok(None);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(io::Error::other(format!("the case on a small disk failed: {said}\n{words}")))
    }

    /// The folder of the small disk, where there is one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.small.as_deref()
    }

    /// Leaves no room on it, to the last byte.
    ///
    /// # Errors
    /// Where the file that takes the room cannot be made.
    pub fn fill(&self) -> io::Result<()> {
        let Some(folder) = self.folder() else { return Ok(()) };
        let mut ballast = File::create(folder.join("ballast"))?;
        for page in [1 << 20, 4_096, 1] {
            while ballast.write_all(&vec![0; page]).is_ok() {}
        }
        Ok(())
    }

    /// Gives the room back.
    ///
    /// # Errors
    /// Where it was not filled.
    pub fn make_room(&self) -> io::Result<()> {
        self.folder().map_or(Ok(()), |folder| std::fs::remove_file(folder.join("ballast")))
    }
}
