import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ownKeyDeviations } from './deviations.ts';
import { files, playOn } from './play.ts';
import { CORPUS, type RecordedCase } from './recorded-case.ts';

playOn('memory', 'Redis', 'a client with an engine');

test('every deviation names a recorded case', () => {
  const names = files.flatMap((file) =>
    JSON.parse(readFileSync(join(CORPUS, file), 'utf8')).cases.map(({ name }: RecordedCase) => name),
  );
  expect(Object.keys(ownKeyDeviations).filter((name) => !names.includes(name))).toEqual([]);
});
