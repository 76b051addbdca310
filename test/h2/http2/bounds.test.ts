import '../../helpers/realm.ts';
import { DEFAULT_MAX_FRAME_SIZE, MAX_FRAME_SIZE_LIMIT, Setting } from '../../../src/h2/http2/frames.ts';
import type { Http2Limits } from '../../../src/h2/http2/limits.ts';
import { call, callHead, data, framed, message, openRaw, settings } from '../../helpers/h2-client.ts';
import { startH2 } from '../../helpers/h2-server.ts';

/** The status of a call on a connection that sends these octets before or instead of it. */
async function statusAfter(octets: Buffer, limits: Partial<Http2Limits> = {}): Promise<unknown> {
  const server = await startH2({}, limits);
  const client = await openRaw(server.port, {});
  try {
    client.send(octets);
    return (await client.reply(1)).fields['grpc-status'];
  } finally {
    client.close();
    await server.close(0);
  }
}

test.each([DEFAULT_MAX_FRAME_SIZE, MAX_FRAME_SIZE_LIMIT])(
  'a client may accept frames of at most %d octets',
  async (size) => {
    expect(await statusAfter(Buffer.concat([settings([Setting.MAX_FRAME_SIZE, size]), call(1)]))).toBe('0');
  },
);

test('a request may use all of the window of its stream', async () => {
  const body = framed(message);
  const octets = Buffer.concat([callHead(1), data(1, body, true)]);
  expect(await statusAfter(octets, { streamWindowBytes: body.length })).toBe('0');
});
