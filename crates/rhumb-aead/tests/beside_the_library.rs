//! Every backend gives what aws-lc gives.

use rhumb_aead::{Algorithm, Backend, Key, Record, open, seal};

#[test]
fn every_length_is_sealed_as_the_library_does() {
    for algorithm in [Algorithm::Aes256Gcm, Algorithm::Aes128Gcm] {
        let secret: Vec<u8> = (0..algorithm.key_len() as u8).collect();
        let library = Key::for_backend(algorithm, &secret, Backend::Library);
        for backend in Backend::ALL.into_iter().filter(|it| it.is_possible()) {
            let key = Key::for_backend(algorithm, &secret, backend);
            for len in 0..=2048 {
                let plain: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
                let nonce = [len as u8; 12];
                let aad: Vec<u8> = (0..len % 65).map(|at| at as u8).collect();
                let (mut ours, mut theirs) = (plain.clone(), plain.clone());
                let tag = key.seal(nonce, &aad, &mut ours);
                assert_eq!(tag, library.seal(nonce, &aad, &mut theirs), "{backend:?} {len}");
                assert_eq!(ours, theirs, "{backend:?} {len}");
                assert!(key.open(nonce, &aad, &mut ours, &tag));
                assert_eq!(ours, plain);
                let mut records = [Record::in_place(&key, nonce, &aad, &mut theirs).with_tag(tag)];
                assert!(open(&mut records).are_all());
                seal(&mut records);
            }
        }
    }
}
