import type { TourStep } from './step.ts';
import { candidate } from './steps/candidate.ts';
import { outage } from './steps/outage.ts';
import { refusal } from './steps/refusal.ts';
import { reset } from './steps/reset.ts';
import { running } from './steps/running.ts';
import { why } from './steps/why.ts';

/** The tour, in order. A new step is a file in steps/ and a line here. */
export const steps: readonly TourStep[] = [running, refusal, why, reset, candidate, outage];
