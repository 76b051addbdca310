/**
 * Order in which a round measures its subjects, as positions in their list. Orders rotate, so that each subject is
 * equally often first; every second cycle runs in reverse, so that no subject always follows the same one. With three
 * subjects, six rounds use all six orders.
 */
export function roundOrder(round: number, subjects: number): readonly number[] {
  const rotated = Array.from({ length: subjects }, (_, at) => (at + round) % subjects);
  return Math.floor(round / subjects) % 2 === 0 ? rotated : rotated.reverse();
}
