/**
 * The decimal count in a value; 0 where there is none.
 *
 * @throws Error  the counter is no number
 */
export function countIn(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is no number');
  return Number(text);
}
