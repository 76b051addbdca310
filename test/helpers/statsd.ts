import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { eventually } from './until.ts';

/** A server that receives statistics and keeps them. */
export interface StatisticsServer {
  readonly port: number;
  /** The lines received so far, in the order of arrival. */
  lines(): readonly string[];
  /** Datagrams, or pieces as TCP delivered them. */
  readonly packets: readonly Buffer[];
  /** Resolves as soon as the condition holds; rejects with the received lines if it never does. */
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
        () => `${holds} for ${JSON.stringify(lines())}`,
      );
    },
  };
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
