//! Export-All as in the paper: each lane gets a route's key where the policy permits it, and zero
//! where not; one vector AND per lane and route.
//!
//! The reference for measurements. A party with a member of its own opens by it what that member
//! may not have: it turns over its share of the bit.

use std::sync::Arc;

use rhumb_mpc::{Bit, Circuit, Inputs, MpcError, Outputs, Owner, Party, Program, Vector};

use super::MAX_ROUTES;

/// The circuit for a number of routes.
#[derive(Debug, Clone)]
pub struct ExportAll {
    program: Arc<Program>,
    routes: Vec<(Bit, Vector)>,
}

/// A party's shares of one route.
#[derive(Clone, Copy)]
pub struct SharedRoute<'a> {
    /// Who may have it: a row of lanes.
    pub policy: &'a [u64],
    /// Its key, for each lane.
    pub keys: &'a [u128],
}

impl std::fmt::Debug for SharedRoute<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedRoute({} lanes, ..)", self.keys.len())
    }
}

impl ExportAll {
    /// For as many routes as are exported in one run.
    ///
    /// # Errors
    ///
    /// [`MpcError::OutOfRange`] without a route, or above [`MAX_ROUTES`].
    pub fn new(routes: usize) -> Result<Self, MpcError> {
        super::select_best::check_routes(routes, 1, MAX_ROUTES)?;
        let mut circuit = Circuit::new();
        let routes = (0..routes).map(|_| {
            let policy = circuit.input(Owner::Shared);
            let key = circuit.input_vector(Owner::Shared);
            let exported = circuit.and_vector(policy, key);
            circuit.output_vector(exported);
            (policy, key)
        });
        let routes = routes.collect();
        Ok(Self { routes, program: Arc::new(circuit.finish()) })
    }

    /// What both parties run.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Routes of a run.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    /// A party's side.
    ///
    /// # Errors
    ///
    /// [`MpcError::Input`] if there are fewer or more than [`ExportAll::routes`];
    /// [`MpcError::OutOfRange`] for too many lanes. Rows of another length are found by
    /// [`Session::start`](rhumb_mpc::Session::start).
    pub fn inputs(
        &self,
        party: Party,
        lanes: usize,
        shares: &[SharedRoute<'_>],
    ) -> Result<Inputs, MpcError> {
        if shares.len() != self.routes.len() {
            return Err(MpcError::Input("has another number of routes"));
        }
        let mut inputs = Inputs::new(&self.program, party, lanes)?;
        for ((policy, key), share) in self.routes.iter().zip(shares) {
            inputs.set(*policy, share.policy).set_vector(*key, share.keys);
        }
        Ok(inputs)
    }

    /// A party's shares of what each lane gets, route by route.
    #[must_use]
    pub fn results<'a>(&self, outputs: &'a Outputs) -> &'a [Vec<u128>] {
        outputs.vectors()
    }
}
