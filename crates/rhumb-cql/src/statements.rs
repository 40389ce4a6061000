//! All that is ever asked of the cluster, prepared once.
//!
//! Every write says its own timestamp, so it may be sent again whenever it is not known whether it
//! arrived; the driver is told so, and asks a second node when the first is slow.

use std::sync::Arc;
use std::time::Duration;

use rhumb_rib::RibError;
use rhumb_rib::cells::Slot;
use rhumb_wire::Name;
use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;

use crate::failure::{failed, other};

/// A session with what is prepared on it.
pub(crate) struct Statements {
    session: Arc<Session>,
    pub(crate) read_row: PreparedStatement,
    read_first: PreparedStatement,
    read_after: PreparedStatement,
    /// In the order of the columns.
    write_cell: Vec<PreparedStatement>,
    write_way: PreparedStatement,
    delete_cell: Vec<PreparedStatement>,
    delete_way: PreparedStatement,
    pub(crate) read_address: PreparedStatement,
    pub(crate) write_address: PreparedStatement,
    pub(crate) delete_address: PreparedStatement,
    pub(crate) read_account: PreparedStatement,
    /// The same of what everybody counts on.
    pub(crate) count_account: PreparedStatement,
    pub(crate) write_account: PreparedStatement,
    pub(crate) delete_account: PreparedStatement,
    pub(crate) write_change: PreparedStatement,
    pub(crate) read_changes: PreparedStatement,
    pub(crate) write_server: PreparedStatement,
    pub(crate) read_servers: PreparedStatement,
    pub(crate) read_removals: PreparedStatement,
    pub(crate) read_removal: PreparedStatement,
    pub(crate) write_removal: PreparedStatement,
    pub(crate) delete_removal: PreparedStatement,
}

impl Statements {
    /// Prepares all of them.
    ///
    /// # Errors
    /// When the cluster does not answer, or knows a table otherwise.
    pub(crate) async fn prepare(session: Arc<Session>, keyspace: &str) -> Result<Self, RibError> {
        let prepare = async |text: &str| {
            let text = text.replace("IN:", &format!("{keyspace}."));
            let mut prepared = session.prepare(text).await.map_err(|it| failed(it.into()))?;
            prepared.set_is_idempotent(true);
            prepared.set_page_size(PAGE);
            Ok::<_, RibError>(prepared)
        };
        let (mut write_cell, mut delete_cell) = (Vec::new(), Vec::new());
        for (_, column) in COLUMNS {
            let set = format!("SET {column} = ? WHERE name = ?");
            let write = format!("UPDATE IN:names USING TIMESTAMP ? AND TTL ? {set}");
            write_cell.push(prepare(&write).await?);
            let delete = format!("DELETE {column} FROM IN:names USING TIMESTAMP ? WHERE name = ?");
            delete_cell.push(prepare(&delete).await?);
        }
        let mut count_account = prepare(READ_ACCOUNT).await?;
        count_account.set_execution_profile_handle(Some(profile_of_counts(&session)));
        Ok(Self {
            read_row: prepare(&format!("SELECT {READ} FROM IN:names WHERE name = ?")).await?,
            read_first: prepare(&format!("SELECT {READ} FROM IN:names LIMIT ?")).await?,
            read_after: prepare(&format!(
                "SELECT {READ} FROM IN:names WHERE token(name) > token(?) LIMIT ?"
            ))
            .await?,
            write_cell,
            write_way: prepare(WRITE_WAY).await?,
            delete_cell,
            delete_way: prepare(DELETE_WAY).await?,
            read_address: prepare(READ_ADDRESS).await?,
            write_address: prepare(WRITE_ADDRESS).await?,
            delete_address: prepare(DELETE_ADDRESS).await?,
            read_account: prepare(READ_ACCOUNT).await?,
            count_account,
            write_account: prepare(WRITE_ACCOUNT).await?,
            delete_account: prepare(DELETE_ACCOUNT).await?,
            write_change: prepare(WRITE_CHANGE).await?,
            read_changes: prepare(READ_CHANGES).await?,
            write_server: prepare(WRITE_SERVER).await?,
            read_servers: prepare("SELECT server, number FROM IN:servers WHERE part = 0").await?,
            read_removals: prepare("SELECT removal FROM IN:removals WHERE part = 0").await?,
            read_removal: prepare(READ_REMOVAL).await?,
            write_removal: prepare(WRITE_REMOVAL).await?,
            delete_removal: prepare(DELETE_REMOVAL).await?,
            session,
        })
    }

