//! Zeros over secrets that are no longer used, as fast as memory is filled.

/// Overwrites them. The barrier has the compiler believe that
/// the zeros are read, so that it leaves them in.
pub(crate) fn wipe<T: Copy + Default>(values: &mut [T]) {
    values.fill(T::default());
    zeroize::optimization_barrier(&*values);
}
