//! Look-ups by popularity: right after the RIBs have started, when nothing is in memory, and later;
//! of one RIB and of both; and how long they take at half of the rate.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rhumb_wire::rib::{RibRequestBody, RibResponseBody};

use crate::cassandra::Cassandra;
use crate::machine::median;
use crate::machines::Spent;
use crate::names::Names;
use crate::report::Report;
use crate::servers::Ribs;
use crate::talk::{Answered, Talk, quantile_ms};
use crate::unsigned::popular;

const ROUNDS: usize = 3;
/// Right after the start.
const COLD: Duration = Duration::from_secs(5);
/// Until most of what is asked for often is in memory, of each RIB.
const WARM: Duration = Duration::from_secs(30);
const SLICE: Duration = Duration::from_secs(5);
/// Look-ups under way at each RIB when as many as possible are asked.
const WINDOW: usize = 128;
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of asking for a while.
struct Served {
    waited: Vec<Duration>,
    seconds: f64,
    spent: Spent,
    /// Look-ups that the RIB had too much to do for.
    overloaded: usize,
    lost: usize,
}

pub(crate) fn measure(cluster: &Cassandra, ribs: &Ribs, names: &Names, report: &mut Report) {
    let mut asking = Asking { cluster, ribs, names, random: StdRng::seed_from_u64(2) };
    let cold = asking.ask(1, COLD, f64::INFINITY);
    told(report, "cold", &[cold]);
    asking.ask(2, WARM, f64::INFINITY);
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        one.push(asking.ask(1, SLICE, f64::INFINITY));
        two.push(asking.ask(2, SLICE, f64::INFINITY));
    }
    let rate = told(report, "one", &one);
    told(report, "two", &two);
    let half: Vec<Served> = (0..ROUNDS).map(|_| asking.ask(1, SLICE, rate / 2.0)).collect();
    told(report, "half_load", &half);
}

/// Tells what rounds come to; returns how much was answered in a second.
fn told(report: &mut Report, when: &str, rounds: &[Served]) -> f64 {
    let of = |what: &dyn Fn(&Served) -> f64| median(rounds.iter().map(what));
    let count = |it: &Served| it.waited.len() as f64;
    let per_wall_s = of(&|it| count(it) / it.seconds);
    report.figure(&format!("look_ups_{when}_per_wall_s"), per_wall_s);
    let per_cpu_s = of(&|it| count(it) / it.spent.ribs_s);
    report.figure(&format!("look_ups_{when}_per_rib_cpu_s"), per_cpu_s);
    let of_nodes = of(&|it| count(it) / it.spent.nodes_s);
    report.figure(&format!("look_ups_{when}_per_nodes_cpu_s"), of_nodes);
    report.figure(&format!("entries_{when}_at_hand"), of(&|it| it.spent.at_hand_part()));
    for (quantile, part) in [("p50", 0.5), ("p99", 0.99)] {
        let ms = of(&|it| quantile_ms(&mut it.waited.clone(), part));
        report.figure(&format!("look_ups_{when}_{quantile}_ms"), ms);
    }
    let sum = |of: fn(&Served) -> usize| rounds.iter().map(of).sum::<usize>() as f64;
    report.figure(&format!("look_ups_{when}_overloaded"), sum(|it| it.overloaded));
    report.figure(&format!("look_ups_{when}_lost"), sum(|it| it.lost));
    per_wall_s
}

struct Asking<'a> {
    cluster: &'a Cassandra,
    ribs: &'a Ribs,
    names: &'a Names,
    random: StdRng,
}

impl Asking<'_> {
    /// Asks the first so many RIBs for a while, each so often a second at most.
    fn ask(&mut self, count: usize, time: Duration, each_per_s: f64) -> Served {
        let mut talks: Vec<Talk<()>> =
            (0..count).map(|rib| Talk::new(self.ribs.connect(rib))).collect();
        let before = Spent::so_far(self.cluster, self.ribs, count);
        let (mut waited, mut overloaded, mut lost) = (Vec::new(), 0, 0);
        let (began, mut asked) = (Instant::now(), vec![0usize; count]);
        let wait = Duration::from_millis(1);
        while began.elapsed() < time {
            let due = each_per_s * began.elapsed().as_secs_f64();
            for (talk, asked) in talks.iter_mut().zip(&mut asked) {
                while talk.under_way() < WINDOW && (*asked as f64) < due {
                    *asked += 1;
                    let rank = popular(&mut self.random, self.names.names.len());
                    talk.ask(RibRequestBody::LookUpRoute(self.names.names[rank]), ());
                }
                for answered in talk.answers(wait) {
                    take(answered, &mut waited, &mut overloaded);
                }
                lost += talk.given_up(PATIENCE).len();
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        let spent = Spent::so_far(self.cluster, self.ribs, count).since(before);
        Served { waited, seconds, spent, overloaded, lost }
    }
}

fn take(answered: Answered<()>, waited: &mut Vec<Duration>, overloaded: &mut usize) {
    match answered.body {
        RibResponseBody::Found { certificates, .. } => {
            assert_eq!(certificates.len(), 2, "a route, and where its router is");
            waited.push(answered.waited);
        }
        RibResponseBody::Refused(_) => *overloaded += 1,
        other => panic!("{other:?} is no way"),
    }
}
