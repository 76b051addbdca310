import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const POLL_MS = 5;
/** Longer than any wait takes, even on a busy machine. */
const TIMEOUT_MS = 30_000;

/** A server that receives statistics and keeps them. */
export interface StatisticsServer {
  readonly port: number;
  /** The lines received so far, in the order of arrival. */
  lines(): readonly string[];
  /** Datagrams, or pieces as TCP delivered them. */
  readonly packets: readonly Buffer[];
  /** Resolves as soon as the condition holds; rejects with the received lines after half a minute. */
  until(holds: (lines: readonly string[]) => boolean): Promise<void>;
  /** Stops the server and ends its connections. */
  close(): Promise<void>;
}

/** The common part of UDP and TCP servers. */
function remembering(packets: readonly Buffer[]) {
  const lines = () => Buffer.concat(packets).toString('utf8').split('\n').filter(Boolean);
  return {
    packets,
    lines,
    async until(holds: (lines: readonly string[]) => boolean) {
      await eventually(
        () => holds(lines()),
        () => `what came is not it: ${JSON.stringify(lines())}`,
      );
    },
  };
}

/** Resolves as soon as the condition holds; rejects with the text of `otherwise` after half a minute. */
export async function eventually(
  holds: () => boolean | Promise<boolean>,
  otherwise = (): string => 'it never held',
): Promise<void> {
  const endMs = Date.now() + TIMEOUT_MS;
  while (!(await holds())) {
    if (Date.now() > endMs) throw new Error(otherwise());
    await sleep(POLL_MS);
  }
}

/** Listens for datagrams. Appends a line break to each, to separate lines. */
export async function startUdpStatsd(): Promise<StatisticsServer> {
  const packets: Buffer[] = [];
  const socket = createSocket('udp4', (packet) => packets.push(Buffer.concat([packet, Buffer.from('\n')])));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    port: socket.address().port,
    ...remembering(packets),
    async close() {
      socket.close();
      await once(socket, 'close');
    },
  };
}

/** @param reads  false: accepts connections, but reads nothing from them */
export async function startTcpStatsd(port = 0, { reads = true } = {}): Promise<StatisticsServer> {
  const packets: Buffer[] = [];
  const connections = new Set<Socket>();
  const server = createServer((connection) => {
    connections.add(connection);
    connection.on('error', () => {}); // the client has gone
    if (reads) connection.on('data', (packet) => packets.push(packet));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port, // it listens on a TCP port
    ...remembering(packets),
    async close() {
      server.close();
      for (const connection of connections) connection.destroy();
      await once(server, 'close');
    },
  };
}
