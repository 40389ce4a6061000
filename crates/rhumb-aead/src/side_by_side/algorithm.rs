//! AES-GCM over the operations of a backend: the same text for registers of any width.
//!
//! A backend names its `Vector` and `LANES`, and has the operations that are used here; then
//! `algorithm!` makes its `seal` and `open`. A macro, since what a function is compiled for cannot
//! be a parameter of it.
//!
//! 1. Of each record, the first counter block and what its associated data come to stand in a lane
//!    of one register, so that those are encrypted and multiplied for all records at once.
//! 2. Each record is encrypted and hashed, [`AT_ONCE`](super::AT_ONCE) registers at a time. The sum
//!    of a record's products stays in three registers, without a reduction.
//! 3. These are added up lane by lane, so that each record has a lane again; the lengths are added,
//!    and one reduction and one exclusive or make all tags.

macro_rules! algorithm {
    ($features:literal) => {
        /// Encrypts up to [`LANES`] records, and gives their tags.
        #[target_feature(enable = $features)]
        pub(super) fn seal(tables: &Tables, records: &mut [Record<'_>]) -> [Block; LANES] {
            transform::<true>(tables, records)
        }

        /// Decrypts up to [`LANES`] records, and gives the tags that they ought to have.
        #[target_feature(enable = $features)]
        pub(super) fn open(tables: &Tables, records: &mut [Record<'_>]) -> [Block; LANES] {
            transform::<false>(tables, records)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn transform<const SEALS: bool>(
            tables: &Tables,
            records: &mut [Record<'_>],
        ) -> [Block; LANES] {
            let (mut first, mut aads, mut lengths) = ([0; LANES], [0; LANES], [0; LANES]);
            for (lane, record) in records.iter().enumerate() {
                first[lane] = super::counter_block(&record.nonce, 1);
                aads[lane] = aad_so_far(tables, record.aad);
                lengths[lane] = super::lengths_block(record.aad, record.bytes.len());
            }
            let hash_key = broadcast(&tables.powers[super::POWERS - 1]);
            let [masks] = encrypt(tables, [from_lanes(first)]);
            let hashed_aads = to_blocks(reduce(Product::of(from_lanes(aads), hash_key)));
            let mut products = [Product::zero(); LANES];
            for (lane, record) in records.iter_mut().enumerate() {
                let hashed = in_first_lane(&hashed_aads[lane]);
                products[lane] =
                    body::<SEALS>(tables, first[lane], hashed, super::Span::of(record));
            }
            let mut product = Product::sums_of_lanes(products);
            product.add(from_lanes(lengths), hash_key);
            to_blocks(xor(reverse_bytes(reduce(product)), masks))
        }

        /// The hash of the associated data without the last multiplication by the hash key.
        #[inline]
        #[target_feature(enable = $features)]
        fn aad_so_far(tables: &Tables, aad: &[u8]) -> u128 {
            let mut rest = aad;
            let mut sum = 0;
            while rest.len() > 16 {
                let (block, others) = rest.split_at(16);
                let hash_key = broadcast(&tables.powers[super::POWERS - 1]);
                let sum_so_far = broadcast_number(sum ^ super::padded_block(block));
                let product = to_blocks(reduce(Product::of(sum_so_far, hash_key)));
                sum = u128::from_le_bytes(product[0]);
                rest = others;
            }
            sum ^ super::padded_block(rest)
        }

        /// Encrypts or decrypts a record's bytes. Gives the sum of products that the hash of its
        /// ciphertext is, with `hashed` added to the first block, but for the lengths.
        #[inline]
        #[target_feature(enable = $features)]
        fn body<const SEALS: bool>(
            tables: &Tables,
            first: u128,
            mut hashed: Vector,
            mut span: super::Span,
        ) -> Product {
            let mut counters = add(broadcast_number(first), from_lanes(ASCENDING));
            while span.len > WHOLE + WIDTH {
                // SAFETY: the span has more bytes than are taken.
                unsafe { whole::<SEALS>(tables, &mut counters, &mut hashed, &mut span) };
            }
            // SAFETY: each is called for a span of a length that it is for.
            unsafe {
                match span.len.div_ceil(WIDTH) {
                    0 => Product::of(hashed, broadcast(&tables.powers[super::POWERS - 1])),
                    1 => tail::<SEALS, 1>(tables, counters, hashed, span),
                    2 => tail::<SEALS, 2>(tables, counters, hashed, span),
                    3 => tail::<SEALS, 3>(tables, counters, hashed, span),
                    4 => tail::<SEALS, 4>(tables, counters, hashed, span),
                    5 => tail::<SEALS, 5>(tables, counters, hashed, span),
                    6 => tail::<SEALS, 6>(tables, counters, hashed, span),
                    7 => tail::<SEALS, 7>(tables, counters, hashed, span),
                    8 => tail::<SEALS, 8>(tables, counters, hashed, span),
                    _ => tail::<SEALS, 9>(tables, counters, hashed, span),
                }
            }
        }

        /// Takes [`WHOLE`] bytes from the beginning of the span. `hashed` is the hash so far, lane by
        /// lane: what is to be added to the blocks that come next.
        ///
        /// # Safety
        /// The span has as many bytes.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn whole<const SEALS: bool>(
            tables: &Tables,
            counters: &mut Vector,
            hashed: &mut Vector,
            span: &mut super::Span,
        ) {
            let streams = encrypt(tables, next_counters::<{ super::AT_ONCE }>(counters));
            let mut product = Product::zero();
            for (at, stream) in streams.into_iter().enumerate() {
                let power = &tables.powers[super::POWERS - LANES * (super::AT_ONCE - at)];
                // SAFETY: `at` is below AT_ONCE, so the register ends within WHOLE bytes.
                let ciphertext = unsafe {
                    let text = load(span.from.add(at * WIDTH));
                    let output = xor(text, stream);
                    store(span.to.add(at * WIDTH), output);
                    if SEALS { output } else { text }
                };
                let added = if at == 0 { *hashed } else { zero() };
                product.add(xor(reverse_bytes(ciphertext), added), broadcast(power));
            }
            *hashed = reduce(product);
            // SAFETY: the span has as many bytes, so neither pointer leaves what it points into.
            unsafe {
                span.from = span.from.add(WHOLE);
                span.to = span.to.add(WHOLE);
            }
            span.len -= WHOLE;
        }

        /// Takes the rest of a record, of `COUNT` registers, the last of which may be a part.
        ///
        /// # Safety
        /// The span's length is above `COUNT - 1` registers and at most `COUNT`.
        #[inline(never)]
        #[target_feature(enable = $features)]
        unsafe fn tail<const SEALS: bool, const COUNT: usize>(
            tables: &Tables,
            mut counters: Vector,
            hashed: Vector,
            span: super::Span,
        ) -> Product {
            let streams = encrypt(tables, next_counters::<COUNT>(&mut counters));
            let last_len = span.len - (COUNT - 1) * WIDTH;
            // The lengths are one block more, to be multiplied by the first power.
            let exponent = (COUNT - 1) * LANES + last_len.div_ceil(16) + 1;
            let powers = tables.powers_from(exponent);
            let mut product = Product::zero();
            for (at, stream) in streams.into_iter().enumerate() {
                // SAFETY: registers before the last are whole, and the last has `last_len` bytes.
                let ciphertext = unsafe {
                    let (from, to) = (span.from.add(at * WIDTH), span.to.add(at * WIDTH));
                    if at < COUNT - 1 {
                        let text = load(from);
                        let output = xor(text, stream);
                        store(to, output);
                        if SEALS { output } else { text }
                    } else {
                        let text = load_part(from, last_len);
                        let output = store_part(to, last_len, xor(text, stream));
                        if SEALS { output } else { text }
                    }
                };
                let added = if at == 0 { hashed } else { zero() };
                let power = load_blocks(powers[at * LANES..].first_chunk().expect("padded"));
                product.add(xor(reverse_bytes(ciphertext), added), power);
            }
            product
        }

        /// Counter blocks with their bytes in reverse, and advances the counters past them.
        #[inline]
        #[target_feature(enable = $features)]
        fn next_counters<const COUNT: usize>(counters: &mut Vector) -> [Vector; COUNT] {
            let step = broadcast_number(LANES as u128);
            let mut blocks = [zero(); COUNT];
            for block in &mut blocks {
                *block = *counters;
                *counters = add(*counters, step);
            }
            blocks
        }

        /// Encrypts blocks that have their bytes in reverse.
        #[inline]
        #[target_feature(enable = $features)]
        fn encrypt<const COUNT: usize>(
            tables: &Tables,
            mut states: [Vector; COUNT],
        ) -> [Vector; COUNT] {
            let key = broadcast(&tables.round_keys[0]);
            for state in &mut states {
                *state = xor(reverse_bytes(*state), key);
            }
            for key in &tables.round_keys[1..tables.rounds] {
                let key = broadcast(key);
                for state in &mut states {
                    *state = round(*state, key);
                }
            }
            let key = broadcast(&tables.round_keys[tables.rounds]);
            for state in &mut states {
                *state = last_round(*state, key);
            }
            states
        }

        /// Products of 256 bits in each lane, not reduced: what stands at 1, at x^64 and at x^128.
        #[derive(Clone, Copy)]
        struct Product {
            low: Vector,
            middle: Vector,
            high: Vector,
        }

        impl Product {
            #[inline]
            #[target_feature(enable = $features)]
            fn zero() -> Self {
                Self { low: zero(), middle: zero(), high: zero() }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn of(a: Vector, b: Vector) -> Self {
                Self {
                    low: multiply_halves::<0x00>(a, b),
                    middle: xor(multiply_halves::<0x01>(a, b), multiply_halves::<0x10>(a, b)),
                    high: multiply_halves::<0x11>(a, b),
                }
            }

            /// Adds a product.
            #[inline]
            #[target_feature(enable = $features)]
            fn add(&mut self, a: Vector, b: Vector) {
                self.low = xor(self.low, multiply_halves::<0x00>(a, b));
                self.middle =
                    xor3(self.middle, multiply_halves::<0x01>(a, b), multiply_halves::<0x10>(a, b));
                self.high = xor(self.high, multiply_halves::<0x11>(a, b));
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn sums_of_lanes(products: [Self; LANES]) -> Self {
                Self {
                    low: sums_of_lanes(products.map(|product| product.low)),
                    middle: sums_of_lanes(products.map(|product| product.middle)),
                    high: sums_of_lanes(products.map(|product| product.high)),
                }
            }
        }

        /// What a product is in the field of POLYVAL: divided by x^128, as `dot` of RFC 8452 has it.
        #[inline]
        #[target_feature(enable = $features)]
        fn reduce(product: Product) -> Vector {
            let polynomial = broadcast_number(super::schedule::POLYNOMIAL);
            let folded = multiply_halves::<0x00>(product.low, polynomial);
            let middle = xor3(product.middle, folded, swap_halves(product.low));
            let folded = multiply_halves::<0x00>(middle, polynomial);
            xor3(product.high, folded, swap_halves(middle))
        }

        /// Bytes of a register.
        const WIDTH: usize = LANES * super::BLOCK;
        /// Bytes that are taken at a time.
        const WHOLE: usize = super::AT_ONCE * WIDTH;
        /// What is added to the first counter for the counters of the first register.
        const ASCENDING: [u128; LANES] = {
            let mut numbers = [0; LANES];
            let mut at = 0;
            while at < LANES {
                numbers[at] = at as u128 + 1;
                at += 1;
            }
            numbers
        };
    };
}
