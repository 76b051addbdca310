import type { Paint } from '../commands/paint.ts';
import type { ShownTop } from './shapes.ts';

/** How exact the counts of a list are, for its first line. */
export const estimateNote = ({ countedOneIn, confidence }: Pick<ShownTop, 'countedOneIn' | 'confidence'>): string =>
  countedOneIn === 1
    ? ''
    : `, estimated: one in ${countedOneIn} was counted; each bound holds with a probability of ${confidence * 100} %`;

/** By how much a count may be wrong. */
export function boundsText(paint: Paint, atMostTooHighBy: number, atMostTooLowBy = 0): string {
  const high = atMostTooHighBy > 0 ? [`${atMostTooHighBy} too high`] : [];
  const low = atMostTooLowBy > 0 ? [`${atMostTooLowBy} too low`] : [];
  const both = [...high, ...low];
  return both.length === 0 ? '' : paint.dim(`  at most ${both.join(', ')}`);
}
