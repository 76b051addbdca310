import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from '../stage.ts';
import type { TourStep } from '../step.ts';

const ANSWERS = 8;
const RECOVERY_MS = 60_000;
/** Longer than an item of the bucket of /items/… takes to come back. */
const REFUSAL_MS = 250;

/** Redis stops and starts again; meanwhile each limit follows its rule's policy. */
export const outage: TourStep = {
  title: 'A Redis outage',
  async run(stage) {
    const { say, redis, pause } = stage;
    if (!redis) return say('This step needs Redis, which is not running here: docs/reliability.md describes it.');
    say(
      'Redis is killed now. Each rule says what happens without it: /items/… stays open (on_store_failure: allow), ' +
        '/checkout is closed (deny), and users are counted by this process alone (local). What Redis has just refused ' +
        'stays refused until its time is over.',
    );
    await redis.kill();
    await sleep(REFUSAL_MS);
    await showStatuses(stage);
    say('No request waited for Redis: without a connection, the policy decides at once. Health says what is wrong:');
    await showHealth(stage);
    await pause();
    say('Redis is started again, empty. Weir reconnects by itself, and adds what it has counted locally.');
    await redis.restart();
    const isBack = await recovered(stage);
    await showHealth(stage);
    say(isBack ? 'Everything is counted in Redis again.' : 'It is not back yet: see the Health view of the console.');
  },
};

async function showStatuses({ request, show, commandOf }: Stage): Promise<void> {
  for (const [path, user] of [
    ['/items/1', undefined],
    ['/checkout', undefined],
    ['/', 'carol'],
  ] as const) {
    const statuses: number[] = [];
    for (let sent = 0; sent < ANSWERS; sent++) statuses.push((await request(path, user)).status);
    show(`${commandOf(path, user)}    # ${ANSWERS} times`, statuses.map((status) => `HTTP ${status}`).join('  '));
  }
}

async function showHealth({ weir, show }: Stage): Promise<void> {
  const url = `http://localhost:${weir.httpPort}/healthcheck?verbose`;
  show(`curl ${url}`, await healthOf(weir.httpPort));
}

const healthOf = async (port: number): Promise<string> =>
  (await fetch(`http://127.0.0.1:${port}/healthcheck?verbose`)).text();

/** Whether the service reaches its counters again in time. */
async function recovered({ weir }: Stage): Promise<boolean> {
  const endMs = Date.now() + RECOVERY_MS;
  while (Date.now() < endMs) {
    if (/store: up/.test(await healthOf(weir.httpPort))) return true;
    await sleep(100);
  }
  return false;
}
