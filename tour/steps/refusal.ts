import type { TourAnswer } from '../stage.ts';
import type { TourStep } from '../step.ts';

const MAX_REQUESTS = 10;

/** Alice sends requests until one is refused. */
export const refusal: TourStep = {
  title: 'A refusal',
  async run({ say, show, envoy, commandOf, request }) {
    say('Alice may send five requests an hour. She sends them, and one more:');
    const answers: TourAnswer[] = [];
    do answers.push(await request('/', 'alice'));
    while (answers.at(-1)?.status !== 429 && answers.length < MAX_REQUESTS);
    const last = answers.at(-1);
    const lines = [...answers.map(({ status }) => `HTTP ${status}`), ...(last?.headers ?? [])];
    show(`${commandOf('/', 'alice')}    # ${answers.length} times`, lines.join('\n'));
    if (!envoy) return;
    say(
      'Whether a request passes is all that Envoy needs to know. Clients need more: the headers have the limit, what ' +
        'remains, and the seconds until it resets.',
    );
  },
};
