//! TSIG keys and the files that hold them: the form of `tsig-keygen`, so that
//! `nsupdate -k` and `dig -k` take the same file.
//!
//! ```text
//! key "operator.example.net" {
//!     algorithm hmac-sha256;
//!     secret "base64==";
//! };
//! ```

use std::fmt;

use aws_lc_rs::hmac;
use data_encoding::BASE64;
use domain::base::Name;
use zeroize::Zeroizing;

use crate::zone::plain_name;

/// A shared secret with a name, for HMAC-SHA-256.
pub struct TsigKey {
    name: Name<Vec<u8>>,
    secret: Zeroizing<Vec<u8>>,
}

/// Why text is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TsigKeyError {
    /// Not of the form `key "NAME" { algorithm hmac-sha256; secret "BASE64"; };`.
    #[error("it is not of the form that `tsig-keygen` writes")]
    Form,
    /// The name is no domain name, the root, or one with escapes in its text.
    #[error("its name is no domain name that a key can have")]
    Name,
    /// Another algorithm than hmac-sha256.
    #[error("its algorithm is not {ALGORITHM}")]
    Algorithm,
    /// Not base64, or shorter than [`MIN_SECRET_LEN`] bytes.
    #[error("its secret is no base64 of {MIN_SECRET_LEN} to {MAX_SECRET_LEN} bytes")]
    Secret,
}

impl TsigKey {
    /// A key from its parts.
    ///
    /// # Errors
    /// When the name is none that a key can have, or the secret has not
    /// [`MIN_SECRET_LEN`] to [`MAX_SECRET_LEN`] bytes.
    pub fn new(name: &str, secret: &[u8]) -> Result<Self, TsigKeyError> {
        let mut name = plain_name(name).ok_or(TsigKeyError::Name)?;
        name.make_canonical();
        if !(MIN_SECRET_LEN..=MAX_SECRET_LEN).contains(&secret.len()) {
            return Err(TsigKeyError::Secret);
        }
        Ok(Self { name, secret: Zeroizing::new(secret.to_vec()) })
    }

    /// Reads the text of a key file.
    ///
    /// # Errors
    /// As [`TsigKeyError`] says.
    pub fn parse(text: &str) -> Result<Self, TsigKeyError> {
        let mut words = Words { rest: text };
        if words.next() != Some("key") {
            return Err(TsigKeyError::Form);
        }
        let name = words.next().ok_or(TsigKeyError::Form)?;
        let (mut algorithm, mut secret) = (None, None);
        if words.next() != Some("{") {
            return Err(TsigKeyError::Form);
        }
        loop {
            let slot = match words.next() {
                Some("}") => break,
                Some("algorithm") => &mut algorithm,
                Some("secret") => &mut secret,
                _ => return Err(TsigKeyError::Form),
            };
            if slot.replace(words.next().ok_or(TsigKeyError::Form)?).is_some() {
                return Err(TsigKeyError::Form);
            }
        }
        if words.next().is_some() {
            return Err(TsigKeyError::Form);
        }
        if !algorithm.ok_or(TsigKeyError::Form)?.eq_ignore_ascii_case(ALGORITHM) {
            return Err(TsigKeyError::Algorithm);
        }
        let secret = secret.ok_or(TsigKeyError::Form)?;
        let secret = BASE64.decode(secret.as_bytes()).map_err(|_| TsigKeyError::Secret)?;
        Self::new(name, &Zeroizing::new(secret))
    }

    /// The text of a key file.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64.encode(&self.secret));
        Zeroizing::new(format!(
            "key \"{}\" {{\n\talgorithm {ALGORITHM};\n\tsecret \"{}\";\n}};\n",
            self.name, *secret
        ))
    }

    /// The key's name, in lower case.
    #[must_use]
    pub fn name(&self) -> &Name<Vec<u8>> {
        &self.name
    }

    pub(super) fn hmac(&self) -> hmac::Context {
        hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.secret))
    }
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({})", self.name)
    }
}

/// Words and braces; `;`, white space and comments divide, and a quoted word is its content.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
            if !(self.rest.starts_with('#') || self.rest.starts_with("//")) {
                break;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
        if let Some(quoted) = self.rest.strip_prefix('"') {
            let (word, rest) = quoted.split_once('"')?;
            self.rest = rest;
            return Some(word);
        }
        let is_end = |c: char| c.is_whitespace() || ";{}\"".contains(c);
        let len = match self.rest.find(is_end) {
            Some(0) => 1,
            Some(len) => len,
            None => self.rest.len(),
        };
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// What a fresh key's secret has: the output of SHA-256, beyond which HMAC gains nothing.
pub const FRESH_SECRET_LEN: usize = 32;
/// The least that RFC 8945, section 8, lets pass for a secret: half of the hash's output.
pub const MIN_SECRET_LEN: usize = 16;
/// HMAC hashes what is longer than a block of the hash.
pub const MAX_SECRET_LEN: usize = 64;
const ALGORITHM: &str = "hmac-sha256";

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "// made by hand\nkey \"Operator.Example.net\" {\n  algorithm hmac-sha256; # the only one\n  \
                        secret \"MDEyMzQ1Njc4OWFiY2RlZg==\";\n};\n";

    #[test]
    fn a_file_reads_and_is_written_the_same() {
        let key = TsigKey::parse(TEXT).unwrap();
        assert_eq!(key.name().to_string(), "operator.example.net");
        assert_eq!(*key.secret, b"0123456789abcdef");
        let again = TsigKey::parse(&key.to_text()).unwrap();
        assert_eq!((again.name(), &*again.secret), (key.name(), &*key.secret));
        assert_eq!(format!("{key:?}"), "TsigKey(operator.example.net)");
    }

    #[test]
    fn what_is_no_key_is_refused_by_its_reason() {
        use TsigKeyError::{Algorithm, Form, Name, Secret};
        for (from, to, why) in [
            ("key ", "kex ", Form),
            ("{", "", Form),
            ("algorithm", "algorithms", Form),
            ("algorithm hmac-sha256;", "", Form),
            ("algorithm hmac-sha256;", "algorithm hmac-sha256; algorithm hmac-sha256;", Form),
            ("};", "}; more", Form),
            ("};", "", Form),
            ("Operator.Example.net", "a..b", Name),
            ("Operator.Example.net", ".", Name),
            ("Operator.Example.net", r"a\034b.net", Name),
            ("Operator.Example.net", r"a\ b.net", Name),
            ("hmac-sha256", "hmac-md5", Algorithm),
            ("MDEyMzQ1Njc4OWFiY2RlZg==", "MDEyMzQ1Njc4OWFiY2Rl", Secret),
            ("MDEyMzQ1Njc4OWFiY2RlZg==", "?", Secret),
        ] {
            assert_eq!(TsigKey::parse(&TEXT.replace(from, to)).unwrap_err(), why, "{to}");
        }
    }

    #[test]
    fn a_secret_is_bounded_from_both_sides() {
        for (len, good) in [(15, false), (16, true), (64, true), (65, false)] {
            assert_eq!(TsigKey::new("k", &vec![1; len]).is_ok(), good, "{len}");
        }
    }
}
