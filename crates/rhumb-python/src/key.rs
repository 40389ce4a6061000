//! Keys and the words of their owners: as in files of `rhumb keygen` and `rhumb certify`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use rhumb_node::foreign::{self, parse_name, parse_role};
use rhumb_node::{Passphrase, save_key};

use crate::error::OrRaise;

/// A name and its private key, which it never shows.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct Identity {
    pub(crate) identity: Arc<rhumb_node::Identity>,
}

#[pymethods]
impl Identity {
    /// A fresh one.
    #[staticmethod]
    #[pyo3(signature = (role = "node"))]
    fn generate(py: Python<'_>, role: &str) -> PyResult<Self> {
        let made = parse_role(role).and_then(foreign::generate).or_raise(py)?;
        Ok(Self { identity: Arc::new(made) })
    }

    /// Reads a key file, with the membership that lies beside it.
    #[staticmethod]
    #[pyo3(signature = (path, passphrase = None))]
    fn load(py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> PyResult<Self> {
        let passphrase = passphrase.map(Passphrase::new);
        // Opening a sealed one takes a moment, which other threads have.
        let read = py.detach(|| foreign::load_identity(&path, passphrase.as_ref())).or_raise(py)?;
        Ok(Self { identity: Arc::new(read) })
    }

    /// Writes a new key file, which its owner alone can read.
    #[pyo3(signature = (path, passphrase = None))]
    fn save(&self, py: Python<'_>, path: PathBuf, passphrase: Option<String>) -> PyResult<()> {
        let passphrase = passphrase.map(Passphrase::new);
        let identity = &self.identity;
        py.detach(|| save_key(&path, identity, passphrase.as_ref())).or_raise(py)
    }

    /// The name.
    #[getter]
    fn name(&self) -> String {
        self.identity.name().to_string()
    }

    /// What the key is for.
    #[getter]
    fn role(&self) -> &'static str {
        self.identity.metadata().role.as_str()
    }

    fn __repr__(&self) -> String {
        format!("<rhumb.Identity {}>", self.identity.name())
    }
}

/// An owner's word that a server answers for its name.
#[pyclass(frozen, module = "rhumb._native")]
pub(crate) struct AdCert {
    pub(crate) ad_cert: rhumb_node::AdCert,
}

#[pymethods]
impl AdCert {
    /// Lets `server` answer for the owner from now on, for so many seconds.
    #[staticmethod]
    fn sign(
        py: Python<'_>,
        owner: &Bound<'_, Identity>,
        server: &str,
        seconds: u64,
    ) -> PyResult<Self> {
        let server = parse_name(server).or_raise(py)?;
        let signed = foreign::certify(&owner.get().identity, server, seconds);
        Ok(Self { ad_cert: signed.or_raise(py)? })
    }

    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { ad_cert: rhumb_node::AdCert::load(&path).or_raise(py)? })
    }

    /// Writes a new file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.ad_cert.save(&path).or_raise(py)
    }

    /// Whose name is served.
    #[getter]
    fn owner(&self) -> String {
        self.ad_cert.owner().to_string()
    }

    /// Who serves it.
    #[getter]
    fn server(&self) -> String {
        self.ad_cert.server().to_string()
    }

    /// Until when, in seconds since 1970.
    #[getter]
    fn not_after(&self) -> u64 {
        self.ad_cert.certificate().not_after_s
    }

    fn __repr__(&self) -> String {
        format!("<rhumb.AdCert of {}>", self.ad_cert.owner())
    }
}
