//! Removals of members, by issuer and by who was removed: the newest of each.

use rhumb_rib::RibError;
use rhumb_rib::cells::rank_of;
use rhumb_rib::store::RemovalChange;
use rhumb_trust::Removal;
use rhumb_wire::Name;
use scylla::response::PagingState;

use crate::Cluster;
use crate::changes::Changed;
use crate::cluster::{Ready, now, ttl_s};
use crate::failure::other;
use crate::metrics::Kind;

impl Cluster {
    /// All removals, none in place of one that is damaged.
    ///
    /// # Errors
    /// When too few nodes answer in time, or too much is asked at once.
    pub async fn removals(&self) -> Result<Vec<Option<Removal>>, RibError> {
        let read = async {
            let _place = self.0.place()?;
            let statements = &self.0.ready().await?.statements;
            let mut removals = Vec::new();
            let mut from = Some(PagingState::start());
            while let Some(page) = from {
                let (read, next) =
                    statements.read_page(&statements.read_removals, (), page).await?;
                for row in read.rows::<(Option<Vec<u8>>,)>().map_err(other)? {
                    let (removal,) = row.map_err(other)?;
                    removals.extend(removal.map(|bytes| Removal::parse(&bytes).ok()));
                }
                from = next;
            }
            Ok(removals)
        };
        self.0.timed(Kind::Read, read).await
    }

    /// Writes all changes, as [`Cluster::commit`] does; an absent removal takes out the one that is
    /// there, and none that is written meanwhile.
    ///
    /// # Errors
    /// As there.
    pub async fn commit_removals(&self, changes: &[RemovalChange]) -> Result<(), RibError> {
        let write = async {
            let _place = self.0.place()?;
            let ready = self.0.ready().await?;
            for ((issuer, removed), removal) in changes {
                let key = (*issuer, *removed);
                match removal {
                    Some(removal) => write(ready, key, removal).await?,
                    None => delete(ready, key).await?,
                }
            }
            ready.changes.tell(&ready.statements, Changed::Removals).await
        };
        self.0.timed(Kind::Write, write).await
    }
}

async fn write(
    ready: &Ready,
    (issuer, removed): (Name, Name),
    removal: &Removal,
) -> Result<(), RibError> {
    let certificate = removal.certificate();
    let now = now();
    let (rank, ttl_s) = (rank_of(certificate.sequence), ttl_s(certificate.not_after_s, now));
    let values = (rank, ttl_s, removal.emit(), &issuer.0[..], &removed.0[..]);
    let statements = &ready.statements;
    statements.ask(&statements.write_removal, values).await?;
    // As with names, something newer that is forgotten may hide it.
    match sequence(ready, (issuer, removed)).await? {
        Some(sequence) if sequence >= certificate.sequence => Ok(()),
        _ => Err(RibError::Shadowed { name: removed }),
    }
}

async fn delete(ready: &Ready, (issuer, removed): (Name, Name)) -> Result<(), RibError> {
    let Some(sequence) = sequence(ready, (issuer, removed)).await? else { return Ok(()) };
    let values = (rank_of(sequence), &issuer.0[..], &removed.0[..]);
    ready.statements.ask(&ready.statements.delete_removal, values).await.map(drop)
}

/// The sequence of the removal that is there.
async fn sequence(ready: &Ready, (issuer, removed): (Name, Name)) -> Result<Option<u64>, RibError> {
    let statements = &ready.statements;
    let read = statements.read(&statements.read_removal, (&issuer.0[..], &removed.0[..])).await?;
    let row = read.maybe_first_row::<(Option<Vec<u8>>,)>().map_err(other)?;
    let Some((Some(bytes),)) = row else { return Ok(None) };
    let removal = Removal::parse(&bytes).map_err(|_| RibError::DamagedRemoval)?;
    Ok(Some(removal.certificate().sequence))
}
