import '../../helpers/realm.ts';
import { Flag, FrameType } from '../../../src/h2/http2/frames.ts';
import { frame, openRaw, type RawClient } from '../../helpers/h2-client.ts';
import { type H2Server, startH2 } from '../../helpers/h2-server.ts';
import { until } from '../../helpers/until.ts';

/** Timeout far above the time that the client, which shares this process, may take to read a ping. */
const TIMEOUT_MS = 1_000;
const connections = {
  maxCount: 10,
  maxAgeMs: 0,
  maxAgeGraceMs: 0,
  keepaliveTimeMs: 20,
  keepaliveTimeoutMs: TIMEOUT_MS,
};

let server: H2Server;
let client: RawClient;
beforeEach(async () => {
  server = await startH2({ connections });
  client = await openRaw(server.port);
});
afterEach(async () => {
  client.close();
  await server.close(0);
});

test('a client that has answered its ping stays connected, although the process read the answer too late', async () => {
  let hasAnswered = false;
  client.socket.on('data', () => {
    const ping = client.frames.find(({ type, flags }) => type === FrameType.PING && !(flags & Flag.ACK));
    if (!ping || hasAnswered) return;
    client.send(frame(FrameType.PING, Flag.ACK, 0, ping.payload)); // in the server's socket from now on
    const endMs = performance.now() + 2 * TIMEOUT_MS;
    while (performance.now() < endMs);
    hasAnswered = true;
  });
  await until('a ping', () => hasAnswered || client.socket.destroyed);
  expect(hasAnswered).toBe(true);
  await client.settled();
});

test('a client that does not answer its ping is disconnected', async () => {
  expect(await client.ended()).toMatchObject({ code: 'no GOAWAY' });
});
