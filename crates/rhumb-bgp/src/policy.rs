//! Routing policy as operators write it: what a route must look like, and what follows.
