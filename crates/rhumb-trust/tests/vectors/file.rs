//! One file of vectors: an array of objects with `name`,
//! `section`, `form`, `hex`, and `fields` or `error`.

use std::fmt::{Debug, Display};
use std::path::Path;

use serde_json::{Value, json};

/// The vectors of one file, in order.
#[derive(Default)]
pub(crate) struct File {
    vectors: Vec<Value>,
}

impl File {
    /// `bytes` are the one encoding of `fields`, in the
    /// form that `docs/vectors/README.md` describes.
    pub(crate) fn good(
        &mut self,
        section: &str,
        form: &str,
        name: &str,
        fields: &Value,
        bytes: &[u8],
    ) {
        let (hex, fields) = (hex(bytes), fields.clone());
        self.vectors.push(json!({
            "section": section, "form": form, "name": name, "fields": fields, "hex": hex,
        }));
    }

    /// `bytes` must be refused, and `outcome` is what the code says of them. Returns the vector.
    #[track_caller]
    pub(crate) fn refused<T: Debug, E: Display>(
        &mut self,
        section: &str,
        form: &str,
        name: &str,
        bytes: &[u8],
        outcome: Result<T, E>,
    ) -> &mut Value {
        let error = match outcome {
            Ok(value) => panic!("{form} {name}: taken for {value:?}"),
            Err(error) => error.to_string(),
        };
        let hex = hex(bytes);
        self.vectors.push(json!({
            "section": section, "form": form, "name": name, "error": error, "hex": hex,
        }));
        self.vectors.last_mut().unwrap()
    }

    /// Compares with the file in `docs/vectors`; writes it
    /// instead where `RHUMB_WRITE_VECTORS` is set.
    #[track_caller]
    pub(crate) fn check(self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vectors").join(name);
        let made = Value::Array(self.vectors);
        if std::env::var_os("RHUMB_WRITE_VECTORS").is_some() {
            std::fs::write(&path, format!("{made:#}\n")).unwrap();
        }
        let stored: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for (made, stored) in made.as_array().unwrap().iter().zip(stored.as_array().unwrap()) {
            assert_eq!(made, stored, "docs/vectors/{name} says otherwise than the code");
        }
        assert_eq!(made, stored, "docs/vectors/{name} has more or fewer vectors than the code");
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
