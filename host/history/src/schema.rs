//! The schema of the history file, its versions, and connections to it.

use std::path::Path;
use std::time::Duration;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::chunk;
use crate::error::{Error, Result};
use crate::migration::{MIGRATIONS, Migration};

/// The maximum time for which a connection waits for the lock of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of attempts to open a file that other processes create at the same time.
const OPEN_ATTEMPTS: u32 = 20;

/// The kind of a name in the table `name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NameKind {
    Upstream,
    Tool,
    Client,
    Session,
}

impl NameKind {
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Upstream => 0,
            Self::Tool => 1,
            Self::Client => 2,
            Self::Session => 3,
        }
    }
}

/// Opens the history file for writing. Creates it if it is missing, readable only by its owner, and
/// migrates its schema to the current version.
///
/// # Errors
/// [`Error::File`], [`Error::Database`], [`Error::Version`].
pub(crate) fn open(path: &Path) -> Result<Connection> {
    create(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    let mut attempt = 0;
    loop {
        match connect(path) {
            // SQLite does not wait for the lock with which another process changes to WAL.
            Err(Error::Database(error)) if is_busy(&error) && attempt < OPEN_ATTEMPTS => {
                attempt += 1;
                std::thread::sleep(Duration::from_millis(u64::from(attempt) * 5));
            }
            result => return result,
        }
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // It has an effect only before the first table, and lets a file shrink later.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // A crash of the system may lose the last transactions, but never damages the file.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    migrate(&mut connection, &MIGRATIONS)?;
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("merge_chunks", 2, flags, |context| {
        let chunk = |at| match context.get_raw(at) {
            ValueRef::Blob(bytes) => bytes,
            _ => &[],
        };
        Ok(chunk::merge(chunk(0), chunk(1)))
    })?;
    Ok(connection)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked)
    )
}

/// Opens an existing history file for queries.
///
/// # Errors
/// [`Error::Missing`], [`Error::Database`], [`Error::Version`].
pub(crate) fn open_to_read(path: &Path) -> Result<Connection> {
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    // Readers of a file in WAL mode write to its index in shared memory.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    let found = version(&connection)?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    match found {
        0 => Err(Error::Missing(path.to_owned())),
        found if found > known => Err(Error::Version { found, known }),
        _ => Ok(connection),
    }
}

fn version(connection: &Connection) -> Result<i64> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Applies the migrations that were not applied to the file yet.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[Migration]) -> Result<()> {
    let known = i64::try_from(migrations.len()).unwrap_or(i64::MAX);
    if version(connection)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated the file in the meantime.
    let found = version(&transaction)?;
    if found > known {
        return Err(Error::Version { found, known });
    }
    for migration in migrations.iter().skip(usize::try_from(found).unwrap_or_default()) {
        migration(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

/// Creates the file and its folder if they are missing. SQLite creates its additional files with
/// the same permissions.
fn create(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_versions_add_to_the_file() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &MIGRATIONS).unwrap();
        connection.execute("INSERT INTO meta VALUES ('kept', 7)", []).unwrap();
        let more: Migration = |transaction| {
            Ok(transaction.execute_batch("ALTER TABLE record ADD COLUMN more INTEGER")?)
        };
        let next = [&MIGRATIONS[..], &[more]].concat();
        migrate(&mut connection, &next).unwrap();
        migrate(&mut connection, &next).unwrap();
        assert_eq!(version(&connection).unwrap(), 4);
        connection.execute("INSERT INTO record (more) VALUES (1)", []).unwrap();
        let kept: i64 =
            connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 7);
        let error = migrate(&mut connection, &MIGRATIONS).unwrap_err().to_string();
        assert!(error.contains("version 4") && error.contains("knows 3"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/history.db");
        let connection = open(&path).unwrap();
        connection.execute("INSERT INTO meta VALUES ('a', 1)", []).unwrap();
        let mut modes = Vec::new();
        for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
            modes.push(file.unwrap().metadata().unwrap().permissions().mode() & 0o777);
        }
        assert_eq!(modes, [0o600; 3]);
        drop(connection);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        drop(open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn missing_file_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        assert!(matches!(open_to_read(&path), Err(Error::Missing(_))));
        assert!(!path.exists());
    }
}
