//! Key files of those who sign to a key server, or ask it what is revoked (TSIG).

use std::path::Path;

use rhumb_keyserver::tsig::TsigKey;

use crate::failure::{Failure, Outcome};
use crate::secret_file;

/// The key of a file that signs.
pub fn load_signer(path: &Path) -> Outcome<TsigKey> {
    let maker = format!("rhumb capability signer NAME --out {}", path.display());
    let text = secret_file::read(path, &maker)?;
    TsigKey::parse(&text)
        .map_err(|fault| Failure::setup_text(format!("file {}: {fault}", path.display())))
}
