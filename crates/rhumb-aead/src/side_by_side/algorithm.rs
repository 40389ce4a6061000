//! AES-GCM over the operations of a backend: the same text for registers of any width.
//!
//! A backend names its `Vector` and `LANES`, and has the operations that are used here; then
//! `algorithm!` makes its `seal` and `open`. A macro, since what a function is compiled for cannot
//! be a parameter of it.
//!
//! 1. Of each record, the first counter block and what its associated data come to stand in a lane
//!    of one register, so that those are encrypted and multiplied for all records at once.
//! 2. Short records are encrypted together (`together`), and one that stands by itself with its
//!    first counter block (`alone`). Long ones go part by part (`part_by_part`): while one part is
//!    encrypted, another is hashed, which keeps both units of the processor busy.
//! 3. The products that make up a record's hash are summed without a reduction, and added up lane
//!    by lane, so that each record has a lane again; the lengths are added, and one reduction and
//!    one exclusive or make all tags.

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
            let [record] = records else { return group::<SEALS>(tables, records) };
            let len = record.bytes.len();
            if len == 0 || len > WHOLE {
                return group::<SEALS>(tables, records);
            }
            let parts = Parts {
                first: super::counter_block(&record.nonce, 1),
                aad: aad_so_far(tables, record.aad),
                lengths: super::lengths_block(record.aad, len),
            };
            // One register for each pass through the cipher that a record of its length takes.
            match len.div_ceil(WIDTH) {
                1 => alone::<SEALS, 1, 2>(tables, record, &parts),
                2 => alone::<SEALS, 2, 3>(tables, record, &parts),
                3 => alone::<SEALS, 3, 4>(tables, record, &parts),
                4 => alone::<SEALS, 4, 5>(tables, record, &parts),
                5 => alone::<SEALS, 5, 6>(tables, record, &parts),
                6 => alone::<SEALS, 6, 7>(tables, record, &parts),
                7 => alone::<SEALS, 7, 8>(tables, record, &parts),
                _ => alone::<SEALS, 8, 9>(tables, record, &parts),
            }
        }

        /// What there is of a record that is taken by itself, beside its bytes.
        struct Parts {
            /// The first counter block.
            first: u128,
            /// The hash of the associated data, without the last multiplication.
            aad: u128,
            lengths: u128,
        }

        /// Takes one record of `COUNT` registers, with its first counter block as one more.
        #[inline]
        #[target_feature(enable = $features)]
        fn alone<const SEALS: bool, const COUNT: usize, const STATES: usize>(
            tables: &Tables,
            record: &mut Record<'_>,
            &Parts { first, aad, lengths }: &Parts,
        ) -> [Block; LANES] {
            let mut states = [broadcast(first); STATES];
            states[1..].copy_from_slice(&counters_after::<COUNT>(first));
            let streams = encrypt(tables, states, |_| {});
            let blocks = record.bytes.len().div_ceil(16);
            let mut product =
                Product::of(in_first_lane(aad), in_first_lane(tables.power(blocks + 2)));
            product.add(in_first_lane(lengths), in_first_lane(tables.power(1)));
            let span = super::Span::of(record);
            // SAFETY: the caller has chosen `COUNT` by the record's length, which is the span's.
            unsafe {
                apply::<SEALS, COUNT>(tables, span, &streams[1..], zero(), &mut product);
            }
            let hash = reduce(product.collapsed());
            to_blocks(xor(reverse_bytes(hash), streams[0]))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn group<const SEALS: bool>(tables: &Tables, records: &mut [Record<'_>]) -> [Block; LANES] {
            let lanes = Lanes::of(tables, records);
            let (mut product, masks) = if records.len() < LANES {
                part_by_part::<SEALS>(tables, records, &lanes)
            } else {
                let (mut least, mut most) = (usize::MAX, 0);
                for record in records.iter() {
                    (least, most) = (least.min(record.bytes.len()), most.max(record.bytes.len()));
                }
                if least > 0 && most <= WIDTH {
                    together::<SEALS, 1, { LANES + 1 }>(tables, records, &lanes)
                } else if least > WIDTH && most <= 2 * WIDTH {
                    together::<SEALS, 2, { 2 * LANES + 1 }>(tables, records, &lanes)
                } else if least > 2 * WIDTH && most <= 3 * WIDTH {
                    together::<SEALS, 3, { 3 * LANES + 1 }>(tables, records, &lanes)
                } else if least > 3 * WIDTH && most <= 4 * WIDTH {
                    together::<SEALS, 4, { 4 * LANES + 1 }>(tables, records, &lanes)
                } else {
                    part_by_part::<SEALS>(tables, records, &lanes)
                }
            };
            product.add(lanes.lengths, broadcast(tables.power(1)));
            to_blocks(xor(reverse_bytes(reduce(product)), masks))
        }

        /// What there is of each record, in a lane of a register: put together in registers, since
        /// what is written in pieces and read as a whole is waited for.
        struct Lanes {
            /// The first counter block.
            first: Vector,
            /// The hash of the associated data, which is added to the first block.
            aads: Vector,
            lengths: Vector,
        }

        impl Lanes {
            #[inline]
            #[target_feature(enable = $features)]
            fn of(tables: &Tables, records: &[Record<'_>]) -> Self {
                let first = each_lane(|lane| {
                    records.get(lane).map_or(0, |record| super::counter_block(&record.nonce, 1))
                });
                let aads = each_lane(|lane| {
                    records.get(lane).map_or(0, |record| aad_so_far(tables, record.aad))
                });
                let lengths = each_lane(|lane| {
                    let record = records.get(lane);
                    record.map_or(0, |it| super::lengths_block(it.aad, it.bytes.len()))
                });
                let aads = reduce(Product::of(from_lanes(aads), broadcast(tables.power(1))));
                Self { first: from_lanes(first), aads, lengths: from_lanes(lengths) }
            }
        }

        /// Takes [`LANES`] records of `COUNT` registers each, and gives the products of each record
        /// in a lane, and what masks the tags.
        #[inline]
        #[target_feature(enable = $features)]
        fn together<const SEALS: bool, const COUNT: usize, const STATES: usize>(
            tables: &Tables,
            records: &mut [Record<'_>],
            lanes: &Lanes,
        ) -> (Product, Vector) {
            let (first, aads) = (to_numbers(lanes.first), to_numbers(lanes.aads));
            let mut states = [lanes.first; STATES];
            for lane in 0..LANES {
                states[1 + lane * COUNT..][..COUNT]
                    .copy_from_slice(&counters_after::<COUNT>(first[lane]));
            }
            let streams = encrypt(tables, states, |_| {});
            let mut products = [Product::zero(); LANES];
            for lane in 0..LANES {
                let span = super::Span::of(&mut records[lane]);
                let streams = &streams[1 + lane * COUNT..][..COUNT];
                let hashed = in_first_lane(aads[lane]);
                // SAFETY: the caller has chosen `COUNT` by the lengths of all records.
                unsafe {
                    apply::<SEALS, COUNT>(tables, span, streams, hashed, &mut products[lane]);
                }
            }
            (Product::sums_of_lanes(products), streams[0])
        }

        /// Encrypts or decrypts a record of `COUNT` registers by its key stream, and adds the
        /// products of its ciphertext, the first block plus `hashed`, but for the lengths.
        ///
        /// # Safety
        /// The span's length is above `COUNT - 1` registers and at most `COUNT`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn apply<const SEALS: bool, const COUNT: usize>(
            tables: &Tables,
            span: super::Span,
            streams: &[Vector],
            hashed: Vector,
            product: &mut Product,
        ) {
            let last_len = span.len - (COUNT - 1) * WIDTH;
            // The lengths are one block more, to be multiplied by the first power.
            let powers = tables.powers_from(span.len.div_ceil(16) + 1);
            for at in 0..COUNT {
                // SAFETY: registers before the last are whole, and the last has `last_len` bytes.
                let (text, output) = unsafe {
                    let (from, to) = (span.from.add(at * WIDTH), span.to.add(at * WIDTH));
                    if at < COUNT - 1 {
                        let text = load(from);
                        let output = xor(text, streams[at]);
                        store(to, output);
                        (text, output)
                    } else {
                        let text = load_part(from, last_len);
                        (text, store_part(to, last_len, xor(text, streams[at])))
                    }
                };
                let ciphertext = reverse_bytes(if SEALS { output } else { text });
                let term = if at == 0 { xor(ciphertext, hashed) } else { ciphertext };
                product.add(term, powers_at(powers, at));
            }
        }

        /// Takes up to [`LANES`] records of any lengths, in parts of up to [`WHOLE`] bytes. As
        /// [`together`] otherwise.
        ///
        /// Sealing, a part is hashed while the one behind it is encrypted, that of another record
        /// included; opening, while it is decrypted itself.
        #[inline]
        #[target_feature(enable = $features)]
        fn part_by_part<const SEALS: bool>(
            tables: &Tables,
            records: &mut [Record<'_>],
            lanes: &Lanes,
        ) -> (Product, Vector) {
            let (first, aads) = (to_numbers(lanes.first), to_numbers(lanes.aads));
            let [masks] = encrypt(tables, [lanes.first], |_| {});
            let mut products = [Product::zero(); LANES];
            let mut waiting: Option<Part<'_>> = None;
            for (lane, record) in records.iter_mut().enumerate().take(LANES) {
                let mut span = super::Span::of(record);
                let mut counters = counters_after::<1>(first[lane])[0];
                let mut hashed = in_first_lane(aads[lane]);
                if span.len == 0 {
                    products[lane] = Product::of(hashed, broadcast(tables.power(1)));
                }
                while span.len > 0 {
                    let (here, rest) = span.split(WHOLE);
                    let is_last = rest.len == 0;
                    if SEALS {
                        let last = if let Some(part) = &waiting {
                            let (product, last) = crypt(tables, &mut counters, here, part);
                            if let Some(next) = part.end(product, &mut products) {
                                hashed = next;
                            }
                            last
                        } else {
                            crypt(tables, &mut counters, here, &Part::nothing(tables)).1
                        };
                        let from = here.to.cast_const();
                        let place = (lane, is_last);
                        waiting = Some(Part::new(tables, (from, here.len), last, hashed, place));
                    } else {
                        let before = (here.len - 1) / WIDTH * WIDTH;
                        // SAFETY: the rest of the span is at most a register.
                        let last = unsafe { load_part(here.from.add(before), here.len - before) };
                        let place = (lane, is_last);
                        let part = Part::new(tables, (here.from, here.len), last, hashed, place);
                        let (product, _) = crypt(tables, &mut counters, here, &part);
                        if let Some(next) = part.end(product, &mut products) {
                            hashed = next;
                        }
                    }
                    span = rest;
                }
            }
            if let Some(part) = &waiting {
                part.end(part.hash(), &mut products);
            }
            (Product::sums_of_lanes(products), masks)
        }

        /// A part of a record's ciphertext that is to be hashed.
        struct Part<'t> {
            /// Where it begins.
            at: *const u8,
            /// Registers that are read from there: `part_by_part`, which alone makes parts, holds
            /// the records that they are in.
            wholes: usize,
            /// The register behind them, with zeros behind the part's end.
            last: Vector,
            /// What is added to the first block.
            hashed: Vector,
            /// What the first block is multiplied by, and all behind it.
            powers: &'t [Block],
            /// Which record's, and whether nothing but the lengths comes behind it.
            lane: usize,
            is_last: bool,
        }

        impl<'t> Part<'t> {
            #[inline]
            #[target_feature(enable = $features)]
            fn new(
                tables: &'t Tables,
                (at, len): (*const u8, usize),
                last: Vector,
                hashed: Vector,
                (lane, is_last): (usize, bool),
            ) -> Self {
                let powers = tables.powers_from(len.div_ceil(16) + usize::from(is_last));
                Self { at, wholes: (len - 1) / WIDTH, last, hashed, powers, lane, is_last }
            }

            /// One whose hash is zero.
            #[inline]
            #[target_feature(enable = $features)]
            fn nothing(tables: &'t Tables) -> Self {
                Self::new(tables, (std::ptr::null(), 1), zero(), zero(), (0, true))
            }

            /// Adds products of two registers, if there are as many of them.
            #[inline]
            #[target_feature(enable = $features)]
            fn step(&self, pair: usize, hash: &mut Hash) {
                if 2 * pair + 1 < self.wholes {
                    // SAFETY: both registers are among those that are read from `at` on.
                    let (one, two) = unsafe {
                        (
                            load(self.at.add(2 * pair * WIDTH)),
                            load(self.at.add((2 * pair + 1) * WIDTH)),
                        )
                    };
                    let one = xor(reverse_bytes(one), std::mem::replace(&mut hash.first, zero()));
                    let powers = [2 * pair, 2 * pair + 1].map(|at| powers_at(self.powers, at));
                    hash.product.add_both([one, reverse_bytes(two)], powers);
                }
            }

            /// Adds what [`Part::step`] has left: the last register, and the one before if there is
            /// an odd number.
            #[inline]
            #[target_feature(enable = $features)]
            fn finish(&self, mut hash: Hash) -> Product {
                let last = reverse_bytes(self.last);
                let power = powers_at(self.powers, self.wholes);
                if self.wholes % 2 == 1 {
                    let before = self.wholes - 1;
                    // SAFETY: the register is among those that are read from `at` on.
                    let one = unsafe { load(self.at.add(before * WIDTH)) };
                    let one = xor(reverse_bytes(one), hash.first);
                    hash.product.add_both([one, last], [powers_at(self.powers, before), power]);
                } else {
                    hash.product.add(xor(last, hash.first), power);
                }
                hash.product
            }

            /// Its products, while nothing is encrypted.
            #[inline]
            #[target_feature(enable = $features)]
            fn hash(&self) -> Product {
                let mut hash = Hash { first: self.hashed, product: Product::zero() };
                for pair in 0..self.wholes / 2 {
                    self.step(pair, &mut hash);
                }
                self.finish(hash)
            }

            /// Puts the products of a record's last part in its lane. Of any other one gives what
            /// is added to the first block behind it.
            #[inline]
            #[target_feature(enable = $features)]
            fn end(&self, product: Product, products: &mut [Product; LANES]) -> Option<Vector> {
                if self.is_last {
                    products[self.lane] = product;
                    return None;
                }
                Some(reduce(product.collapsed()))
            }
        }

        /// The hash of a part so far.
        struct Hash {
            /// What is still to be added to the first block.
            first: Vector,
            product: Product,
        }

        /// Encrypts or decrypts a span of at most [`WHOLE`] bytes, and hashes a part meanwhile:
        /// gives its products, and the last register that was written.
        #[inline]
        #[target_feature(enable = $features)]
        fn crypt(
            tables: &Tables,
            counters: &mut Vector,
            span: super::Span,
            part: &Part<'_>,
        ) -> (Product, Vector) {
            // SAFETY: each is called for a span of a length that it is for.
            unsafe {
                match span.len.div_ceil(WIDTH) {
                    1 => crypt_some::<1>(tables, counters, span, part),
                    2 => crypt_some::<2>(tables, counters, span, part),
                    3 => crypt_some::<3>(tables, counters, span, part),
                    4 => crypt_some::<4>(tables, counters, span, part),
                    5 => crypt_some::<5>(tables, counters, span, part),
                    6 => crypt_some::<6>(tables, counters, span, part),
                    7 => crypt_some::<7>(tables, counters, span, part),
                    _ => crypt_some::<8>(tables, counters, span, part),
                }
            }
        }

        /// # Safety
        /// The span's length is above `COUNT - 1` registers and at most `COUNT`.
        #[inline]
        #[target_feature(enable = $features)]
        unsafe fn crypt_some<const COUNT: usize>(
            tables: &Tables,
            counters: &mut Vector,
            span: super::Span,
            part: &Part<'_>,
        ) -> (Product, Vector) {
            let mut hash = Hash { first: part.hashed, product: Product::zero() };
            let states = next_counters::<COUNT>(counters);
            let streams = encrypt(tables, states, |round| part.step(round, &mut hash));
            // Before anything is written, since a part that is opened is in the same place.
            let product = part.finish(hash);
            let last_len = span.len - (COUNT - 1) * WIDTH;
            let mut last = zero();
            for (at, stream) in streams.into_iter().enumerate() {
                // SAFETY: registers before the last are whole, and the last has `last_len` bytes.
                unsafe {
                    let (from, to) = (span.from.add(at * WIDTH), span.to.add(at * WIDTH));
                    if at < COUNT - 1 {
                        store(to, xor(load(from), stream));
                    } else {
                        last = store_part(to, last_len, xor(load_part(from, last_len), stream));
                    }
                }
            }
            (product, last)
        }

        /// The hash of the associated data, without the last multiplication by the hash key.
        #[inline]
        #[target_feature(enable = $features)]
        fn aad_so_far(tables: &Tables, aad: &[u8]) -> u128 {
            if aad.len() <= 16 { super::padded_block(aad) } else { long_aad_so_far(tables, aad) }
        }

        #[inline(never)]
        #[target_feature(enable = $features)]
        fn long_aad_so_far(tables: &Tables, aad: &[u8]) -> u128 {
            let (mut rest, mut sum) = (aad, 0);
            while rest.len() > 16 {
                let (block, others) = rest.split_at(16);
                let term = in_first_lane(sum ^ super::padded_block(block));
                let hash = reduce(Product::of(term, in_first_lane(tables.power(1))));
                sum = u128::from_le_bytes(to_blocks(hash)[0]);
                rest = others;
            }
            sum ^ super::padded_block(rest)
        }

        /// The counter blocks behind the first, with their bytes in reverse.
        #[inline]
        #[target_feature(enable = $features)]
        fn counters_after<const COUNT: usize>(first: u128) -> [Vector; COUNT] {
            next_counters(&mut add(broadcast(first), from_lanes(ASCENDING)))
        }

        /// Counter blocks with their bytes in reverse, and advances the counters past them.
        #[inline]
        #[target_feature(enable = $features)]
        fn next_counters<const COUNT: usize>(counters: &mut Vector) -> [Vector; COUNT] {
            let step = broadcast(LANES as u128);
            let mut blocks = [zero(); COUNT];
            for block in &mut blocks {
                *block = *counters;
                *counters = add(*counters, step);
            }
            blocks
        }

        /// Encrypts blocks that have their bytes in reverse. `between` is called after each round
        /// but the last, with its number from zero: there are at least nine.
        #[inline]
        #[target_feature(enable = $features)]
        fn encrypt<const COUNT: usize>(
            tables: &Tables,
            mut states: [Vector; COUNT],
            mut between: impl FnMut(usize),
        ) -> [Vector; COUNT] {
            let key = broadcast(u128::from_le_bytes(tables.round_keys[0]));
            for state in &mut states {
                *state = xor(reverse_bytes(*state), key);
            }
            let (middle_keys, last_key) = tables.later_round_keys();
            for (at, key) in middle_keys.iter().enumerate() {
                let key = broadcast(u128::from_le_bytes(*key));
                for state in &mut states {
                    *state = round(*state, key);
                }
                between(at);
            }
            let key = broadcast(u128::from_le_bytes(*last_key));
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
                let product = Self::of(a, b);
                self.low = xor(self.low, product.low);
                self.middle = xor(self.middle, product.middle);
                self.high = xor(self.high, product.high);
            }

            /// Adds two products.
            #[inline]
            #[target_feature(enable = $features)]
            fn add_both(&mut self, a: [Vector; 2], b: [Vector; 2]) {
                let halves = |a, b| (multiply_halves::<0x01>(a, b), multiply_halves::<0x10>(a, b));
                for (a, b) in a.into_iter().zip(b) {
                    let (one, two) = halves(a, b);
                    self.middle = xor3(self.middle, one, two);
                }
                let products = [0, 1].map(|at| multiply_halves::<0x00>(a[at], b[at]));
                self.low = xor3(self.low, products[0], products[1]);
                let products = [0, 1].map(|at| multiply_halves::<0x11>(a[at], b[at]));
                self.high = xor3(self.high, products[0], products[1]);
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

            /// In each lane the sum of all lanes of one product.
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

        /// What a product is in the field of POLYVAL: divided by x^128, as RFC 8452's `dot`.
        #[inline]
        #[target_feature(enable = $features)]
        fn reduce(product: Product) -> Vector {
            let polynomial = broadcast(super::schedule::POLYNOMIAL);
            let folded = multiply_halves::<0x00>(product.low, polynomial);
            let middle = xor3(product.middle, folded, swap_halves(product.low));
            let folded = multiply_halves::<0x00>(middle, polynomial);
            xor3(product.high, folded, swap_halves(middle))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn to_numbers(a: Vector) -> [u128; LANES] {
            to_blocks(a).map(u128::from_le_bytes)
        }

        /// The register of powers at a place of those from one on.
        #[inline]
        #[target_feature(enable = $features)]
        fn powers_at(powers: &[Block], at: usize) -> Vector {
            load_blocks(&powers.as_chunks::<LANES>().0[at])
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
