import type { Stage } from './stage.ts';

/** One stop of the tour. */
export interface TourStep {
  readonly title: string;
  /** Says what it shows, and shows it. The tour waits for the reader afterwards. */
  run(stage: Stage): Promise<void>;
}
