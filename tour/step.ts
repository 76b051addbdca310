import type { Stage } from './stage.ts';

/** One stop of the tour. */
export interface TourStep {
  readonly title: string;
  /** Explains and shows the step. The tour waits for the reader afterwards. */
  run(stage: Stage): Promise<void>;
}
