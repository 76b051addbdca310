import { adviceOn, judge } from '../../../proof/bench/advise-judgement.ts';
import { adviseModels } from '../../../proof/bench/advise-models.ts';

/** `npm run proof -- advise` is the long form, with 100 runs of each model. */
test.each(adviseModels)(
  'advice from $name affects at most 1 % of the legitimate keys, and the abusive ones',
  async (model) => {
    const { legitimateHit, abusiveHit = 1 } = await judge(model, 1, 101);
    expect(legitimateHit).toBeLessThanOrEqual(0.01);
    expect(abusiveHit).toBeGreaterThanOrEqual(model.isTooClose ? 0 : 0.95);
  },
);

const findModel = (name: string) => {
  const found = adviseModels.find((model) => model.name === name);
  if (!found) throw new Error(`there is no model ${name}`);
  return found;
};

test('the office of the model nat is recognized by the clients behind its address', async () => {
  const { warnings } = await adviceOn(findModel('nat'), 1);
  const { text } = warnings.find(({ kind }) => kind === 'many_clients') ?? {};
  expect(text).toMatch(/192\.0\.2\.1 is about (2[5-9]\d|3[0-4]\d) clients/);
});

test('the scraper and the bots of a flash sale are separate groups', async () => {
  expect((await adviceOn(findModel('scraper'), 1)).proposal?.apartHit).toEqual({ keys: 1, share: 1 });
  expect((await adviceOn(findModel('flash-sale'), 1)).proposal?.apartHit).toEqual({ keys: 10, share: 1 });
});
