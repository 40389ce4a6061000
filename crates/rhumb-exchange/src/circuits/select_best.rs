//! Select-Best: of the routes to one destination that a member may have, the one it prefers, and
//! among those it prefers alike the one that the exchange prefers. In three forms:
//!
//! 1. [`Form::Paper`], the reference: preferences of 8 bits masked by the policy, and a tournament
//!    that carries keys (figure 9).
//! 2. [`Form::Index`]: the policy is the highest bit of what is compared, and the tournament finds
//!    the place of the winner: the same function, but that a permitted route of preference zero may
//!    win. The member holds the key already.
//! 3. [`Form::TopClass`], the default: a member says only which routes are in its best class; what
//!    is permitted of them is put in party one's order, the first is kept, and put back. For
//!    exchanges that have one order for all members.
//!
//! In all, the policy masks what a member asked for: one that lies
//! learns nothing that an honest one would not.

use std::sync::Arc;

use rhumb_mpc::{
    Bit, Circuit, Inputs, MpcError, OrderSlot, Outputs, Owner, Party, Program, Vector,
};

use super::{CLASS_BITS, LOAD_BITS, MAX_ROUTES};

/// How the best route is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// As in the paper; the result is a key. A preference of zero is never chosen.
    Paper,
    /// By comparing; the result is a place.
    Index,
    /// By an order; the result is a place.
    TopClass,
}

/// The circuit for a number of routes.
#[derive(Debug, Clone)]
pub struct SelectBest {
    form: Form,
    program: Arc<Program>,
    places: Vec<Place>,
}

/// The wires of one route.
#[derive(Debug, Clone)]
struct Place {
    policy: Bit,
    ranking: Vec<Bit>,
    load: Vec<Bit>,
    key: Option<Vector>,
}

/// A party's side of one route. Rows are of as many lanes as the run.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// Its share of who may have the route.
    pub policy: &'a [u64],
    /// Its shares of the members' ranking, [`Form::ranking_bits`] rows: the class, lowest bit
    /// first, the highest class the best; or whether the route is of the best class.
    pub ranking: &'a [Vec<u64>],
    /// Party one's own preference, [`LOAD_BITS`] rows, more is better. Party two gives none, and
    /// nobody for [`Form::TopClass`].
    pub load: &'a [Vec<u64>],
    /// Its share of the key, for each lane; for [`Form::Paper`] only.
    pub keys: &'a [u128],
}

impl std::fmt::Debug for Candidate<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Candidate({} words, ..)", self.policy.len())
    }
}

/// What a member opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// It may have none of the routes, or wants none.
    Nothing,
    /// The route at this place.
    Place(usize),
    /// The route with this key.
    Key(u128),
}

impl Form {
    /// Rows of a member's ranking of one route.
    #[must_use]
    pub fn ranking_bits(self) -> usize {
        match self {
            Self::Paper | Self::Index => CLASS_BITS,
            Self::TopClass => 1,
        }
    }

    /// Both parties' shares of a member's result, put together. None if this is no result: the
    /// parties were not at the same.
    #[must_use]
    pub fn open(self, shares: [u128; 2]) -> Option<Choice> {
        let opened = shares[0] ^ shares[1];
        if opened == 0 {
            return Some(Choice::Nothing);
        }
        match self {
            Self::Paper => Some(Choice::Key(opened)),
            Self::Index => {
                let place = opened ^ FOUND;
                let is_place = place < MAX_ROUTES as u128;
                is_place.then_some(Choice::Place(place as usize))
            }
            Self::TopClass => {
                let place = opened.trailing_zeros() as usize;
                let is_place = opened.is_power_of_two() && place < MAX_ROUTES;
                is_place.then_some(Choice::Place(place))
            }
        }
    }
}

