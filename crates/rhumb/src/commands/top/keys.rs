//! What a terminal says, as keys: on a thread of its own, since reading waits.

use std::sync::mpsc::SyncSender;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rhumb_daemon::failure::{Failure, Outcome};
use rhumb_top::Key;

use super::askers::News;

/// Reads keys until the terminal is gone.
pub(super) fn follow(news: SyncSender<News>) -> Outcome {
    let thread = std::thread::Builder::new().name("keys".to_owned());
    let read = move || {
        loop {
            let told = match event::read() {
                Ok(Event::Key(key)) => key_of(key).map(News::Key),
                Ok(Event::Resize(..)) => Some(News::Resized),
                Ok(_) => None,
                Err(_) => Some(News::End),
            };
            let is_over = matches!(told, Some(News::End));
            if told.is_some_and(|told| news.send(told).is_err()) || is_over {
                return;
            }
        }
    };
    thread.spawn(read).map(drop).map_err(Failure::operation)
}

/// The key, if it is one of use.
fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    Some(match event.code {
        KeyCode::Char(letter) if event.modifiers.contains(KeyModifiers::CONTROL) => {
            Key::Control(letter.to_ascii_lowercase())
        }
        KeyCode::Char(letter) if !letter.is_control() => Key::Letter(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::F(1) => Key::F1,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_that_were_pressed() {
        let pressed = |code, modifiers| key_of(KeyEvent::new(code, modifiers));
        let none = KeyModifiers::NONE;
        assert_eq!(pressed(KeyCode::Char('q'), none), Some(Key::Letter('q')));
        assert_eq!(pressed(KeyCode::Char('C'), KeyModifiers::CONTROL), Some(Key::Control('c')));
        assert_eq!(pressed(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Letter('G')));
        assert_eq!(pressed(KeyCode::F(2), none), None);
        let released = KeyEvent::new_with_kind(KeyCode::Enter, none, KeyEventKind::Release);
        assert_eq!(key_of(released), None);
    }
}
