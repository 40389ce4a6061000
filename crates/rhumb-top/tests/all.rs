//! What the view shows, and what keys do: drawn to a terminal in memory.

#![allow(clippy::unwrap_used)] // Helpers of a test may panic as the test may.

mod samples;

mod hostile;
mod keys;
mod screens;
mod sizes;
