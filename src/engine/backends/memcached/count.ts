/**
 * The decimal count in a value; 0: there is no value.
 *
 * @throws Error  the counter is not a number
 */
export function countIn(value: Buffer | undefined): number {
  const text = value?.toString('latin1').trim() ?? '0';
  if (!/^\d+$/.test(text)) throw new Error('the counter is not a number');
  return Number(text);
}
