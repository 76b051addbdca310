import { deciderParts } from '../../src/parts/parts.ts';

test('what takes the place of the ledger is opened before what decides with it, which would be lost otherwise', () => {
  const names = Object.keys(deciderParts);
  const placesOf = (...some: readonly string[]) => some.map((name) => names.indexOf(name));
  expect(Math.max(...placesOf('sites', 'notify'))).toBeLessThan(Math.min(...placesOf('record', 'candidate')));
});
