import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { drawSequence } from '../../../proof/explore/diagram.ts';
import { mutants } from '../../../proof/explore/mutants.ts';
import { protocols } from '../../../proof/explore/protocols.ts';
import { runProtocol } from '../../../proof/explore/run-protocol.ts';
import { Visited } from '../../../proof/explore/visited.ts';
import { applyChange } from '../../mutants/mutants.ts';

const PROJECT = join(__dirname, '../../..');
const MIN_MUTANTS = 40;

test.each([...protocols.keys()])('no order of steps violates an invariant of the protocol %s', async (name) => {
  const { states, violation, depth, longest, parties } = await runProtocol(name, { fewer: 2 }); // the command goes further
  expect(violation && `${violation.text}\n${drawSequence(parties, violation.lines)}`).toBeUndefined();
  expect(longest).toBe(depth);
  expect(states).toBeGreaterThan(100);
});

test.each([
  ['holds', 6],
  ['site-windows', 4],
  ['leases', 4],
])(
  'leaving out steps whose order makes no difference reaches the same states of %s within %i steps',
  async (name, depth) => {
    const [all, reduced] = await Promise.all(
      [true, false].map((reduces) => runProtocol(name, { depth, reduces: !reduces })),
    );
    expect(reduced?.states).toBe(all?.states);
    expect(reduced?.steps).toBeLessThan(all?.steps ?? 0);
  },
);

/** The first change for each protocol; `npm run proof -- explore --mutants` makes all. */
const oneOfEach = [...protocols.keys()].flatMap((name) => {
  const one = mutants.find(({ protocol }) => protocol === name);
  const [change] = one?.changes ?? [];
  return one && change ? [[name, one.file, change, one.depth] as const] : [];
});

test.each(oneOfEach)('a defect of the protocol %s, in %s, is found: %j', async (name, file, change, depth) => {
  const { violation } = await runProtocol(name, { depth, isShortest: false }, { file, change });
  expect(violation?.text).not.toMatch(/unexpected error|^$/);
  expect(violation?.length).toBeGreaterThan(0);
});

test(`each of the changes to be found applies once, and there are at least ${MIN_MUTANTS}`, () => {
  for (const { file, changes } of mutants)
    for (const change of changes) applyChange(readFileSync(join(PROJECT, file), 'utf8'), change);
  expect(mutants.flatMap(({ changes }) => changes).length).toBeGreaterThanOrEqual(MIN_MUTANTS);
});

test('a counterexample is the shortest sequence of steps, drawn as a sequence diagram', async () => {
  const change = ['before - own + requested <= limit.slots', 'before - own <= limit.slots'] as const;
  const { violation, parties } = await runProtocol(
    'holds',
    { depth: 6 },
    { file: 'src/engine/holds/in-flight.ts', change },
  );
  expect(violation?.text).toBe('2 callers use 1 slot');
  expect(`\n${drawSequence(parties, violation?.lines ?? [])}\n`).toBe(`
  store                               A                                 B
    |                                 * wants a slot                    |
    |                                 |                                 * wants a slot
    |<- acquire 12 -------------------|                                 |
    |-- granted 12 ------------------>|                                 |
    |<- acquire 22 -----------------------------------------------------|
    |-- granted 22 ---------------------------------------------------->|
`);
});

test('states are told apart by 64 bits, and entered again only for more steps or for steps that were left out', () => {
  const visited = new Visited();
  const low = (at: number): number => Math.imul(at % 50_000, 0x9e3779b1); // each is that of four states
  let isNew = true;
  for (let at = 0; at < 200_000; at++) isNew &&= visited.enter(low(at), at, 3, 0b11)?.isNew === true;
  expect(isNew).toBe(true);
  expect(visited.size).toBe(200_000);
  const enterSeventh = (left: number, asleep: number) => visited.enter(low(7), 7, left, asleep);
  expect(enterSeventh(3, 0b11)).toBeUndefined();
  expect(enterSeventh(2, 0b111)).toBeUndefined();
  expect(enterSeventh(3, 0b01)).toEqual({ isNew: false, asleep: 0b01, only: 0b10 });
  expect(enterSeventh(3, 0b01)).toBeUndefined();
  expect(enterSeventh(4, 0b01)).toEqual({ isNew: false, asleep: 0b01, only: undefined });
  expect(visited.size).toBe(200_000);
});
