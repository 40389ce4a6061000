//! Runs of Select-Best: of several rounds at a time, whose messages between the parties are one, so
//! that a burst of changes does not wait for as many round trips as it has destinations.
//!
//! With [`Form::TopClass`] each slot of the engine has an order of announcers, each at its place
//! ([`Order::Arrange`]). It serves every destination whose announcers are among them and fill more
//! than half of the places; of the others nothing is put in.

use std::sync::Arc;

use rhumb_mpc::{Inputs, MAX_ORDER_SLOTS, Outputs, Party, Program};
use zeroize::Zeroizing;

use super::Shard;
use crate::ExchangeError;
use crate::circuits::{Candidate, Form, LOAD_BITS, MAX_ROUTES, SelectBest, rows};
use crate::message::member::ToMember;
use crate::message::pair::Selection;
use crate::roster::{Lane, LaneSet};

/// A round as the circuit has it.
struct Part {
    circuit: Arc<SelectBest>,
    /// Of each route.
    places: Vec<usize>,
}

impl Shard {
    /// Both: the announcers of a slot, of which party one installs its order.
    pub(super) fn arrange(&mut self, slot: u8, announcers: Vec<Lane>) -> Result<(), ExchangeError> {
        let is_right = usize::from(slot) < MAX_ORDER_SLOTS
            && (2..=MAX_ROUTES).contains(&announcers.len())
            && announcers.is_sorted_by(|left, right| left < right)
            && announcers.iter().all(|lane| lane.index() < self.connections.len());
        let Some(pair) = self.pair.as_mut().filter(|_| is_right) else {
            return Err(ExchangeError::OutOfStep("the announcers of an order"));
        };
        pair.arrangements[usize::from(slot)] = announcers;
        if self.party == Party::One { self.install(slot) } else { Ok(()) }
    }

    /// Both: begins a run of these rounds. Those of which nobody counts are over.
    pub(super) fn begin_select(&mut self, selections: Vec<Selection>) -> Result<(), ExchangeError> {
        if selections.len() > SELECTIONS {
            return Err(ExchangeError::OutOfStep("the size of a run"));
        }
        let (counted, over): (Vec<_>, Vec<_>) = selections.into_iter().partition(Selection::counts);
        over.into_iter().for_each(|one| self.close_round(one.round));
        if counted.is_empty() {
            return Ok(());
        }
        let (program, inputs) = self.select_run(&counted)?;
        let Some(pair) = &mut self.pair else { return Ok(()) };
        pair.session.start(&program, &inputs)?;
        pair.running = Some(counted);
        self.flush_engine();
        Ok(())
    }

    /// Words of both kinds of triples that a run of these takes.
    pub(super) fn select_needs(
        &mut self,
        selections: &[Selection],
    ) -> Result<[u64; 2], ExchangeError> {
        let words = self.connections.len().div_ceil(64);
        let mut needs = [0; 2];
        for selection in selections.iter().filter(|selection| selection.counts()) {
            let cost = self.part(selection)?.circuit.program().cost();
            needs[0] += (cost.ands * words) as u64;
            needs[1] += (cost.vector_ands * words) as u64;
        }
        Ok(needs)
    }

    fn select_run(
        &mut self,
        selections: &[Selection],
    ) -> Result<(Arc<Program>, Inputs), ExchangeError> {
        let (mut programs, mut inputs) = (Vec::new(), Vec::new());
        for selection in selections {
            let part = self.part(selection)?;
            inputs.push(self.inputs_of(selection, &part)?);
            programs.push(Arc::clone(part.circuit.program()));
        }
        let inputs = Inputs::together(&programs, inputs)?;
        Ok((Arc::new(Program::together(&programs)), inputs))
    }

