import { useEffect, useState } from 'preact/hooks';
import type { ShownOverride } from '../../../src/edge/http/shapes.ts';
import { descriptorText } from '../../../src/edge/listing/descriptor-text.ts';
import type { Answers } from '../../../src/operate/answers/all.ts';
import type { ExplainedLimit } from '../../../src/parts/lab/answers/explain.ts';
import { call, get } from '../api.ts';
import { amount, exact, grouped } from '../format.ts';
import { HitsField } from '../parts/hits-field.tsx';
import { ReasonDialog } from '../parts/reason-dialog.tsx';
import { Descriptor } from '../parts/texts.tsx';
import type { Pair } from '../route.ts';

/** The possible changes for a descriptor. Without the resource named by `needs`, a change has no effect. */
export const changes = {
  exempt: { button: 'Let in for…', title: 'Let in', needs: 'nothing' },
  reset: { button: 'Reset…', title: 'Reset', needs: 'counters' },
  grant: { button: 'Grant hits…', title: 'Grant hits', needs: 'counters' },
  limit: { button: 'Set a limit…', title: 'Set a limit', needs: 'nothing' },
  block: { button: 'Block…', title: 'Block', needs: 'nothing' },
  remove: { button: 'Remove override…', title: 'Remove override', needs: 'override' },
} as const;
export type ChangeName = keyof typeof changes;

interface ChangeDialogProps {
  readonly name: ChangeName;
  readonly domain: string;
  readonly entries: readonly Pair[];
  readonly limits: readonly ExplainedLimit[];
  readonly override: Pick<ShownOverride, 'entries' | 'effect' | 'by' | 'wildcard'> | undefined;
  /** Called with a description of the change; undefined: there was none. */
  readonly onClose: (done?: string) => void;
}

const untilChoices = [
  ['1 hour', 3_600_000],
  ['1 day', 86_400_000],
  ['7 days', 604_800_000],
  ['30 days', 2_592_000_000],
] as const;

const units = ['second', 'minute', 'hour', 'day'] as const;

