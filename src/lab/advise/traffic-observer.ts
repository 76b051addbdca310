import { counterSubject } from '../replay/figures.ts';
import type { RecordedRequest, ReplayedAnswer, ReplayObserver } from '../replay/request.ts';
import { identifyClients } from './key-sample.ts';
import type { RuleSketches } from './rule-sketches.ts';

/** Passes the requests of a replay to sketches. */
export class TrafficObserver implements ReplayObserver {
  readonly #sketches: RuleSketches;

  constructor(sketches: RuleSketches) {
    this.#sketches = sketches;
  }

  observe({ timeMs, request: { descriptors } }: RecordedRequest, answer: ReplayedAnswer): void {
    const clients = identifyClients(descriptors, this.#sketches.seed);
    for (let at = 0; at < descriptors.length; at++) {
      const hits = descriptors[at]?.hits ?? 0;
      const { rule, key, windowMs, code, wouldRefuse } = answer.descriptors[at] ?? {};
      if (rule === undefined || key === undefined || hits <= 0) continue; // peeks, and refunds of hits
      const refusedBy = code === 'OVER_LIMIT' || wouldRefuse ? windowMs : undefined;
      this.#sketches.add({ rule, key: counterSubject(key), hits, timeMs, refusedBy, client: clients[at], level: 0 });
    }
  }
}