impl SelectBest {
    /// As in the paper. One of its inputs is the key that stands for no route, zero, so its places
    /// are one less than a power of two.
    ///
    /// # Errors
    ///
    /// [`MpcError::OutOfRange`] without a route, or above `MAX_ROUTES - 1`.
    pub fn paper(routes: usize) -> Result<Self, MpcError> {
        check_routes(routes, 1, MAX_ROUTES - 1)?;
        let mut circuit = Circuit::new();
        let zero = circuit.constant(false);
        let mut places = Vec::new();
        let mut players = Vec::new();
        // That key comes first: where all preferences are zero, the first wins.
        for number in 0..(routes + 1).next_power_of_two() {
            let (policy, preference, key) = if number == 0 {
                (zero, vec![zero; LOAD_BITS + CLASS_BITS], circuit.constant_vector(0))
            } else {
                let place = Place::with_preference(&mut circuit, true);
                let key = place.key.expect("invariant: made with a key");
                places.push(place.clone());
                (place.policy, place.preference(), key)
            };
            let masked = preference.iter().map(|bit| circuit.and(policy, *bit)).collect();
            players.push((masked, key));
        }
        while players.len() > 1 {
            players = join(&players, |left: &(Vec<Bit>, Vector), right| {
                let wins = not_less(&mut circuit, &left.0, &right.0);
                let preference = circuit.mux_all(wins, &left.0, &right.0);
                (preference, circuit.mux_vector(wins, left.1, right.1))
            });
        }
        circuit.output_vector(players[0].1);
        Ok(Self { form: Form::Paper, places, program: Arc::new(circuit.finish()) })
    }

    /// By comparing. The first of the routes that are preferred alike wins.
    ///
    /// # Errors
    ///
    /// [`MpcError::OutOfRange`] with fewer than 2 routes, or above [`MAX_ROUTES`].
    pub fn index(routes: usize) -> Result<Self, MpcError> {
        check_routes(routes, 2, MAX_ROUTES)?;
        let mut circuit = Circuit::new();
        let places: Vec<Place> = (0..routes.next_power_of_two())
            .map(|_| Place::with_preference(&mut circuit, false))
            .collect();
        // What is compared, the policy highest; and the bits of the place,
        // as far as the tournament has decided them.
        let mut players: Vec<(Vec<Bit>, Vec<Bit>)> = places
            .iter()
            .map(|place| ([place.preference(), vec![place.policy]].concat(), Vec::new()))
            .collect();
        while players.len() > 1 {
            let is_final = players.len() == 2;
            players = join(&players, |left: &(Vec<Bit>, Vec<Bit>), right| {
                let wins = not_less(&mut circuit, &left.0, &right.0);
                // Of the last winner only the policy is asked.
                let from = if is_final { LOAD_BITS + CLASS_BITS } else { 0 };
                let compared = circuit.mux_all(wins, &left.0[from..], &right.0[from..]);
                let mut place = circuit.mux_all(wins, &left.1, &right.1);
                place.push(circuit.not(wins));
                (compared, place)
            });
        }
        let (compared, place) = &players[0];
        let permitted = compared[compared.len() - 1];
        for bit in place {
            let masked = circuit.and(*bit, permitted);
            circuit.output(masked);
        }
        circuit.output(permitted);
        Ok(Self { form: Form::Index, places, program: Arc::new(circuit.finish()) })
    }

    /// By the order in `slot`, which must be installed for as many
    /// wires as there are [`SelectBest::places`].
    ///
    /// # Errors
    ///
    /// As [`SelectBest::index`].
    pub fn top_class(routes: usize, slot: OrderSlot) -> Result<Self, MpcError> {
        check_routes(routes, 2, MAX_ROUTES)?;
        let mut circuit = Circuit::new();
        let places: Vec<Place> = (0..routes.next_power_of_two())
            .map(|_| Place {
                policy: circuit.input(Owner::Shared),
                ranking: circuit.inputs(Owner::Shared, 1),
                load: Vec::new(),
                key: None,
            })
            .collect();
        let masked: Vec<Bit> =
            places.iter().map(|place| circuit.and(place.policy, place.ranking[0])).collect();
        let ordered = circuit.permute(slot, &masked);
        let first = circuit.first_one(&ordered);
        for bit in circuit.unpermute(slot, &first) {
            circuit.output(bit);
        }
        Ok(Self { form: Form::TopClass, places, program: Arc::new(circuit.finish()) })
    }

