//! What somebody looks at: the screen, the row, the filter and the order, and how keys change them.
//!
//! Invariant: a key changes this and nothing else; what it asks of the caller it says.

use crate::keys::Key;
use crate::screens::Screen;
use crate::sheet::{Order, Sheet};

/// What a key asks of whoever runs the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To draw again.
    Draw,
    /// To draw all of it again, whatever the terminal may show.
    DrawAnew,
    /// To ask the daemons at once.
    LookNow,
    /// To ask them as often as [`Top::pace`](crate::Top::pace) says now.
    ChangePace,
    /// To stop, as other programs do.
    Suspend,
    /// To leave.
    Leave,
}

/// What is in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Sheet,
    Help,
    /// All that is known of the row, from this line on.
    Details {
        from: usize,
    },
}

/// What somebody looks at.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) screen: Screen,
    pub(crate) front: Front,
    pub(crate) filter: String,
    /// Whether the filter is being written.
    pub(crate) is_writing: bool,
    pub(crate) is_held: bool,
    pub(crate) pace_ms: u64,
    /// The key of the row that is looked at.
    pub(crate) selected: Option<String>,
    /// The first row that is shown.
    pub(crate) first: usize,
    /// How many rows were shown last.
    pub(crate) rows_shown: usize,
    orders: [Order; Screen::ALL.len()],
}

impl View {
    pub(crate) fn new(pace_ms: u64) -> Self {
        Self {
            screen: Screen::Overview,
            front: Front::Sheet,
            filter: String::new(),
            is_writing: false,
            is_held: false,
            pace_ms,
            selected: None,
            first: 0,
            rows_shown: 1,
            orders: Screen::ALL.map(Screen::order),
        }
    }

    /// By which column the screen is sorted.
    pub(crate) fn order(&self) -> Order {
        self.orders[self.screen as usize]
    }

    pub(crate) fn show(&mut self, screen: Screen) {
        if screen != self.screen {
            (self.screen, self.first, self.selected) = (screen, 0, None);
        }
        self.front = Front::Sheet;
    }

    /// Takes a key, while `sheet` is what is shown.
    pub(crate) fn press(&mut self, key: Key, sheet: &Sheet) -> Asked {
        match key {
            Key::Control('c') => return Asked::Leave,
            Key::Control('z') => return Asked::Suspend,
            Key::Control('l') => return Asked::DrawAnew,
            _ if self.is_writing => {
                self.write(key);
                return Asked::Draw;
            }
            Key::Letter('q' | 'Q') => return Asked::Leave,
            Key::Letter('+' | '=') => return self.change_pace(1),
            Key::Letter('-' | '_') => return self.change_pace(-1),
            Key::Letter('l') => return Asked::LookNow,
            Key::Letter('p' | ' ') => self.is_held = !self.is_held,
            Key::Letter('?' | 'h') | Key::F1 => {
                self.front = if self.front == Front::Help { Front::Sheet } else { Front::Help };
            }
            Key::Escape => self.back(),
            Key::Tab | Key::Right => self.show(self.screen.beside(1)),
            Key::BackTab | Key::Left => self.show(self.screen.beside(-1)),
            Key::Letter(digit @ '1'..='9') => {
                let number = digit as usize - '1' as usize;
                Screen::ALL.get(number).into_iter().for_each(|screen| self.show(*screen));
            }
            _ => match self.front {
                Front::Details { from } => self.press_in_details(key, from),
                Front::Help => self.front = Front::Sheet,
                Front::Sheet => self.press_in_sheet(key, sheet),
            },
        }
        Asked::Draw
    }

    fn press_in_sheet(&mut self, key: Key, sheet: &Sheet) {
        let page = self.rows_shown.max(1).cast_signed();
        match key {
            Key::Letter('/') => (self.is_writing, self.first) = (true, 0),
            Key::Letter('s') => {
                let order = &mut self.orders[self.screen as usize];
                *order =
                    Order { column: (order.column + 1) % sheet.columns.len(), is_reversed: false };
                self.first = 0;
            }
            Key::Letter('r') => {
                let order = &mut self.orders[self.screen as usize];
                order.is_reversed = !order.is_reversed;
                self.first = 0;
            }
            Key::Enter if self.place(sheet).is_some() => self.front = Front::Details { from: 0 },
            Key::Up | Key::Letter('k') => self.go(sheet, -1),
            Key::Down | Key::Letter('j') => self.go(sheet, 1),
            Key::PageUp => self.go(sheet, -page),
            Key::PageDown => self.go(sheet, page),
            Key::Home | Key::Letter('g') => self.go(sheet, isize::MIN),
            Key::End | Key::Letter('G') => self.go(sheet, isize::MAX),
            _ => {}
        }
    }

    fn press_in_details(&mut self, key: Key, from: usize) {
        let page = self.rows_shown.max(1);
        let from = match key {
            Key::Up | Key::Letter('k') => from.saturating_sub(1),
            Key::Down | Key::Letter('j') => from + 1,
            Key::PageUp => from.saturating_sub(page),
            Key::PageDown => from + page,
            Key::Home | Key::Letter('g') => 0,
            // Drawing says where the end is.
            Key::End | Key::Letter('G') => usize::MAX / 2,
            Key::Enter => return self.front = Front::Sheet,
            _ => from,
        };
        self.front = Front::Details { from };
    }

    fn write(&mut self, key: Key) {
        match key {
            Key::Letter(letter) if self.filter.len() < MOST_FILTER => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Control('u') => self.filter.clear(),
            Key::Enter => self.is_writing = false,
            Key::Escape => {
                self.is_writing = false;
                self.filter.clear();
            }
            _ => {}
        }
        self.first = 0;
    }

    fn back(&mut self) {
        match self.front {
            Front::Sheet => self.filter.clear(),
            _ => self.front = Front::Sheet,
        }
    }

    fn change_pace(&mut self, by: isize) -> Asked {
        let slower = PACES_MS.iter().position(|pace| *pace >= self.pace_ms);
        let number = slower.unwrap_or(PACES_MS.len() - 1).saturating_add_signed(by);
        self.pace_ms = PACES_MS[number.min(PACES_MS.len() - 1)];
        Asked::ChangePace
    }

    /// The row that is looked at; the first one, while none was chosen or it is gone.
    pub(crate) fn place(&self, sheet: &Sheet) -> Option<usize> {
        let chosen = self.selected.as_ref();
        let found = chosen.and_then(|key| sheet.rows.iter().position(|row| row.key == *key));
        found.or((!sheet.rows.is_empty()).then_some(0))
    }

    fn go(&mut self, sheet: &Sheet, by: isize) {
        let Some(place) = self.place(sheet) else { return };
        let place = place.saturating_add_signed(by).min(sheet.rows.len() - 1);
        self.selected = Some(sheet.rows[place].key.clone());
    }

    /// Has the row that is looked at among the `rows` that are shown.
    pub(crate) fn scroll(&mut self, sheet: &Sheet, rows: usize) {
        self.rows_shown = rows;
        let last_first = sheet.rows.len().saturating_sub(rows);
        let place = self.place(sheet).unwrap_or(0);
        self.first = self.first.min(last_first).min(place);
        self.first = self.first.max((place + 1).saturating_sub(rows));
    }
}

/// How often daemons are asked, in milliseconds, for the keys that change it.
pub const PACES_MS: [u64; 7] = [500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
/// Longer than any name, in bytes.
const MOST_FILTER: usize = 80;
