import type { ShownTop } from '../../../src/operate/answers/views.ts';
import { get } from '../api.ts';
import { exact, tenths } from '../format.ts';
import { ClientLink, ClientsNotCounted } from '../parts/client-link.tsx';
import { Bounds, Empty, Estimates, Failure } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { param, replaceParams } from '../route.ts';
import { seesValues, session } from '../session.ts';
import { SignInNeeded } from './sign-in.tsx';

const choices = [
  { name: 'refusals', label: 'Most refused', empty: 'No refusal in the last minute.' },
  { name: 'hits', label: 'Most hits', empty: 'No hit in the last minute.' },
  { name: 'shadowed', label: 'Most in shadow mode', empty: 'Shadow mode let no hit pass in the last minute.' },
] as const;

const SHOWN = 20;
/** Clients that are read, to find those of one list in another. */
const READ = 200;

/** The clients of a rule, with the hits of each and those that were refused. */
export function TopClients({ path }: { readonly path: string }) {
  const by = choices.find(({ name }) => name === param('by')) ?? choices[0];
  const inputs = seesValues.value ? [path] : undefined;
  const read = (kind: string) => () => get('top', { by: kind, rule: path, count: String(READ) });
  const polled = {
    refusals: usePoll(read('refusals'), inputs, 2_000),
    hits: usePoll(read('hits'), inputs, 2_000),
    shadowed: usePoll(read('shadowed'), by.name === 'shadowed' ? inputs : undefined, 2_000),
  };
  const { data, error } = polled[by.name];
  const top = data?.rules[0];
  const other = polled[by.name === 'hits' ? 'refusals' : 'hits'].data?.rules[0];
  return (
    <section class="panel">
      <div class="row">
        <h2>Top clients, last minute</h2>
        <fieldset class="choice">
          <legend class="hidden">Clients by</legend>
          {choices.map(({ name, label }) => (
            <label key={name}>
              <input type="radio" name="by" checked={by.name === name} onChange={() => replaceParams({ by: name })} />
              {label}
            </label>
          ))}
        </fieldset>
      </div>
      {!seesValues.value && <SignInNeeded what="This list" />}
      {!session.value?.countsClients && <ClientsNotCounted />}
      <Failure message={error?.message} />
      {session.value?.countsClients && data && !top && <Empty title={by.empty} />}
      {top && <Clients top={top} other={other} path={path} by={by.name} />}
    </section>
  );
}

interface ClientsProps {
  readonly top: ShownTop;
  /** The list by hits, for that of refusals; else that by refusals. */
  readonly other: ShownTop | undefined;
  readonly path: string;
  readonly by: (typeof choices)[number]['name'];
}

function Clients({ top, other, path, by }: ClientsProps) {
  const found = new Map(other?.keys.map((key) => [key.descriptor, key.hits]));
  const part = by === 'shadowed' ? 'In shadow mode' : 'Refused';
  return (
    <>
      <Estimates oneIn={top.countedOneIn} confidence={top.confidence} />
      <table class="wide">
        <thead>
          <tr>
            <th scope="col">Client</th>
            <th scope="col" class="number">
              Hits
            </th>
            <th scope="col" class="number">
              {part}
            </th>
            <th scope="col" class="number">
              Share
            </th>
          </tr>
        </thead>
        <tbody>
          {top.keys.slice(0, SHOWN).map((key) => {
            const hits = by === 'hits' ? key.hits : found.get(key.descriptor);
            const affected = by === 'hits' ? (found.get(key.descriptor) ?? 0) : key.hits;
            return (
              <tr key={key.descriptor}>
                <td>
                  <ClientLink rule={path} {...key} />
                </td>
                <td class="number" data-label="Hits">
                  {hits === undefined ? '–' : exact(hits)}
                  {by === 'hits' && <Bounds tooHighBy={key.atMostTooHighBy} tooLowBy={key.atMostTooLowBy ?? 0} />}
                </td>
                <td class="number" data-label={part}>
                  {exact(affected)}
                  {by !== 'hits' && <Bounds tooHighBy={key.atMostTooHighBy} tooLowBy={key.atMostTooLowBy ?? 0} />}
                </td>
                <td class="number" data-label="Share">
                  {hits ? tenths(Math.min(affected / hits, 1)) : '–'}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <p class="dim">
        {exact(top.total)} hits in total. An unlisted client had at most {exact(top.unlistedAtMost)}
        {top.keys.length > SHOWN && ', or fewer than those listed'}.
      </p>
    </>
  );
}
