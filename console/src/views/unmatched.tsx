import type { UnmatchedDescriptor } from '../../../src/operate/answers/views.ts';
import { get } from '../api.ts';
import { exact } from '../format.ts';
import { CopyButton } from '../parts/copy-button.tsx';
import { ActionsHeading, Bounds, Descriptor, Empty, Estimates, Failure, OfDomain, Value } from '../parts/texts.tsx';
import { usePoll } from '../parts/use-poll.ts';
import { linkTo, pairsParam } from '../route.ts';
import { seesValues, session } from '../session.ts';

export function Unmatched() {
  const { data, error } = usePoll(() => get('unmatched', { count: '100' }), [seesValues.value], 1_000);
  const mayExplain = seesValues.value && !session.value?.hashKeys;
  return (
    <>
      <h1>Unmatched</h1>
      <p>Descriptors of the last minute that matched no rule. Nothing limits them.</p>
      <Failure message={error?.message} />
      {data && <Estimates oneIn={data.countedOneIn} confidence={data.confidence} />}
      {data?.descriptors.length === 0 && (
        <Empty title={data.requests === 0 ? 'No request arrived in the last minute.' : 'No unmatched descriptor.'}>
          <p>If a limit does not take effect, its descriptors appear here, with the nearest rule.</p>
        </Empty>
      )}
      {data && data.descriptors.length > 0 && (
        <table class="wide">
          <thead>
            <tr>
              <th scope="col">Descriptor</th>
              <th scope="col" class="number">
                Requests
              </th>
              <th scope="col">Why it matched no rule</th>
              <ActionsHeading />
            </tr>
          </thead>
          <tbody>
            {data.descriptors.map((one) => (
              <Row key={JSON.stringify([one.domain, one.entries])} one={one} mayExplain={mayExplain} />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Row({ one, mayExplain }: { readonly one: UnmatchedDescriptor; readonly mayExplain: boolean }) {
  const { domain, entries, count, error, why, nearest = [] } = one;
  return (
    <tr>
      <td>
        <Descriptor entries={entries} />
        <OfDomain domain={domain} />
      </td>
      <td data-label="Requests" class="number">
        {exact(count)}
        <Bounds tooHighBy={error} tooLowBy={one.atMostTooLowBy ?? 0} />
      </td>
      <td data-label="Why">
        {why === undefined ? 'It would match a rule now: the rules have changed.' : <Value text={why} whole />}
        {nearest.slice(0, 1).map(({ rule, file, line }) => (
          <div key={rule} class="dim">
            nearest: <a href={linkTo('rule', { path: rule })}>{rule}</a>
            {file !== undefined && ` ${file}${line === undefined ? '' : `:${line}`}`}
          </div>
        ))}
      </td>
      <td class="actions">
        <CopyButton
          text={ruleFor(domain, entries)}
          label="Copy rule"
          of={`YAML that matches ${entries.map(({ key }) => key).join(', ')}`}
        />
        {mayExplain && <a href={linkTo('explain', { domain, pairs: pairsParam(entries) })}>Explain</a>}
      </td>
    </tr>
  );
}

/** A rule file that matches the descriptor, with a node per entry, for any value. */
export function ruleFor(domain: string, entries: readonly { readonly key: string }[]): string {
  const lines = [`domain: ${JSON.stringify(domain)}`];
  entries.forEach(({ key }, depth) => {
    const indent = '    '.repeat(depth);
    lines.push(`${indent}descriptors:`, `${indent}  - key: ${JSON.stringify(key)}`);
    if (depth < entries.length - 1) return;
    lines.push(`${indent}    rate_limit:`, `${indent}      unit: minute`, `${indent}      requests_per_unit: 100`);
  });
  return `${lines.join('\n')}\n`;
}
