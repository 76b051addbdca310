import Sequencer from '@jest/test-sequencer';

/** Suites that take longest, in this order, although their files are short: they mostly wait for processes. */
const slow = [
  'docs/site',
  'redis/faults',
  'proof/chaos/run',
  'e2e/adaptive',
  'proof/attack/run',
  'conformance/process',
  'docs/page-runs',
  'e2e/rolling',
  'conformance/recorded',
  'proof/bench/rest',
  'conformance/kit',
  'http2/connections',
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
