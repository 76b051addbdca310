import { setTimeout as sleep } from 'node:timers/promises';
import { type Running, start } from '../../helpers/process.ts';
import { MAIN } from '../../helpers/weir.ts';

/** A supervisor that prints what its worker sends, and sends it no rules before a line is read. */
const PRIMARY = `
import cluster from 'node:cluster';
cluster.setupPrimary({ exec: ${JSON.stringify(MAIN)}, args: ['serve'], execArgv: [], serialization: 'advanced' });
const worker = cluster.fork();
worker.on('message', ({ kind, at }) => {
  console.log(kind);
  if (kind === 'takes_files') worker.send({ kind: 'files', usable: new Map() });
  if (kind === 'listen') worker.send({ kind: 'bound', at, port: 8081 });
});
process.stdin.once('data', () => worker.send({ kind: 'rules', message: { kind: 'rules_end', areLoaded: false } }));
`;

/** Longer than a worker that does not wait takes to listen. */
const LONGER_THAN_A_START_MS = 2_000;

let primary: Running | undefined;
afterEach(async () => {
  await primary?.stop('SIGKILL');
});

test('a worker does not listen before it has received the current rules', async () => {
  const { PATH } = process.env;
  primary = await start(process.execPath, ['--input-type=module', '-e', PRIMARY], {
    env: { PATH, RULES_PATH: 'rules.yaml', USE_STATSD: 'false' },
    readsInput: true,
  });
  await primary.waitFor('takes_rules');
  await sleep(LONGER_THAN_A_START_MS);
  expect(primary.output()).toBe('takes_files\ntakes_rules\n');
  primary.write('\n');
  await primary.waitFor('listening');
  expect(primary.output()).toContain('takes_files\ntakes_rules\nlisten\nlisten\nlistening\n');
});
