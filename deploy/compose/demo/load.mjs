// Load generator: ten users with different request rates, and occasional logins. TARGET is Envoy.
import { setTimeout as sleep } from 'node:timers/promises';

const { TARGET = 'http://localhost:10000/' } = process.env;
const USERS = 10;
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit());

/** User n sends a request every 200·n milliseconds: the first users exceed 60 per minute. */
async function ask(user) {
  for (;;) {
    const path = Math.random() < 0.1 ? 'login' : '';
    await fetch(new URL(path, TARGET), { headers: { 'x-user': `user-${user}` } }).then(
      (response) => response.text(),
      () => {},
    );
    await sleep(200 * user);
  }
}
await Promise.all(Array.from({ length: USERS }, (_, at) => ask(at + 1)));
