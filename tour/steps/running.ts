import type { TourStep } from '../step.ts';

/** The running parts, and their addresses. */
export const running: TourStep = {
  title: 'What is running',
  async run({ say, list, weir, envoy, redis, token, urlOf }) {
    const counters = redis ? `Redis on port ${redis.port}` : 'memory';
    say(`Weir counts in ${counters}, by a few rules. In short (tour/rules.yaml):`);
    list(RULES_IN_SHORT);
    say(
      envoy
        ? `Envoy listens on ${urlOf('/')} and asks Weir about each request. Visitors fetch /items/… there, 20 a second.`
        : `Visitors fetch /items/…, 20 a second: each asks Weir over HTTP, ${urlOf('/')}.`,
    );
    say('The console shows all of it. Open it beside this terminal, and sign in with the token:');
    list(`http://localhost:${weir.debugPort}/console/\ntoken: ${token}`);
    list(`export WEIR_TOKEN=${token}   # for the commands below, in another terminal`);
  },
};

const RULES_IN_SHORT = `user            5 an hour for each user
path=/items/*   10 a second, bursts of 15, for all together
path=/checkout  20 a second`;
