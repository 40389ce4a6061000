//! Nothing. Cargo gives a crate what tests want of it only where something is built that may have
//! dependencies of development, as an example may. So with this one, fuzz targets are built from
//! what tests have had built, and not from the same crates without those features.
