//! The circuits: what they cost, and that two parties compute what the oracle does.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use rhumb_exchange::circuits::oracle::{self, Preference};
use rhumb_exchange::circuits::{
    Candidate, Choice, ExportAll, Form, MAX_ROUTES, SelectBest, SharedRoute,
};
use rhumb_mpc::{Cost, MpcError, OrderSlot, Party, Program};

use crate::pair::{ClearRoute, Pair, Random, bits};

/// The members of the paper's measurements: 12 words, the last not full.
const LANES: usize = 750;
const SLOT: OrderSlot = OrderSlot(0);

/// The design counts bits, 128 for a vector.
fn ands(cost: Cost) -> usize {
    cost.ands + 128 * cost.vector_ands
}

/// Both directions, as the paper's Table 1 counts.
fn kib(program: &Program) -> f64 {
    let bytes: usize =
        [Party::One, Party::Two].iter().map(|party| program.payload_len(*party, LANES)).sum();
    (bytes as f64 / 102.4).round() / 10.0
}

#[test]
fn circuits_cost_what_the_paper_and_the_design_say() {
    for routes in [1, 5, MAX_ROUTES] {
        let cost = ExportAll::new(routes).unwrap().program().cost();
        assert_eq!((cost.ands, cost.vector_ands, cost.rounds), (0, routes, 1));
    }
    assert!((kib(ExportAll::new(1).unwrap().program()) - 24.2).abs() < 1e-9);
    // Paper, Table 1: 106, 247, 528 and 1091 KiB. Here each of the 8
    // bits of a choice opens its selecting bit anew.
    for (inputs, gates, rounds, traffic) in
        [(4, 497, 11, 115.0), (8, 1149, 16, 264.2), (16, 2453, 21, 562.7), (32, 5061, 26, 1159.7)]
    {
        let circuit = SelectBest::paper(inputs - 1).unwrap();
        assert_eq!(circuit.places(), inputs - 1);
        let cost = circuit.program().cost();
        assert_eq!(ands(cost), gates);
        assert_eq!(gates, 8 * inputs + (19 + 136) * (inputs - 1));
        assert_eq!(cost.rounds, rounds);
        assert!((kib(circuit.program()) - traffic).abs() < 0.1, "{}", kib(circuit.program()));
    }
    // The design's 230 and 1046 have a comparator of 24
    // ANDs for 9 bits; that of the engine takes 21.
    for (routes, gates, rounds) in [(8, 230, 19), (32, 1046, 31)] {
        let cost = SelectBest::index(routes).unwrap().program().cost();
        assert_eq!(cost.ands, gates - 3 * (routes - 1));
        assert_eq!(cost.ands, 31 * routes - 39);
        assert_eq!((cost.vector_ands, cost.rounds), (0, rounds));
    }
    for (routes, gates, rounds) in [(8, 20, 6), (32, 112, 8)] {
        let cost = SelectBest::top_class(routes, SLOT).unwrap().program().cost();
        assert_eq!((cost.ands, cost.vector_ands, cost.rounds), (gates, 0, rounds));
        assert_eq!(cost.permuted, 2 * routes);
    }
}

#[test]
fn the_number_of_routes_is_bounded() {
    let refused = |result: Result<SelectBest, MpcError>| {
        matches!(result, Err(MpcError::OutOfRange { what: "the number of routes", .. }))
    };
    assert!(refused(SelectBest::paper(0)) && refused(SelectBest::paper(MAX_ROUTES)));
    assert!(refused(SelectBest::index(1)) && refused(SelectBest::index(MAX_ROUTES + 1)));
    let top_class = |routes| SelectBest::top_class(routes, SLOT);
    assert!(refused(top_class(1)) && refused(top_class(MAX_ROUTES + 1)));
    assert!(ExportAll::new(0).is_err() && ExportAll::new(MAX_ROUTES + 1).is_err());
    assert_eq!(SelectBest::paper(MAX_ROUTES - 1).unwrap().places(), MAX_ROUTES - 1);
    for routes in [2, 3, 5, 64] {
        assert_eq!(SelectBest::index(routes).unwrap().places(), routes.next_power_of_two());
        assert_eq!(top_class(routes).unwrap().places(), routes.next_power_of_two());
    }
}

