//! Deletes expired data, and data beyond the maximum size of the file.

use rusqlite::{Connection, TransactionBehavior, params};

use crate::cell::Level;
use crate::error::Result;
use crate::migration::chunk_id;
use crate::schema::NameKind;

/// The time for which records of single requests are retained, in milliseconds.
const RECORD_RETENTION_MS: u64 = 7 * 86_400_000;
/// The maximum number of sessions whose sums are retained.
const MAX_SESSIONS: i64 = 20_000;
/// The divisor for one deletion step when the file is too large: one tenth of the records or cells.
const SHARE: i64 = 10;
/// The number of free pages above which the file is shrunk.
const MAX_FREE_PAGES: i64 = 1_024;

/// Deletes cells and records that have expired at the time `now_ms`, in milliseconds since 1970.
pub(crate) fn delete_expired(connection: &mut Connection, now_ms: u64) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for level in Level::ALL {
        let oldest = level.bucket(now_ms.saturating_sub(level.retention_seconds() * 1_000));
        let range = [chunk_id(level.code(), 0), chunk_id(level.code(), oldest)];
        transaction.execute("DELETE FROM chunk WHERE id >= ?1 AND id < ?2", range)?;
    }
    let oldest = i64::try_from(now_ms.saturating_sub(RECORD_RETENTION_MS)).unwrap_or_default();
    // Ids ascend with time, so that the range is found without an index of times.
    transaction.execute(
        "DELETE FROM record WHERE id < coalesce(
            (SELECT id FROM record WHERE at >= ?1 ORDER BY id LIMIT 1),
            (SELECT max(id) + 1 FROM record))",
        [oldest],
    )?;
    transaction.execute(
        "DELETE FROM session WHERE last < ?1
            OR id IN (SELECT id FROM session ORDER BY last DESC LIMIT -1 OFFSET ?2)",
        [oldest, MAX_SESSIONS],
    )?;
    transaction.execute(
        "DELETE FROM name WHERE kind = ?1 AND id NOT IN (SELECT id FROM session)
            AND id NOT IN (SELECT session FROM record WHERE session IS NOT NULL)",
        [NameKind::Session.code()],
    )?;
    transaction.commit()?;
    let free: i64 = connection.pragma_query_value(None, "freelist_count", |row| row.get(0))?;
    if free > MAX_FREE_PAGES {
        connection.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(())
}

/// Returns the size of the file without its free pages, in bytes.
pub(crate) fn used_bytes(connection: &Connection) -> Result<u64> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let pages = read("page_count")? - read("freelist_count")?;
    Ok(u64::try_from(pages * read("page_size")?).unwrap_or_default())
}

/// Deletes the oldest records while the file exceeds `max_bytes`, then the oldest cells of the
/// finest level first. Leaves some space for free pages, which also belong to the file.
pub(crate) fn limit_size(connection: &mut Connection, max_bytes: u64) -> Result<()> {
    while used_bytes(connection)? > max_bytes - max_bytes / 32 {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let records = "DELETE FROM record WHERE id <= (
            SELECT min(id) + (max(id) - min(id)) / ?1 FROM record)";
        let mut deleted = transaction.execute(records, [SHARE])?;
        for level in Level::ALL {
            if deleted > 0 {
                break;
            }
            let (first, end) = (chunk_id(level.code(), 0), chunk_id(level.code() + 1, 0));
            deleted += transaction.execute(
                "DELETE FROM chunk WHERE id >= ?1 AND id <= (
                    SELECT min(id) + (max(id) - min(id)) / ?3
                    FROM chunk WHERE id >= ?1 AND id < ?2)",
                params![first, end, SHARE],
            )?;
        }
        transaction.commit()?;
        if deleted == 0 {
            break;
        }
    }
    Ok(())
}
