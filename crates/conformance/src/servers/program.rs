//! Finding the servers' programs, and the account that they run under.

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest PostgreSQL that Sendoff supports.
const POSTGRES_MAJOR_MIN: u32 = 15;

/// Where Debian keeps the programs of each PostgreSQL version.
const DEBIAN_POSTGRES: &str = "/usr/lib/postgresql";

/// The folder with the newest PostgreSQL's programs.
pub(super) fn postgres_folder() -> io::Result<PathBuf> {
    let debian = std::fs::read_dir(DEBIAN_POSTGRES)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Of equals the last one is taken: Debian's own folder has every program, PATH may have some.
    std::env::split_paths(&path)
        .chain(debian)
        .filter(|folder| folder.join("initdb").is_file())
        .filter_map(|folder| Some((postgres_major(&folder)?, folder)))
        .filter(|(major, _)| *major >= POSTGRES_MAJOR_MIN)
        .max_by_key(|(major, _)| *major)
        .map(|(_, folder)| folder)
        .ok_or_else(|| {
            missing(&format!(
                "no PostgreSQL {POSTGRES_MAJOR_MIN} or later in {DEBIAN_POSTGRES} or in PATH; \
                 on Debian install the package `postgresql`"
            ))
        })
}

/// PostgreSQL's client: beside the server, or else in PATH.
pub(super) fn psql() -> io::Result<PathBuf> {
    let beside = postgres_folder()?.join("psql");
    Ok(if beside.is_file() { beside } else { PathBuf::from("psql") })
}

/// The major version of the `postgres` in a folder: "postgres (PostgreSQL) 15.14 (Debian ...)".
fn postgres_major(folder: &Path) -> Option<u32> {
    let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    major_of(&String::from_utf8_lossy(&output.stdout))
}

fn major_of(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The NATS server's program.
pub(super) fn nats_server() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // Debian installs it where only root's PATH looks.
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("nats-server"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            missing(
                "no nats-server in PATH or in /usr/sbin; on Debian install the package `nats-server`",
            )
        })
}

/// The pooler's program.
pub(super) fn pgbouncer() -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        // Debian installs it where only root's PATH looks.
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join("pgbouncer"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            missing(
                "no pgbouncer in PATH or in /usr/sbin; on Debian install the package `pgbouncer`",
            )
        })
}

fn missing(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}

/// The account that a server runs under: our own, or `postgres` where ours is root, since
/// PostgreSQL refuses to run as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Account {
    Own,
    Postgres { uid: u32, gid: u32 },
}

impl Account {
    /// The account for a PostgreSQL server.
    pub(super) fn for_postgres() -> io::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Own);
        }
        Ok(Self::Postgres { uid: id_of_postgres("-u")?, gid: id_of_postgres("-g")? })
    }

    /// A command that runs `program` under this account, as the same process.
    pub(super) fn command(self, program: &Path) -> Command {
        match self {
            Self::Own => Command::new(program),
            Self::Postgres { uid, gid } => {
                let mut command = Command::new("setpriv");
                command
                    .arg(format!("--reuid={uid}"))
                    .arg(format!("--regid={gid}"))
                    .arg("--clear-groups")
                    .arg(program);
                command
            }
        }
    }

    /// Gives a path to this account.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Own => Ok(()),
            Self::Postgres { uid, gid } => chown(path, Some(uid), Some(gid)),
        }
    }
}

fn id_of_postgres(which: &str) -> io::Result<u32> {
    let output = Command::new("id").args([which, "postgres"]).output()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|_| {
        missing(
            "no user `postgres`, under whom root runs PostgreSQL; \
                 on Debian install the package `postgresql`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::major_of;

    #[test]
    fn the_major_version_is_read_from_what_postgres_says() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.14 (Debian 15.14-0)"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of("something else"), None);
    }
}
