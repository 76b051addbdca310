import '../../helpers/realm.ts';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { openRuleBook } from '../../../src/engine/rules/reload/book.ts';
import { plainPath } from '../../../src/engine/rules/reload/files.ts';
import { createLogger } from '../../../src/operate/observe/log.ts';
import { createDecider } from '../../../src/serve/decider/decider.ts';
import type { DeciderReply } from '../../../src/serve/link/messages.ts';
import { rulesMessages } from '../../../src/serve/link/rules-messages.ts';
import { readSettings } from '../../../src/settings/settings.ts';
import { createClient } from '../../helpers/grpc-client.ts';

const RULES = `
domain: demo
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 5}}
`;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'decider-'));
  writeFileSync(join(folder, 'rules.yaml'), RULES);
});

async function openDecider() {
  const settings = await readSettings({ HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', PORT: '0', GRPC_PORT: '0' });
  const sent: DeciderReply[] = [];
  const decider = createDecider(settings, {
    clock: Date.now,
    log: createLogger(settings.log),
    send: async (message) => void sent.push(message),
    onNeverReached: () => {},
  });
  const book = await openRuleBook(plainPath(join(folder, 'rules.yaml')), {
    pollIntervalMs: 1_000,
    mergeDomains: false,
    onLoad: () => {},
  });
  book.close();
  for (const message of rulesMessages(book.packed())) decider.receive({ kind: 'rules', message });
  const { grpc } = await decider.open();
  return { decider, sent, grpc };
}

test('a decider is healthy once it listens and operators are served', async () => {
  const { decider, grpc } = await openDecider();
  const client = createClient(grpc);
  expect(await client.check()).toEqual({ status: 'NOT_SERVING' });
  decider.receive({ kind: 'operators_served' });
  await nextTurn();
  expect(await client.check()).toEqual({ status: 'SERVING' });
  client.close();
  await decider.close();
});

const hitsOf = (sent: readonly DeciderReply[]): number =>
  sent
    .flatMap((message) => (message.kind === 'report' ? message.report.counted.rules : []))
    .reduce((sum, { totalHits }) => sum + totalHits, 0);

test('a decider that closes counts each hit once, although it is asked for its first report at that moment', async () => {
  const { decider, sent, grpc } = await openDecider();
  const client = createClient(grpc);
  await client.ask();
  client.close();
  const closed = decider.close();
  decider.receive({ kind: 'report', number: 1, since: 'start' });
  await closed;
  decider.receive({ kind: 'report', number: 2, since: 'start' });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(sent).toContainEqual({ kind: 'reply', number: 2, reply: undefined });
  expect(hitsOf(sent)).toBe(1);
});
