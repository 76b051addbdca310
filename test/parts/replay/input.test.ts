import '../../helpers/realm.ts';
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { readLines } from '../../../src/parts/replay/input.ts';

const octets = randomBytes(4_000_000);
test.each([
  ['plain', octets],
  ['compressed', gzipSync(octets)],
])('a %s source is closed when its reader stops', async (_, stored) => {
  const pieces = Array.from({ length: 40 }, (_, at) => stored.subarray(at * 100_000, (at + 1) * 100_000));
  const source = Readable.from(pieces, { objectMode: false });
  for await (const lines of readLines({ name: 'source', bytes: undefined, open: () => source })) {
    expect(lines.length).toBeGreaterThan(0);
    break;
  }
  expect(source.destroyed).toBe(true);
});
