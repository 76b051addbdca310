// A load: ten users of different zeal, and logins now and then. TARGET is Envoy.
import { setTimeout as sleep } from 'node:timers/promises';

const { TARGET = 'http://localhost:10000/' } = process.env;
const USERS = 10;
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit());

/** User n asks every 200·n milliseconds: the first ones go over 60 a minute. */
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
