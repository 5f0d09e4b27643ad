//! The versions of the schema, and the steps that migrate a file from each version to the next.

use std::collections::BTreeMap;

use rusqlite::Transaction;

use crate::cell::Values;
use crate::chunk::{ChunkKey, ChunkWriter};
use crate::error::Result;

/// A step to the next version of the schema. A released step never changes.
pub(crate) type Migration = fn(&Transaction<'_>) -> Result<()>;

/// The steps that create the current schema from an empty file. `user_version` of a file is the
/// number of steps that were applied to it.
pub(crate) const MIGRATIONS: [Migration; 3] = [
    |transaction| Ok(transaction.execute_batch(CELLS_AS_ROWS)?),
    pack_cells,
    // Cells have sums and a histogram that earlier programs would misread. Older cells lack them.
    // The column lets insertions of an earlier program that still runs fail: they name no columns.
    |transaction| Ok(transaction.execute_batch("ALTER TABLE chunk ADD COLUMN reserved")?),
];

const CELLS_AS_ROWS: &str = "
CREATE TABLE name (
    id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, value TEXT NOT NULL, UNIQUE (kind, value)
);
CREATE TABLE cell (
    level INTEGER, bucket INTEGER, upstream INTEGER, tool INTEGER, client INTEGER, outcome INTEGER,
    calls INTEGER, tokens_before INTEGER, tokens_sent INTEGER, tokens_followup INTEGER,
    bytes_before INTEGER, bytes_sent INTEGER, oversized INTEGER, paged INTEGER, chunked INTEGER,
    condensed INTEGER, faults INTEGER, followups INTEGER,
    h_latency BLOB, h_tokens BLOB, h_bytes BLOB,
    PRIMARY KEY (level, bucket, upstream, tool, client, outcome)
) WITHOUT ROWID;
CREATE TABLE revision_cell (
    level INTEGER, bucket INTEGER, upstream INTEGER, revision INTEGER, outcome INTEGER,
    calls INTEGER, tokens_before INTEGER, tokens_sent INTEGER, tokens_followup INTEGER,
    bytes_before INTEGER, bytes_sent INTEGER, oversized INTEGER, paged INTEGER, chunked INTEGER,
    condensed INTEGER, faults INTEGER, followups INTEGER,
    h_latency BLOB, h_tokens BLOB, h_bytes BLOB,
    PRIMARY KEY (level, bucket, upstream, revision, outcome)
) WITHOUT ROWID;
CREATE TABLE record (
    id INTEGER PRIMARY KEY, at INTEGER, parent INTEGER, session INTEGER, upstream INTEGER,
    tool INTEGER, client INTEGER, outcome INTEGER, revision INTEGER, decision TEXT,
    tokens_before INTEGER, tokens_sent INTEGER, latency_us INTEGER, bytes INTEGER
);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
";

/// The second version of the schema. `chunk.id` combines level and bucket, see [`chunk_id`].
const CHUNKS_AND_SESSIONS: &str = "
CREATE TABLE series (
    id INTEGER PRIMARY KEY, upstream INTEGER NOT NULL, tool INTEGER NOT NULL,
    client INTEGER NOT NULL, outcome INTEGER NOT NULL, UNIQUE (upstream, tool, client, outcome)
);
CREATE TABLE chunk (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE session (
    id INTEGER PRIMARY KEY, client INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    calls INTEGER NOT NULL, followups INTEGER NOT NULL, tokens_before INTEGER NOT NULL,
    tokens_sent INTEGER NOT NULL, tokens_followup INTEGER NOT NULL, oversized INTEGER NOT NULL,
    faults INTEGER NOT NULL
);
INSERT INTO series (upstream, tool, client, outcome)
    SELECT DISTINCT upstream, tool, client, outcome FROM cell;
";

/// Returns the id of the chunk of a period, from the code of the level and the number of the
/// period.
pub(crate) const fn chunk_id(level: i64, bucket: i64) -> i64 {
    (level << 40) | bucket
}

/// Packs the rows of cells into chunks. A cell of version 1 has no revision, so all cells get
/// revision 0.
fn pack_cells(transaction: &Transaction<'_>) -> Result<()> {
    transaction.execute_batch(CHUNKS_AND_SESSIONS)?;
    let mut select = transaction.prepare(
        "SELECT level, bucket, series.id, calls, tokens_before, tokens_sent, tokens_followup,
            bytes_before, bytes_sent, oversized, paged, chunked, condensed, faults, followups,
            h_latency, h_tokens
         FROM cell JOIN series USING (upstream, tool, client, outcome)
         ORDER BY level, bucket",
    )?;
    let mut chunk: BTreeMap<ChunkKey, Values> = BTreeMap::new();
    let mut id = 0;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let next = chunk_id(row.get(0)?, row.get(1)?);
        if next != id {
            write(transaction, id, &std::mem::take(&mut chunk))?;
            id = next;
        }
        let series = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
        let mut values = Values::default();
        for (at, sum) in values.sums.iter_mut().take(12).enumerate() {
            *sum = row.get(3 + at)?;
        }
        for (at, histogram) in values.histograms.iter_mut().take(2).enumerate() {
            let bytes = row.get_ref(15 + at)?.as_blob().unwrap_or_default();
            histogram.merge_version_1(bytes);
        }
        chunk.insert(ChunkKey { series, revision: 0 }, values);
    }
    write(transaction, id, &chunk)?;
    Ok(transaction.execute_batch("DROP TABLE cell; DROP TABLE revision_cell;")?)
}

fn write(transaction: &Transaction<'_>, id: i64, cells: &BTreeMap<ChunkKey, Values>) -> Result<()> {
    if cells.is_empty() {
        return Ok(());
    }
    let mut chunk = ChunkWriter::default();
    cells.iter().for_each(|(key, values)| chunk.push(*key, values));
    transaction.execute("INSERT INTO chunk VALUES (?1, ?2)", (id, chunk.finish()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::query::Query;
    use crate::reader::Reader;
    use crate::schema;

    #[test]
    fn running_writers_of_version_2_fail() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, &MIGRATIONS[..2]).unwrap();
        let insert = "INSERT INTO chunk VALUES (1, x'00')
            ON CONFLICT (id) DO UPDATE SET data = excluded.data";
        connection.execute(insert, []).unwrap();
        schema::migrate(&mut connection, &MIGRATIONS).unwrap();
        assert!(connection.execute(insert, []).is_err());
        let data: Vec<u8> =
            connection.query_row("SELECT data FROM chunk", [], |row| row.get(0)).unwrap();
        assert_eq!(data, [0]);
    }

    #[test]
    fn cells_of_version_1_are_packed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.db");
        let mut connection = Connection::open(&path).unwrap();
        schema::migrate(&mut connection, &MIGRATIONS[..1]).unwrap();
        // Two calls of 1,000 tokens in one hour, and one of 90 tokens in the next. `h_tokens` has
        // bucket 10 (512 to 1,023) twice, and bucket 7 once.
        connection
            .execute_batch(
                "INSERT INTO name VALUES (1, 0, 'files'), (2, 1, 'read'), (3, 2, '_OTHER');
                 INSERT INTO cell VALUES
                    (1, 497222, 1, 2, 3, 5, 2, 2000, 300, 20, 8000, 1200, 2, 2, 0, 0, 0, 1,
                     x'0b02', x'0a02', x'0c02'),
                    (1, 497223, 1, 2, 3, 0, 1, 90, 90, 0, 360, 360, 0, 0, 0, 0, 0, 0,
                     x'0b01', x'0701', x'0901')",
            )
            .unwrap();
        drop(connection);
        drop(schema::open(&path).unwrap());
        let parameters = [
            ("measure", "net_tokens_saved,calls,followups,paged,tokens_p95"),
            ("by", "upstream,outcome"),
            ("from", "2026-09-21T00:00:00Z"),
            ("to", "2026-09-23T00:00:00Z"),
            ("step", "1h"),
        ];
        let query = Query::parse(parameters, 1_790_000_000_000 + 86_400_000).unwrap();
        let answer = Reader::open(&path).unwrap().run(&query).unwrap();
        let rows = answer["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{answer}");
        assert_eq!(
            (&rows[0]["upstream"], &rows[0]["outcome"]),
            (&"files".into(), &"paginated".into())
        );
        assert_eq!(rows[0]["net_tokens_saved"], 2_000 - 300 - 20);
        assert_eq!((&rows[0]["calls"], &rows[0]["paged"]), (&2.into(), &2.into()));
        assert!(
            rows[0]["tokens_p95"].as_u64().is_some_and(|tokens| (512..1_024).contains(&tokens))
        );
        assert_eq!(rows[1]["outcome"], "passed");
        assert_eq!(rows[0]["points"].as_array().map(Vec::len), Some(1), "{answer}");
    }
}
