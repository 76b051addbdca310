import type { RecordedRequest, ReplayedAnswer, ReplayObserver } from './request.ts';

/** Writes one line for each request: its answer under the last rule set. */
export class AnswerLines implements ReplayObserver {
  #text = '';

  observe(_: RecordedRequest, answer: ReplayedAnswer, against: ReplayedAnswer = answer): void {
    const descriptors = against.descriptors.map(({ code, remaining = 0 }) => ({ code, remaining }));
    this.#text += `${JSON.stringify({ code: against.code, descriptors })}\n`;
  }

  /** The lines since the last call. */
  take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }
}
