import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { algorithmNames, algorithms, rowOf } from '../../algorithms/index.ts';
import { MAX_COUNT } from '../../algorithms/limit.ts';

const read = (url: URL): string => readFileSync(url, 'utf8');

/** The one script that decides in Redis: every algorithm's Lua twin, then the dispatcher that calls them. */
export const script: { readonly text: string; readonly sha1: string } = assemble();

function assemble() {
  const windowed = algorithmNames.filter((name) => rowOf(name).expiresWithWindow);
  const text = [
    `local MAX_COUNT = ${MAX_COUNT}`,
    ...algorithmNames.map((name) => read(algorithms[name].script)),
    read(new URL('./shared-window.lua', import.meta.url)),
    `local windowed = { ${windowed.map((name) => `[${name}] = true`).join(', ')} }`,
    `local steps = { ${algorithmNames.join(', ')}, shared_window }`,
    `local refunds = { ${algorithmNames.map((name) => `${name}_refund`).join(', ')}, shared_window_refund }`,
    read(new URL('./dispatcher.lua', import.meta.url)),
  ].join('\n');
  return { text, sha1: createHash('sha1').update(text).digest('hex') };
}
