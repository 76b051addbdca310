import { constants, getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { serveParent } from '../processes/child.ts';
import type { Attacker } from './attack.ts';
import type { AttackerQuestion, Outcome } from './attacker.ts';
import { attacks } from './attacks.ts';
import { Http2Client } from './http2-client.ts';
import { Ledger } from './ledger.ts';
import { TcpClient } from './tcp-client.ts';
import { validFlood } from './valid-flood.ts';

/** Keeps this process from taking processor time of the other client. */
const NICENESS = 5;

setPriority(Math.min(getPriority() + NICENESS, constants.priority.PRIORITY_LOW));
let run: ((attacker: Attacker) => Promise<void>) | undefined;
let isTls = false;

serveParent<AttackerQuestion, Outcome | undefined>((question) => {
  if (question.kind === 'attack') return attack(question);
  if (question.kind === 'prepare valid flood') {
    isTls = question.tls;
    run = validFlood(question.profile);
    return undefined;
  }
  const found = attacks.find(({ name }) => name === question.name);
  if (!found) throw new Error(`there is no attack '${question.name}'`);
  isTls = found.tls === true;
  run = question.kind === 'prepare' ? found.prepare() : found.preparePlain?.();
  return undefined;
});

async function attack({
  ports,
  rulesPath,
  durationMs,
}: Extract<AttackerQuestion, { kind: 'attack' }>): Promise<Outcome> {
  const ledger = new Ledger();
  const faults = new Set<string>();
  const over = sleep(durationMs, undefined, { ref: false });
  let isOver = false;
  over.then(() => {
    isOver = true;
  });
  const attacker: Attacker = {
    ports,
    rulesPath,
    over,
    get isOver() {
      return isOver;
    },
    async http2(options = {}) {
      const tcp = new TcpClient({ port: ports.grpc, tls: isTls, onData: (bytes) => client.read(bytes) }, ledger);
      const client: Http2Client = new Http2Client(tcp, options);
      await Promise.race([client.greet(options), over]);
      return client;
    },
    async tcp(port, onData) {
      const client = new TcpClient({ port, ...(onData && { onData }) }, ledger);
      await Promise.race([client.opened(), over]);
      return client;
    },
    sleep: (ms) => Promise.race([sleep(ms, undefined, { ref: false }), over]),
    fault: (what) => faults.add(what),
  };
  const startedMs = performance.now();
  await Promise.race([run?.(attacker), over]);
  const { bytes, slots, connections } = ledger.profile;
  return { profile: { bytes, slots, connections }, faults: [...faults], elapsedMs: performance.now() - startedMs };
}
