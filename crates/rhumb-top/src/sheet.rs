//! Rows of cells, as a screen makes them: filtered, sorted and laid out the same way whatever they
//! are about, to be drawn or printed.

use std::cmp::Ordering;

use crate::amounts::UNKNOWN;
use crate::text::width;

/// What a screen shows.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// The columns.
    pub(crate) columns: &'static [Column],
    /// The rows, in the order in which they are shown.
    pub(crate) rows: Vec<Row>,
    /// By which column they are sorted, and whether the other way round.
    pub(crate) order: Order,
    /// What is said when there are none.
    pub(crate) empty: &'static str,
    /// How many there were before the filter.
    pub(crate) unfiltered: usize,
}

/// A column, by number, and whether the largest is last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) is_reversed: bool,
}

/// A column of a sheet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Whether its cells end below each other: amounts.
    pub(crate) is_right: bool,
    /// It is left out rather than narrower than this.
    least: usize,
    /// It is no wider than this.
    most: usize,
    /// Which columns are left out first where there is no room: those with the highest; never 0.
    rank: u8,
}

impl Column {
    /// A column of words.
    pub(crate) const fn words(title: &'static str, least: usize, most: usize, rank: u8) -> Self {
        Self { title, is_right: false, least, most, rank }
    }

    /// A column of amounts, which are shown whole.
    pub(crate) const fn amount(title: &'static str, columns: usize, rank: u8) -> Self {
        Self { title, is_right: true, least: columns, most: columns, rank }
    }
}

/// One thing of which a screen has many.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What tells it from others, from one look to the next.
    pub(crate) key: String,
    pub(crate) cells: Vec<Cell>,
    /// All that is known of it, for whoever asks.
    pub(crate) details: Vec<(String, String)>,
}

/// One cell.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// What it is sorted by; by its text if it says nothing.
    value: Option<f64>,
}

/// How a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// Of no account.
    Quiet,
    Good,
    Warning,
    Bad,
}

impl Cell {
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain, value: None }
    }

    /// An amount, as `shown`; unknown, if there is none.
    pub(crate) fn amount(value: Option<f64>, shown: impl FnOnce(f64) -> String) -> Self {
        match value {
            Some(0.0) => Self { text: shown(0.0), tone: Tone::Quiet, value: Some(0.0) },
            Some(value) => Self { text: shown(value), tone: Tone::Plain, value: Some(value) },
            None => {
                Self { text: UNKNOWN.to_owned(), tone: Tone::Quiet, value: Some(f64::NEG_INFINITY) }
            }
        }
    }

    pub(crate) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// A number for programs, if it is one that is known.
    pub(crate) fn number(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite())
    }

    /// Words in their order, amounts with the largest first.
    fn compare(&self, other: &Self) -> Ordering {
        match (self.value, other.value) {
            (Some(one), Some(other)) => other.total_cmp(&one),
            _ => self.text.cmp(&other.text),
        }
    }
}

impl Sheet {
    /// Of rows in no order.
    pub(crate) fn of(columns: &'static [Column], rows: Vec<Row>, empty: &'static str) -> Self {
        let unfiltered = rows.len();
        let order = Order { column: 0, is_reversed: false };
        Self { columns, rows, order, empty, unfiltered }
    }

    /// Keeps what has the words in a cell or in what is known besides, in any case of letters.
    pub(crate) fn filter(&mut self, words: &str) {
        let wanted: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        self.rows.retain(|row| {
            let cells = row.cells.iter().map(|cell| cell.text.as_str());
            let details = row.details.iter().map(|(_, text)| text.as_str());
            let all = cells.chain(details).collect::<Vec<_>>().join(" ").to_lowercase();
            wanted.iter().all(|word| all.contains(word))
        });
    }

    /// Sorts by a column; what is alike there keeps the order of keys.
    pub(crate) fn sort(&mut self, order: Order) {
        self.order = order;
        let column = order.column.min(self.columns.len().saturating_sub(1));
        self.rows.sort_by(|one, other| {
            let cells = one.cells.get(column).zip(other.cells.get(column));
            let by_column = cells.map_or(Ordering::Equal, |(one, other)| one.compare(other));
            let by_column = if order.is_reversed { by_column.reverse() } else { by_column };
            by_column.then_with(|| one.key.cmp(&other.key))
        });
    }