    /// Writes, or reads some rows at most.
    pub(crate) async fn ask(
        &self,
        prepared: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<Option<QueryRowsResult>, RibError> {
        let answer = self.session.execute_unpaged(prepared, values).await.map_err(failed)?;
        if answer.is_rows() { answer.into_rows_result().map(Some).map_err(other) } else { Ok(None) }
    }

    /// Reads all rows, or those of one page.
    pub(crate) async fn read(
        &self,
        prepared: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult, RibError> {
        let answer = self.session.execute_unpaged(prepared, values).await.map_err(failed)?;
        answer.into_rows_result().map_err(other)
    }

    /// Reads at most so many names behind this one, or from the first, in the cluster's own order.
    pub(crate) async fn names_after(
        &self,
        after: Option<Name>,
        limit: usize,
    ) -> Result<QueryRowsResult, RibError> {
        let limit = limit as i32;
        match after {
            None => self.read(&self.read_first, (limit,)).await,
            Some(after) => self.read(&self.read_after, (&after.0[..], limit)).await,
        }
    }

    /// Reads one page of rows, and where the next one begins.
    pub(crate) async fn read_page(
        &self,
        prepared: &PreparedStatement,
        values: impl SerializeRow,
        from: PagingState,
    ) -> Result<(QueryRowsResult, Option<PagingState>), RibError> {
        let answer = self.session.execute_single_page(prepared, values, from).await;
        let (answer, next) = answer.map_err(failed)?;
        let next = next.into_paging_control_flow().continue_value();
        Ok((answer.into_rows_result().map_err(other)?, next))
    }

    /// Does all of it to one partition, which takes it as a whole.
    pub(crate) async fn batch(&self, writes: Vec<Write>) -> Result<(), RibError> {
        let (statements, values): (Vec<BatchStatement>, Vec<Vec<CqlValue>>) =
            writes.into_iter().map(|Write(prepared, values)| (prepared.into(), values)).unzip();
        let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
        batch.set_is_idempotent(true);
        self.session.batch(&batch, values).await.map(drop).map_err(failed)
    }

    /// Writes a cell, to be kept for so many seconds.
    pub(crate) fn write(
        &self,
        name: &[u8],
        slot: Slot,
        rank: i64,
        ttl_s: i32,
        value: Vec<u8>,
    ) -> Write {
        let (value, name) = (CqlValue::Blob(value), CqlValue::Blob(name.to_vec()));
        let (rank, ttl_s) = (CqlValue::BigInt(rank), CqlValue::Int(ttl_s));
        match slot {
            Slot::Several(via) => {
                let via = CqlValue::Blob(via.0.to_vec());
                Write(self.write_way.clone(), vec![rank, ttl_s, via, value, name])
            }
            slot => Write(self.write_cell[column(slot)].clone(), vec![rank, ttl_s, value, name]),
        }
    }

    /// Deletes a cell of this rank.
    pub(crate) fn delete(&self, name: &[u8], slot: Slot, rank: i64) -> Write {
        let (rank, name) = (CqlValue::BigInt(rank), CqlValue::Blob(name.to_vec()));
        match slot {
            Slot::Several(via) => {
                Write(self.delete_way.clone(), vec![CqlValue::Blob(via.0.to_vec()), rank, name])
            }
            slot => Write(self.delete_cell[column(slot)].clone(), vec![rank, name]),
        }
    }
}

/// A partition that everybody counts on may take its time, of one node, and not of a second one
/// because of that.
fn profile_of_counts(session: &Session) -> ExecutionProfileHandle {
    let usual = session.get_default_execution_profile_handle().to_profile();
    let consistency = match usual.get_consistency() {
        Consistency::LocalQuorum => Consistency::LocalOne,
        _ => Consistency::One,
    };
    let profile = usual.to_builder().consistency(consistency);
    let profile = profile.speculative_execution_policy(None).request_timeout(Some(COUNTING));
    profile.build().into_handle()
}

/// One statement of a batch, with its values.
pub(crate) struct Write(PreparedStatement, Vec<CqlValue>);

fn column(slot: Slot) -> usize {
    let found = COLUMNS.iter().position(|(of, _)| *of == slot);
    found.expect("invariant: every slot but that of a way has a column")
}

/// The columns of `names` but for the map of ways.
const COLUMNS: [(Slot, &str); 9] = [
    (Slot::Metadata, "metadata"),
    (Slot::Bookkeeping, "book"),
    (Slot::StepIn, "step"),
    (Slot::Route, "route"),
    (Slot::Locator, "locator"),
    (Slot::Withdrawal, "withdrawal"),
    (Slot::Export, "export"),
    (Slot::Published, "published"),
    (Slot::SeveralTo, "several_to"),
];
/// What is read of a row: those whose rank is when they were written, and those that have it
/// within.
const READ: &str = "name, metadata, WRITETIME(metadata), book, WRITETIME(book), step, WRITETIME(step), \
                    route, locator, withdrawal, export, published, several_to, several";
/// Rows of a page. The largest row has 20 kB.
const PAGE: i32 = 500;
/// Longer than a node takes to give up.
const COUNTING: Duration = Duration::from_secs(30);

const WRITE_WAY: &str =
    "UPDATE IN:names USING TIMESTAMP ? AND TTL ? SET several[?] = ? WHERE name = ?";
const DELETE_WAY: &str = "DELETE several[?] FROM IN:names USING TIMESTAMP ? WHERE name = ?";
const READ_ADDRESS: &str = "SELECT name FROM IN:addresses WHERE beginning = ? LIMIT 1";
const WRITE_ADDRESS: &str =
    "INSERT INTO IN:addresses (beginning, name) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?";
const DELETE_ADDRESS: &str =
    "DELETE FROM IN:addresses USING TIMESTAMP ? WHERE beginning = ? AND name = ?";
const READ_ACCOUNT: &str =
    "SELECT COUNT(bytes), SUM(bytes) FROM IN:accounts WHERE account = ? AND bucket = ?";
const WRITE_ACCOUNT: &str = "INSERT INTO IN:accounts (account, bucket, name, bytes) VALUES (?, ?, ?, ?) \
                             USING TIMESTAMP ? AND TTL ?";
const DELETE_ACCOUNT: &str = "DELETE FROM IN:accounts USING TIMESTAMP ? \
                              WHERE account = ? AND bucket = ? AND name = ?";
const WRITE_CHANGE: &str =
    "INSERT INTO IN:changes (server, block, number, names) VALUES (?, ?, ?, ?) USING TTL ?";
const READ_CHANGES: &str =
    "SELECT number, names FROM IN:changes WHERE server = ? AND block = ? AND number >= ?";
const WRITE_SERVER: &str =
    "INSERT INTO IN:servers (part, server, number) VALUES (0, ?, ?) USING TTL ?";
const READ_REMOVAL: &str =
    "SELECT removal FROM IN:removals WHERE part = 0 AND issuer = ? AND removed = ?";
const WRITE_REMOVAL: &str = "UPDATE IN:removals USING TIMESTAMP ? AND TTL ? SET removal = ? \
                             WHERE part = 0 AND issuer = ? AND removed = ?";
const DELETE_REMOVAL: &str = "DELETE removal FROM IN:removals USING TIMESTAMP ? \
                              WHERE part = 0 AND issuer = ? AND removed = ?";
