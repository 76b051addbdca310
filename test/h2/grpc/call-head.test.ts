import { readCallHead } from '../../../src/h2/grpc/call-head.ts';
import { createHeaderField } from '../../../src/h2/http2/hpack/field.ts';

/** The timeout of a call with this header. */
function parseTimeout(text: string | undefined): number {
  const fields = [createHeaderField('content-type', 'application/grpc')];
  if (text !== undefined) fields.push(createHeaderField('grpc-timeout', text));
  const head = readCallHead({ method: 'POST', path: '/', fields, contentLength: undefined }, undefined);
  if (typeof head === 'number') throw new Error(`expected a call, got ${head}`);
  return head.timeoutMs;
}

test.each([
  ['1H', 3_600_000],
  ['2M', 120_000],
  ['3S', 3_000],
  ['4m', 4],
  ['5u', 0.005],
  ['6n', 0.000006],
  ['0S', 0],
  ['00000001S', 1_000],
  ['99999999H', 99_999_999 * 3_600_000],
])('%s is %d ms', (text, timeoutMs) => expect(parseTimeout(text)).toBeCloseTo(timeoutMs, 9));

test('a missing timeout is infinite', () => expect(parseTimeout(undefined)).toBe(Number.POSITIVE_INFINITY));

test.each([
  '',
  '1',
  'S',
  '1s',
  '1h',
  '-1S',
  '+1S',
  '1.5S',
  '1 S',
  ' 1S',
  '1S ',
  '1S\n',
  '100000000S',
  '1SS',
  '1e3S',
  '٣S',
])('%j is not a valid timeout', (text) => expect(parseTimeout(text)).toBeNaN());
