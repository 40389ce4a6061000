//! Lists of waypoints, as a stamper is told them.
//!
//! Invariant: no list is empty, or mixes families of addresses.

use std::net::IpAddr;

/// Waypoints in their order, of each family that is to be stamped:
/// one list, or several, the preferred one first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Via {
    /// Of IPv4.
    pub v4: Vec<Vec<IpAddr>>,
    /// Of IPv6.
    pub v6: Vec<Vec<IpAddr>>,
}

impl Via {
    /// The lists of waypoints of a family.
    pub fn of(&self, is_v6: bool) -> &[Vec<IpAddr>] {
        if is_v6 { &self.v6 } else { &self.v4 }
    }

    /// Takes one more list, of one family, to be used when those before it do not work.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for people.
    pub fn take(&mut self, list: &[IpAddr]) -> Result<(), String> {
        let Some(first) = list.first() else { return Err("no waypoints".to_owned()) };
        if list.iter().any(|it| it.is_ipv4() != first.is_ipv4()) {
            return Err("a packet passes waypoints of one family of addresses".to_owned());
        }
        let mine = if first.is_ipv4() { &mut self.v4 } else { &mut self.v6 };
        if mine.iter().any(|before| before == list) {
            return Err(format!("the way by {} is given twice", text(list)));
        }
        if mine.len() == MOST_LANES {
            return Err(format!("more than {MOST_LANES} ways of one family of addresses"));
        }
        mine.push(list.to_vec());
        Ok(())
    }

    /// All waypoints.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.v4.iter().chain(&self.v6).flatten().copied()
    }
}

/// A list of waypoints, as `--via` takes it.
pub fn text(list: &[IpAddr]) -> String {
    list.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

impl std::fmt::Display for Via {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |lists: &[Vec<IpAddr>]| {
            lists.iter().map(|list| text(list)).collect::<Vec<_>>().join(" or ")
        };
        match (self.v4.is_empty(), self.v6.is_empty()) {
            (false, false) => write!(f, "{} and {}", text(&self.v4), text(&self.v6)),
            (_, true) => f.write_str(&text(&self.v4)),
            (true, false) => f.write_str(&text(&self.v6)),
        }
    }
}

/// A list of waypoints, by family.
///
/// # Errors
///
/// What is wrong with it, for people.
pub fn split(list: &[IpAddr]) -> Result<Via, String> {
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = list.iter().partition(|one| one.is_ipv4());
    for family in [&v4, &v6] {
        if family.len() > rhumb_capability::MAX_CAPABILITIES {
            return Err(format!(
                "{} waypoints; a packet passes {} at most",
                family.len(),
                rhumb_capability::MAX_CAPABILITIES
            ));
        }
    }
    if list.is_empty() {
        return Err("no waypoints".to_owned());
    }
    let some = |list: Vec<IpAddr>| if list.is_empty() { Vec::new() } else { vec![list] };
    Ok(Via { v4: some(v4), v6: some(v6) })
}

/// Each is asked twice in ten seconds at least.
const MOST_LANES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_by_family_in_its_order() {
        let list = |text: &str| -> Vec<IpAddr> {
            text.split(' ').filter(|it| !it.is_empty()).map(|it| it.parse().unwrap()).collect()
        };
        let via = split(&list("192.0.2.2 2001:db8::1 192.0.2.1")).unwrap();
        assert_eq!(
            (via.v4, via.v6),
            (vec![list("192.0.2.2 192.0.2.1")], vec![list("2001:db8::1")])
        );
        assert!(split(&[]).is_err());
        assert!(split(&list("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4")).is_ok());
        assert!(split(&list("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5")).is_err());
    }
}
