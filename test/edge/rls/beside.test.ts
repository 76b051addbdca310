import '../../helpers/realm.ts';
import { decodeRequest } from '../../../src/edge/wire/codec.ts';
import { decide } from '../../../src/engine/decide/decide.ts';
import { createRefusal } from '../../../src/engine/decide/refusal.ts';
import { deciderOf } from '../../helpers/decider.ts';
import { extrasOf } from '../../helpers/extras.ts';
import { rulesFrom } from '../../helpers/rules.ts';
import { requestOf } from '../../helpers/trial.ts';

/** The last answer to requests without the required key, whose path has a rule as well. */
const answered = async (strict: number, limit: number, times = 1) => {
  const rules = rulesFrom(`
domain: demo
require: { keys: [customer], limit: { unit: day, requests_per_unit: ${strict} } }
descriptors:
  - key: path
    metadata: { plan: gold }
    response: { body: 'too fast', content_type: text/plain }
    rate_limit: { unit: minute, requests_per_unit: ${limit} }
`);
  const request = requestOf('path=/');
  const decider = deciderOf(rules);
  const ask = () => decide(decodeRequest(request), decider, 1_000);
  for (let sent = 1; sent < times; sent++) await ask();
  return { request, answer: await ask() };
};

test('RateLimit fields have the limits of a rule and of a requirement that decide on one descriptor', async () => {
  const { headers } = extrasOf({ ietf: true });
  for (const [strict, limit] of [
    [5, 100],
    [100, 5],
  ] as const)
    expect(
      headers((await answered(strict, limit)).answer)
        .find(({ key }) => key === 'RateLimit-Policy')
        ?.value.split(', ')
        .sort(),
    ).toEqual([`"demo.missing_customer";q=${strict};w=86400`, `"demo.path";q=${limit};w=60`]);
});

test('the metadata of a rule is passed on, whichever limit is the tighter one', async () => {
  const { metadata } = extrasOf({}, { ofRequest: true });
  for (const strict of [5, 100]) {
    const { request, answer } = await answered(strict, 50);
    expect(metadata(request, answer)).toMatchObject({ metadata: { plan: 'gold' } });
  }
});

test('a rule that refuses has its response, though a requirement refuses for longer', async () => {
  const { answer } = await answered(1, 1, 2);
  expect(answer.verdicts).toMatchObject([{ rule: { path: 'demo.missing_customer' } }]);
  expect(createRefusal(answer)?.body).toBe('too fast');
});
