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
            let (mut least, mut most) = (usize::MAX, 0);
            for lane in 0..LANES {
                let Some(record) = records.get(lane) else { break };
                first[lane] = super::counter_block(&record.nonce, 1);
                aads[lane] = aad_so_far(tables, record.aad);
                lengths[lane] = super::lengths_block(record.aad, record.bytes.len());
                (least, most) = (least.min(record.bytes.len()), most.max(record.bytes.len()));
            }
            let hash_key = broadcast(&tables.powers[super::POWERS - 1]);
            let hashed_aads = to_blocks(reduce(Product::of(from_lanes(aads), hash_key)));
            let (mut product, masks) = if records.len() < LANES || most > 2 * WIDTH {
                one_by_one::<SEALS>(tables, records, &first, &hashed_aads)
            } else if least > WIDTH {
                together::<SEALS, 2, { 2 * LANES + 1 }>(tables, records, &first, &hashed_aads)
            } else if least > 0 && most <= WIDTH {
                together::<SEALS, 1, { LANES + 1 }>(tables, records, &first, &hashed_aads)
            } else {
                one_by_one::<SEALS>(tables, records, &first, &hashed_aads)
            };
            product.add(from_lanes(lengths), hash_key);
            to_blocks(xor(reverse_bytes(reduce(product)), masks))
        }

        /// Takes [`LANES`] records of `COUNT` registers each, with those of all encrypted together.
        #[inline]
        #[target_feature(enable = $features)]
        fn together<const SEALS: bool, const COUNT: usize, const STATES: usize>(
            tables: &Tables,
            records: &mut [Record<'_>],
            first: &[u128; LANES],
            hashed_aads: &[Block; LANES],
        ) -> (Product, Vector) {
            let mut states = [from_lanes(*first); STATES];
            for lane in 0..LANES {
                let mut counters = add(broadcast_number(first[lane]), from_lanes(ASCENDING));
                let blocks = next_counters::<COUNT>(&mut counters);
                states[1 + lane * COUNT..][..COUNT].copy_from_slice(&blocks);
            }
            let streams = encrypt(tables, states, |_| {});
            let mut products = [Product::zero(); LANES];
            for lane in 0..LANES {
                let span = super::Span::of(&mut records[lane]);
                let last_len = span.len - (COUNT - 1) * WIDTH;
                let blocks = (COUNT - 1) * LANES + last_len.div_ceil(16);
                let powers = tables.powers_from(blocks + 1);
                for at in 0..COUNT {
                    let stream = streams[1 + lane * COUNT + at];
                    let text = unsafe {
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
                    let mut text = reverse_bytes(text);
                    if at == 0 {
                        text = xor(text, in_first_lane(&hashed_aads[lane]));
                    }
                    let power = load_blocks(powers[at * LANES..].first_chunk().expect("padded"));
                    products[lane].add(text, power);
                }
            }
            (Product::sums_of_lanes(products), streams[0])
        }

        /// Takes records of any lengths.
        #[inline]
        #[target_feature(enable = $features)]
        fn one_by_one<const SEALS: bool>(
            tables: &Tables,
            records: &mut [Record<'_>],
            first: &[u128; LANES],
            hashed_aads: &[Block; LANES],
        ) -> (Product, Vector) {
            let hash_key = broadcast(&tables.powers[super::POWERS - 1]);
            let [masks] = encrypt(tables, [from_lanes(*first)], |_| {});
            let mut products = [Product::zero(); LANES];
            let mut hashed = zero();
            let nothing = [0; WIDTH];
            let mut pending =
                Part { at: nothing.as_ptr(), len: WIDTH, lane: LANES, is_last: false };
            for (lane, record) in records.iter_mut().enumerate().take(LANES) {
                let mut span = super::Span::of(record);
                let mut counters = add(broadcast_number(first[lane]), from_lanes(ASCENDING));
                if span.len == 0 {
                    products[lane] = Product::of(in_first_lane(&hashed_aads[lane]), hash_key);
                    continue;
                }
                let mut is_first = true;
                while span.len > 0 {
                    let len = span.len.min(WHOLE);
                    let next = Part {
                        at: if SEALS { span.to.cast_const() } else { span.from },
                        len,
                        lane,
                        is_last: span.len == len,
                    };
                    if SEALS {
                        let product = crypt(tables, &mut counters, span, len, &pending, hashed);
                        pending.put(product, &mut hashed, &mut products);
                        if is_first {
                            hashed = in_first_lane(&hashed_aads[lane]);
                        }
                        pending = next;
                    } else {
                        if is_first {
                            hashed = in_first_lane(&hashed_aads[lane]);
                        }
                        let product = crypt(tables, &mut counters, span, len, &next, hashed);
                        next.put(product, &mut hashed, &mut products);
                    }
                    is_first = false;
                    unsafe {
                        span.from = span.from.add(len);
                        span.to = span.to.add(len);
                    }
                    span.len -= len;
                }
            }
            if SEALS {
                let mut hashing = pending.begin(tables, hashed);
                for at in 0..hashing.wholes {
                    unsafe { hashing.step(at) };
                }
                let product = unsafe { hashing.end() };
                pending.put(product, &mut hashed, &mut products);
            }
            (Product::sums_of_lanes(products), masks)
        }

        /// A part of a record's ciphertext, to be hashed.
        struct Part {
            at: *const u8,
            /// At most [`WHOLE`], and not nothing.
            len: usize,
            /// [`LANES`] for none.
            lane: usize,
            is_last: bool,
        }

        impl Part {
            #[inline]
            #[target_feature(enable = $features)]
            fn begin<'t>(&self, tables: &'t Tables, added: Vector) -> Hashing<'t> {
                let powers = tables.powers_from(self.len.div_ceil(16) + usize::from(self.is_last));
                let wholes = (self.len - 1) / WIDTH;
                let last_len = self.len - wholes * WIDTH;
                Hashing { at: self.at, wholes, last_len, powers, added, product: Product::zero() }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn put(&self, product: Product, hashed: &mut Vector, products: &mut [Product; LANES]) {
                if !self.is_last {
                    *hashed = reduce(product.collapsed());
                } else {
                    products[self.lane] = product;
                }
            }
        }

        /// A part that is being hashed.
        struct Hashing<'t> {
            at: *const u8,
            wholes: usize,
            last_len: usize,
            powers: &'t [Block],
            added: Vector,
            product: Product,
        }

        impl Hashing<'_> {
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn step(&mut self, at: usize) {
                let text = unsafe { load(self.at.add(at * WIDTH)) };
                let power = unsafe { load(self.powers.as_ptr().add(at * LANES).cast()) };
                self.product.add(xor(reverse_bytes(text), self.added), power);
                self.added = zero();
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn end(mut self) -> Product {
                let text = unsafe { load_part(self.at.add(self.wholes * WIDTH), self.last_len) };
                let power = unsafe { load(self.powers.as_ptr().add(self.wholes * LANES).cast()) };
                self.product.add(xor(reverse_bytes(text), self.added), power);
                self.product
            }
        }

        /// The hash of the associated data without the last multiplication by the hash key.
        #[inline]
        #[target_feature(enable = $features)]
        fn aad_so_far(tables: &Tables, aad: &[u8]) -> u128 {
            if aad.len() <= 16 { super::padded_block(aad) } else { long_aad_so_far(tables, aad) }
        }

        #[inline(never)]
        #[target_feature(enable = $features)]
        fn long_aad_so_far(tables: &Tables, aad: &[u8]) -> u128 {
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

        #[inline]
        #[target_feature(enable = $features)]
        fn crypt(
            tables: &Tables,
            counters: &mut Vector,
            span: super::Span,
            len: usize,
            part: &Part,
            hashed: Vector,
        ) -> Product {
            let hashing = part.begin(tables, hashed);
            unsafe {
                match len.div_ceil(WIDTH) {
                    1 => crypt_some::<1>(tables, counters, span, len, hashing),
                    2 => crypt_some::<2>(tables, counters, span, len, hashing),
                    3 => crypt_some::<3>(tables, counters, span, len, hashing),
                    4 => crypt_some::<4>(tables, counters, span, len, hashing),
                    5 => crypt_some::<5>(tables, counters, span, len, hashing),
                    6 => crypt_some::<6>(tables, counters, span, len, hashing),
                    7 => crypt_some::<7>(tables, counters, span, len, hashing),
                    _ => crypt_some::<8>(tables, counters, span, len, hashing),
                }
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn crypt_some<const COUNT: usize>(
            tables: &Tables,
            counters: &mut Vector,
            span: super::Span,
            len: usize,
            mut hashing: Hashing<'_>,
        ) -> Product {
            let streams = encrypt(tables, next_counters::<COUNT>(counters), |round| {
                if round < hashing.wholes {
                    unsafe { hashing.step(round) };
                }
            });
            let product = unsafe { hashing.end() };
            let last_len = len - (COUNT - 1) * WIDTH;
            for (at, stream) in streams.into_iter().enumerate() {
                // SAFETY: registers before the last are whole, and the last has `last_len` bytes.
                unsafe {
                    let (from, to) = (span.from.add(at * WIDTH), span.to.add(at * WIDTH));
                    if at < COUNT - 1 {
                        store(to, xor(load(from), stream));
                    } else {
                        store_part(to, last_len, xor(load_part(from, last_len), stream));
                    }
                }
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
            mut between: impl FnMut(usize),
        ) -> [Vector; COUNT] {
            let key = broadcast(&tables.round_keys[0]);
            for state in &mut states {
                *state = xor(reverse_bytes(*state), key);
            }
            for (at, key) in tables.round_keys[1..tables.rounds].iter().enumerate() {
                let key = broadcast(key);
                for state in &mut states {
                    *state = round(*state, key);
                }
                between(at);
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

            /// The sum of all lanes, in the first.
            #[inline]
            #[target_feature(enable = $features)]
            fn collapsed(self) -> Self {
                Self {
                    low: sum_of_lanes(self.low),
                    middle: sum_of_lanes(self.middle),
                    high: sum_of_lanes(self.high),
                }
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
