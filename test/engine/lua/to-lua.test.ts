import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { link } from '../../../deploy/lua/link.ts';
import { compile } from '../../../deploy/lua/to-lua.ts';
import { compiled } from '../../../src/engine/lua/compiled.ts';
import { loneScripts } from '../../../src/parts/redis/script.ts';

const folder = mkdtempSync(join(tmpdir(), 'to-lua-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Compiles a step with this body. */
function compileStep(body: string, more = ''): string {
  const path = join(folder, 'some.ts');
  writeFileSync(
    path,
    `interface Numbers { readonly size: number; readonly windowMs: number }
type State = readonly number[];
interface Step { readonly accepted: boolean; readonly state: State; readonly ttlMs: number }
${more}
export function step(limit: Numbers, state: number[], nowMs: number, hits: number): Step {
${body}
  return { accepted: true, state, ttlMs: hits };
}
`,
  );
  const linked = link(path);
  if (!linked) throw new Error('it has a step');
  return compile('some', linked).lua;
}

test.each([
  ['a number as a condition', 'if (hits) state[0] = 1;', "0 and '' are true in Lua"],
  ['a number before &&', 'const both = hits && nowMs;', "0 and '' are true in Lua"],
  ['the negation of a text', "if (!('' as string)) state[0] = 1;", "0 and '' are true in Lua"],
  ['a remainder', 'state[0] = hits % limit.size;', 'say "// never negative" in the line if it is none'],
  ['a map', 'const map = new Map<number, number>();', 'use lists and records with fixed members'],
  ['a closure in a loop', 'for (let at = 0; at < 9; at++) { const one = () => at; }', 'move it to the top'],
  ['undefined in a list', 'const list = [1, undefined];', 'a list in Lua ends at undefined'],
  ['a method that Lua lacks', 'const part = state.slice(1);', 'state.slice needs a library in Lua; use a loop'],
  ['spread members', 'const list = [...state];', 'fill a list in a loop'],
  ['for … of', 'for (const one of state) state[0] = one;', 'count: for (let at = 0; at < end; at++)'],
  ['a loop to what changes', 'for (let at = 0; at < state.length; at++) state[at] = 0;', 'a loop counts'],
  ['a text', 'const text = `hits`;', 'steps make no texts'],
])('rejects %s', (_, body, message) => {
  expect(() => compileStep(body)).toThrow(message);
});

test('a line that the message quotes names the place', () => {
  expect(() => compileStep('if (hits) state[0] = 1;')).toThrow(
    "some:\n0 and '' are true in Lua; compare with a value: if (hits) state[0] = 1;",
  );
});

test('constants and short functions are written where they are used, and comments are left out', () => {
  const more = '// a comment\nconst PARTS = 6;\nconst half = (size: number): number => size / 2; // another';
  expect(compileStep('  state[hits + 1] = half(limit.size) + PARTS; // a third', more)).toContain(
    'state[hits + 2] = limit[1] / 2 + 6\n    return true, state, hits\n',
  );
});

test('a step that is kept is a variable for each value, a record of numbers a list, and a place a number', () => {
  const more = `interface OtherNumbers { readonly hits: number; readonly list: number[] }
const kinds = ['first', 'second'] as const;
const SECOND = kinds.indexOf('second');
function other(limit: Numbers, nowMs: number): Step { return { accepted: true, state: [limit.size], ttlMs: nowMs }; }`;
  const body = `  const own: OtherNumbers = { hits, list: [] };
  own.list[0] = SECOND;
  const next: Step = other(limit, own.hits);
  state[0] = next.ttlMs;`;
  const lua = compileStep(body, more);
  expect(lua).toMatch(/local own = \{hits\}\s+own\[1 \+ 1\] = 1\n/);
  expect(lua).toMatch(
    /local next_accepted, next_state, next_ttlMs, next_report = other\(limit, own\[1\]\)\s+state\[1\] = next_ttlMs/,
  );
});

test.each([
  ['sliding-window-log', compiled.sliding_window_log.lua],
  ['lone', loneScripts.sliding_window_log.text],
])('golden/%s.lua is what reviewers read (UPDATE_GOLDEN=1 writes it)', (name, text) => {
  const path = join(__dirname, `golden/${name}.lua`);
  if (process.env.UPDATE_GOLDEN === '1') writeFileSync(path, text);
  expect(text).toBe(readFileSync(path, 'utf8'));
});