#[test]
fn inputs_of_another_shape_are_refused() {
    let circuit = SelectBest::index(2).unwrap();
    let (row, class, load) = ([0_u64], vec![vec![0_u64]; 4], vec![vec![0_u64]; 4]);
    let right = Candidate { policy: &row, ranking: &class, load: &load, keys: &[] };
    assert!(circuit.inputs(Party::One, 64, &[right]).is_ok());
    let other_rows = Some(MpcError::Input("has other rows than the circuit"));
    for wrong in [
        Candidate { ranking: &class[..1], ..right },
        Candidate { load: &[], ..right },
        Candidate { keys: &[0; 64], ..right },
    ] {
        assert_eq!(circuit.inputs(Party::One, 64, &[wrong]).err(), other_rows);
    }
    // The exchange's preference is not the other party's.
    assert_eq!(circuit.inputs(Party::Two, 64, &[right]).err(), other_rows);
    let too_many = Some(MpcError::Input("has more routes than places"));
    assert_eq!(circuit.inputs(Party::One, 64, &[right; 3]).err(), too_many);
    let export = ExportAll::new(2).unwrap();
    let share = SharedRoute { policy: &row, keys: &[0; 64] };
    assert!(export.inputs(Party::One, 64, &[share]).is_err());
    assert!(format!("{right:?} {share:?}").len() < 60, "shares are not shown");
}

#[test]
fn a_result_that_is_none_is_seen() {
    assert_eq!(Form::TopClass.open([0b0100, 0]), Some(Choice::Place(2)));
    assert_eq!(Form::TopClass.open([0b0101, 0]), None);
    assert_eq!(Form::TopClass.open([1 << 64, 0]), None);
    assert_eq!(Form::Index.open([1 << 127 | 5, 1 << 127 | 5]), Some(Choice::Nothing));
    assert_eq!(Form::Index.open([1 << 127 | 63, 0]), Some(Choice::Place(63)));
    assert_eq!(Form::Index.open([1 << 127 | 64, 0]), None);
    assert_eq!(Form::Index.open([5, 0]), None);
    assert_eq!(Form::Paper.open([7, 2]), Some(Choice::Key(5)));
}

#[test]
fn members_get_the_keys_that_policies_permit() {
    let mut pair = Pair::new();
    let mut random = Random(1);
    let circuit = ExportAll::new(3).unwrap();
    // One key for all lanes, as for an announcement; and a key per lane, as for a new member.
    for keys_differ in [false, true] {
        let routes: Vec<(Vec<bool>, Vec<u128>)> = (0..3)
            .map(|_| {
                let key = random.wide();
                let policy = (0..LANES).map(|_| random.below(2) == 1).collect();
                let keys = (0..LANES).map(|_| if keys_differ { random.wide() } else { key });
                (policy, keys.collect())
            })
            .collect();
        let shares: Vec<[(Vec<u64>, Vec<u128>); 2]> = routes
            .iter()
            .map(|(policy, keys)| {
                let [one, two] = random.share(&bits(policy));
                let masks: Vec<u128> = keys.iter().map(|_| random.wide()).collect();
                let rest = keys.iter().zip(&masks).map(|(key, mask)| key ^ mask).collect();
                [(one, masks), (two, rest)]
            })
            .collect();
        let inputs = [(Party::One, 0), (Party::Two, 1)].map(|(party, side)| {
            let shared: Vec<SharedRoute<'_>> = shares
                .iter()
                .map(|sides| SharedRoute { policy: &sides[side].0, keys: &sides[side].1 })
                .collect();
            circuit.inputs(party, LANES, &shared).unwrap()
        });
        let outputs = pair.run(circuit.program(), &inputs);
        let [one, two] = outputs.each_ref().map(|outputs| circuit.results(outputs));
        for (number, (policy, keys)) in routes.iter().enumerate() {
            for lane in 0..LANES {
                let expected = oracle::export_all(policy[lane], keys[lane]);
                assert_eq!(one[number][lane] ^ two[number][lane], expected);
            }
        }
    }
}

/// What the member of a lane sees, from the route at each place.
fn lane(routes: &[ClearRoute], lane: usize) -> Vec<Preference> {
    let preference = |route: &ClearRoute| Preference {
        permitted: route.policy[lane],
        class: route.ranking[lane],
        load: route.load[lane],
    };
    routes.iter().map(preference).collect()
}

fn check_comparing(pair: &mut Pair, routes: &[ClearRoute], random: &mut Random) {
    let with_keys: Vec<ClearRoute> = routes
        .iter()
        .map(|route| {
            let key = random.wide() | 1;
            ClearRoute { keys: vec![key; route.policy.len()], ..route.clone() }
        })
        .collect();
    let by_key = pair.select(&SelectBest::paper(routes.len()).unwrap(), &with_keys, random);
    let by_index = (routes.len() > 1)
        .then(|| pair.select(&SelectBest::index(routes.len()).unwrap(), routes, random));
    for (number, choice) in by_key.into_iter().enumerate() {
        let seen = lane(routes, number);
        let expected = oracle::paper(&seen).map(|place| with_keys[place].keys[number]);
        assert_eq!(choice, expected.map_or(Choice::Nothing, Choice::Key), "{seen:?}");
        if let Some(by_index) = &by_index {
            let expected = oracle::index(&seen).map_or(Choice::Nothing, Choice::Place);
            assert_eq!(by_index[number], expected, "{seen:?}");
        }
    }
}