    /// How wide each column is where there are so many columns in all; none for those that are
    /// left out.
    pub(crate) fn widths(&self, room: usize) -> Vec<Option<usize>> {
        let natural = |(number, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(number));
            let widest = cells.map(|cell| width(&cell.text)).max().unwrap_or(0);
            widest.max(width(column.title)).min(column.most.max(column.least))
        };
        let natural: Vec<usize> = self.columns.iter().enumerate().map(natural).collect();
        let least = |number: usize| self.columns[number].least.min(natural[number]);
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let taken = |shown: &[usize]| {
            shown.iter().map(|it| least(*it)).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        while taken(&shown) > room && shown.len() > 1 {
            let by_rank = |(_, number): &(usize, &usize)| self.columns[**number].rank;
            let Some((place, number)) = shown.iter().enumerate().max_by_key(by_rank) else { break };
            if self.columns[*number].rank == 0 {
                break;
            }
            shown.remove(place);
        }
        let mut spare = room.saturating_sub(taken(&shown));
        let mut widths = vec![None; self.columns.len()];
        let mut by_rank = shown;
        by_rank.sort_by_key(|number| self.columns[*number].rank);
        for number in by_rank {
            let more = natural[number].saturating_sub(least(number)).min(spare);
            spare -= more;
            widths[number] = Some(least(number) + more);
        }
        widths
    }
}

/// Between two columns.
pub(crate) const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [
        Column::words("NAME", 6, 20, 0),
        Column::amount("RATE", 6, 1),
        Column::words("WHY", 4, 40, 2),
    ];

    fn sheet() -> Sheet {
        let row = |name: &str, rate: Option<f64>, why: &str| Row {
            key: name.to_owned(),
            cells: vec![
                Cell::words(name),
                Cell::amount(rate, |it| format!("{it}")),
                Cell::words(why),
            ],
            details: vec![("in full".to_owned(), format!("{name}-and-more"))],
        };
        let rows = vec![
            row("carol", None, "it is so and so"),
            row("alice", Some(2.0), ""),
            row("bob", Some(30.0), ""),
        ];
        Sheet::of(&COLUMNS, rows, "nothing")
    }

    fn keys(sheet: &Sheet) -> Vec<&str> {
        sheet.rows.iter().map(|row| row.key.as_str()).collect()
    }

    #[test]
    fn amounts_are_sorted_from_the_largest_and_what_is_unknown_is_last() {
        let mut sheet = sheet();
        sheet.sort(Order { column: 1, is_reversed: false });
        assert_eq!(keys(&sheet), ["bob", "alice", "carol"]);
        sheet.sort(Order { column: 1, is_reversed: true });
        assert_eq!(keys(&sheet), ["carol", "alice", "bob"]);
        sheet.sort(Order { column: 0, is_reversed: false });
        assert_eq!(keys(&sheet), ["alice", "bob", "carol"]);
        // A column that another screen had.
        sheet.sort(Order { column: 9, is_reversed: false });
    }

    #[test]
    fn a_filter_finds_words_in_cells_and_in_details() {
        for (words, found) in
            [("ALI", 1), ("and-more", 3), ("bob 30", 1), ("bob alice", 0), (" ", 3)]
        {
            let mut sheet = sheet();
            sheet.filter(words);
            assert_eq!((sheet.rows.len(), sheet.unfiltered), (found, 3), "{words}");
        }
    }

    #[test]
    fn what_has_no_room_is_left_out_from_the_least_important() {
        let sheet = sheet();
        assert_eq!(sheet.widths(80), [Some(5), Some(4), Some(15)]);
        assert_eq!(sheet.widths(20), [Some(5), Some(4), Some(7)]);
        assert_eq!(sheet.widths(16), [Some(5), Some(4), None]);
        assert_eq!(sheet.widths(3), [Some(5), None, None]);
    }
}
