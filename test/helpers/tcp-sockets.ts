import { readFileSync } from 'node:fs';

/** A TCP socket over IPv4 of any process. */
export interface TcpSocket {
  readonly localPort: number;
  readonly remotePort: number;
  readonly state: 'ESTABLISHED' | 'SYN_SENT' | 'LISTEN' | 'other';
  /** The octets that its process has not read yet; of a listening one, the connections that it has not accepted yet. */
  readonly unread: number;
}

const states: Readonly<Record<string, TcpSocket['state']>> = { '01': 'ESTABLISHED', '02': 'SYN_SENT', '0A': 'LISTEN' };

/** The sockets that the kernel lists. */
export const tcpSockets = (): readonly TcpSocket[] =>
  readFileSync('/proc/net/tcp', 'utf8')
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => {
      const [, local = '', remote = '', state = '', queues = ''] = line.trim().split(/\s+/);
      const after = (text: string): number => Number.parseInt(text.split(':')[1] ?? '', 16);
      const [localPort, remotePort, unread] = [after(local), after(remote), after(queues)];
      return { localPort, remotePort, state: states[state] ?? 'other', unread };
    });
