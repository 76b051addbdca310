import { inSlices } from '../../../../src/engine/rules/compile/steps.ts';
import { LevelBuilder } from '../../../../src/engine/rules/match/level-builder.ts';
import type { Node } from '../../../../src/engine/rules/match/tree.ts';

const node: Node = {
  composite: 'k',
  naming: 'rule',
  hasRule: false,
  rule: undefined,
  children: undefined,
  sharedValue: undefined,
};

test('a level of many keys is built in slices, with patterns and without', async () => {
  const KEYS = 10_000;
  for (const pattern of [undefined, 'v*']) {
    const level = new LevelBuilder();
    for (let at = 0; at < KEYS; at++) level.add({ key: `k${at}`, value: pattern ?? 'v' }, node);
    let pauses = 0;
    const pause = async (): Promise<void> => void pauses++;
    const { byKey } = await inSlices(level.build(), pause);
    expect(byKey.size).toBe(KEYS);
    expect(pauses).toBeGreaterThanOrEqual(Math.floor(KEYS / 10 / 32));
  }
});
