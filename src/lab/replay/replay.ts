import { TooCostly } from '../../base/request-work.ts';
import { InvalidRequest } from '../../engine/decide/decide.ts';
import type { ReplayEngine } from './engine.ts';
import type { RecordedRequest, RecordedTraffic, ReplayObserver } from './request.ts';
import type { TrafficCounts } from './traffic.ts';

/** The rules that answer requests, and the receivers of the answers. */
interface Replay {
  readonly rules: ReplayEngine;
  readonly against: ReplayEngine | undefined;
  readonly observers: readonly ReplayObserver[];
  readonly counts: TrafficCounts;
  /** Called after each batch, before the next one is read. */
  readonly onBatch: () => Promise<void> | void;
}

/** Answers requests in order. A request that the service would reject counts as a broken line. */
export async function replay(traffic: RecordedTraffic, run: Replay): Promise<void> {
  for await (const requests of traffic) {
    for (const recorded of requests) replayOne(recorded, run);
    await run.onBatch();
  }
}

function replayOne(recorded: RecordedRequest, { rules, against, observers, counts }: Replay): void {
  try {
    const answer = rules.answer(recorded);
    const other = against?.answer(recorded);
    for (const observer of observers) observer.observe(recorded, answer, other);
  } catch (error) {
    if (!(error instanceof InvalidRequest || error instanceof TooCostly)) throw error;
    counts.addBroken(`request at ${recorded.timeMs}: ${error.message}`);
  }
}
