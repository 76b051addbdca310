import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import type { CallSource } from '../../../src/h2/bounds/call-queue.ts';
import { FrameReader } from '../../../src/h2/http2/frame-reader.ts';
import { PREFACE } from '../../../src/h2/http2/frames.ts';
import { openCertificates } from '../../../src/h2/listen/certificates.ts';
import { createAuthority, writeCertificate } from '../../helpers/certificates.ts';
import { agreeable } from '../../helpers/grpc-server.ts';
import { call, frame, openRaw } from '../../helpers/h2-client.ts';
import { startH2 } from '../../helpers/h2-server.ts';
import { eventually } from '../../helpers/until.ts';

/** An unknown frame type, which servers ignore. */
const UNKNOWN_TYPE = 0xfa;
const FRAMES = 512;
const FLOOD = Buffer.concat(Array.from({ length: FRAMES }, () => frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(16_384))));
/** Maximum input in a turn, its share plus one read, also with TLS; libuv would read 2 MiB. */
const MAX_PER_TURN = 262_144;

const folder = mkdtempSync(join(tmpdir(), 'pace-'));
const files = writeCertificate(folder, 'server', createAuthority().issue('localhost', '127.0.0.1'));
const certificates = openCertificates({ ...files, clientCa: undefined }, Date.now, () => {});
afterAll(() => {
  certificates.close();
});

test.each<[string, (port: number) => Socket]>([
  ['a plain connection', (port) => connect(port, '127.0.0.1')],
  ['a connection with TLS', (port) => connectTls({ port, ALPNProtocols: ['h2'], rejectUnauthorized: false })],
])('a flood on %s is read a little per turn of the event loop', async (name, open) => {
  const tls = name.endsWith('TLS') ? { certificates, clientName: undefined } : undefined;
  const server = await startH2({ tls }, { controlFrames: FRAMES + 10 });
  const socket = open(server.port);
  await once(socket, tls ? 'secureConnect' : 'connect');
  const readInTurn = [0];
  let turn = setImmediate(function next() {
    readInTurn.push(0);
    turn = setImmediate(next);
  });
  const read = FrameReader.prototype.read;
  const spy = jest.spyOn(FrameReader.prototype, 'read').mockImplementation(function (this: FrameReader, chunk) {
    readInTurn[readInTurn.length - 1] = (readInTurn.at(-1) ?? 0) + chunk.length;
    read.call(this, chunk);
  });
  const client = await openRaw(server.port, { socket });
  client.send(FLOOD);
  await eventually(() => readInTurn.reduce((sum, length) => sum + length, 0) >= FLOOD.length);
  await client.settled(); // the client is still served
  clearImmediate(turn);
  spy.mockRestore();
  client.close();
  await server.close(0);
  expect(Math.max(...readInTurn)).toBeLessThan(MAX_PER_TURN);
});

test('a reader whose connection has ended holds no input, even if it was paused', () => {
  const reader = new FrameReader({ onFrame: () => {} });
  reader.pause();
  reader.read(Buffer.concat([PREFACE, frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(100))]));
  expect(reader.heldBytes).toBeGreaterThan(100);
  reader.release();
  expect(reader.heldBytes).toBe(0);
  reader.read(FLOOD.subarray(0, 100));
  expect(reader.heldBytes).toBe(0);
});

test('a connection that sends more than its calls take in a turn has much input', async () => {
  const seen: (boolean | undefined)[] = [];
  const server = await startH2({
    service: {
      shouldRateLimit(request, caller, reply) {
        seen.push((caller.connection as CallSource | undefined)?.hasMuchInput); // of this server
        return agreeable.shouldRateLimit(request, caller, reply);
      },
    },
  });
  const client = await openRaw(server.port);
  client.send(call(1));
  await client.reply(1);
  const large = frame(UNKNOWN_TYPE, 0, 0, Buffer.alloc(16_384));
  client.send(Buffer.concat([3, 5, 7, 9, 11, 13, 15, 17].flatMap((id) => [large, large, call(id), large, large])));
  await client.reply(17);
  client.close();
  await server.close(0);
  expect(seen).toHaveLength(9);
  expect(seen[0]).toBe(false);
  expect(seen).toContain(true);
});
