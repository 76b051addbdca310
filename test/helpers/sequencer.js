import Sequencer from '@jest/test-sequencer';

/** Suites that take longest, in this order, although their files are short: they mostly wait for processes. */
const slow = [
  'redis/faults',
  'conformance/process',
  'docs/page-runs',
  'proof/chaos/run',
  'docs/site',
  'conformance/kit',
  'e2e/adaptive',
  'proof/attack/run',
  'e2e/rolling',
  'http2/connections',
  'proof/bench/rest',
];

/**
 * Jest starts suites by their last durations, longest first, and where it knows none, as on CI, by the size of their
 * files, which would leave these suites to the end.
 */
export default class SlowFirst extends Sequencer {
  sort(tests) {
    const rank = ({ path, duration }) => {
      const place = slow.findIndex((part) => path.endsWith(`/${part}.test.ts`));
      return duration !== undefined || place === -1 ? slow.length : place;
    };
    return super.sort(tests).sort((one, other) => rank(one) - rank(other));
  }
}
