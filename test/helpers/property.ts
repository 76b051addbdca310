import fc from 'fast-check';

/** Seed of property tests that set none, so that each run has the same cases. `npm run fuzz` sets others. */
const DEFAULT_SEED = 20_270;

fc.configureGlobal({ seed: Number(process.env.PROPERTY_SEED ?? DEFAULT_SEED) });

/** The number of runs of a property that takes seconds: a fifth in `npm run test:quick`. */
export const runs = (count: number): number => (process.env.TESTS === 'quick' ? Math.ceil(count / 5) : count);

/** fast-check with a fixed seed, so that failures are reproducible. */
export default fc;
