import { memoryRecords } from '../../../src/engine/backends/records.ts';
import { Heartbeat } from '../../../src/parts/status/instances.ts';
import { fakeClock } from '../../helpers/clock.ts';

test('instances are listed by age until they have been silent for 20 seconds, and forgotten after ten minutes', async () => {
  const [records, clock] = [memoryRecords(), fakeClock(0)];
  const beats: (() => void)[] = [];
  const open = (name: string) => {
    const facts = { name, version: '1', workers: 1, startedAtMs: clock(), decisionsPerSecond: 0, refusedPerSecond: 0 };
    const every = (_: number, run: () => void) => {
      beats.push(run);
      return () => void beats.splice(beats.indexOf(run), 1);
    };
    return new Heartbeat({ id: name, records, clock, every, facts: () => facts });
  };
  const pass = async (seconds: number): Promise<void> => {
    clock.advance(seconds * 1_000);
    for (const beat of beats) beat();
    await new Promise(setImmediate);
  };
  const first = open('first');
  await pass(1);
  const second = open('second');
  await pass(1);
  const listed = async () => (await second.list()).map(({ name, isThis }) => [name, isThis]);
  expect(await listed()).toEqual([
    ['first', false],
    ['second', true],
  ]);
  first.close();
  await pass(19);
  expect(await listed()).toHaveLength(2);
  await pass(1);
  expect(await listed()).toEqual([['second', true]]);
  expect([...(await records.all('instances')).keys()]).toEqual(['first', 'second']);
  await pass(600);
  await listed();
  expect([...(await records.all('instances')).keys()]).toEqual(['second']);
});
