//! The step of the demo of trust domains in which one message reaches many.

use std::ffi::OsStr;

use rhumb_daemon::failure::Outcome;
use rhumb_wire::Role;

use super::nest::Nest;
use super::steps::Given;
use super::story::Step;

/// A sends one message to a group, of which there are members in the port, the sea and the farm.
pub(super) fn one_message_to_many(nest: &mut Nest<'_>, _: &Given<'_>) -> Outcome<Step> {
    let tried = "A group, N, lets E at sea, F in the port and G in the farm receive what is sent to it, \
                 and the farm itself, which lets H: nobody outside of the farm knows H. A may send, \
                 and sends it one message.";
    let mut step = Step::begin("multicast", tried.into());
    let patience = nest.ground.patience;
    let group = nest.ground.stranger("N", Role::Domain)?;
    let e = nest.ground.member("E", Role::Node, &nest.sea, "join")?;
    let f = nest.ground.member("F", Role::Node, &nest.port, "join")?;
    let g = nest.ground.member("G", Role::Node, &nest.farm, "join")?;
    let h = nest.ground.member("H", Role::Node, &nest.farm, "join")?;
    let of_farm = nest.ground.let_take_part(&group, &nest.farm.holder, "join,admit")?;
    let by_e = nest.ground.let_serve(&group, &e)?;
    let mut receiving = Vec::new();
    for (node, domain, router, root) in [
        (&e, Some(&nest.sea), &nest.sea_border, Some(&by_e)),
        (&f, Some(&nest.port), &nest.port_router, None),
        (&g, Some(&nest.farm), &nest.farm_router, None),
        (&h, None, &nest.farm_router, None),
    ] {
        let file = match domain {
            Some(_) => nest.ground.let_take_part(&group, node, "join")?,
            None => nest.ground.hand_on(&nest.farm.holder, &of_farm, node)?,
        };
        let by = domain.map(|domain| domain.holder.name().to_string());
        let mut arguments: Vec<&OsStr> = vec!["group".as_ref(), "receive".as_ref(), file.as_ref()];
        if let Some(by) = &by {
            arguments.extend::<[&OsStr; 2]>(["--export".as_ref(), by.as_ref()]);
        }
        if let Some(file) = root {
            arguments.extend::<[&OsStr; 2]>(["--serve".as_ref(), file.as_ref()]);
        }
        let mut process = node.run(&arguments, router.remote)?;
        process.next_object(patience)?;
        receiving.push((node.label, process));
    }
    let copies = |nest: &Nest<'_>| -> Outcome<u64> {
        let counters = &nest.sea_border.status()?["counters"];
        Ok(counters["copies"].as_u64().unwrap_or(0))
    };
    let before = copies(nest)?;
    let file = nest.ground.let_take_part(&group, &nest.a, "publish")?;
    let send = ["group".as_ref(), "send".as_ref(), file.as_os_str(), TEXT.as_ref()];
    nest.run_as_a(&send)?.next_object(patience)?;
    let from = nest.a.name().to_string();
    let mut heard = Vec::new();
    for (label, process) in &mut receiving {
        let message = process.next_object(patience)?;
        let is_it = message["text"] == TEXT && message["from"] == from.as_str();
        step.saw(is_it, format!("{label} has it, from A."));
        heard.extend(is_it.then_some(*label));
    }
    let made = copies(nest)? - before;
    step.saw(
        made == 1,
        format!(
            "The sea's border, where E is, sent it on to the land, and made {made} copy for E."
        ),
    );
    step.note("multicast_heard", heard);
    Ok(step.end())
}

const TEXT: &str = "ships are late today";
