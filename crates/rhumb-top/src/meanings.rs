//! What each reason for a drop means: the project's page of reasons, which `cargo xtask tidy`
//! compares with the code, read once.

use std::collections::HashMap;
use std::sync::OnceLock;

/// What the page says of a reason, in the list that it names by `list`; none where it says nothing.
pub(crate) fn of(list: &str, reason: &str) -> Option<&'static str> {
    static ALL: OnceLock<Meanings> = OnceLock::new();
    if list.is_empty() {
        return None;
    }
    let all = ALL.get_or_init(|| Meanings::read(PAGE));
    let section = all.sections.iter().find(|section| section.head.contains(list))?;
    section.reasons.get(reason).copied()
}

/// Whether it is what happens all the time where all is well.
pub(crate) fn is_usual(meaning: &str) -> bool {
    ["As `route_pending`", "Normal for", "mostly"].iter().any(|it| meaning.contains(it))
}

#[derive(Default)]
struct Meanings {
    sections: Vec<Section>,
}

#[derive(Default)]
struct Section {
    /// What is between its heading and its table: it names metrics.
    head: &'static str,
    reasons: HashMap<&'static str, &'static str>,
}

impl Meanings {
    fn read(page: &'static str) -> Self {
        let sections = page.split("\n## ").skip(1).map(|text| {
            let (head, table) = text.split_once("\n|").unwrap_or((text, ""));
            let rows = table.lines().filter_map(|line| {
                let (reason, meaning) = line.strip_prefix("| `")?.split_once("` | ")?;
                Some((reason, meaning.trim_end_matches([' ', '|'])))
            });
            Section { head, reasons: rows.collect() }
        });
        Self { sections: sections.collect() }
    }
}

const PAGE: &str = include_str!("../../../docs/drop-reasons.md");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Drops;

    #[test]
    fn each_list_of_drops_is_explained_by_its_own_section() {
        let roles = ["router", "rib", "node", "stamper", "waypoint", "keyserver"];
        for drops in roles.into_iter().flat_map(Drops::of).filter(|it| !it.explained_at.is_empty())
        {
            let all = Meanings::read(PAGE);
            let section = all.sections.iter().find(|it| it.head.contains(drops.explained_at));
            assert!(section.is_some_and(|it| it.reasons.len() > 2), "{drops:?}");
        }
        let switch = of("rhumb_switch_dropped_pdus_total", "unreachable").unwrap();
        assert_eq!(switch, "The RIB says that there is no route.");
        // The same word means something else elsewhere.
        let tun = of("rhumb_tun_dropped_packets_total", "unreachable").unwrap();
        assert!(tun.contains("connection"), "{tun}");
        assert_eq!(of("rhumb_tun_dropped_packets_total", "new"), None);
        assert_eq!(of("", "unreachable"), None);
    }

    #[test]
    fn what_is_usual_is_told_from_trouble() {
        let usual = |reason| is_usual(of("rhumb_switch_dropped_pdus_total", reason).unwrap());
        assert!(usual("route_pending") && usual("chain_ahead"));
        assert!(!usual("bad_certificate") && !usual("overloaded"));
    }
}
