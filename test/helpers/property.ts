import fc from 'fast-check';

/** Seed of property tests that set none, so that each run has the same cases. `npm run fuzz` sets others. */
const DEFAULT_SEED = 20_270;

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? DEFAULT_SEED) });

/** fast-check with a fixed seed, so that failures are reproducible. */
export default fc;
