//! Keys, and what each is for: the help is made of the same list that people read.

/// A key, as far as any is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// One that writes something.
    Letter(char),
    /// Together with Ctrl.
    Control(char),
    /// Takes.
    Enter,
    /// Goes back.
    Escape,
    /// Takes the last letter away.
    Backspace,
    /// Goes on.
    Tab,
    /// Goes back, with Shift.
    BackTab,
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// As many rows up as are shown.
    PageUp,
    /// As many rows down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last one.
    End,
    /// Asks for help.
    F1,
}

/// What keys are for, as the help shows it.
pub const KEYS: [(&str, &str); 13] = [
    ("1-7, Tab, ← →", "another screen"),
    ("↑ ↓, j k, PgUp PgDn, g G", "another row"),
    ("Enter", "all that is known of the row"),
    ("Esc", "back: out of details, help or a filter"),
    ("/", "show only rows with these words; Enter keeps them, Esc shows all"),
    ("s", "sort by the next column"),
    ("r", "the other way round"),
    ("p, Space", "hold still, and go on"),
    ("+ -", "look less often, or more often"),
    ("l", "look now"),
    ("Ctrl-L", "draw anew"),
    ("?, h", "this help"),
    ("q, Ctrl-C", "leave"),
];