/** Shows the effects of a change and asks for a reason before it is made. */
export function ChangeDialog({ name, domain, entries, limits, override, onClose }: ChangeDialogProps) {
  const [hits, setHits] = useState(1);
  const [money, setMoney] = useState('1.00');
  const currency = limits.find(({ before }) => before?.currency !== undefined)?.before?.currency;
  const [requests, setRequests] = useState(100);
  const [unit, setUnit] = useState<string>('minute');
  const [forMs, setForMs] = useState<number>(untilChoices[0][1]);
  const [isWild, setIsWild] = useState(false);
  const isOverride = name === 'block' || name === 'limit' || name === 'exempt';
  const make = async (reason: string): Promise<string> => {
    const body = { domain, descriptor: entries, reason };
    switch (name) {
      case 'reset':
        await call('POST /api/v1/counters/reset', { body });
        return 'The counters are reset. The next request passes.';
      case 'grant':
        if (currency !== undefined) {
          await call('POST /api/v1/counters/grant', { body: { ...body, amount: `${money} ${currency}` } });
          return `${money} ${currency} was refunded, at most as much as was used.`;
        }
        await call('POST /api/v1/counters/grant', { body: { ...body, hits } });
        return `${exact(hits)} ${hits === 1 ? 'hit was' : 'hits were'} refunded, at most as many as were used.`;
      case 'remove':
        await call('DELETE /api/v1/overrides', {
          body: {
            ...body,
            descriptor: override?.entries ?? entries,
            ...(override?.wildcard && { wildcard: true }),
          },
        });
        return 'The override is gone. The rules apply again within a second.';
      default: {
        const until = new Date(Date.now() + forMs).toISOString();
        const numbers = name === 'limit' ? { requestsPerUnit: requests, unit: unit.toUpperCase() } : {};
        const wildcard = isWild ? { wildcard: true } : {};
        await call('PUT /api/v1/overrides', { body: { ...body, ...wildcard, effect: name, until, ...numbers } });
        return 'The override is set. Every instance follows it within a second.';
      }
    }
  };
  return (
    <ReasonDialog title={changes[name].title} make={make} onClose={onClose}>
      <p>
        <Descriptor entries={entries} />
      </p>
      <Touches name={name} limits={limits} override={override} />
      {isOverride && <Wildcard domain={domain} entries={entries} isSet={isWild} onChange={setIsWild} />}
      {name === 'grant' && currency === undefined && <HitsField class="field" value={hits} onChange={setHits} />}
      {name === 'grant' && currency !== undefined && (
        <label class="field">
          Amount in {currency}
          <input
            inputMode="decimal"
            pattern="[0-9]+(\.[0-9]+)?"
            required
            value={money}
            onInput={({ currentTarget }) => setMoney(currentTarget.value)}
          />
        </label>
      )}
      {name === 'limit' && (
        <div class="row">
          <label class="field">
            Requests
            <input
              type="number"
              min="0"
              max="4294967295"
              required
              value={requests}
              onInput={({ currentTarget }) => setRequests(Number(currentTarget.value))}
            />
          </label>
          <label class="field">
            Per
            <select value={unit} onChange={({ currentTarget }) => setUnit(currentTarget.value)}>
              {units.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        </div>
      )}
      {isOverride && (
        <label class="field">
          For
          <select value={forMs} onChange={({ currentTarget }) => setForMs(Number(currentTarget.value))}>
            {untilChoices.map(([text, ms]) => (
              <option key={ms} value={ms}>
                {text}
              </option>
            ))}
          </select>
        </label>
      )}
    </ReasonDialog>
  );
}

interface WildcardProps extends Pick<ChangeDialogProps, 'domain' | 'entries'> {
  readonly isSet: boolean;
  readonly onChange: (isSet: boolean) => void;
}

/** Whether values that end in `*` stand for all that begin so, and how many counters that touches. */
function Wildcard({ domain, entries, isSet, onChange }: WildcardProps) {
  const isPossible = entries.some(({ value }) => value.endsWith('*'));
  const descriptor = descriptorText(entries);
  const [found, setFound] = useState<Answers['GET /api/v1/overrides/preview']>();
  useEffect(() => {
    if (isPossible) void get('overrides/preview', { domain, descriptor }).then(setFound, () => setFound(undefined));
  }, [domain, descriptor]);
  if (!isPossible) return null;
  return (
    <label>
      <input type="checkbox" checked={isSet} onChange={({ currentTarget }) => onChange(currentTarget.checked)} /> Also
      all descriptors that begin so
      {found && `: ${found.isAtLeast ? 'at least ' : ''}${exact(found.counters)} with counters now`}
    </label>
  );
}

/** The effects of the change, in words. */
function Touches({ name, limits, override }: Pick<ChangeDialogProps, 'name' | 'limits' | 'override'>) {
  const counters = limits.length === 1 ? '1 counter' : `${limits.length} counters`;
  const list = (
    <ul>
      {limits.map(({ rule, limit, before, counter }) => (
        <li key={counter}>
          {rule}, {grouped(limit)}: {amount(before?.used ?? 0, before?.currency)} used{name === 'reset' && ', then 0'}
        </li>
      ))}
    </ul>
  );
  switch (name) {
    case 'reset':
      return (
        <div>
          <p>This resets {counters} in every process of every instance:</p>
          {list}
        </div>
      );
    case 'grant':
      return (
        <div>
          <p>This refunds at most what was used:</p>
          {list}
        </div>
      );
    case 'block':
      return (
        <p>
          Every request with this descriptor is refused, on every instance, whatever the rules say. Other descriptors
          are not affected.
        </p>
      );
    case 'exempt':
      return (
        <p>
          Every request passes as far as this descriptor is concerned, and is not counted. Other descriptors are not
          affected.
        </p>
      );
    case 'limit':
      return <p>This limit applies to this descriptor instead of those of the rule, on every instance.</p>;
    case 'remove':
      return (
        <p>
          This removes “{override?.effect}”, set by {override?.by}. The rules apply again.
        </p>
      );
  }
}
