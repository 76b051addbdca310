import { CallBatch, DIGITS_PLACE, placesIn } from '../../../proof/attack/calls.ts';
import { Http2Client } from '../../../proof/attack/http2-client.ts';
import type { TcpClient } from '../../../proof/attack/tcp-client.ts';
import { Flag, FrameType } from '../../../src/h2/http2/frames.ts';
import { data, parseFrames, rstStream, settings, windowUpdate } from '../../helpers/h2-client.ts';

/** A connection that accepts everything, and the bytes sent on it. */
function recorder() {
  const sent: Buffer[] = [];
  const tcp = {
    closed: new Promise<void>(() => {}),
    isClosed: false,
    send: async (bytes: Buffer) => sent.push(Buffer.from(bytes)) > 0,
  } as unknown as TcpClient; // the part that an HTTP/2 client uses
  const client = new Http2Client(tcp, {});
  return { client, frames: () => parseFrames(Buffer.concat(sent)).read };
}

test('a batch has a stream for each call, and a different number in each place', async () => {
  const { client, frames } = recorder();
  const body = Buffer.from(`a${DIGITS_PLACE}b${DIGITS_PLACE}`);
  const batch = new CallBatch({ body, digitsAt: placesIn(body), after: [rstStream(0, 8)] }, 2);
  await batch.send(client);
  await batch.send(client);
  const sent = frames();
  expect(sent.map(({ type, streamId }) => [type, streamId])).toEqual(
    [1, 3, 5, 7].flatMap((id) => [FrameType.HEADERS, FrameType.DATA, FrameType.RST_STREAM].map((type) => [type, id])),
  );
  const bodies = sent.filter(({ type }) => type === FrameType.DATA).map(({ payload }) => String(payload));
  expect(bodies).toEqual(['a00000000b00000001', 'a00000002b00000003', 'a00000004b00000005', 'a00000006b00000007']);
});

test('a body longer than a frame is split, and digits may be anywhere in it', async () => {
  const { client, frames } = recorder();
  const body = Buffer.concat([Buffer.alloc(16_380, 'x'), Buffer.from(DIGITS_PLACE), Buffer.alloc(100, 'y')]);
  const batch = new CallBatch({ body, digitsAt: placesIn(body) }, 1);
  batch.startAt(12_345_678);
  await batch.send(client);
  const parts = frames().filter(({ type }) => type === FrameType.DATA);
  expect(parts.map(({ payload, flags }) => [payload.length, flags])).toEqual([
    [16_384, 0],
    [104, Flag.END_STREAM],
  ]);
  expect(Buffer.concat(parts.map(({ payload }) => payload)).toString('latin1', 16_378, 16_390)).toBe('xx12345678yy');
});

test('a client sends no more than the windows of the server allow', async () => {
  const { client, frames } = recorder();
  client.read(settings([4, 20_000]));
  const length = () =>
    frames()
      .filter(({ type }) => type === FrameType.DATA)
      .reduce((sum, { payload }) => sum + payload.length, 0);
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  const whole = client.sendBody(1, Buffer.alloc(40_000), true);
  await turn();
  expect(length()).toBe(16_384);
  client.read(windowUpdate(1, 18_000));
  await turn();
  expect(length()).toBe(32_768);
  client.read(windowUpdate(1, 20_000));
  expect(await whole).toBe(true);
  expect(length()).toBe(40_000);
  const further = client.send(data(3, Buffer.alloc(0)), 30_000); // 25,535 are left of the connection's window
  await turn();
  client.read(windowUpdate(0, 5_000));
  expect(await further).toBe(true);
});
