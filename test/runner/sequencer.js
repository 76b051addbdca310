import Sequencer from '@jest/test-sequencer';
import { recordedSeconds } from './durations.js';

/** Starts suites by their last durations, longest first; those that Jest has not run yet, by their recorded durations. */
export default class LongestFirst extends Sequencer {
  sort(tests) {
    const recorded = recordedSeconds();
    const bySize = super.sort(tests);
    const seconds = ({ path, duration }) => (duration === undefined ? (recorded.get(path) ?? 0) : duration / 1_000);
    return bySize.sort((one, other) => seconds(other) - seconds(one));
  }
}
