import fc from 'fast-check';

/** Seed of every property test that names none: the same cases each time. `npm run fuzz` sets others. */
const DEFAULT_SEED = 20_270;

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? DEFAULT_SEED) });

/** fast-check with a fixed seed: what one run finds, the next one finds again. */
export default fc;
