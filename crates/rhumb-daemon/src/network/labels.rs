//! What members of a network are called, in this user's book of names.
//!
//! INVARIANT: what the book says is not changed by anybody's word: a label that stands for somebody
//! goes on doing so, whatever the keeper says later. Who comes new to a network is entered under
//! its label, or where that is somebody else's, as LABEL.NETWORK.

use std::collections::BTreeMap;

use rhumb_wire::{Name, PublishedLabel};

use super::Folder;
use super::ledger::numbered;
use crate::failure::{Failure, Outcome};
use crate::names::book::Entry;
use crate::names::{Book, Label, Origin};

/// Whether a network can be called so here.
///
/// # Errors
/// When another name is.
pub(super) fn check_network(network: &PublishedLabel, domain: Option<Name>) -> Outcome {
    let book = Book::read()?;
    let other =
        book.entries().find(|it| it.label.as_str() == network.as_str() && Some(it.name) != domain);
    match other {
        None => Ok(()),
        Some(other) => Err(Failure::setup_text(format!(
            "{network} stands for another name here: {other}; choose another label, or first: rhumb name remove {network}"
        ))),
    }
}

/// What a network can be called here that somebody calls `wanted`: so, or with a number behind it.
///
/// # Errors
/// When the book, or where networks lie, cannot be read.
pub(super) fn free_network(
    wanted: &PublishedLabel,
    domain: Option<Name>,
) -> Outcome<PublishedLabel> {
    let book = Book::read()?;
    let there: Vec<Folder> = Folder::all()?;
    Ok(numbered(wanted, |label| {
        let is_other = |it: &Entry| it.label.as_str() == label.as_str() && Some(it.name) != domain;
        there.iter().all(|folder| folder.label() != label) && !book.entries().any(is_other)
    }))
}

/// Enters a network and its members, as far as the book has nothing else. Those that are not in
/// the book now are returned.
///
/// # Errors
/// When the book cannot be changed.
pub(super) fn enter(
    network: &PublishedLabel,
    domain: Name,
    members: &BTreeMap<PublishedLabel, Name>,
) -> Outcome<Vec<PublishedLabel>> {
    let book = Book::read()?;
    let all = || members.iter().chain([(network, &domain)]);
    if all().all(|(label, name)| stands(&book, label.as_str(), *name)) {
        return Ok(Vec::new());
    }
    Book::change(|book| {
        let left = all().filter(|(label, name)| !enter_one(book, network, label, **name));
        Ok(left.map(|(label, _)| label.clone()).collect())
    })
}

/// Takes a member off the book again, under what a network calls it.
///
/// # Errors
/// When the book cannot be changed.
pub(super) fn forget(network: &PublishedLabel, label: &PublishedLabel, name: Name) -> Outcome {
    let called = [label.to_string(), format!("{label}.{network}")];
    let called: Vec<Label> = called.iter().filter_map(|it| it.parse().ok()).collect();
    Book::change(|book| {
        for label in &called {
            book.remove(label, Some(name));
        }
        Ok(())
    })
}

/// Whether the name is in the book, under its label or beside its network's.
fn enter_one(
    book: &mut Book,
    network: &PublishedLabel,
    label: &PublishedLabel,
    name: Name,
) -> bool {
    let called = [label.to_string(), format!("{label}.{network}")];
    if called.iter().any(|it| stands(book, it, name)) {
        return true;
    }
    let free = called.iter().find(|it| book.entries().all(|entry| entry.label.as_str() != **it));
    let Some(Ok(label)) = free.map(|it| it.parse::<Label>()) else { return false };
    book.add(label, name, Origin::Added);
    true
}

fn stands(book: &Book, label: &str, name: Name) -> bool {
    book.entries().any(|entry| entry.label.as_str() == label && entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_moves_a_label_by_his_word() {
        let label = |text: &str| text.parse::<PublishedLabel>().unwrap();
        let (home, bank) = (label("home"), label("bank"));
        let [own, theirs, later, last] = [1, 2, 3, 4].map(|byte| Name([byte; 32]));
        let mut book = Book::default();
        book.add("bank".parse().unwrap(), own, Origin::Added);
        let called = |book: &Book, text: &str| -> Vec<Name> {
            book.entries().filter(|it| it.label.as_str() == text).map(|it| it.name).collect()
        };
        assert!(enter_one(&mut book, &home, &bank, theirs));
        assert_eq!((called(&book, "bank"), called(&book, "bank.home")), (vec![own], vec![theirs]));
        // Now the keeper calls somebody else so.
        assert!(!enter_one(&mut book, &home, &bank, later));
        assert_eq!((called(&book, "bank"), called(&book, "bank.home")), (vec![own], vec![theirs]));
        // And one that was the network's from the start.
        assert!(enter_one(&mut book, &home, &label("bob"), later));
        assert!(enter_one(&mut book, &home, &label("bob"), later), "it is there");
        assert!(enter_one(&mut book, &home, &label("bob"), last));
        assert_eq!((called(&book, "bob"), called(&book, "bob.home")), (vec![later], vec![last]));
    }
}