    /// Results go to the members as shares.
    pub(super) fn finish_select(
        &mut self,
        selections: &[Selection],
        outputs: Outputs,
    ) -> Result<(), ExchangeError> {
        let parts = selections.iter().map(|selection| self.part(selection));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        let programs: Vec<_> =
            parts.iter().map(|part| Arc::clone(part.circuit.program())).collect();
        for ((selection, part), outputs) in
            selections.iter().zip(parts).zip(outputs.apart(&programs))
        {
            let results = Zeroizing::new(part.circuit.results(&outputs));
            let counted = LaneSet::from_words(selection.lanes.clone(), self.connections.len());
            let counted = counted.ok_or(ExchangeError::OutOfStep("the lanes of a round"))?;
            let round = self.tag(selection.round);
            for lane in counted.iter() {
                let share = part.share_of_result(results[lane.index()]);
                self.tell(lane, &ToMember::Result { round, share });
            }
            self.counters.selected += 1;
            self.close_round_but(selection.round, &counted);
        }
        self.counters.select_runs += 1;
        Ok(())
    }

    /// The circuit of a round, and where its routes are in it.
    fn part(&mut self, selection: &Selection) -> Result<Part, ExchangeError> {
        let form = self.config.common.form;
        let round = self.rounds.get(selection.round).ok_or(ExchangeError::OutOfStep("a round"))?;
        if form != Form::TopClass {
            let places = (0..round.ids.len()).collect();
            let circuit = self.programs.select(form, round.ids.len(), 0)?;
            return Ok(Part { circuit, places });
        }
        let pair = self.pair.as_ref().ok_or(ExchangeError::OutOfStep("a pair"))?;
        let arranged = pair.arrangements.get(usize::from(selection.slot));
        let arranged = arranged.ok_or(ExchangeError::OutOfStep("the slot of a round"))?;
        let place = |id| {
            let (lane, _) = self.table.item_of(id)?;
            arranged.binary_search(&lane).ok()
        };
        let places = round.ids.iter().map(|id| place(*id)).collect::<Option<_>>();
        let places = places.ok_or(ExchangeError::OutOfStep("the announcers of a round"))?;
        let circuit = self.programs.select(form, arranged.len(), selection.slot)?;
        Ok(Part { circuit, places })
    }

    fn inputs_of(&self, selection: &Selection, part: &Part) -> Result<Inputs, ExchangeError> {
        let lanes = self.connections.len();
        let form = self.config.common.form;
        let round = self.rounds.get(selection.round).ok_or(ExchangeError::OutOfStep("a round"))?;
        let rankings = round.rankings(form, &selection.lanes, lanes)?;
        let (mut keys, mut loads, mut policies) = (Vec::new(), Vec::new(), Vec::new());
        for id in &round.ids {
            let item =
                self.table.item_of(*id).ok_or(ExchangeError::OutOfStep("a round's route"))?;
            let held = self.check_held(item)?;
            keys.push(held.share.keys(if form == Form::Paper { lanes } else { 0 }));
            policies.push(held.share.policy(lanes.div_ceil(64)));
            let preference = vec![self.preferences.in_force[item.0.index()]; lanes];
            let is_given = self.party == Party::One && form != Form::TopClass;
            loads.push(if is_given { rows(&preference, LOAD_BITS) } else { Vec::new() });
        }
        let none = vec![vec![0; lanes.div_ceil(64)]; form.ranking_bits()];
        let nobodys = Candidate { policy: &none[0], ranking: &none, load: &[], keys: &[] };
        let last = part.places.iter().copied().max().unwrap_or(0);
        let mut candidates = vec![nobodys; last + 1];
        for (number, place) in part.places.iter().enumerate() {
            candidates[*place] = Candidate {
                policy: &policies[number],
                ranking: &rankings[number],
                load: &loads[number],
                keys: &keys[number],
            };
        }
        Ok(part.circuit.inputs(self.party, lanes, &candidates)?)
    }
}

impl Part {
    /// Of a result with a bit for each place, those of the routes, in their order.
    fn share_of_result(&self, result: u128) -> u128 {
        if self.circuit.form() != Form::TopClass {
            return result;
        }
        let bits = self.places.iter().enumerate();
        bits.fold(0, |share, (number, place)| share | (result >> place & 1) << number)
    }
}

/// Rounds of a run: more would not fit the caches (the
/// design measured 8 to be the best, and 32 slower).
pub(super) const SELECTIONS: usize = 8;
