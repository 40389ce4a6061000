//! The view in a terminal: news come, and what has changed is drawn.

use std::time::Duration;

use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_top::{Asked, Top};

use super::askers::{Askers, News};
use super::stage::Stage;
use super::{keys, signals};

/// Runs until somebody leaves, or the terminal is gone.
pub(super) fn run(mut top: Top, askers: &Askers) -> Outcome {
    signals::follow(askers.sender())?;
    let failed = |error: std::io::Error| {
        Failure::setup_text(format!("this terminal cannot be used: {error}; try --batch"))
    };
    let mut stage = Stage::take().map_err(failed)?;
    keys::follow(askers.sender())?;
    loop {
        top.set_now(askers.now());
        // Nobody is there to be told when the terminal is gone.
        if stage.draw(&mut top).is_err() {
            return Ok(());
        }
        let mut next = askers.next(TICK);
        // What came together is drawn once.
        for _ in 0..MOST_AT_ONCE {
            let Some(news) = next else { break };
            match take(news, &mut top, askers, &mut stage) {
                Ok(true) => {}
                Ok(false) | Err(_) => return Ok(()),
            }
            next = askers.next(Duration::ZERO);
        }
    }
}

/// Whether the view goes on.
fn take(news: News, top: &mut Top, askers: &Askers, stage: &mut Stage) -> std::io::Result<bool> {
    match news {
        News::Look(look) => top.take(look),
        News::Gone(place) => top.forget(&place),
        News::Resized => {}
        News::Resumed => stage.take_again()?,
        News::Suspend => stage.suspend()?,
        News::End => return Ok(false),
        News::Key(key) => match top.press(key) {
            Asked::Draw => {}
            Asked::DrawAnew => stage.forget_what_is_shown()?,
            Asked::LookNow | Asked::ChangePace => askers.set_pace(top.pace()),
            Asked::Suspend => stage.suspend()?,
            Asked::Leave => return Ok(false),
        },
    }
    Ok(true)
}

/// For how long something has been away is shown to the second.
const TICK: Duration = Duration::from_secs(1);
/// News that are taken before they are drawn.
const MOST_AT_ONCE: usize = 64;