#[test]
fn comparing_circuits_choose_as_the_oracle() {
    let mut pair = Pair::new();
    let mut random = Random(2);
    for routes in [1, 2, 3, 4, 7, 8, 11, 31, 63] {
        let lanes = if routes > 8 { 100 } else { LANES };
        let routes: Vec<ClearRoute> = (0..routes)
            .map(|_| ClearRoute {
                policy: (0..lanes).map(|_| random.below(3) > 0).collect(),
                // Few values, so that there are equals.
                ranking: (0..lanes).map(|_| [0, 1, 14, 15][random.below(4) as usize]).collect(),
                load: (0..lanes).map(|_| random.below(16) as u8).collect(),
                keys: Vec::new(),
            })
            .collect();
        check_comparing(&mut pair, &routes, &mut random);
    }
}

/// All pairs of routes: policy, two bits of class, two of load.
#[test]
fn comparing_circuits_choose_as_the_oracle_for_all_small_inputs() {
    let mut pair = Pair::new();
    let mut random = Random(3);
    let routes: Vec<ClearRoute> = [0, 5]
        .iter()
        .map(|shift| {
            let number = |lane: usize, from: usize, bits: usize| {
                (lane >> (shift + from)) as u8 & ((1 << bits) - 1)
            };
            ClearRoute {
                policy: (0..1 << 10).map(|lane| number(lane, 0, 1) == 1).collect(),
                ranking: (0..1 << 10).map(|lane| 5 * number(lane, 1, 2)).collect(),
                load: (0..1 << 10).map(|lane| 5 * number(lane, 3, 2)).collect(),
                keys: Vec::new(),
            }
        })
        .collect();
    check_comparing(&mut pair, &routes, &mut random);
}

fn check_top_class(
    pair: &mut Pair,
    policies: &[Vec<bool>],
    wanted: &[Vec<bool>],
    order: &[u32],
    random: &mut Random,
) {
    pair.install(SLOT, order);
    let circuit = SelectBest::top_class(policies.len(), SLOT).unwrap();
    let routes: Vec<ClearRoute> = policies
        .iter()
        .zip(wanted)
        .map(|(policy, wanted)| ClearRoute {
            policy: policy.clone(),
            ranking: wanted.iter().map(|wanted| u8::from(*wanted)).collect(),
            ..ClearRoute::default()
        })
        .collect();
    let choices = pair.select(&circuit, &routes, random);
    for (lane, choice) in choices.into_iter().enumerate() {
        let of = |rows: &[Vec<bool>]| rows.iter().map(|row| row[lane]).collect::<Vec<bool>>();
        let expected = oracle::top_class(&of(policies), &of(wanted), order);
        assert_eq!(choice, expected.map_or(Choice::Nothing, Choice::Place), "lane {lane}");
    }
}

#[test]
fn the_top_class_circuit_chooses_as_the_oracle() {
    let mut pair = Pair::new();
    let mut random = Random(4);
    for routes in [2_u32, 3, 5, 8, 16, 32, 64] {
        let mut rows = || -> Vec<bool> { (0..LANES).map(|_| random.below(4) == 0).collect() };
        let policies: Vec<Vec<bool>> = (0..routes).map(|_| rows()).collect();
        let wanted: Vec<Vec<bool>> = (0..routes).map(|_| rows()).collect();
        let order = random.order(routes.next_power_of_two());
        check_top_class(&mut pair, &policies, &wanted, &order, &mut random);
    }
}

/// Four routes, all policies, all wishes, all orders.
#[test]
fn the_top_class_circuit_chooses_as_the_oracle_for_all_small_inputs() {
    let mut pair = Pair::new();
    let mut random = Random(5);
    let row = |shift: usize| (0..256).map(|lane| lane >> shift & 1 == 1).collect();
    let policies: Vec<Vec<bool>> = (0..4).map(row).collect();
    let wanted: Vec<Vec<bool>> = (4..8).map(row).collect();
    let mut orders = 0;
    for number in 0..256_u32 {
        let order: Vec<u32> = (0..4).map(|place| number >> (2 * place) & 3).collect();
        if (0..4).all(|place| order.contains(&place)) {
            check_top_class(&mut pair, &policies, &wanted, &order, &mut random);
            orders += 1;
        }
    }
    assert_eq!(orders, 24);
}
