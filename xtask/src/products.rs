//! The products of the one binary, as tests of processes see them: each has test programs of its
//! own, and crates that it never reaches.
//!
//! A change of such a crate makes another binary, but changes nothing of what the product does, so
//! that the product's tests need not run again (`passed` goes by this). A command that reaches a
//! crate is refused to the tests of products that do not, as far as names tell: `tidy/products`.

/// One product of the crate `rhumb`.
#[derive(Debug)]
pub(crate) struct Product {
    /// Its test programs, by the names of their targets.
    pub(crate) programs: &'static [&'static str],
    /// Crates that nothing of it reaches.
    pub(crate) unreached: &'static [&'static str],
}

/// All of them. Whatever is not listed as unreached counts.
pub(crate) const PRODUCTS: [Product; 3] = [
    Product {
        programs: &["routing", "clusters"],
        // A RIB may be a member of a private exchange, and with it reaches that.
        unreached: &["rhumb-sim"],
    },
    Product {
        programs: &["platypus"],
        unreached: &[
            "rhumb-aead",
            "rhumb-bgp",
            "rhumb-channel",
            "rhumb-cql",
            "rhumb-dashboard",
            "rhumb-directory",
            "rhumb-end",
            "rhumb-exchange",
            "rhumb-link",
            "rhumb-member",
            "rhumb-mpc",
            "rhumb-node",
            "rhumb-rib",
            "rhumb-sim",
            "rhumb-switch",
            "rhumb-top",
        ],
    },
    Product {
        programs: &["sixpack", "alone"],
        unreached: &[
            "rhumb-aead",
            "rhumb-capability",
            "rhumb-cql",
            "rhumb-dashboard",
            "rhumb-directory",
            "rhumb-end",
            "rhumb-keyserver",
            "rhumb-link",
            "rhumb-node",
            "rhumb-rib",
            "rhumb-sim",
            "rhumb-switch",
            "rhumb-top",
            "rhumb-waypoint",
        ],
    },
];

impl Product {
    /// The one that a test program sees, named `rhumb platypus`.
    pub(crate) fn of(program: &str) -> Option<&'static Self> {
        let target = program.strip_prefix("rhumb ")?;
        PRODUCTS.iter().find(|product| product.programs.contains(&target))
    }

    /// Whether a change of the file can change what the product does: so do sources of all crates
    /// but those unreached. Tests and benches are no part of a product.
    pub(crate) fn is_made_of(&self, path: &str) -> bool {
        let within = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
        within.is_some_and(|(name, path)| {
            let is_beside =
                ["tests/", "benches/", "examples/"].iter().any(|it| path.starts_with(it));
            !is_beside && !self.unreached.contains(&name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_made_of_all_crates_but_those_that_it_does_not_reach() {
        let platypus = Product::of("rhumb platypus").unwrap();
        assert!(platypus.is_made_of("crates/rhumb/src/commands/router.rs"));
        assert!(platypus.is_made_of("crates/rhumb-waypoint/src/lib.rs"));
        assert!(platypus.is_made_of("crates/rhumb-new/build.rs"));
        assert!(!platypus.is_made_of("crates/rhumb-switch/src/lib.rs"));
        assert!(!platypus.is_made_of("crates/rhumb/tests/attacks.rs"));
        assert!(!platypus.is_made_of("xtask/src/main.rs"));
    }

    #[test]
    fn programs_of_other_crates_are_of_no_product() {
        assert!(Product::of("rhumb-switch all").is_none());
        assert!(Product::of("rhumb").is_none());
        let both = [Product::of("rhumb sixpack"), Product::of("rhumb alone")];
        assert!(both.iter().all(|it| it.unwrap().programs[0] == "sixpack"));
    }

    #[test]
    fn the_binary_and_what_all_commands_share_always_count() {
        for product in &PRODUCTS {
            assert!(product.is_made_of("crates/rhumb/src/main.rs"));
            assert!(product.is_made_of("crates/rhumb-daemon/src/config.rs"));
        }
    }
}
