//! Vectors that others have published: those of the specification of GCM (McGrew and Viega, "The
//! Galois/Counter Mode of Operation", appendix B, as NIST took them over), and of Project
//! Wycheproof.

use rhumb_aead::{Algorithm, Key};
use serde_json::Value;

use crate::backends;

#[test]
fn the_specification() {
    for [key, nonce, aad, plain, sealed, tag] in SPECIFICATION {
        let [key, nonce, aad, plain, sealed, tag] =
            [key, nonce, aad, plain, sealed, tag].map(bytes);
        let (nonce, tag) = (nonce.try_into().unwrap(), tag.try_into().unwrap());
        let algorithm = algorithm(&key);
        for backend in backends() {
            let key = Key::for_backend(algorithm, &key, backend);
            let mut text = plain.clone();
            assert_eq!(key.seal(nonce, &aad, &mut text), tag, "{backend:?}");
            assert_eq!(text, sealed, "{backend:?}");
            assert!(key.open(nonce, &aad, &mut text, &tag), "{backend:?}");
            assert_eq!(text, plain, "{backend:?}");
        }
    }
}

#[test]
fn wycheproof() {
    let file: Value = serde_json::from_str(include_str!("vectors/wycheproof.json")).unwrap();
    let tests = file["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 133);
    for test in tests {
        let [key, nonce, aad, plain, sealed, tag] = ["key", "iv", "aad", "msg", "ct", "tag"]
            .map(|field| bytes(test[field].as_str().unwrap()));
        let (nonce, tag) = (nonce.try_into().unwrap(), tag.try_into().unwrap());
        let is_valid = test["valid"].as_bool().unwrap();
        let algorithm = algorithm(&key);
        for backend in backends() {
            let key = Key::for_backend(algorithm, &key, backend);
            let mut text = sealed.clone();
            assert_eq!(key.open(nonce, &aad, &mut text, &tag), is_valid, "{backend:?} {test}");
            if is_valid {
                assert_eq!(text, plain, "{backend:?} {test}");
                assert_eq!(key.seal(nonce, &aad, &mut text), tag, "{backend:?} {test}");
                assert_eq!(text, sealed, "{backend:?} {test}");
            } else {
                assert!(text.iter().all(|byte| *byte == 0), "{backend:?} {test}");
            }
        }
    }
}

fn algorithm(key: &[u8]) -> Algorithm {
    if key.len() == 16 { Algorithm::Aes128Gcm } else { Algorithm::Aes256Gcm }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    let digit = |it: u8| char::from(it).to_digit(16).expect("hexadecimal digits") as u8;
    digits.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}

const ZEROS: &str = "00000000000000000000000000000000";
const LONG_KEY: &str = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
const PLAIN: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                     1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255";
const SHORTER: &str = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                       1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
const AAD: &str = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
/// Test cases 1 to 4 and 13 to 16: key, nonce, associated data, plaintext, ciphertext, tag.
const SPECIFICATION: [[&str; 6]; 8] = [
    [ZEROS, "000000000000000000000000", "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"],
    [
        ZEROS,
        "000000000000000000000000",
        "",
        ZEROS,
        "0388dace60b6a392f328c2b971b2fe78",
        "ab6e47d42cec13bdf53a67b21257bddf",
    ],
    [
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "",
        PLAIN,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
        "4d5c2af327cd64a62cf35abd2ba6fab4",
    ],
    [
        "feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        AAD,
        SHORTER,
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
        "5bc94fbc3221a5db94fae95ae7121a47",
    ],
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        "",
        "",
        "",
        "530f8afbc74536b9a963b4f1c4cb738b",
    ],
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "000000000000000000000000",
        "",
        ZEROS,
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    ],
    [
        LONG_KEY,
        "cafebabefacedbaddecaf888",
        "",
        PLAIN,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ],
    [
        LONG_KEY,
        "cafebabefacedbaddecaf888",
        AAD,
        SHORTER,
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ],
];