    /// How it finds the best.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// What both parties run.
    #[must_use]
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Places for routes: as many as asked for, filled up.
    #[must_use]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// A party's side. Places beyond the candidates are routes that nobody may have.
    ///
    /// # Errors
    ///
    /// [`MpcError::Input`] if there are more candidates than places, or they have other rows than
    /// the form; [`MpcError::OutOfRange`] for too many lanes. Rows of another length are found by
    /// [`Session::start`](rhumb_mpc::Session::start).
    pub fn inputs(
        &self,
        party: Party,
        lanes: usize,
        candidates: &[Candidate<'_>],
    ) -> Result<Inputs, MpcError> {
        if candidates.len() > self.places.len() {
            return Err(MpcError::Input("has more routes than places"));
        }
        let mut inputs = Inputs::new(&self.program, party, lanes)?;
        let empty = vec![0; lanes.div_ceil(64)];
        let no_keys = vec![0; if self.form == Form::Paper { lanes } else { 0 }];
        let given = candidates.iter().map(Some).chain(std::iter::repeat(None));
        for (place, candidate) in self.places.iter().zip(given) {
            let own_load = if party == Party::One { &place.load[..] } else { &[] };
            let Some(candidate) = candidate else {
                for wire in [place.policy].iter().chain(&place.ranking).chain(own_load) {
                    inputs.set(*wire, &empty);
                }
                place.key.map(|key| inputs.set_vector(key, &no_keys));
                continue;
            };
            let rows_are_right = candidate.ranking.len() == place.ranking.len()
                && candidate.load.len() == own_load.len()
                && candidate.keys.is_empty() == place.key.is_none();
            if !rows_are_right {
                return Err(MpcError::Input("has other rows than the circuit"));
            }
            inputs.set(place.policy, candidate.policy);
            let given = candidate.ranking.iter().chain(candidate.load);
            for (wire, row) in place.ranking.iter().chain(own_load).zip(given) {
                inputs.set(*wire, row);
            }
            place.key.map(|key| inputs.set_vector(key, candidate.keys));
        }
        Ok(inputs)
    }

    /// A party's share of each lane's result, for [`Form::open`].
    #[must_use]
    pub fn results(&self, outputs: &Outputs) -> Vec<u128> {
        if self.form == Form::Paper {
            return outputs.vectors().first().cloned().unwrap_or_default();
        }
        let mut results = vec![0; outputs.lanes()];
        let rows = outputs.bits();
        for (number, row) in rows.iter().enumerate() {
            // Of an index, the last row says whether there is one.
            let is_found = self.form == Form::Index && number + 1 == rows.len();
            let bit = if is_found { FOUND } else { 1 << number };
            for (lanes, word) in results.chunks_mut(64).zip(row) {
                for (lane, result) in lanes.iter_mut().enumerate() {
                    *result |= bit & 0_u128.wrapping_sub(u128::from(word >> lane & 1));
                }
            }
        }
        results
    }
}

impl Place {
    fn with_preference(circuit: &mut Circuit, has_key: bool) -> Self {
        Self {
            policy: circuit.input(Owner::Shared),
            ranking: circuit.inputs(Owner::Shared, CLASS_BITS),
            load: circuit.inputs(Owner::One, LOAD_BITS),
            key: has_key.then(|| circuit.input_vector(Owner::Shared)),
        }
    }

    /// Eight bits, the member's above the exchange's.
    fn preference(&self) -> Vec<Bit> {
        [&self.load[..], &self.ranking].concat()
    }
}

/// One round of a tournament: of a power of two players, one of each pair goes on.
fn join<T>(players: &[T], mut play: impl FnMut(&T, &T) -> T) -> Vec<T> {
    players.chunks_exact(2).map(|pair| play(&pair[0], &pair[1])).collect()
}

/// Whether `left >= right`: the first of equals goes on.
fn not_less(circuit: &mut Circuit, left: &[Bit], right: &[Bit]) -> Bit {
    let less = circuit.greater(right, left);
    circuit.not(less)
}

pub(super) fn check_routes(routes: usize, least: usize, most: usize) -> Result<(), MpcError> {
    if (least..=most).contains(&routes) {
        return Ok(());
    }
    let [least, most] = [least, most].map(|bound| bound as u64);
    Err(MpcError::OutOfRange { what: "the number of routes", least, most })
}

/// The bit of an index that says that there is one.
const FOUND: u128 = 1 << 127;
