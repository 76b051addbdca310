import { NearestNode } from '../../../../src/engine/rules/overlay/nearest-node.ts';

/** The nearest of the candidates, which are keys, or keys with values: `path=/login`. */
function nearest(expected: string, ...candidates: readonly string[]): string | undefined {
  const keyed = (text: string) => ({ key: text.split('=')[0] ?? '', value: text.split('=')[1] ?? '', text });
  return new NearestNode().find(keyed(expected), candidates.map(keyed))?.text;
}

test.each([
  ['user', ['path', 'use', 'uses-r'], 'use'],
  ['kitten', ['mitten', 'sitting', 'kit'], 'mitten'],
  ['rule-0-match-1', ['rule-1-match-0', 'rule-0-match-0', 'rule-0-method'], 'rule-0-match-0'],
  ['a', ['abc', 'xyz'], 'abc'],
  ['', ['abc', 'x'], 'x'],
  ['path=/login', ['path=/api/login', 'user=/login', 'path=/logout'], 'path=/logout'],
  ['path', ['user', 'path=/login*', 'path=/a'], 'path=/a'],
  ['user', [], undefined],
])('the nearest to %s of %j is %s', (expected, candidates, found) => {
  expect(nearest(expected, ...candidates)).toBe(found);
});

test('the first of several equally near candidates is found', () => {
  expect(nearest('user', 'usera', 'userb')).toBe('usera');
});

test('a search for a long text among many long ones terminates, and so do later ones', () => {
  const candidates = Array.from({ length: 1_000 }, (_, at) => ({ key: `${at}`.repeat(4_000), value: '' }));
  const search = new NearestNode();
  for (let times = 0; times < 100; times++) search.find({ key: 'x'.repeat(10_000), value: '' }, candidates);
});
