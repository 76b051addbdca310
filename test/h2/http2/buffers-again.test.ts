import '../../helpers/realm.ts';
import { FrameType } from '../../../src/h2/http2/frames.ts';
import { callHead, data, frame, openRaw, type RawClient, rstStream, uint32 } from '../../helpers/h2-client.ts';
import { startH2 } from '../../helpers/h2-server.ts';

const CANCEL = 8;
const LENGTH = 15_001;
/** The offset of a frame's flags. */
const FLAGS_AT = 4;
const END_HEADERS = 4;
const FRAME_OCTETS = 16_384;
const unfinished = Buffer.concat([Buffer.of(0), uint32(LENGTH), Buffer.alloc(LENGTH - 1)]);

/** Number of buffers of certain sizes allocated while a client does something on each of 100 streams. */
async function allocated(
  isCounted: (size: number) => boolean,
  onStream: (client: RawClient, id: number) => Promise<void>,
): Promise<number> {
  const server = await startH2();
  const client = await openRaw(server.port);
  const allocate = jest.spyOn(Buffer, 'allocUnsafeSlow');
  for (let id = 1; id < 200; id += 2) await onStream(client, id);
  const counted = allocate.mock.calls.filter(([size]) => isCounted(size)).length;
  allocate.mockRestore();
  client.close();
  await server.close(0);
  return counted;
}

test('messages that arrive in parts and are never complete reuse the same buffers', async () => {
  const isCounted = (size: number) => size >= LENGTH - 1 && size < 2 * LENGTH;
  const large = await allocated(isCounted, async (client, id) => {
    client.send(callHead(id), data(id, unfinished));
    await client.settled();
    client.send(rstStream(id, CANCEL));
    await client.settled();
  });
  expect(large).toBeGreaterThan(0);
  expect(large).toBeLessThan(50); // they are dropped once a second
});

test('header blocks in several frames are assembled in reused buffers', async () => {
  const large = await allocated(
    (size) => size === FRAME_OCTETS,
    async (client, id) => {
      const incomplete = Buffer.from(callHead(id));
      incomplete[FLAGS_AT] = 0;
      client.send(incomplete, frame(FrameType.CONTINUATION, END_HEADERS, id), rstStream(id, CANCEL));
      await client.settled();
    },
  );
  expect(large).toBeGreaterThan(0);
  expect(large).toBeLessThan(50); // they are dropped once a second
});

test('buffers of incomplete data are reused after their connection closes', async () => {
  const server = await startH2();
  const allocate = jest.spyOn(Buffer, 'allocUnsafeSlow');
  const half = data(1, Buffer.alloc(13_000)).subarray(0, 6_500);
  for (let made = 0; made < 100; made++) {
    const client = await openRaw(server.port);
    client.send(callHead(1));
    await client.settled();
    client.socket.end(half);
    await client.ended();
  }
  await server.close(0);
  const large = allocate.mock.calls.filter(([size]) => size > 13_000 && size < 16_000); // a connection has others of 16 KiB
  allocate.mockRestore();
  expect(large.length).toBeGreaterThan(0);
  expect(large.length).toBeLessThan(50);
});
