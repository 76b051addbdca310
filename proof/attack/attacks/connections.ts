import { Duplex } from 'node:stream';
import { connect } from 'node:tls';
import { FrameType, PREFACE } from '../../../src/h2/http2/frames.ts';
import { data, frame, framed, settings } from '../../../test/helpers/h2-client.ts';
import { type Attack, type Attacker, crowd, FIXED_MS } from '../attack.ts';
import { CallBatch } from '../calls.ts';
import { ordinaryMessage } from '../messages.ts';

/** Opens connections to the gRPC port, sends these bytes on each, and leaves them open. */
const leftOpen =
  (bytes: Buffer, connections: number): Attack['prepare'] =>
  () =>
  (attacker) =>
    crowd(attacker, connections, async () => {
      const client = await attacker.tcp(attacker.ports.grpc);
      if (bytes.length > 0) await client.send(bytes);
      await Promise.race([client.closed, attacker.over]);
    });

/** The first message of a TLS handshake, as Node sends it. */
function clientHello(): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read() {},
      write(chunk: Buffer, _encoding, done) {
        resolve(chunk);
        done();
      },
    });
    connect({ socket: wire, ALPNProtocols: ['h2'], rejectUnauthorized: false }).on('error', () => {});
  });
}

/** Number of connections that exceeds the memory for connections. */
const IDLE = 1_000;
const OTHERS = 100;
/** Time after which the service has found unused connections idle. */
const UNTIL_IDLE_MS = 3_000;

/** Connections that stay open after a call; others that connect later must be answered. */
function idleConnections(): (attacker: Attacker) => Promise<void> {
  const calls = new CallBatch({ body: framed(ordinaryMessage('idle')) }, 1);
  return async (attacker) => {
    const answered = async (): Promise<boolean> => {
      const client = await attacker.http2();
      await calls.send(client);
      await client.untilEnded(1);
      return client.ended === 1;
    };
    for (let count = 0; count < IDLE; count++) await answered();
    await attacker.sleep(UNTIL_IDLE_MS);
    for (let count = 0; count < OTHERS; count++)
      if (!(await answered())) attacker.fault('refuses connections because of idle ones');
  };
}

const greeting = Buffer.concat([PREFACE, settings()]);

/** Connections that cost the client nothing. */
export const connections: readonly Attack[] = [
  { name: '4,000 connections that send nothing', prepare: leftOpen(Buffer.alloc(0), 4_000) },
  {
    name: '4,000 connections that send the first byte of a frame',
    prepare: leftOpen(Buffer.concat([greeting, frame(FrameType.PING, 0, 0, Buffer.alloc(8)).subarray(0, 1)]), 4_000),
  },
  {
    name: '4,000 connections that send half a frame of 16 KB',
    prepare: leftOpen(Buffer.concat([greeting, data(1, Buffer.alloc(16_384)).subarray(0, 8_000)]), 4_000),
  },
  {
    name: `${IDLE} connections that stay open after a call, then ${OTHERS} others`,
    timeMs: FIXED_MS,
    prepare: idleConnections,
  },
  {
    name: 'TLS: 500 handshakes that stop after the first message',
    tls: true,
    prepare: () => {
      const hello = clientHello();
      return async (attacker) => {
        const bytes = await hello;
        await crowd(attacker, 500, async () => {
          const client = await attacker.tcp(attacker.ports.grpc);
          await client.send(bytes);
          await Promise.race([client.closed, attacker.over]);
        });
      };
    },
  },
  {
    name: 'TLS: handshakes again and again on 4 connections',
    tls: true,
    prepare: () => (attacker) =>
      crowd(attacker, 4, async () => {
        const client = await attacker.http2();
        client.tcp.close();
      }),
  },
];
